"""Writes the manual pages of zkctl, out of what its verbs say of themselves.

    .venv/bin/python scripts/write_man_pages.py            into build/man
    .venv/bin/python scripts/write_man_pages.py DIR        into DIR

One page for ``zkctl`` and one for each group, with all its verbs; ``make man`` calls this, and
``man -M build/man zkctl-topic`` shows a page.  The pages are not kept: they are as new as the code.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import click

ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = ROOT / "build" / "man"
_WIDTH: Final = 78

ENVIRONMENT: Final = (
    ("ZKCTL_ZOOKEEPER", "as -z"),
    ("ZKCTL_BOOTSTRAP_SERVER", "as -b"),
    ("ZKCTL_COMMAND_CONFIG", "as --command-config"),
    ("ZKCTL_ZK_TLS_CONFIG_FILE", "as --zk-tls-config-file"),
    ("ZKCTL_CONTEXT", "as --context"),
    ("ZKCTL_DIR", "as --dir"),
    ("ZKCTL_CONFIG", "the file of contexts"),
    (
        "ZKCTL_ZOOKEEPER_AUTH",
        "digest:USER:PASSWORD or sasl:USER:PASSWORD, the login at ZooKeeper; no option, because "
        "arguments can be seen by others",
    ),
    ("NO_COLOR", "no colours on a terminal"),
)
FILES: Final = (
    ("$XDG_CONFIG_HOME/zkctl/contexts.json, ~/.config/zkctl/contexts.json", "contexts"),
    ("$XDG_CACHE_HOME/zkctl/completion, ~/.cache/zkctl/completion", "names for completions"),
    ("zkctl-cluster/cluster.json", "the local cluster"),
)
EXIT_STATUS: Final = (
    ("0", "done"),
    ("1", "--check, doctor or demo found something"),
    ("2", "wrong usage, or a configuration value is wrong; doctor: could not check"),
    ("3", "cannot connect, or the connection was lost for good"),
    ("4", "it did not happen within --timeout"),
    ("5", "refused: a precondition does not hold"),
    ("70", "a defect of zkctl"),
    ("74", "it was done, but the result could not be written"),
    ("130", "interrupted"),
)


def escaped(text: str) -> str:
    """Text in which nothing is read as a command of roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def paragraphs(text: str) -> Iterator[str]:
    """Prose, a paragraph after the other."""
    for number, paragraph in enumerate(filter(None, text.split("\n\n"))):
        if number:
            yield ".PP"
        words = " ".join(paragraph.split())
        # No word is broken: options have hyphens.
        yield from map(escaped, textwrap.wrap(words, _WIDTH, break_on_hyphens=False))


def items(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A list of things and what each of them means."""
    for name, meaning in rows:
        yield from (".TP", f"\\fB{escaped(name)}\\fR", *paragraphs(meaning))


def section(title: str, lines: Sequence[str]) -> list[str]:
    """A section; nothing where it has no lines."""
    return [f".SH {title}", *lines] if lines else []


def context_of(path: str, command: click.Command) -> click.Context:
    """A context in which the command is called by that name."""
    *parents, last = path.split()
    context: click.Context | None = None
    for name in parents:
        context = click.Context(click.Command(name), parent=context, info_name=name)
    return click.Context(command, parent=context, info_name=last, terminal_width=_WIDTH)


def synopsis(path: str, command: click.Command) -> list[str]:
    """How the command is called."""
    pieces = command.collect_usage_pieces(context_of(path, command))
    return [f"\\fB{escaped(path)}\\fR {escaped(' '.join(pieces))}"]


def option_rows(path: str, command: click.Command) -> list[tuple[str, str]]:
    """Its options, as its help shows them."""
    context = context_of(path, command)
    options = [each for each in command.params if isinstance(each, click.Option)]
    records = (each.get_help_record(context) for each in options)
    return [record for record in records if record is not None]


def example_lines(command: Any) -> list[str]:
    """Its examples, set as they are typed."""
    lines = [line for each in command.examples for line in escaped(each).splitlines()]
    return [".RS 4", ".EX", *lines, ".EE", ".RE"]


def verb_lines(path: str, command: click.Command) -> list[str]:
    """A verb inside the page of its group."""
    lines = [f'.SS "{escaped(path)}"', *synopsis(path, command), ".PP"]
    lines += paragraphs(command.help or "")
    lines += items(option_rows(path, command))
    return [*lines, ".PP", "Examples:", *example_lines(command)]


def members(group: click.Group) -> list[tuple[str, click.Command]]:
    """The commands of a group that its help shows."""
    context = click.Context(group)
    found = ((name, group.get_command(context, name)) for name in group.list_commands(context))
    return [(name, each) for name, each in found if each is not None and not each.hidden]


def heading(name: str, summary: str, day: str) -> list[str]:
    """The head of a page, and the line that apropos and whatis show."""
    return [
        f'.TH {name.upper()} 1 "{day}" "zkctl {version("zkcontroller")}" "zkctl"',
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(' '.join(summary.split()).removesuffix('.'))}",
    ]


def page(path: str, command: click.Command, day: str) -> str:
    """The page of a group, or of a verb that stands in none."""
    name = path.replace(" ", "-")
    summary, _, more = (command.help or "").partition("\n\n")
    lines = heading(name, summary, day)
    lines += section("SYNOPSIS", synopsis(path, command))
    lines += section("DESCRIPTION", list(paragraphs(more or summary)))
    if isinstance(command, click.Group):
        verbs = [
            line for verb, each in members(command) for line in verb_lines(f"{path} {verb}", each)
        ]
        lines += section("COMMANDS", verbs)
    else:
        lines += section("OPTIONS", list(items(option_rows(path, command))))
        lines += section("EXAMPLES", example_lines(command))
    lines += section('"SEE ALSO"', [f"\\fB{escaped('zkctl')}\\fR(1): global options, exit status"])
    return "\n".join(lines) + "\n"


def main_page(root: click.Group, day: str) -> str:
    """The page of zkctl itself: what all verbs share."""
    summary, _, more = (root.help or "").partition("\n\n")
    named = members(root)
    pages = [f"\\fBzkctl\\-{escaped(name)}\\fR(1)" for name, _ in named]
    commands = [
        (f"zkctl-{name}(1)", " ".join((each.help or "").split("\n\n")[0].split()))
        for name, each in named
    ]
    lines = heading("zkctl", summary, day)
    lines += section("SYNOPSIS", synopsis("zkctl", root))
    lines += section("DESCRIPTION", list(paragraphs(more)))
    lines += section("COMMANDS", list(items(commands)))
    lines += section('"GLOBAL OPTIONS"', list(items(option_rows("zkctl", root))))
    lines += section("ENVIRONMENT", list(items(ENVIRONMENT)))
    lines += section("FILES", list(items(FILES)))
    lines += section('"EXIT STATUS"', list(items(EXIT_STATUS)))
    see = [f"{each}," for each in pages[:-1]] + pages[-1:]
    return "\n".join([*lines, *section('"SEE ALSO"', see)]) + "\n"


def pages() -> dict[str, str]:
    """Every page, by the name of its file."""
    root: click.Group = import_module("zkcontroller_cli.main").zkctl
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    moment = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    day = moment.date().isoformat()
    found = {"zkctl.1": main_page(root, day)}
    for name, command in members(root):
        found[f"zkctl-{name}.1"] = page(f"zkctl {name}", command, day)
    return found


def write(folder: Path) -> list[Path]:
    """Write every page into ``folder/man1``, and take away those of commands that are gone."""
    section_folder = folder / "man1"
    section_folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in pages().items():
        path = section_folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    for path in section_folder.glob("zkctl*.1"):
        if path not in written:
            path.unlink()
    return written


def main(arguments: list[str]) -> int:
    """Write the pages; returns the exit code."""
    folder = Path(arguments[0]) if arguments else FOLDER
    written = write(folder)
    print(f"{len(written)} pages in {folder}: man -M {folder} zkctl")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
