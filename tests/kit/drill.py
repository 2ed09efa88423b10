"""docs/drill.md as an operator follows it: every trouble is caused, found, mended and proven.

The commands are those of the page, run by a shell.  A command that mends is the one that ``zkctl``
names in its answer; it runs in a terminal, where its question is answered.  A file of tests has
these classes on its own brokers: its fixture ``new_operator`` says whose ``zkctl`` is typed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from tests.kit.typed_page import Operator
from tests.support.drill_page import Command, Section, drill_sections

SECTIONS: Final = drill_sections()
NewOperator: TypeAlias = Callable[[Path], Operator]


@contextmanager
def following(operator: Operator, *commands: Command) -> Iterator[Operator]:
    """One who has begun with these commands; no process of the cluster is left."""
    try:
        operator.run_all(commands)
        yield operator
    finally:
        operator.run("zkctl cluster stop --force")


def mend(operator: Operator, section: Section) -> list[str]:
    """Runs the commands that doctor names, which are the page's, and then the page's others."""
    named = operator.find(section)
    steps = section.steps["Mend"]
    assert [operator.expanded(each.line) for each in steps[: len(named)]] == named
    for line in named:
        operator.answer(line)
    return named


def sizes(operator: Operator, line: str) -> dict[str, str | None]:
    """By directory, what is wrong with it."""
    rows = json.loads(operator.run(f"{line} -o json").stdout)
    return {row["log_dir"]: row["error"] for row in rows}


def mend_directories(
    operator: Operator, section: Section
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Mends, and gives what was wrong with each log directory before and after."""
    [named] = mend(operator, section)
    before = sizes(operator, named)
    operator.run_all(section.steps["Mend"][1:])
    return before, sizes(operator, named)


class LongSessions:
    """On a cluster whose sessions outlive a look at a frozen broker."""

    @pytest.fixture(scope="class")
    @classmethod
    def patient(
        cls, new_operator: NewOperator, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Operator]:
        commands = SECTIONS["Before you begin"].steps["Begin"]
        with following(new_operator(tmp_path_factory.mktemp("patient")), *commands) as operator:
            yield operator

    def test_another_controller_takes_over_from_a_frozen_one(self, patient: Operator) -> None:
        section = SECTIONS["A frozen controller"]
        patient.run_all(section.steps["Cause"])

        named = mend(patient, section)
        patient.run_all(section.steps["Mend"][1:])

        assert named == ["zkctl controller elect"]
        patient.prove(section)

    def test_a_hanging_transaction_is_found_and_ended(self, patient: Operator) -> None:
        section = SECTIONS["A hanging transaction"]
        (patient.directory / "hang.py").write_text(section.script)
        patient.run_all(section.steps["Cause"])

        said = patient.run(section.steps["Find"][0]).stderr
        [named] = re.findall(r"^next: (zkctl .*)$", said, re.MULTILINE)
        shown, ended = section.steps["Mend"]
        patient.answer(named)
        patient.answer(ended.line)

        assert (named, ended.line) == (shown.line, named.removesuffix(" --dry-run"))
        patient.prove(section)


class ShortSessions:
    """On a cluster that soon finds out that a broker is dead."""

    @pytest.fixture(scope="class")
    @classmethod
    def quick(
        cls, new_operator: NewOperator, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Operator]:
        _, *start = SECTIONS["A stop between"].steps["Begin"]
        _, create, _ = SECTIONS["Before you begin"].steps["Begin"]
        directory = tmp_path_factory.mktemp("quick")
        with following(new_operator(directory), *start, create) as operator:
            yield operator

    def test_a_dead_broker_is_started_and_a_deletion_ends(self, quick: Operator) -> None:
        section = SECTIONS["A dead broker, and a deletion that waits for it"]
        quick.run_all(section.steps["Cause"])

        [named] = mend(quick, section)

        assert section.rules == ("D01", "P14")
        assert named.startswith("zkctl broker start ")
        quick.prove(section)

    def test_a_move_to_a_lost_broker_is_cancelled_and_a_deletion_unblocked(
        self, quick: Operator
    ) -> None:
        section = SECTIONS["A move and a deletion that wait for a lost broker"]
        quick.run_all(section.steps["Cause"])

        _, status = mend(quick, section)
        [row] = json.loads(quick.run(f"{status} -o json").stdout)
        commands = {each["kind"]: each["command"] for each in row["blockers"]}
        quick.answer(commands["reassignment"])

        assert section.rules == ("R02", "D01")
        assert set(commands) == {"dead_broker", "reassignment"}
        assert commands["reassignment"] == section.steps["Mend"][2].line
        quick.prove(section)

    def test_a_failed_log_directory_is_used_again(self, quick: Operator) -> None:
        section = SECTIONS["A failed log directory"]
        quick.run_all(section.steps["Cause"])
        before, after = mend_directories(quick, section)

        assert section.rules == ("L02",)
        failed = quick.environment["LOG_DIRS"].split(",")[1]
        assert (before[failed], after[failed]) == ("KAFKA_STORAGE_ERROR", None)
        quick.prove(section)

    def test_a_full_disk_costs_a_directory_and_no_record(self, quick: Operator) -> None:
        section = SECTIONS["A full disk"]
        (quick.directory / "fill.py").write_text(section.script)
        quick.run_all(section.steps["Cause"])

        before, after = mend_directories(quick, section)

        assert section.rules == ("L02",)
        [failed] = [each for each, error in before.items() if error]
        assert before[failed] == "KAFKA_STORAGE_ERROR"
        assert set(after.values()) == {None}
        quick.prove(section)

    def test_what_is_left_of_a_throttle_is_found_and_taken_away(self, quick: Operator) -> None:
        section = SECTIONS["A throttle that stays"]
        quick.run_all(section.steps["Cause"])

        mend(quick, section)
        quick.run_all(section.steps["Mend"][1:])

        assert section.rules == ("R04",)
        quick.prove(section)

    def test_what_an_earlier_migration_left_is_found(self, quick: Operator) -> None:
        section = SECTIONS["What an earlier migration left"]
        (quick.directory / "remnant.py").write_text(section.script)
        quick.run_all(section.steps["Cause"])
        quick.run_all(section.steps["Find"][1:])

        mend(quick, section)
        quick.run_all(section.steps["Mend"][1:])

        assert section.rules == ("C05",)
        quick.prove(section)

    def test_wrong_moves_are_refused_and_change_nothing(self, quick: Operator) -> None:
        (quick.directory / "remnant.py").write_text(
            SECTIONS["What an earlier migration left"].script
        )
        done = [(each, quick.run(each)) for each in SECTIONS["Four wrong moves"].steps["Begin"]]

        reasons = [said.stderr.splitlines()[-1] for each, said in done if each.exit_code]
        assert [
            re.search(wanted, reason) is not None
            for wanted, reason in zip(
                [
                    "3 replicas, and 2 brokers may hold them; nothing was done",
                    "cluster",
                    "Elect leaders that may lack records",
                    "/controller belongs to KRaft controller 3000",
                ],
                reasons,
                strict=True,
            )
        ] == [True] * 4, reasons
        [orders] = json.loads(quick.run("zkctl topic list -o json").stdout)[:1]
        assert orders["topic"] == "orders"
