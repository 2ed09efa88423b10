"""A reader who types the commands of a page of the documents, in an empty directory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.integration.terminal import Terminal
from tests.peers.cluster import wait_until
from tests.support.drill_page import Command, Section

RUN_S: Final = 90
FOUND_S: Final = 40
VARIABLES: Final = ("C", "V", "O", "B", "Z", "PID", "LOG_DIRS")
"""What the shell of the page remembers from one step to the next."""


class Operator:
    """A shell in a directory of its own, which types what the page has."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # The developer's own settings must not reach a test; `zkctl` is the one of this Python.
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("ZKCTL_")}
        self.environment |= {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(directory / "config"),
        }

    def run(self, command: Command | str) -> subprocess.CompletedProcess[str]:
        """Types one line, which must end as the page says."""
        line, code = (command, 0) if isinstance(command, str) else command
        # What the line sets stands behind the marker: the next line begins with it.
        script = f"{line}\ncode=$?\necho '#variables'\ndeclare -p {' '.join(VARIABLES)} 2>/dev/null"
        done = subprocess.run(
            ["bash", "-c", f"{script}\nexit $code"],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        out, _, variables = done.stdout.partition("#variables\n")
        assert done.returncode == code, f"{line}: {done.returncode}\n{out}{done.stderr}"
        self.environment |= dict(re.findall(r'^declare \S+ (\w+)="(.*)"$', variables, re.MULTILINE))
        done.stdout = out
        return done

    def run_all(self, commands: Sequence[Command]) -> None:
        """Types these lines, one after the other."""
        for command in commands:
            self.run(command)

    def answer(self, line: str) -> None:
        """Runs a command in a terminal to its end, and answers ``y`` if it asks."""
        done = ("bash", "-c", f"cd {self.directory} && {line}")
        with Terminal(done, self.environment, 200, 60) as screen:
            screen.press("y\n")
            code = screen.until_ended()
            assert code == 0, f"{line}: {code}\n" + "\n".join(screen.lines)

    def expanded(self, line: str) -> str:
        """The line with the values of its variables."""
        variables = self.environment | {"PWD": str(self.directory)}
        return re.sub(r"\$(\w+)", lambda found: variables[found[1]], line)

    def doctor(self, line: str) -> dict[str, Any]:
        """What doctor finds, by rule; ``line`` is how the page calls it."""
        rows = json.loads(self.run(f"{line} -o json; true").stdout)
        return {row["rule"]: row for row in rows if row["severity"] != "unchecked"}

    def find(self, section: Section) -> list[str]:
        """The commands that doctor names for the rules of the section, once it finds them all."""
        line = section.steps["Find"][0].line
        found: dict[str, Any] = {}

        def has_all() -> bool:
            found.clear()
            found.update(self.doctor(line))
            return set(section.rules) <= found.keys()

        wait_until(has_all, f"{section.rules} in {list(found)}", timeout_s=FOUND_S)
        return list(dict.fromkeys(found[rule]["command"] for rule in section.rules))

    def prove(self, section: Section) -> None:
        """What the page has as proof; and doctor does not find the rules any more."""
        self.run_all(section.steps["Prove"])
        line = section.steps["Find"][0].line
        wait_until(
            lambda: not set(section.rules) & self.doctor(line).keys(),
            f"an end of {section.rules}",
            timeout_s=FOUND_S,
        )
