"""What counts as an assertion of a test, and what does not."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.asserting import Suite


def found_in(root: Path, **files: str) -> list[str]:
    """The tests without an assertion; in a file's name ``__`` stands for a folder."""
    for name, source in files.items():
        path = root / "tests" / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(source))
    return Suite(root, ("tests",)).without_assertion()


@pytest.mark.parametrize(
    "body",
    [
        "assert so()",
        "with pytest.raises(ValueError): so()",
        "with pytest.warns(UserWarning): so()",
        "pytest.fail('no')",
        "raise AssertionError('no')",
        "raise AssertionError",
        "raise Broken('no')",
        "check()",
        "runs(check)",
        "helpers.check()",
        "imported_check()",
        "renamed_check()",
        "with Checked(): so()",
        "made = World()\n    made.verify()",
        "async def steps():\n        assert so()\n    run(steps())",
    ],
)
def test_a_test_asserts_by_itself_or_by_its_helpers(tmp_path: Path, body: str) -> None:
    helpers = """
        class Broken(AssertionError): ...
        class Checked:
            def __exit__(self, *_): assert 1
        class World:
            def verify(self): imported_check()
        def imported_check(): assert 1
        def check(): imported_check()
        """
    tests = f"""
from tests import helpers
from tests.helpers import Broken, Checked, World, imported_check
from tests.helpers import check as renamed_check
def check(): deeper()
def deeper(): check(); assert 1
def test_it():
    {body}
"""

    assert found_in(tmp_path, helpers=helpers, test_a=tests) == []


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "so()",
        "with suppress(ValueError): so()",
        "raise ValueError('no')",
        "endless()",
        "world.verify()",
        "fixture.values()",
        "log.check()",
        "unknown.check()",
    ],
)
def test_a_test_that_nothing_can_make_fail_is_found(tmp_path: Path, body: str) -> None:
    helpers = """
        class World:
            def check(self): assert 1
        class Log:
            def check(self): self.checked = True
        """
    tests = f"""
from tests.helpers import World, Log
def endless(): endless()
@pytest.fixture
def fixture(): assert 1
class Unreachable:
    def other(self): assert 1
def test_it(fixture):
    {body}
"""

    assert found_in(tmp_path, helpers=helpers, test_a=tests) == ["tests/test_a.py::test_it"]


def test_methods_of_test_classes_and_files_in_folders_are_looked_at(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        unit__test_a="class TestIt:\n    def test_one(self): pass\n    def helper(self): pass",
        unit__helpers="def test_like(): pass",
    )

    assert found == ["tests/unit/test_a.py::test_one"]


def test_a_method_of_a_module_that_is_not_imported_counts_for_nothing(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        helpers="class World:\n    def verify(self): assert 1",
        test_a="def test_it(world): world.verify()",
        test_b="from tests import helpers\ndef test_it(world): world.verify()",
    )

    assert found == ["tests/test_a.py::test_it"]
