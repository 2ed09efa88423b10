"""Runs the style, the types and the tests that could notice a change: ``make affected``.

    .venv/bin/python -m scripts.affected                 what changed since main
    .venv/bin/python -m scripts.affected --base HEAD~3   since another commit
    .venv/bin/python -m scripts.affected --list          only shows the choice

The choice follows the imports.  A test file that imports a changed module is at distance 1, one
that imports it through one other module at distance 2, and so on.  The nearest come first, as many
as the budget allows.  What does not run is named: this is quicker than ``make test``, and
no replacement for it.

:func:`choose` is pure: a :class:`Project`, the changed files and a budget in, a :class:`Choice`
out.  :func:`read_project` and :func:`changed_since` read the files and ask git.
"""

from __future__ import annotations

import argparse
import configparser
import heapq
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import grimp

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = {
    "kafka_common": "kafka_common",
    "zkcontroller": "zkcontroller",
    "replica_manager": "replica_manager",
    "kraft": "kraft",
    "kafka_history": "kafka_history",
    "cli": "zkcontroller_cli",
    "zkcontroller_lab": "zkcontroller_lab",
    "zkcontroller_simulation": "zkcontroller_simulation",
    "zkcontroller_testing": "zkcontroller_testing",
}
"""The folders of the product, and the packages that they install as."""
OTHER_FOLDERS: Final = ("tests", "scripts", "benchmarks", "examples")
HOUSE: Final = "tests/test_house.py"
"""It reads every file of the project, so every change can make it fail."""
HOUSE_DISTANCE: Final = 2
"""Of the house from a changed line of Python, which it rarely notices."""

BUDGET_S: Final = 40.0
"""Seconds of tests, added up over the workers: the aim is a minute on two quiet cores."""
QUICK_S: Final = 10.0
"""Tests with a marker that are chosen in spite of it take no longer."""
SECONDS_A_FILE: Final = {
    "tests/integration": 15.0,
    "tests/simulation": 8.0,
    "tests/contract": 5.0,
    "tests/unit/cli": 2.0,
    HOUSE: 25.0,
}
"""What is assumed of a test file that has not run here yet; 1 s of all others."""
CONFTEST_STEP: Final = 2
"""The distance between a test file and its conftest.py: most tests use little of it."""
ZKCTL: Final = "zkcontroller_cli.main"
PLUGIN: Final = "zkcontroller_testing.plugin"
"""Where the fixture ``kafka_cluster`` comes from, which tests use without an import."""


class EndToEnd(NamedTuple):
    """Tests that start processes, for changes in some packages."""

    folders: tuple[str, ...]
    files: tuple[str, ...]
    reason: str


END_TO_END: Final = (
    EndToEnd(
        (
            *("zkcontroller/core", "zkcontroller/runtime", "kafka_common/net"),
            *("kafka_common/protocol", "zkcontroller/zookeeper"),
            *("replica_manager/broker", "replica_manager/configuration", "replica_manager/log"),
            *("replica_manager/network", "replica_manager/replication", "replica_manager/server"),
        ),
        ("tests/integration/test_replication.py",),
        "starts brokers as processes, moves records and leaders between them",
    ),
    EndToEnd(
        ("replica_manager/coordinators",),
        ("tests/integration/test_group_coordinator.py",),
        "has clients join groups of a running broker",
    ),
    EndToEnd(
        ("cli/topics", "cli/topic.py", "cli/wire", "cli/znodes", "cli/console"),
        ("tests/integration/test_cli_topics.py",),
        "runs zkctl topic on running brokers",
    ),
)
"""Brokers that run as processes are far from most modules by imports, and near by what they do."""


@dataclass(frozen=True)
class Change:
    """The paths that differ from the base; ``deleted`` and ``added`` are some of ``paths``."""

    paths: tuple[str, ...]
    deleted: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Project:
    """What :func:`choose` knows of the files.

    ``texts`` holds the Python files of tests, scripts and benchmarks by path, ``imports`` what each
    module imports or starts, ``seconds`` how long test files took here, ``deselected`` the markers
    of tests that run only when they are asked for.
    """

    imports: Mapping[str, frozenset[str]]
    texts: Mapping[str, str]
    seconds: Mapping[str, float] = field(default_factory=dict)
    deselected: frozenset[str] = frozenset()


class Candidate(NamedTuple):
    """A test file that could notice the change, with its distance and the reason."""

    distance: int
    file: str
    reason: str
    seconds: float
    marker: str | None = None


@dataclass(frozen=True)
class Choice:
    """The test files that run, and those that could notice the change and do not."""

    chosen: tuple[Candidate, ...]
    beyond_budget: tuple[Candidate, ...]
    marked: tuple[Candidate, ...]


def module_of(path: str) -> str:
    """The name by which tests and the product import a Python file."""
    folder, *parts = path.removesuffix(".py").split("/")
    if parts and parts[-1] == "__init__":
        parts.pop()
    return ".".join((FOLDERS.get(folder, folder), *parts))


def is_test_file(path: str) -> bool:
    """Whether pytest collects it."""
    return bool(re.fullmatch(r"tests/(?:.+/)?test_\w+\.py", path))


_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))",
    re.MULTILINE,
)
_QUOTED: Final = re.compile(rf'"((?:{"|".join(FOLDERS.values())})(?:\.\w+)*)"')


def imported_names(source: str, module: str, *, is_package: bool = False) -> Iterator[str]:
    """Every name that may be a module which ``module`` imports; ``a.b`` of ``from a import b``.

    Imports inside functions and inside quoted programs count, too: too many are better than too
    few.
    """
    source_package = module if is_package else module.rpartition(".")[0]
    for origin, names, plain in _IMPORT.findall(source):
        if plain:
            yield from (name.split()[0] for name in plain.split(",") if name.strip())
            continue
        base = origin.lstrip(".")
        if dots := len(origin) - len(base):
            parts = source_package.split(".")
            base = ".".join((*parts[: len(parts) - dots + 1], *([base] if base else [])))
        without_comments = re.sub(r"#[^\n]*", "", names).strip("() \t\n")
        for name in without_comments.split(","):
            if words := name.split():
                yield f"{base}.{words[0]}"


def resolved(name: str, known: frozenset[str]) -> str | None:
    """The longest part of a dotted name that is a module."""
    while name:
        if name in known:
            return name
        name = name.rpartition(".")[0]
    return None


def started_names(source: str) -> Iterator[str]:
    """The modules that a file names in quotation marks: to import them by name or start them."""
    yield from _QUOTED.findall(source)
    if "console_scripts" in source:
        yield ZKCTL
    if re.search(r"\bkafka_cluster\b", source):
        yield PLUGIN


def uses_of(source: str, path: str, known: frozenset[str], *, is_product: bool) -> frozenset[str]:
    """The modules that a Python file imports or starts.

    grimp has read the imports of the product; of its files only the quoted names are new.
    """
    module = module_of(path)
    found = set()
    if not is_product:
        names = imported_names(source, module, is_package=path.endswith("/__init__.py"))
        found |= {resolved(name, known) for name in names}
    for name in started_names(source):
        if f"{name}.__main__" in known:
            found.add(f"{name}.__main__")
        elif "." in name:
            found.add(resolved(name, known))
    return frozenset(each for each in found if each and each != module)


def conftests_of(path: str, known: Iterable[str]) -> list[str]:
    """The modules of the conftest.py files whose fixtures a test file may use."""
    folders = module_of(path).split(".")[:-1]
    modules = {".".join((*folders[:end], "conftest")) for end in range(1, len(folders) + 1)}
    return sorted(modules.intersection(known) - {module_of(path)})


def with_verbs(project: Project) -> dict[str, frozenset[str]]:
    """The imports, and beside them the verbs of zkctl, which it imports when they are called.

    A file of tests that leads to zkctl, and has the word ``"topic"`` among its strings, uses
    ``cli/topic.py``.
    """
    imports = dict(project.imports)
    verbs = {
        module.rpartition(".")[2]: module
        for module in imports
        if re.fullmatch(r"zkcontroller_cli\.(?!main$|__main__$)\w+", module)
        and not any(other.startswith(f"{module}.") for other in imports)
    }
    if ZKCTL in imports:
        imports[ZKCTL] |= frozenset(verbs.values())
    users = {ZKCTL, "zkcontroller_cli.__main__"}
    paths = {module_of(path): path for path in project.texts if path.startswith("tests/")}
    while True:
        more = {
            module
            for module, path in paths.items()
            if module not in users
            and not users.isdisjoint({*imports.get(module, ()), *conftests_of(path, paths)})
        }
        if not more:
            break
        users |= more
    for module in users.intersection(paths):
        words = set(re.findall(r'"([a-z-]+)"', project.texts[paths[module]]))
        called = {verbs[name] for word in words if (name := word.replace("-", "_")) in verbs}
        imports[module] = imports.get(module, frozenset()) | called
    return imports


def distances(project: Project, seeds: Mapping[str, int]) -> dict[str, tuple[int, tuple[str, ...]]]:
    """How far each module is from the nearest seed, and the modules between, the seed last."""
    imports = with_verbs(project)
    importers: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for importer, imported in imports.items():
        for each in imported:
            importers[each].append((1, importer))
    for path in project.texts:
        if is_test_file(path):
            for conftest in conftests_of(path, imports):
                importers[conftest].append((CONFTEST_STEP, module_of(path)))
    found: dict[str, tuple[int, tuple[str, ...]]] = {}
    waiting: list[tuple[int, tuple[str, ...]]] = [
        (distance, (seed,)) for seed, distance in seeds.items()
    ]
    heapq.heapify(waiting)
    while waiting:
        distance, way = heapq.heappop(waiting)
        if way[0] in found:
            continue
        found[way[0]] = (distance, way[1:])
        for step, importer in importers[way[0]]:
            if importer not in found:
                heapq.heappush(waiting, (distance + step, (importer, *way)))
    return found


def seeds_of(project: Project, change: Change) -> dict[str, int]:
    """The modules from which distances count, for the changed files."""
    seeds: dict[str, int] = {}
    for path in change.paths:
        if path.endswith(".py"):
            module = module_of(path)
            seeds[module] = 0
            if path.endswith("/__init__.py"):
                # The import of a module runs the __init__.py of its package first.
                inside = (each for each in project.imports if each.startswith(f"{module}."))
                seeds = dict.fromkeys(inside, 1) | seeds
        elif path.partition("/")[0] in FOLDERS:
            # Data of a package: its modules read it.
            package = module_of(path.rpartition("/")[0])
            while package not in project.imports and "." in package:
                package = package.rpartition(".")[0]
            beside = (m for m in project.imports if m.rpartition(".")[0] == package)
            seeds = dict.fromkeys((package, *beside), 0) | seeds
    return seeds


def names_file(text: str, reader: str, path: str) -> bool:
    """Whether a Python file (at ``reader``) names a file, or its folder where tests keep data."""
    folder, _, name = path.rpartition("/")
    if path in text or re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text):
        return True
    top, *inner = folder.split("/")
    if top != "tests" or not inner:
        return False
    is_beside = reader.startswith(f"tests/{inner[0]}/")
    return any(
        f'"{each}"' in text or f"{each}/" in text
        for each in inner[1:]
        if each != "data" or is_beside
    )


def marker_of(path: str, text: str, deselected: frozenset[str]) -> str | None:
    """The marker that keeps every test of a file from running unless it is asked for."""
    found = re.search(r"^pytestmark = (.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    marks = re.findall(r"pytest\.mark\.(\w+)", found[1]) if found else []
    # Every test of these folders has the marker of the folder's name.
    marks += [each for each in ("attack", "kafka", "peers") if path.startswith(f"tests/{each}/")]
    return next((each for each in marks if each in deselected), None)


def seconds_of(project: Project, file: str) -> float:
    """How long the tests of a file take: measured here, or assumed of its folder."""
    if file in project.seconds:
        return project.seconds[file]
    assumed = [
        seconds
        for folder, seconds in SECONDS_A_FILE.items()
        if file == folder or file.startswith(f"{folder}/")
    ]
    return max(assumed, default=1.0)


class _Found:
    """The test files that were found, each with its least distance and the reason of that."""

    def __init__(self, files: frozenset[str]) -> None:
        self.files = files
        self.nearest: dict[str, tuple[int, str]] = {}

    def add(self, path: str, distance: int, reason: str) -> None:
        """Counts a test file; another path is no test, and is left alone."""
        if path in self.files and (path not in self.nearest or distance < self.nearest[path][0]):
            self.nearest[path] = (distance, reason)


def _add_by_name(project: Project, paths: Iterable[str], found: _Found) -> dict[str, str]:
    """Adds what names one of the files; returns that file of each module of tests or scripts."""
    mentions: dict[str, str] = {}
    for path in paths:
        for reader, text in project.texts.items():
            if names_file(text, reader, path):
                found.add(reader, 1, f"names {path}")
                mentions.setdefault(module_of(reader), path)
    return mentions


def _add_end_to_end(paths: Iterable[str], found: _Found) -> None:
    for path in paths:
        for folders, tests, reason in END_TO_END:
            if any(path == each or path.startswith(f"{each}/") for each in folders):
                for file in tests:
                    found.add(file, 1, reason)


def _add_by_imports(
    project: Project, change: Change, mentions: Mapping[str, str], found: _Found
) -> None:
    seeds = dict.fromkeys(mentions, 1) | seeds_of(project, change)
    modules = {module_of(file): file for file in found.files}
    for module, (distance, way) in distances(project, seeds).items():
        if module not in modules or not way:
            continue
        through = f" through {', '.join(way[:-1])}" if way[1:] else ""
        is_reader = seeds[way[-1]] == 1 and way[-1] in mentions
        named = f", which names {mentions[way[-1]]}" if is_reader else ""
        found.add(modules[module], distance, f"uses {way[-1]}{through}{named}")


def candidates(project: Project, change: Change) -> list[Candidate]:
    """Every test file that could notice the change, the nearest first.

    At equal distances the tests that start processes come first, then those whose name or folder is
    that of a changed file, then the quickest.
    """
    found = _Found(frozenset(path for path in project.texts if is_test_file(path)))
    others = [path for path in change.paths if not path.endswith(".py")]
    for path in change.paths:
        found.add(path, 0, "changed")
    mentions = _add_by_name(project, others, found)
    _add_end_to_end(change.paths, found)
    _add_by_imports(project, change, mentions, found)
    if others or change.added or change.deleted:
        found.add(HOUSE, 1, "compares the documents and lists with the files")
    elif change.paths:
        found.add(HOUSE, HOUSE_DISTANCE, "reads every file")

    rooms = {part.removesuffix(".py") for path in change.paths for part in path.split("/")[1:]}
    ends = {each.reason for each in END_TO_END}

    def order(candidate: Candidate) -> tuple[int, bool, bool, float, str]:
        is_near = not rooms.isdisjoint(re.split(r"[/_.]", candidate.file))
        is_end = candidate.reason in ends
        return (candidate.distance, not is_end, not is_near, candidate.seconds, candidate.file)

    listed = (
        Candidate(
            distance,
            file,
            reason,
            seconds_of(project, file),
            marker_of(file, project.texts[file], project.deselected),
        )
        for file, (distance, reason) in found.nearest.items()
    )
    return sorted(listed, key=order)


def choose(project: Project, change: Change, budget_s: float = BUDGET_S) -> Choice:
    """The test files that run for a change: the nearest first, if the budget has room for them.

    A changed test file runs whatever it takes.  A file with a marker runs only where no other one
    uses a changed module directly, and where it was seen to take seconds.
    """
    chosen: list[Candidate] = []
    beyond: list[Candidate] = []
    marked: list[Candidate] = []
    found = candidates(project, change)
    has_direct = any(each.distance <= 1 and not each.marker for each in found if each.file != HOUSE)
    used_s = 0.0
    for each in found:
        if each.marker:
            seen_s = project.seconds.get(each.file)
            is_quick = seen_s is not None and seen_s <= QUICK_S
            if not (is_quick and (each.distance == 0 or (each.distance == 1 and not has_direct))):
                marked.append(each)
                continue
        # What does not fit leaves its time to what is farther and quicker.
        if each.distance > 0 and used_s + each.seconds > budget_s:
            beyond.append(each)
            continue
        used_s += each.seconds
        chosen.append(each)
    return Choice(tuple(chosen), tuple(beyond), tuple(marked))


def lines_of(choice: Choice) -> list[str]:
    """What the command says before it runs anything: which tests and why, and what is left out."""
    lines: list[str] = []
    groups: defaultdict[tuple[int, str, str], list[str]] = defaultdict(list)
    for each in choice.chosen:
        folder, _, name = each.file.rpartition("/")
        groups[each.distance, each.reason, folder].append(name)
    if groups:
        lines.append("tests, by their distance from what changed:")
    for (distance, reason, folder), names in groups.items():
        lines.append(f"  {distance}  {folder}/{', '.join(names)}: {reason}")
    if choice.beyond_budget or choice.marked:
        lines.append("left out, though they could notice the change:")
    if beyond := choice.beyond_budget:
        nearest = beyond[0].distance
        few = ", ".join(each.file for each in beyond[:3])
        lines.append(
            f"  {len(beyond)} more {_files(len(beyond))} of tests at distance {nearest} and more "
            f"({few}{', …' if beyond[3:] else ''}): make test runs them"
        )
    by_marker: defaultdict[str, list[Candidate]] = defaultdict(list)
    for each in choice.marked:
        by_marker[each.marker or ""].append(each)
    for marker, files in by_marker.items():
        nearest = files[0].distance
        near = [each.file for each in files if each.distance == nearest][:3]
        lines.append(
            f"  {len(files)} {_files(len(files))} with the marker {marker}, from distance {nearest}"
            f" on: make {marker} runs them, or .venv/bin/pytest -m {marker} {' '.join(near)}"
        )
    return lines


def _files(count: int) -> str:
    return "file" if count == 1 else "files"


class UnknownBase(Exception):
    """Git knows no such commit, or none that both sides come from."""


def changed_since(base: str, root: Path = ROOT) -> tuple[str, Change]:
    """The commit where the work left ``base``, and what differs from it, uncommitted files too.

    Raises ``UnknownBase``.
    """
    command = ["git", "merge-base", base, "HEAD"]
    asked = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if asked.returncode:
        raise UnknownBase(base)
    start = asked.stdout.strip()
    fields = _git(root, "diff", "--name-status", "--no-renames", "-z", start)
    statuses = dict(zip(fields[1::2], fields[::2], strict=True))
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    paths = tuple(sorted({*statuses, *new}))
    return start, Change(
        paths,
        deleted=frozenset(each for each in paths if not (root / each).exists()),
        added=frozenset({*new, *(each for each, status in statuses.items() if status == "A")}),
    )


def _git(root: Path, *arguments: str) -> list[str]:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return [each for each in done.stdout.split("\0") if each]


def read_project(change: Change, root: Path = ROOT) -> Project:
    """The project as it is in its folder.

    A module that was deleted still counts as imported by the files that name it.
    """
    graph = grimp.build_graph(*FOLDERS.values(), cache_dir=str(root / ".import_linter_cache"))
    texts = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for folder in OTHER_FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
    }
    gone = {module_of(path) for path in change.deleted if path.endswith(".py")}
    known = frozenset({*graph.modules, *map(module_of, texts), *gone})
    imports = {
        module: frozenset(graph.find_modules_directly_imported_by(module))
        for module in graph.modules
    }
    for path, text in texts.items():
        imports[module_of(path)] = uses_of(text, path, known, is_product=False)
    for folder in FOLDERS:
        for file in (root / folder).rglob("*.py"):
            path = str(file.relative_to(root))
            text = file.read_text(encoding="utf-8")
            uses = uses_of(text, path, known, is_product=not gone)
            imports[module_of(path)] = imports.get(module_of(path), frozenset()) | uses
    return Project(imports, texts, recorded_seconds(root), deselected_markers(root))


def recorded_seconds(root: Path) -> dict[str, float]:
    """How long each test file took when it last ran here; tests/file_seconds.py records it."""
    file = root / ".pytest_cache" / "v" / "affected" / "seconds"
    try:
        return {str(name): float(s) for name, s in json.loads(file.read_text()).items()}
    except (OSError, ValueError):
        return {}


def deselected_markers(root: Path) -> frozenset[str]:
    """The markers that the options of pytest in setup.cfg deselect."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(root / "setup.cfg")
    return frozenset(re.findall(r"\bnot (\w+)", parser["tool:pytest"]["addopts"]))


def pytest_command(choice: Choice, workers: int, deselected: frozenset[str]) -> list[str]:
    """How the chosen tests run."""
    files = [each.file for each in choice.chosen]
    asked_for = {each.marker for each in choice.chosen if each.marker}
    expression = " and ".join(f"not {each}" for each in sorted(deselected - asked_for))
    spread = ("-n", str(min(workers, len(files))), "--dist", "loadfile", "--no-loadscope-reorder")
    parallel = spread if len(files) > 1 else ()
    return [sys.executable, "-m", "pytest", "-q", "-rs", "-m", expression, *parallel, *files]


def check(choice: Choice, workers: int, deselected: frozenset[str]) -> int:
    """Run the linters beside the chosen tests; the exit code, 0 where nothing failed."""
    tools = Path(sys.executable).parent
    linters = (("ruff", "check"), ("ruff", "format", "--check"), ("mypy",))
    code = 0
    with tempfile.TemporaryFile("w+") as said:
        running = [
            subprocess.Popen([str(tools / tool), *rest], cwd=ROOT, stdout=said, stderr=said)
            for tool, *rest in linters
        ]
        if choice.chosen:
            command = pytest_command(choice, workers, deselected)
            code = subprocess.run(command, cwd=ROOT, check=False).returncode
        codes = [process.wait() for process in running]
        said.seek(0)
        print(said.read(), end="")
    return code or int(any(codes))


def main(arguments: Sequence[str]) -> int:
    """Choose, say what and why, run; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make affected", description=__doc__)
    parser.add_argument("--base", default="main", help="what changed since this commit")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds of tests")
    parser.add_argument("--workers", type=int, default=4, help="processes that run tests")
    parser.add_argument("--list", action="store_true", help="only show the choice")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        start, change = changed_since(options.base)
    except UnknownBase as unknown:
        print(f"make affected: git knows no commit {unknown} that this work began from: "
              "name one, make affected BASE=commit", file=sys.stderr)  # fmt: skip
        return 2
    if not change.paths:
        print(f"nothing changed since {options.base} ({start[:10]}): nothing to check")
        return 0
    project = read_project(change)
    choice = choose(project, change, options.budget)
    few = ", ".join(change.paths[:5]) + (", …" if change.paths[5:] else "")
    print(f"{len(change.paths)} {_files(len(change.paths))} changed since {options.base} "
          f"({start[:10]}): {few}")  # fmt: skip
    print(*lines_of(choice), sep="\n", flush=True)
    if options.list:
        return 0
    code = check(choice, options.workers, project.deselected)
    came_to = "failed" if code else "passed"
    print(f"style, types and {len(choice.chosen)} {_files(len(choice.chosen))} of tests {came_to} "
          f"in {time.monotonic() - began:.0f} s; make test runs all tests")  # fmt: skip
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
