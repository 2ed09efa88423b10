"""Runs a demonstration of real commands, and checks each fact that it states.

Each step is a ``zkctl`` command in a process of its own, shown as one could type it, and what it
answers as JSON is checked.  A false fact ends the demonstration with exit code 1.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, TextIO, TypeVar

import orjson

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
    """What it is about, and what was found true so far."""

    directory: Path
    """The directory of everything that the demonstration makes."""
    console: Any
    options: tuple[str, ...] = ()
    """Added to every command."""
    facts: list[dict[str, Any]] = field(default_factory=list)

    def chapter(self, title: str) -> None:
        """Say what comes."""
        self.console.print(f"\n[bold cyan]{title}[/]")

    def say(self, text: str) -> None:
        """Say what happened."""
        self.console.print(f"  {text}", soft_wrap=True)

    def zkctl(self, *arguments: str, is_shown: bool = True) -> Any:
        """Run a command in its own process and return what it answered, from JSON."""
        if is_shown:
            self.show(*arguments)
        return orjson.loads(self.output_of(*arguments))

    def show(self, *arguments: str) -> None:
        """Say which command comes."""
        options = " --dir …" if self.options else ""
        self.say(f"[dim]$ zkctl {shlex.join(arguments)}{options} -o json[/]")

    def output_of(self, *arguments: str) -> str:
        """What the command prints with ``-o json``; Refused, with its own words, if it fails."""
        command = python_module(ZKCTL, *arguments, *self.options)
        # An address in the user's environment would outrank the demo's own cluster.
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
        """Note a fact and what shows it; FactIsFalse ends the demonstration."""
        self.facts.append({"fact": fact, "is_true": is_true, "evidence": evidence})
        mark = "[bold green]✓[/]" if is_true else "[bold red]✗[/]"
        self.say(f"{mark} {fact}")
        if not is_true:
            shown = orjson.dumps(evidence).decode()
            raise FactIsFalse(f"not true: {fact}; seen: {shown}")

    def wait_for(self, what: str, arguments: tuple[str, ...], is_so: Callable[[Any], bool]) -> Any:
        """Ask again and again until the answer is as it must be; the last answer either way.

        A command that fails meanwhile has no answer yet; Refused if it fails to the end.
        """
        deadline = time.monotonic() + _NOTICE_S
        with self.console.status(what):
            while True:
                is_over = time.monotonic() > deadline
                try:
                    answer = self.zkctl(*arguments, is_shown=False)
                except Refused:
                    if is_over:
                        raise
                    continue
                if is_over or is_so(answer):
                    return answer


S = TypeVar("S", bound=Demonstration)


def console_for(out: TextIO) -> Any:
    """A rich console; no colours under NO_COLOR, off a terminal and on a dumb one."""
    from rich.console import Console

    is_coloured = out.isatty() and wants_colour()
    return Console(file=out, color_system="auto" if is_coloured else None, highlight=False)


def run(
    settings: Settings,
    make: Callable[[Path, Any], S],
    steps: Callable[[S], None],
    clean_up: Callable[[S], None],
) -> int:
    """Runs a demonstration in ``--dir``, or a temporary directory; cleans up whatever happens."""
    is_table = settings.renderer.is_for_eyes
    console = console_for(sys.stdout if is_table else sys.stderr)
    with tempfile.TemporaryDirectory(prefix="zkctl-demo-") as temporary:
        demo = make((settings.directory_flag or Path(temporary)).absolute(), console)
        # SIGTERM unwinds like Ctrl-C: no process of the demonstration may outlive it.
        signal.signal(signal.SIGTERM, _interrupt)
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


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
