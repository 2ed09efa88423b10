"""Command lines in documents, parsed as ``zkctl`` does."""

from __future__ import annotations

import itertools
import shlex
from importlib import import_module
from pathlib import Path

import click
import pytest

options = import_module("zkcontroller_cli.console.options")


def words_of(line: str) -> list[str]:
    """What zkctl gets of a line that a shell reads: no comment, no ``> FILE`` and no pipe."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>;&")
    lexer.whitespace_split = True
    return list(itertools.takewhile(lambda word: word[0] not in "|>;&", lexer))


class Parsed(Exception):
    """A verb was found, and its command line is one that it takes."""


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verbs end when they have been parsed; the files that an example names need not be there."""

    def stop(_self: click.Command, ctx: click.Context) -> None:
        raise Parsed(ctx.command_path)

    monkeypatch.setattr(options.Verb, "invoke", stop)
    monkeypatch.setattr(click.Path, "convert", lambda _self, value, *_: Path(value))
