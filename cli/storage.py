"""``zkctl storage``: formats and checks the directories of a KRaft node.

Its output and exit codes are those of ``kafka-storage``: 1 if anything is refused, or if something
is wrong with the directories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from zkcontroller_cli.console.errors import BadUsage, ExitCode
from zkcontroller_cli.console.options import VerbGroup, settings
from zkcontroller_cli.console.render import named

if TYPE_CHECKING:
    from kraft.metadata.metadata_version import MetadataVersion

_KEYS: Final = ("log_dir", "directory_id", "cluster_id", "node_id")
_DIRECTORIES: Final = named("log_dir", *_KEYS, keys=_KEYS)
_LARGEST_LEVEL: Final = 2**15 - 1

_config = click.option(
    "--config",
    "-c",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The node's server.properties.",
)


@click.group("storage", cls=VerbGroup, uses_contexts=False)
def command() -> None:
    """Format and describe the log directories of a KRaft node."""


@command.command("format")
@_config
@click.option(
    "--cluster-id",
    "-t",
    required=True,
    help="The id of the cluster, as storage random-uuid prints one.",
)
@click.option(
    "--ignore-formatted", "-g", is_flag=True, help="Leave formatted directories as they are."
)
@click.option(
    "--release-version",
    "-r",
    metavar="VERSION",
    help="metadata.version of a new cluster, as a release  [default: 3.9-IV0]",
)
@click.option(
    "--feature",
    "-f",
    "features",
    multiple=True,
    metavar="FEATURE=LEVEL",
    help="Level of a feature, metadata.version=20.",
)
@click.option(
    "--add-scram",
    "-S",
    "scram",
    multiple=True,
    metavar="MECHANISM=[name=…,password=…]",
    help="A SCRAM credential that the cluster begins with.",
)
@click.option("--standalone", "-s", is_flag=True, help="Refused: needs kraft.version 1.")
@click.option(
    "--no-initial-controllers", "-N", is_flag=True, help="Refused: needs kraft.version 1."
)
@click.option("--initial-controllers", "-I", help="Refused: needs kraft.version 1.")
def format_(
    config_file: Path,
    cluster_id: str,
    ignore_formatted: bool,
    release_version: str | None,
    features: tuple[str, ...],
    scram: tuple[str, ...],
    standalone: bool,
    no_initial_controllers: bool,
    initial_controllers: str | None,
) -> int:
    """Format the directories that FILE names for a node of the cluster.

    Examples:
      zkctl storage format -c controller.properties -t AbCdEfGhIjKlMnOpQrStUw
    """
    dynamic = {
        "--standalone": standalone,
        "--no-initial-controllers": no_initial_controllers,
        "--initial-controllers": initial_controllers is not None,
    }
    return _refusing(
        lambda: _format(
            config_file,
            cluster_id,
            release_version,
            features,
            scram,
            dynamic_quorum=[option for option, is_given in dynamic.items() if is_given],
            ignore_formatted=ignore_formatted,
        )
    )


def _format(
    config_file: Path,
    cluster_id: str,
    release_version: str | None,
    features: Sequence[str],
    scram: Sequence[str],
    *,
    dynamic_quorum: Sequence[str],
    ignore_formatted: bool,
) -> int:
    import secrets
    import time
    from uuid import uuid4

    from kafka_common.protocol.uuid_text import uuid_text
    from kraft.node.controller_config import ControllerServerConfig
    from kraft.node.node_files import load_log_dirs
    from kraft.node.scram_arguments import FormatRefused, parse_scram
    from kraft.node.storage_format import FormatRequest, format_log_dirs
    from replica_manager.configuration.config import read_properties_file

    properties = read_properties_file(config_file)
    if not properties.get("process.roles", "").strip():
        raise FormatRefused(
            "The kafka configuration file appears to be for a legacy cluster. Formatting is only "
            "supported for clusters in KRaft mode."
        )
    config = ControllerServerConfig.parse(properties)
    if dynamic_quorum:
        raise FormatRefused(
            f"{dynamic_quorum[0]} needs kraft.version 1 (KIP-853), which is not built here: name "
            "the controllers in controller.quorum.voters"
        )
    if config.is_controller and not config.voters.endpoints:
        raise FormatRefused(
            "Because controller.quorum.voters is not set on this controller, you must specify one "
            "of the following: --standalone, --initial-controllers, or --no-initial-controllers."
        )
    version_text = release_version or properties.get("inter.broker.protocol.version")
    request = FormatRequest(
        cluster_id,
        config.node_id,
        config.log_dirs,
        config.metadata_log_dir,
        ignore_formatted,
        None if version_text is None else _metadata_version(version_text),
        dict(map(_level, features)),
        [parse_scram(argument, secrets.token_bytes) for argument in scram],
        config.is_enabled("unstable.feature.versions.enable"),
    )
    is_text = settings().renderer.is_for_eyes
    for line in format_log_dirs(
        request, now_ms=lambda: time.time_ns() // 1_000_000, new_uuid=uuid4
    ):
        click.echo(line, err=not is_text)
    if not is_text:
        formatted = load_log_dirs((*config.log_dirs, config.metadata_log_dir)).found
        settings().renderer.rows(
            [
                {
                    "log_dir": str(directory),
                    "directory_id": meta.directory_id and uuid_text(meta.directory_id),
                    "cluster_id": meta.cluster_id,
                    "node_id": meta.node_id,
                }
                for directory, meta in formatted.items()
            ],
            _DIRECTORIES,
        )
    return ExitCode.OK


@command.command("info")
@_config
def info(config_file: Path) -> int:
    """What the directories that FILE names are formatted for, and what is wrong with them.

    Examples:
      zkctl storage info -c controller.properties
    """
    return _refusing(lambda: _info(config_file))


def _info(config_file: Path) -> int:
    from kraft.node.controller_config import ControllerServerConfig
    from kraft.node.storage_format import describe_log_dirs
    from replica_manager.configuration.config import BrokerConfig, read_properties_file

    properties = read_properties_file(config_file)
    is_kraft = bool(properties.get("process.roles", "").strip())
    if is_kraft:
        config = ControllerServerConfig.parse(properties)
        directories = [*config.log_dirs, config.metadata_log_dir]
    else:
        broker = BrokerConfig.parse(properties)
        metadata_log_dir = broker.text("metadata.log.dir")
        directories = [*broker.log_dirs, *([Path(metadata_log_dir)] if metadata_log_dir else ())]
    found = describe_log_dirs(directories, is_kraft=is_kraft)
    if settings().renderer.is_for_eyes:
        for line in found.lines:
            click.echo(line)
    else:
        record = {
            "log_dirs": [str(directory) for directory in found.log_dirs],
            "metadata": None if found.metadata is None else _snake_case(found.metadata.properties),
            "problems": list(found.problems),
        }
        settings().renderer.record(record, named("log_dirs"))
    return ExitCode.FINDING if found.problems else ExitCode.OK


@command.command("random-uuid")
def random_uuid() -> None:
    """A new cluster id.

    Examples:
      zkctl storage random-uuid
    """
    from uuid import uuid4

    from kafka_common.protocol.uuid_text import usable_uuid, uuid_text

    text = uuid_text(usable_uuid(uuid4))
    if settings().renderer.is_for_eyes:
        click.echo(text)
    else:
        settings().renderer.record({"uuid": text}, named("uuid"))


def _refusing(run: Callable[[], int]) -> int:
    """Run the verb; an error becomes one sentence on stderr and exit code 1, as in Kafka's tool."""
    from kafka_common.errors import ZkControllerError

    try:
        return run()
    except BadUsage:
        raise
    except (ZkControllerError, OSError) as refused:
        if settings().debug:
            raise
        click.echo(str(refused), err=True)
        return ExitCode.FINDING


def _snake_case(properties: Mapping[str, str]) -> dict[str, str]:
    return {key.replace(".", "_"): value for key, value in properties.items()}


def _metadata_version(name: str) -> MetadataVersion:
    from kafka_common.errors import ConfigInvalid
    from kafka_common.protocol.inter_broker_versions import version_of
    from kraft.metadata.metadata_version import from_name
    from kraft.node.scram_arguments import FormatRefused

    try:
        return from_name(name)
    except ConfigInvalid:
        pass
    try:
        older = version_of(name)
    except ConfigInvalid:
        raise FormatRefused(f"Version {name} is not a valid version") from None
    raise FormatRefused(f"metadata.version {older.name} is too old to be supported.")


def _level(argument: str) -> tuple[str, int]:
    from kraft.node.scram_arguments import FormatRefused

    name, equals, text = argument.partition("=")
    refusal = f"Can't parse feature=level string {argument}: "
    if not equals:
        raise FormatRefused(f"{refusal}equals sign not found.")
    text = text.strip()
    try:
        level = int(text)
    except ValueError:
        level = _LARGEST_LEVEL + 1
    if not -_LARGEST_LEVEL <= level <= _LARGEST_LEVEL:
        raise FormatRefused(f"{refusal}unable to parse {text} as a short.")
    return name.strip(), level
