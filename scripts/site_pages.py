"""The pages of the documentation's site that are made of the code: commands, keys, APIs, metrics.

``make site`` calls this by way of :mod:`scripts.site_hooks`.  They are not committed: each
build makes them anew from the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import click

from kafka_common.observability.meanings import MEANING_OF
from kafka_common.protocol.api_versions import APIS
from replica_manager.configuration.broker_keys import BROKER_EFFECTS, BROKER_KEYS, INTERNAL_KEYS
from replica_manager.configuration.config_keys import ConfigKey, text_of
from replica_manager.configuration.key_documentation import (
    documentation_of_broker,
    documentation_of_topic,
)
from replica_manager.configuration.key_effects import KeyEffect, KeyEffectKind
from replica_manager.configuration.topic_keys import TOPIC_EFFECTS, TOPIC_KEYS
from replica_manager.server.zookeeper_handlers import HANDLERS
from scripts.write_man_pages import (
    ENVIRONMENT,
    EXIT_STATUS,
    FILES,
    context_of,
    members,
    option_rows,
)

_EFFECT: Final[Mapping[KeyEffectKind, str]] = {
    KeyEffectKind.EFFECTIVE: "yes",
    KeyEffectKind.REFUSED: "refused: {}",
    KeyEffectKind.REFUSED_WHEN_SECURED: "refused on secured listeners: {}",
    KeyEffectKind.WARNED: "no, with a warning: {}",
}
_SPECIAL: Final = re.compile(r"([\\`*_<>|\[\]])")
_ESCAPED: Final = r"\\\1"
_MADE: Final = "This page is made of the code.\n\n"


def cell(text: str) -> str:
    """Text inside a cell of a table."""
    return _SPECIAL.sub(_ESCAPED, " ".join(text.split()))


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; the cells are Markdown already."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


def definitions(titles: Sequence[str], rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and what each means."""
    return table(titles, ([f"`{name}`".replace("|", "\\|"), cell(text)] for name, text in rows))


def zkctl_page() -> str:
    """Every command of zkctl with its options and examples."""
    root: click.Group = import_module("zkcontroller_cli.main").zkctl
    options = option_rows("zkctl", root)
    text = f"# The commands of zkctl\n\n{_MADE}[zkctl](../zkctl.md) explains them.\n\n"
    text += f"## Options of all commands\n\n{definitions(('option', 'meaning'), options)}"
    text += f"## Environment\n\n{definitions(('variable', 'meaning'), ENVIRONMENT)}"
    text += f"## Files\n\n{definitions(('file', 'what it holds'), FILES)}"
    text += f"## Exit codes\n\n{definitions(('code', 'meaning'), EXIT_STATUS)}"
    return text + "".join(_command_texts(root))


def _command_texts(root: click.Group) -> Iterator[str]:
    for name, command in members(root):
        yield f"## {name}\n\n{_prose(command)}"
        if isinstance(command, click.Group):
            for verb, each in members(command):
                yield f"### {name} {verb}\n\n{_prose(each)}{_usage(f'zkctl {name} {verb}', each)}"
        else:
            yield _usage(f"zkctl {name}", command)


def _prose(command: click.Command) -> str:
    paragraphs = (" ".join(each.split()) for each in (command.help or "").split("\n\n"))
    return "".join(f"{_SPECIAL.sub(_ESCAPED, each)}\n\n" for each in paragraphs if each)


def _usage(path: str, command: Any) -> str:
    pieces = " ".join(command.collect_usage_pieces(context_of(path, command)))
    text = f"```\n{path} {pieces}\n```\n\n"
    rows = option_rows(path, command)
    if rows:
        text += definitions(("option", "meaning"), rows)
    return text + "```sh\n" + "\n".join(command.examples) + "\n```\n\n"


def configuration_page(
    title: str,
    keys: Mapping[str, ConfigKey],
    effects: Mapping[str, KeyEffect],
    documentation: Callable[[str], str | None],
) -> str:
    """Every key with type, default, meaning, and whether it does anything here."""
    rows = [
        [
            f"`{name}`",
            key.type_name,
            f"`{default}`" if (default := text_of(key.default)) else "-",
            cell(documentation(name) or "-"),
            cell(_EFFECT[effects[name].kind].format(effects[name].text)),
        ]
        for name, key in sorted(keys.items())
    ]
    titles = ("key", "type", "default", "what it is for", "effective here")
    return f"# {title}\n\n{_MADE}Keys, types and defaults are those of Kafka 3.9.\n\n" + table(
        titles, rows
    )


def metrics_page() -> str:
    """Every metric by its name, with its meaning."""
    rows = definitions(("metric", "meaning"), sorted(MEANING_OF.items()))
    return f"# All metrics\n\n{_MADE}[Metrics](../metrics.md) says how they are read.\n\n{rows}"


def apis_page() -> str:
    """Every API that a broker in ZooKeeper mode answers, with its versions."""
    rows = []
    for key, handler in HANDLERS.items():
        # A handler's docstring begins with the API's name and key.
        meaning = str(handler.__doc__).partition("\n\n")[0].partition(")")[2].lstrip(": ")
        row, (least, most) = APIS[key], handler.VERSIONS
        flexible = "-" if row.flexible_from is None else str(row.flexible_from)
        rows.append(
            [row.name, str(key), f"{least} to {most}", flexible, cell(meaning.replace("``", ""))]
        )
    titles = ("API", "key", "versions", "flexible from", "what the broker does")
    return (
        f"# The APIs of a broker\n\n{_MADE}Versions are those that a broker of Kafka 3.9 offers in "
        "ZooKeeper mode, and ApiVersions says them. From its first flexible version on, a request "
        "and its response have tagged fields (KIP-482). Any other request closes its connection; "
        "ApiVersions alone is answered in a version that is not known, with UNSUPPORTED_VERSION "
        f"(KIP-511).\n\n{table(titles, rows)}"
    )


def pages() -> dict[str, str]:
    """Every page made of the code, by its path below ``docs``."""
    known = {name: key for name, key in BROKER_KEYS.items() if name not in INTERNAL_KEYS}
    return {
        "reference/zkctl.md": zkctl_page(),
        "reference/broker-configuration.md": configuration_page(
            "Configuration of brokers", known, BROKER_EFFECTS, documentation_of_broker
        ),
        "reference/topic-configuration.md": configuration_page(
            "Configuration of topics", TOPIC_KEYS, TOPIC_EFFECTS, documentation_of_topic
        ),
        "reference/broker-apis.md": apis_page(),
        "reference/metrics.md": metrics_page(),
    }
