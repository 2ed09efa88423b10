"""``zkctl context``: clusters by name, in a file of the user (:mod:`.console.contexts`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.contexts import (
    CONTEXT_KEYS,
    ClusterContext,
    ContextFile,
    check_name,
    context_changes,
    context_path,
    context_row,
)
from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.console.options import OutputFormat, Settings, VerbGroup, say, settings
from zkcontroller_cli.console.render import named

_KEYS: Final = ("context", "is_current", *CONTEXT_KEYS)
_LAYOUT: Final = named(
    "context", "context", "is_current", "zookeeper", "bootstrap_servers", keys=_KEYS
)
_SHOW: Final = named("context", keys=(*_KEYS, "source"))
_OPTIONS: Final = {
    "zookeeper": "-z",
    "bootstrap_servers": "-b",
    "command_config": "--command-config",
    "zk_tls_config": "--zk-tls-config-file",
    "output": "--default-output",
    "timeout_s": "--default-timeout",
}

_name = click.argument("name", metavar="CONTEXT")


@click.group("context", cls=VerbGroup, uses_contexts=False)
def command() -> None:
    """Clusters by name: their addresses and how to connect to them.

    A context in use takes the place of -z, -b, --command-config and the others. Secrets are not in
    it: files are named by their paths, and ZKCTL_ZOOKEEPER_AUTH stays in the environment.
    """


@command.command("list")
def list_() -> None:
    """Every context, and which one is current.

    Examples:
      zkctl context list
      zkctl context list -o name
    """
    file = ContextFile.load(context_path())
    rows = [context_row(each, file.current) for each in file.contexts.values()]
    settings().renderer.rows(rows, _LAYOUT)


@command.command("show")
@click.argument("name", required=False, metavar="[CONTEXT]")
def show(name: str | None) -> None:
    """CONTEXT, or the one in use, and what says that it is in use.

    Examples:
      zkctl context show              # where a verb goes without an address
      zkctl context show production
    """
    given = settings()
    file = ContextFile.load(context_path())
    source = None
    if name is None:
        chosen = given.choose_context()
        if chosen is None:
            raise Refused(
                "no context is in use: zkctl context use NAME makes one current, "
                "zkctl context list shows all"
            )
        name, source = chosen.name, chosen.source
    record = {**context_row(file.named(name), file.current), "source": source}
    given.renderer.record(record, _SHOW)


@command.command("set")
@_name
@click.option("--default-output", type=OutputFormat(), metavar="FORMAT", help="Its -o.")
@click.option(
    "--default-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Its --timeout.",
)
@click.option(
    "--unset",
    multiple=True,
    type=click.Choice(CONTEXT_KEYS),
    metavar="KEY",
    help=f"Take this out of it: {', '.join(CONTEXT_KEYS)}.",
)
@click.option("--use", is_flag=True, help="Make it the current context.")
def set_(
    name: str,
    default_output: str | None,
    default_timeout: float | None,
    unset: tuple[str, ...],
    use: bool,
) -> None:
    """Make CONTEXT, or change it.

    -z, -b, --command-config and --zk-tls-config-file say what is stored in it, as they stand on the
    command line. What no option names stays as it is. The environment is not read, and nothing is
    asked of the cluster.

    Examples:
      zkctl context set production -z zk1:2181,zk2:2181/kafka --use
      zkctl context set staging -b broker:9093 --default-output json
      zkctl context set staging --unset output
    """
    given = settings()
    check_name(name)
    values = _values(given, default_output, default_timeout)
    if clash := sorted(set(values) & set(unset)):
        raise BadUsage(f"{_OPTIONS[clash[0]]} and --unset {clash[0]}: say one of them")
    with context_changes(context_path()) as file:
        known = file.contexts.get(name)
        if known is None and not {"zookeeper", "bootstrap_servers"} & set(values):
            raise BadUsage(
                f"the new context {name} needs an address: say -z HOST:PORT[/CHROOT] or -b "
                "HOST:PORT"
            )
        changes: dict[str, Any] = {**dict.fromkeys(unset), **values}
        changed = replace(known or ClusterContext(name), **changes)
        if changed.zookeeper is None and changed.bootstrap_servers is None:
            delete = command_line("context delete", name)
            raise BadUsage(f"context {name} would have no address left: {delete} deletes it")
        file.contexts[name] = changed
        if use:
            file.current = name
    given.renderer.record(context_row(changed, file.current), _LAYOUT)
    if known is None and not use:
        say(f"{command_line('context use', name)} makes it the current one")


@command.command("use")
@click.argument("name", required=False, metavar="[CONTEXT]")
@click.option("--none", "is_none", is_flag=True, help="No context shall be current.")
def use(name: str | None, is_none: bool) -> None:
    """Make CONTEXT current: verbs that are given no address go there.

    Examples:
      zkctl context use production
      zkctl context use --none
    """
    if is_none == (name is not None):
        raise BadUsage("which context? Say CONTEXT, or --none for no current one")
    with context_changes(context_path()) as file:
        before = file.current
        file.current = None if name is None else file.named(name).name
    settings().renderer.record({"context": name, "context_before": before}, named("context"))


@command.command("delete")
@_name
def delete(name: str) -> None:
    """Delete CONTEXT; the answer is what it was, so that it can be made again.

    Examples:
      zkctl context delete staging
    """
    with context_changes(context_path()) as file:
        context = file.named(name)
        was_current = file.current == name
        del file.contexts[name]
        if was_current:
            file.current = None
    settings().renderer.record(context_row(context, name if was_current else None), _LAYOUT)
    if was_current:
        say("it was the current context; none is current now")


@command.command("rename")
@_name
@click.argument("new_name", metavar="NEW_NAME")
def rename(name: str, new_name: str) -> None:
    """Give CONTEXT another name; it stays current if it was.

    Examples:
      zkctl context rename staging staging-2
    """
    check_name(new_name)
    with context_changes(context_path()) as file:
        context = replace(file.named(name), name=new_name)
        if new_name != name and new_name in file.contexts:
            raise Refused(
                f"there is a context {new_name} already: choose another name, or "
                f"{command_line('context delete', new_name)}"
            )
        # The renamed context keeps its place in the order.
        file.contexts = {
            (new_name if key == name else key): (context if key == name else each)
            for key, each in file.contexts.items()
        }
        if file.current == name:
            file.current = new_name
    settings().renderer.record(context_row(context, file.current), _LAYOUT)


def _values(given: Settings, output: str | None, timeout_s: float | None) -> dict[str, str | float]:
    """The values for the context on the command line, checked as a verb checks them."""
    if given.zookeeper_flag:
        from zkcontroller.zookeeper.connect_string import parse_connect

        parse_connect(given.zookeeper_flag)
    if given.bootstrap_flag:
        from zkcontroller_cli.wire.requests import parse_bootstrap

        parse_bootstrap(given.bootstrap_flag)
    values = {
        "zookeeper": given.zookeeper_flag,
        "bootstrap_servers": given.bootstrap_flag,
        "command_config": _file(given.command_config_flag, "--command-config"),
        "zk_tls_config": _file(given.zk_tls_config_flag, "--zk-tls-config-file"),
        "output": output,
        "timeout_s": timeout_s,
    }
    return {key: value for key, value in values.items() if value is not None}


def _file(path: Path | None, option: str) -> str | None:
    """The absolute path of a file, as a later verb may run in another directory.

    BadUsage if the file does not exist; None for None.
    """
    if path is None:
        return None
    if not path.is_file():
        raise BadUsage(
            f"{option}: there is no file {path}; its path is stored, so it must be there"
        )
    return str(path.absolute())
