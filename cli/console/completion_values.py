"""Which values a parameter can be completed with, found by its name and its metavar.

No verb is listed here.  For example, in every verb a parameter with the name or metavar TOPIC is
completed with topics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from zkcontroller_cli.console.shared_settings import Settings

Source: TypeAlias = Callable[[click.Context, str], Iterable[str]]
"""A function that returns values for the typed beginning of a word."""

_MAX_ITEMS: Final = 2_000
_SAFE: Final = re.compile(r"[A-Za-z0-9_.@%+,:=/-]+")
"""The only characters of an offered name.

Any client may choose the names in a cluster, and with other characters a name could run as a
command when a shell puts it into a command line.
"""
_BRACKETS: Final = re.compile(r"[\[\]…]")


class OfferedValues(click.types.StringParamType):
    """A parameter's own type, extended by values for completion."""

    def __init__(self, inner: Any, source: Source) -> None:
        self.inner = inner
        self.source = source

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self.inner.convert(value, param, ctx)

    @override
    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return items(self.source(ctx, incomplete), incomplete)


def items(values: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """The values that begin with the typed text and have only safe characters (``_SAFE``)."""
    matching = (each for each in values if each.startswith(incomplete) and _SAFE.fullmatch(each))
    return [CompletionItem(each) for each in sorted(matching, key=_natural)[:_MAX_ITEMS]]


def offer_values(command: click.Command) -> None:
    """Give every parameter whose values are known a type that offers them."""
    has_kind = any(each.name == "kind" for each in command.params)
    for parameter in command.params:
        if isinstance(parameter.type, click.Choice | click.Path | click.types.BoolParamType):
            continue
        source = source_of(parameter, has_kind=has_kind)
        if source is not None:
            parameter.type = OfferedValues(parameter.type, source)


def source_of(parameter: click.Parameter, *, has_kind: bool = False) -> Source | None:
    """The source of a parameter's values; None if there is none.

    ``has_kind``: the verb also has an argument KIND, which says what NAME is.
    """
    name = (parameter.name or "").rstrip("_").lower()
    shown = _BRACKETS.sub("", parameter.metavar or name).upper()
    first = re.split(r"[^A-Z-]", shown)[0]
    is_number = isinstance(parameter.type, click.types.IntParamType)
    if first.startswith("TOPIC-PARTITION"):
        return _moves if ":BROKER" in shown else _partitions
    if first in ("TOPIC", "TOPICS"):
        return _topics
    if first in ("GROUP", "GROUPS"):
        return _groups
    if first == "CONTEXT":
        return _contexts
    if first in ("BROKER", "BROKERS", "BROKER-ID") or (
        is_number and (first == "ID" or name in ("broker", "broker_id", "broker_ids"))
    ):
        return _brokers
    if shown in ("KEY", "KEY=VALUE", "KEY=VALUE,"):
        return _keys_with_value if "=" in shown else _keys
    if name in ("name", "names") and has_kind:
        return _of_kind
    return None


def complete_contexts(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The ``shell_complete`` callback of a click option that takes the name of a context."""
    return items(_contexts(_ctx, incomplete), incomplete)


def _contexts(_ctx: click.Context, _incomplete: str) -> Iterable[str]:
    from zkcontroller_cli.console.contexts import ContextFile, context_path

    return ContextFile.load(context_path()).contexts


def _live(ctx: click.Context, kind: str) -> dict[str, int]:
    from zkcontroller_cli.console.completion_reader import live_names

    given = ctx.find_object(Settings)
    return {} if given is None else live_names(given, kind)


def _topics(ctx: click.Context, _incomplete: str) -> Iterable[str]:
    return _live(ctx, "topics")


def _groups(ctx: click.Context, _incomplete: str) -> Iterable[str]:
    return _live(ctx, "groups")


def _brokers(ctx: click.Context, _incomplete: str) -> Iterable[str]:
    return _live(ctx, "brokers")


def _partitions(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """The partitions of topics that match the typed text, some ``_MAX_ITEMS`` at most."""
    found: list[str] = []
    for topic, count in _live(ctx, "topics").items():
        if incomplete.startswith(f"{topic}-") or topic.startswith(incomplete):
            found += [f"{topic}-{number}" for number in range(min(count, _MAX_ITEMS))]
        if len(found) >= _MAX_ITEMS:
            break
    return found


def _moves(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Completions of a move: ``TOPIC-PARTITION:``, after the colon brokers not typed yet."""
    partition, colon, replicas = incomplete.partition(":")
    if not colon:
        return [f"{each}:" for each in _partitions(ctx, incomplete)]
    named, comma, _ = replicas.rpartition(",")
    others = set(_live(ctx, "brokers")) - set(named.split(","))
    return [f"{partition}:{named}{comma}{broker_id}" for broker_id in others]


def _of_kind(ctx: click.Context, _incomplete: str) -> Iterable[str]:
    kind = _kind(ctx)
    if kind in ("broker", "logger"):
        return _live(ctx, "brokers")
    return _live(ctx, f"{kind}s") if kind in ("topic", "group") else ()


def _kind(ctx: click.Context) -> str | None:
    """The argument KIND, which click has not parsed yet if an option still lacks its value."""
    return ctx.params.get("kind") or (ctx.args[0] if ctx.args else None)


def _keys(ctx: click.Context, _incomplete: str) -> Iterable[str]:
    """The configuration keys of topics or brokers, whichever the verb is about."""
    group = "" if ctx.parent is None else ctx.parent.info_name or ""
    kind = _kind(ctx) if "kind" in ctx.params else {"cluster": "broker"}.get(group, group)
    if kind == "topic":
        from replica_manager.configuration.topic_keys import TOPIC_KEYS

        return TOPIC_KEYS
    if kind == "broker":
        from replica_manager.configuration.broker_keys import BROKER_KEYS

        return BROKER_KEYS
    return ()


def _keys_with_value(ctx: click.Context, incomplete: str) -> Iterable[str]:
    return () if "=" in incomplete else [f"{key}=" for key in _keys(ctx, incomplete)]


def _natural(text: str) -> list[tuple[int, str]]:
    """A sort key by which ``orders-2`` comes before ``orders-10``."""
    parts = re.split(r"(\d{1,18})", text)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
