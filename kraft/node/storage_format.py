"""Formats the log directories of a KRaft node, and describes them (``storage info``).

A formatted directory has ``bootstrap.checkpoint`` with the first records of the cluster, and
``meta.properties``, which is written last.  The messages are those of Kafka's tool.

Source: Kafka 3.9.1 ``Formatter``, ``StorageTool`` (KIP-631, KIP-853 for static voters).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from kafka_common.errors import ConfigInvalid, InvalidRecord, UnsupportedVersion
from kraft.metadata.bootstrap import (
    BOOTSTRAP_FILE,
    KRAFT_VERSION_FEATURE,
    BootstrapMetadata,
    encode_bootstrap,
)
from kraft.metadata.metadata_version import (
    FEATURE_NAME,
    LATEST_PRODUCTION,
    VERSIONS,
    MetadataVersion,
    from_level,
)
from kraft.metadata.records import UserScramCredentialRecord
from kraft.node.node_files import (
    LogDirs,
    load_log_dirs,
    new_directory_id,
    verify_log_dirs,
)
from kraft.node.scram_arguments import FormatRefused
from replica_manager.configuration.meta_properties import (
    FILE_NAME,
    MetaProperties,
    meta_properties_of,
    read_properties,
    write_meta_properties,
)
from replica_manager.log.files import replace_file
from replica_manager.regular_files import PRIVATE_MODE

TRANSACTION_VERSION_FEATURE: Final = "transaction.version"
_FEATURES: Final = (KRAFT_VERSION_FEATURE, TRANSACTION_VERSION_FEATURE)
"""The features besides metadata.version; with static voters only level 0 of each is allowed."""


@dataclass(frozen=True, slots=True)
class FormatRequest:
    """The arguments of ``storage format``."""

    cluster_id: str
    node_id: int
    log_dirs: Sequence[Path]
    metadata_log_dir: Path
    ignore_formatted: bool = False
    release_version: MetadataVersion | None = None
    features: Mapping[str, int] | None = None
    scram_credentials: Sequence[UserScramCredentialRecord] = ()
    are_unstable_features_enabled: bool = False


def format_log_dirs(
    request: FormatRequest, *, now_ms: Callable[[], int], new_uuid: Callable[[], UUID]
) -> Iterator[str]:
    """Formats the unformatted directories; yields the lines to show, one before each directory.

    FormatRefused before anything is written; NodeFilesInvalid if a directory belongs to another
    node or cluster; OSError if it cannot be written.  Blocks.
    """
    version = _release_version(request)
    _check_features(request)
    bootstrap = _bootstrap(request, version)
    log_dirs = load_log_dirs((*request.log_dirs, request.metadata_log_dir))
    verify_log_dirs(log_dirs, node_id=request.node_id, cluster_id=request.cluster_id)
    _check_is_needed(request, log_dirs)
    for directory in log_dirs.failed:
        yield f"I/O error trying to read log directory {directory}. Ignoring..."
    if log_dirs.failed and not (log_dirs.empty or log_dirs.found):
        raise FormatRefused("No available log directories to format.")
    if not log_dirs.empty:
        yield "All of the log directories are already formatted."
    taken = list(log_dirs.directory_ids)
    for directory in log_dirs.empty:
        kind = "metadata" if directory == request.metadata_log_dir else "data"
        yield f"Formatting {kind} directory {directory} with {FEATURE_NAME} {version}."
        taken.append(new_directory_id(new_uuid, taken))
        directory.mkdir(parents=True, exist_ok=True)
        # Only its owner may read the file, because it may hold SCRAM credentials.
        replace_file(
            directory / BOOTSTRAP_FILE, encode_bootstrap(bootstrap, now_ms()), PRIVATE_MODE
        )
        meta = MetaProperties(request.node_id, request.cluster_id, 1, taken[-1])
        write_meta_properties(directory, meta)


def _check_is_needed(request: FormatRequest, log_dirs: LogDirs) -> None:
    if log_dirs.found and not request.ignore_formatted:
        raise FormatRefused(
            f"Log directory {next(iter(log_dirs.found))} is already formatted. Use "
            "--ignore-formatted to ignore this directory and format the others."
        )


def _release_version(request: FormatRequest) -> MetadataVersion:
    level = (request.features or {}).get(FEATURE_NAME)
    if level is not None:
        if request.release_version is not None:
            raise FormatRefused(
                f"Use --release-version instead of --feature {FEATURE_NAME}=X to avoid ambiguity."
            )
        try:
            return _verified(from_level(level), request)
        except UnsupportedVersion as unknown:
            raise FormatRefused(str(unknown)) from None
    if request.release_version is not None:
        return _verified(request.release_version, request)
    return VERSIONS[-1] if request.are_unstable_features_enabled else LATEST_PRODUCTION


def _verified(version: MetadataVersion, request: FormatRequest) -> MetadataVersion:
    if not (version.is_production or request.are_unstable_features_enabled):
        raise FormatRefused(f"{FEATURE_NAME} {version} is not yet stable.")
    return version


def _check_features(request: FormatRequest) -> None:
    features = {k: v for k, v in sorted((request.features or {}).items()) if k != FEATURE_NAME}
    for name in features:
        if name not in _FEATURES:
            raise FormatRefused(
                f"Unsupported feature: {name}. Supported features are: {', '.join(_FEATURES)}"
            )
    level = features.get(KRAFT_VERSION_FEATURE, 0)
    if level:
        raise FormatRefused(
            f"Cannot set {KRAFT_VERSION_FEATURE} to {level} unless KIP-853 configuration is "
            f"present. Try removing the --feature flag for {KRAFT_VERSION_FEATURE}."
        )
    level = features.get(TRANSACTION_VERSION_FEATURE, 0)
    if level:
        raise FormatRefused(f"No feature:{TRANSACTION_VERSION_FEATURE} with feature level {level}")


def _bootstrap(request: FormatRequest, version: MetadataVersion) -> BootstrapMetadata:
    if request.scram_credentials and not version.is_scram_supported:
        raise FormatRefused(f"SCRAM is only supported in {FEATURE_NAME} 3.5-IV2 or later.")
    try:
        return BootstrapMetadata.from_versions(version, None, request.scram_credentials)
    except InvalidRecord as wrong:
        raise FormatRefused(f"{wrong}. Can't load metadata from format command") from None


@dataclass(frozen=True, slots=True)
class StorageInfo:
    """The result of ``storage info``."""

    log_dirs: tuple[Path, ...]
    """The directories that exist."""
    metadata: MetaProperties | None
    """The first ``meta.properties`` that is found; None if there is none."""
    problems: tuple[str, ...]

    @property
    def lines(self) -> Iterator[str]:
        """The lines that Kafka's tool prints."""
        if self.log_dirs:
            yield "Found log directory:" if len(self.log_dirs) == 1 else "Found log directories:"
            yield from (f"  {directory}" for directory in self.log_dirs)
            yield ""
        if self.metadata is not None:
            properties = sorted(self.metadata.properties.items())
            pairs = ", ".join(f"{key}={value}" for key, value in properties)
            yield f"Found metadata: {{{pairs}}}"
            yield ""
        if self.problems:
            yield "Found problem:" if len(self.problems) == 1 else "Found problems:"
            yield from (f"  {problem}" for problem in self.problems)
            yield ""


def describe_log_dirs(directories: Sequence[Path], *, is_kraft: bool) -> StorageInfo:
    """How the directories are formatted, and their problems.  Blocks."""
    found: list[Path] = []
    problems: list[str] = []
    first: MetaProperties | None = None
    for directory in sorted(set(directories)):
        if not directory.is_dir():
            what = "is not a directory" if directory.exists() else "does not exist"
            problems.append(f"{directory} {what}")
            continue
        found.append(directory)
        try:
            properties = read_properties(directory)
            meta = None if properties is None else meta_properties_of(properties)
        except (OSError, ValueError, ConfigInvalid) as failure:
            problems.append(f"Error loading {directory / FILE_NAME}: {failure}")
            continue
        if meta is None:
            problems.append(f"{directory} is not formatted.")
        elif first is None:
            first = meta
        elif first.cluster_id != meta.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif first.node_id != meta.node_id:
            problems.append("Mismatched node IDs between storage directories.")
    problems += _mode_problems(first, is_kraft=is_kraft)
    return StorageInfo(tuple(found), first, tuple(problems))


def _mode_problems(meta: MetaProperties | None, *, is_kraft: bool) -> list[str]:
    if meta is None or (meta.version > 0) is is_kraft:
        return []
    config, formatted = ("a cluster in KRaft mode", "legacy mode")
    if not is_kraft:
        config, formatted = ("a legacy cluster", "a cluster in KRaft mode")
    return [
        f"The kafka configuration file appears to be for {config}, but the directories are "
        f"formatted for {formatted}."
    ]
