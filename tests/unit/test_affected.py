"""Which tests ``make affected`` runs for a change, on a graph made by hand and on the real one."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.affected import (
    END_TO_END,
    HOUSE,
    Change,
    Choice,
    Project,
    UnknownBase,
    changed_since,
    choose,
    imported_names,
    lines_of,
    main,
    module_of,
    pytest_command,
    read_project,
)

ROOT = Path(__file__).parents[2]
SEGMENT = "replica_manager/log/segment.py"
DIRECT = "tests/unit/replica_manager/log/test_segment.py"
INDIRECT = "tests/unit/replica_manager/log/test_log.py"
SPARK = "tests/history/test_spark.py"
TEXTS = {
    "tests/conftest.py": "",
    "tests/unit/conftest.py": "",
    "tests/support/world.py": "",
    "tests/test_house.py": "",
    DIRECT: "",
    INDIRECT: 'WIRE = Path("wire.bin").read_text(), "docs/doctor.md"',
    "tests/unit/test_far.py": "",
    "tests/unit/cli/test_verbs.py": 'zkctl("topic", "list")',
    SPARK: "pytestmark = pytest.mark.history\n",
}
IMPORTS = {
    "replica_manager.log": (),
    "replica_manager.log.segment": (),
    "replica_manager.log.unified_log": ("replica_manager.log.segment",),
    "kafka_history.html": (),
    "zkcontroller_cli.main": (),
    "zkcontroller_cli.topic": (),
    "tests.support.world": ("replica_manager.log.unified_log",),
    "tests.conftest": (),
    "tests.unit.conftest": (),
    "tests.unit.replica_manager.log.test_segment": ("replica_manager.log.segment",),
    "tests.unit.replica_manager.log.test_log": ("replica_manager.log.unified_log",),
    "tests.unit.test_far": ("tests.support.world",),
    "tests.unit.cli.test_verbs": ("zkcontroller_cli.main",),
    "tests.history.test_spark": ("kafka_history.html",),
}


def project(**seconds: float) -> Project:
    measured = {path: seconds.get(Path(path).stem, 1.0) for path in TEXTS}
    imports = {module: frozenset(imported) for module, imported in IMPORTS.items()}
    return Project(imports, TEXTS, measured, frozenset({"history", "peers"}))


def changed(*paths: str, deleted: tuple[str, ...] = ()) -> Change:
    return Change(paths, deleted=frozenset(deleted))


def files(choice: Choice) -> list[str]:
    return [each.file for each in choice.chosen]


def test_the_tests_that_import_a_changed_module_run_before_those_farther_away() -> None:
    choice = choose(project(), changed(SEGMENT))

    assert files(choice) == [DIRECT, INDIRECT, HOUSE, "tests/unit/test_far.py"]
    assert [each.distance for each in choice.chosen] == [1, 2, 2, 3]
    assert choice.chosen[0].reason == "uses replica_manager.log.segment"
    assert "through replica_manager.log.unified_log" in choice.chosen[1].reason


def test_what_the_budget_does_not_allow_is_left_out_and_named() -> None:
    choice = choose(project(test_log=9.0), changed(SEGMENT), budget_s=5.0)

    assert files(choice) == [DIRECT, HOUSE, "tests/unit/test_far.py"]  # quicker, though farther
    assert [each.file for each in choice.beyond_budget] == [INDIRECT]
    assert any("1 more file of tests at distance 2 and more" in each for each in lines_of(choice))


def test_a_changed_test_file_runs_whatever_it_takes() -> None:
    choice = choose(project(test_far=500.0), changed("tests/unit/test_far.py"))

    assert choice.chosen[0].file == "tests/unit/test_far.py"
    assert choice.chosen[0].reason == "changed"


def test_a_changed_support_module_selects_the_tests_that_import_it() -> None:
    assert files(choose(project(), changed("tests/support/world.py")))[0] == (
        "tests/unit/test_far.py"
    )


def test_a_changed_conftest_selects_the_tests_below_it() -> None:
    chosen = set(files(choose(project(), changed("tests/unit/conftest.py"))))

    assert {DIRECT, INDIRECT, "tests/unit/test_far.py"} <= chosen
    assert SPARK not in chosen


def test_a_changed_init_selects_the_tests_of_the_modules_inside() -> None:
    assert DIRECT in files(choose(project(), changed("replica_manager/log/__init__.py")))


def test_a_changed_document_selects_the_house_and_the_tests_that_name_it() -> None:
    assert set(files(choose(project(), changed("docs/doctor.md")))) == {HOUSE, INDIRECT}


def test_a_changed_data_file_selects_the_tests_that_name_it() -> None:
    assert INDIRECT in files(
        choose(project(), changed("tests/unit/replica_manager/log/data/wire.bin"))
    )


def test_changed_data_of_a_package_count_as_its_modules() -> None:
    assert DIRECT in files(choose(project(), changed("replica_manager/log/limits.yaml")))


def test_a_deleted_module_selects_the_tests_that_still_import_it() -> None:
    choice = choose(project(), changed(SEGMENT, deleted=(SEGMENT,)))

    assert files(choice)[:2] == [HOUSE, DIRECT] or files(choice)[:2] == [DIRECT, HOUSE]


def test_the_verbs_that_a_test_calls_are_near_it() -> None:
    choice = choose(project(), changed("cli/topic.py"))

    assert choice.chosen[0][:2] == (1, "tests/unit/cli/test_verbs.py")


def test_tests_with_a_marker_are_left_out_with_the_command_that_runs_them() -> None:
    choice = choose(project(test_spark=60.0), changed("kafka_history/html.py"))

    assert SPARK not in files(choice)
    assert any("make history runs them" in each and SPARK in each for each in lines_of(choice))


def test_tests_with_a_marker_run_where_they_are_quick_and_no_others_are_near() -> None:
    choice = choose(project(), changed("kafka_history/html.py"))

    assert choice.chosen[0].file == SPARK
    command = pytest_command(choice, 4, frozenset({"history", "peers"}))
    assert command[command.index("-m", 3) + 1] == "not peers"


def test_every_way_to_import_is_read() -> None:
    source = "import a.b as c\nfrom d import (\n    e,  # why\n    f as g,\n)\nfrom .h import i\n"

    names = set(imported_names(source, "tests.unit.test_x"))

    assert names == {"a.b", "d.e", "d.f", "tests.unit.h.i"}


def test_the_folder_cli_installs_under_another_name() -> None:
    assert module_of("cli/topics/__init__.py") == "zkcontroller_cli.topics"


@pytest.mark.parametrize("entry", END_TO_END, ids=lambda entry: entry.files[0])
def test_the_files_and_folders_of_the_end_to_end_tests_exist(
    entry: tuple[tuple[str, ...], tuple[str, ...], str],
) -> None:
    assert [each for each in (*entry[0], *entry[1]) if not (ROOT / each).exists()] == []


def git(folder: Path, *arguments: str) -> None:
    names = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)


def test_committed_uncommitted_and_new_files_count_as_changed(tmp_path: Path) -> None:
    git(tmp_path, "init")
    for name in ("kept", "committed", "edited", "renamed"):
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "Begin")
    git(tmp_path, "checkout", "-b", "work")
    (tmp_path / "committed").write_text("else")
    git(tmp_path, "commit", "-am", "Go on")
    (tmp_path / "edited").write_text("else")
    git(tmp_path, "mv", "renamed", "moved")
    (tmp_path / "new").write_text("new")

    _, change = changed_since("main", tmp_path)

    assert change.paths == ("committed", "edited", "moved", "new", "renamed")
    assert change.deleted == {"renamed"}
    assert change.added == {"moved", "new"}
    with pytest.raises(UnknownBase):
        changed_since("no-such-commit", tmp_path)


def test_an_unknown_base_is_refused_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--base", "no-such-commit"]) == 2
    assert "git knows no commit no-such-commit" in capsys.readouterr().err


NEAR = {
    "zkcontroller/core/elections.py": "tests/unit/zkcontroller/core/test_elections.py",
    SEGMENT: "tests/unit/replica_manager/log/test_reads.py",
    "cli/topic.py": "tests/unit/cli/test_topic_verbs.py",
    "kafka_history/report/html.py": "tests/history/test_report.py",
}


def test_on_the_real_graph_each_module_selects_its_own_tests() -> None:
    real = replace(read_project(Change(())), seconds={})

    for path, expected in NEAR.items():
        choice = choose(real, changed(path))
        assert (expected, 1) in [(each.file, each.distance) for each in choice.chosen]
