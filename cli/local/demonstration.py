"""Runs a demonstration of real commands, and checks each fact that it states.

Each step is a ``zkctl`` command in its own process, shown as a user could type it, and its JSON
output is checked.  A false fact ends the demonstration with exit code 1.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

import orjson

from kafka_common.process.stop_signals import interrupt_at_stop_signals
from zkcontroller_cli.console.errors import CommandFailed, ExitCode, Refused, TimedOut
from zkcontroller_cli.console.options import Settings
from zkcontroller_cli.console.render import Layout, named, wants_colour
from zkcontroller_cli.machine.processes import ZKCTL, python_module

_STEP_S: Final = 50.0
_NOTICE_S: Final = 20.0
_FACTS: Final = Layout(named("fact").name, ("fact", "is_true", "evidence"), ("fact", "is_true"))


class FactIsFalse(CommandFailed):
    """A fact that the demonstration states is false."""

    exit_code = ExitCode.FINDING


@dataclass
class Demonstration:
    """One demonstration: its directory, its output, and the facts checked so far."""

    directory: Path
    """The directory of all files that the demonstration creates."""
    console: Any
    options: tuple[str, ...] = ()
    """Options that are added to every command."""
    facts: list[dict[str, Any]] = field(default_factory=list)

    def chapter(self, title: str) -> None:
        """Print the title of the next part."""
        self.console.print(f"\n[bold cyan]{title}[/]")

    def say(self, text: str) -> None:
        """Print a line about what happened."""
        self.console.print(f"  {text}", soft_wrap=True)

    def zkctl(self, *arguments: str, is_shown: bool = True) -> Any:
        """Run a command in its own process, and return its JSON output as Python values."""
        if is_shown:
            self.show(*arguments)
        return orjson.loads(self.output_of(*arguments))

    def show(self, *arguments: str) -> None:
        """Print the command line that runs next."""
        options = " --dir …" if self.options else ""
        self.say(f"[dim]$ zkctl {shlex.join(arguments)}{options} -o json[/]")

    def output_of(self, *arguments: str) -> str:
        """The output of the command with ``-o json``; Refused, with its stderr, if it fails."""
        command = python_module(ZKCTL, *arguments, *self.options)
        # Addresses in the user's environment could select another cluster.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ZKCTL_")}
        try:
            done = subprocess.run(
                [*command, "-o", "json"],
                capture_output=True,
                text=True,
                timeout=_STEP_S,
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimedOut(f"zkctl {shlex.join(arguments)} took over {_STEP_S:g} s") from None
        if done.returncode != ExitCode.OK:
            raise Refused(f"zkctl {shlex.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def fact(self, fact: str, is_true: bool, **evidence: Any) -> None:
        """Record and print a fact with its evidence; raises FactIsFalse if it is not true."""
        self.facts.append({"fact": fact, "is_true": is_true, "evidence": evidence})
        mark = "[bold green]✓[/]" if is_true else "[bold red]✗[/]"
        self.say(f"{mark} {fact}")
        if not is_true:
            shown = orjson.dumps(evidence).decode()
            raise FactIsFalse(f"not true: {fact}; seen: {shown}")

    def wait_for(self, what: str, arguments: tuple[str, ...], is_so: Callable[[Any], bool]) -> Any:
        """Repeat a command until ``is_so`` is true of its output, or time is up; the last output.

        A failed command is repeated too; Refused if it still fails when time is up.
        """
        deadline = time.monotonic() + _NOTICE_S
        with self.console.status(what):
            while True:
                is_over = time.monotonic() > deadline
                try:
                    response = self.zkctl(*arguments, is_shown=False)
                except Refused:
                    if is_over:
                        raise
                    continue
                if is_over or is_so(response):
                    return response


S = TypeVar("S", bound=Demonstration)


def console_for(out: TextIO) -> Any:
    """A rich console; without colours if NO_COLOR is set, or if ``out`` is no colour terminal."""
    from rich.console import Console

    is_coloured = out.isatty() and wants_colour()
    return Console(file=out, color_system="auto" if is_coloured else None, highlight=False)


def run(
    settings: Settings,
    make: Callable[[Path, Any], S],
    steps: Callable[[S], None],
    clean_up: Callable[[S], None],
) -> int:
    """Run a demonstration in ``--dir`` or a temporary directory; cleans up also after an error."""
    is_table = settings.renderer.is_for_eyes
    console = console_for(sys.stdout if is_table else sys.stderr)
    with tempfile.TemporaryDirectory(prefix="zkctl-demo-") as temporary:
        demo = make((settings.directory_flag or Path(temporary)).absolute(), console)
        interrupt_at_stop_signals()  # so that the demonstration always ends its processes
        began = time.monotonic()
        try:
            steps(demo)
        finally:
            clean_up(demo)
            if not is_table:
                settings.renderer.rows(demo.facts, _FACTS)
    elapsed_s = time.monotonic() - began
    console.print(f"\n[bold]{len(demo.facts)} facts, all true, in {elapsed_s:.0f} s.[/]")
    return ExitCode.OK
