"""The table of known bugs is that of the tests."""

from __future__ import annotations

from scripts.list_known_bugs import DOCUMENT, FILES, known_bugs, relisted

LEAST = 20


def test_the_table_of_known_bugs_is_that_of_the_tests() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")

    assert relisted(document) == document, "run python -m scripts.list_known_bugs"


def test_every_bug_has_one_test_and_a_place_where_it_was_reported() -> None:
    bugs = known_bugs()

    assert len(bugs) >= LEAST
    assert len({bug.number for bug in bugs}) == len(bugs)
    assert {bug.file for bug in bugs} == set(FILES)
    assert all(bug.sentence.endswith(".") for bug in bugs)
    assert all(bug.address.startswith("https://") for bug in bugs)
