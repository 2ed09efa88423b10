"""What must stay true of the house itself: its lists, its documents, its commands.

A list that no test compares with what it lists is wrong within a month.
"""

from __future__ import annotations

import ast
import configparser
import importlib
import importlib.util
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from replica_manager.container import container_config
from scripts import list_modules, write_request_types
from scripts.draw_state_machines import DOCUMENT, redrawn
from tests.support import leftovers
from tests.support.asserting import Suite
from tests.support.retired_words import RETIRED_WORDS, ROOT
from tests.support.sources import nodes, parsed

pytestmark = pytest.mark.usefixtures("files_parsed_once")

INSTALLED_FOLDERS = list_modules.PACKAGES
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.fixture(scope="module")
def setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg")
    return parser


@pytest.fixture(scope="module")
def project_files() -> list[Path]:
    """Every file the project consists of: what git tracks, without what git ignores."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [ROOT / name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


def readme_commands() -> list[str]:
    """The lines of README's shell blocks, comments cut off."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def modules() -> list[Path]:
    return [
        path.relative_to(ROOT)
        for folder in INSTALLED_FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "__init__.py"
    ]


def test_the_package_list_equals_the_folders(setup_cfg: configparser.ConfigParser) -> None:
    folders = [
        str(path.parent.relative_to(ROOT)).replace("/", ".")
        for folder in INSTALLED_FOLDERS
        for path in (ROOT / folder).rglob("__init__.py")
    ]
    installed = [re.sub(r"^cli\b", "zkcontroller_cli", name) for name in folders]

    listed = setup_cfg["options"]["packages"].split()

    assert sorted(listed) == sorted(installed)


def test_no_folder_with_modules_lacks_its_init() -> None:
    assert [path for path in modules() if not (ROOT / path.parent / "__init__.py").exists()] == []


def test_the_lists_of_modules_and_of_kafka_s_classes_are_up_to_date() -> None:
    assert list_modules.stale() == []


def test_the_types_of_requests_are_up_to_date() -> None:
    assert write_request_types.STUB.read_text(encoding="utf-8") == write_request_types.written()


NAMING_FILES = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *(
        str(path.relative_to(ROOT))
        for name in ("debugging.md", "deviations.md", "walkthrough-broker.md", "decisions/*.md")
        for path in sorted((ROOT / "docs").glob(name))
    ),
]


@pytest.mark.parametrize("document", NAMING_FILES)
def test_every_file_that_a_document_names_exists(document: str) -> None:
    folders = "|".join(
        (*INSTALLED_FOLDERS, "tests", "scripts", "benchmarks", "examples", "docs", "compose")
    )
    named = re.findall(rf"`((?:{folders})/[\w./-]+\.\w+)", (ROOT / document).read_text())

    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_the_make_commands_of_a_document_exist(document: str) -> None:
    # Commands stand in backticks or at the start of a line of a shell block; prose does not.
    commands = re.findall(r"(?:`|^)make ([a-z]+)", (ROOT / document).read_text(), re.MULTILINE)

    assert commands
    assert set(commands) <= make_targets()


def test_readme_shows_the_two_commands() -> None:
    assert {"make demo", "make test"} <= set(readme_commands())


def test_every_target_explains_itself_in_the_help() -> None:
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    explained = re.findall(r"^  make ([a-z-]+) +\S", printed.stdout, re.MULTILINE)

    assert set(explained) == make_targets()


def test_ci_runs_what_readme_tells_a_newcomer_to_run() -> None:
    ci = (ROOT / ".ci" / "run").read_text()
    suites = (ROOT / "scripts" / "suites.sh").read_text()

    assert re.search(r"^exec .*scripts/suites.sh\" part$", ci, re.MULTILINE)
    assert re.search(r"^run test$", suites, re.MULTILINE)
    assert 'make "$target"' in suites


def test_the_files_of_tests_that_ci_runs_exist() -> None:
    suites = (ROOT / "scripts" / "suites.sh").read_text()
    named = re.findall(r"tests/[\w/]+\.py", suites)

    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("script", [".ci/run", *sorted((ROOT / "scripts").glob("*.sh"))], ids=str)
def test_shell_scripts_can_be_run_and_parsed(script: str | Path) -> None:
    path = ROOT / script

    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_the_changelog_has_an_entry_for_the_version(setup_cfg: configparser.ConfigParser) -> None:
    version = setup_cfg["metadata"]["version"]

    assert re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)


def test_no_file_names_the_machine_it_was_written_on(project_files: list[Path]) -> None:
    # Put together here, so that this file does not name one itself.
    machine_path = re.compile(rb"(?<![\w.-])/" + rb"(?:work|farm|home/[a-z]+|Users)/[a-z]")

    assert [
        path.relative_to(ROOT) for path in project_files if machine_path.search(path.read_bytes())
    ] == []


def test_every_link_in_the_documents_leads_to_a_file(project_files: list[Path]) -> None:
    broken = [
        (path.relative_to(ROOT), target)
        for path in project_files
        if path.suffix == ".md"
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text())
        if not (path.parent / target).exists()
    ]

    assert broken == []


_NO_PROSE = re.compile(
    r"^```.*?^```[^\n]*$|^ {4,}[^\n]*$|^#[^\n]*$|\[(?:`[^`\n]*`|[^\[\]])*\]\([^)]*\)",
    re.MULTILINE | re.DOTALL,
)
"""Blocks of code, headings and links."""


def test_a_path_in_a_document_is_a_link(project_files: list[Path]) -> None:
    """Also the path's end, such as `core/events.py`, if only one file has it."""
    ends = Counter(
        "/".join(path.parts[at:])
        for path in (each.relative_to(ROOT) for each in project_files)
        for at in range(len(path.parts))
    )
    unlinked = [
        (str(path.relative_to(ROOT)), name)
        for path in project_files
        if path.suffix == ".md" and path.name != "CHANGELOG.md"
        for code in re.findall(r"(?<!`)`([^`\n]+)`", _NO_PROSE.sub("", path.read_text()))
        if ends[name := code.partition("::")[0]] == 1 and "." in name
    ]

    assert unlinked == []


def test_the_drawn_state_machines_equal_the_tables() -> None:
    document = DOCUMENT.read_text()

    assert redrawn(document) == document


def test_the_compose_file_names_only_what_it_defines() -> None:
    compose = yaml.safe_load((ROOT / "compose" / "compose.yaml").read_text())
    services = compose["services"]
    ports = [port for service in services.values() for port in service.get("ports", ())]
    mounted = [
        volume.split(":")[0] for service in services.values() for volume in service["volumes"]
    ]
    files = [volume for volume in mounted if volume.startswith("./")]
    volumes = {volume for volume in mounted if volume not in files}

    assert volumes == set(compose["volumes"])
    assert all((ROOT / "compose" / file).exists() for file in files)
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
        build = service.get("build")
        assert build is None or (ROOT / build["dockerfile"]).exists()
        assert build is not None or "healthcheck" in service


def test_the_compose_file_configures_brokers_and_an_ensemble_that_differ_in_their_ids() -> None:
    services = yaml.safe_load((ROOT / "compose" / "compose.yaml").read_text())["services"]
    brokers = {name: each for name, each in services.items() if name.startswith("broker-")}
    zookeepers = {name: each for name, each in services.items() if name.startswith("zookeeper-")}

    assert len(brokers) == len(zookeepers) == 3
    for name, service in brokers.items():
        config = container_config(service["environment"]).broker
        [published] = service["ports"]
        assert name == f"broker-{config.broker_id}"
        assert service["hostname"] == config.listeners.advertised[0].host == name
        # Clients on the host reach the broker where it says that it is.
        assert config.listeners.advertised[1].host == "localhost"
        assert published == "127.0.0.1:{0}:{0}".format(config.listeners.advertised[1].port)
        assert {endpoint.host for endpoint in config.listeners.bound} == {"0.0.0.0"}
        assert all(zookeeper in config.zookeeper_connect for zookeeper in zookeepers)
        assert not config.warnings
    for name, service in zookeepers.items():
        own = service["environment"]["ZOO_MY_ID"]
        assert name == service["hostname"] == f"zookeeper-{own}"
        assert f"server.{own}={name}:" in service["environment"]["ZOO_SERVERS"]


def test_imports_between_packages_are_what_the_contracts_say(
    setup_cfg: configparser.ConfigParser,
) -> None:
    """lint-imports checks nothing for a module that a contract names and that does not exist."""
    named = [
        module
        for section in setup_cfg.sections()
        if section.startswith("importlinter:contract:")
        for option in ("source_modules", "allowed_importers")
        for module in setup_cfg[section].get(option, "").split()
    ]

    assert named
    for module in named:
        path = ROOT / re.sub(r"^zkcontroller_cli\b", "cli", module).replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__init__.py").exists(), module


def deviations() -> list[tuple[str, str, str]]:
    """(area, what is so here, its test) of every row of docs/deviations.md."""
    rows, area = [], ""
    for line in (ROOT / "docs" / "deviations.md").read_text().splitlines():
        area = line.removeprefix("## ") if line.startswith("## ") else area
        if line.startswith("| ") and not line.startswith("| here "):
            cells = line.strip("| ").split(" | ")
            rows.append((area, cells[0], cells[-1]))
    return rows


def named_tests(text: str) -> list[tuple[str, str]]:
    """(file, function) of every test that a text names."""
    return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)", text)


def test_every_deviation_names_its_test() -> None:
    rows = deviations()

    assert rows
    assert [(area, here) for area, here, test in rows if not named_tests(test)] == []


@pytest.mark.parametrize("document", ["docs/deviations.md", "docs/doctor.md", "docs/security.md"])
def test_every_test_that_a_document_names_exists(document: str) -> None:
    named = named_tests((ROOT / document).read_text())

    assert named
    assert [
        (file, name)
        for file, name in named
        if not (ROOT / file).exists()
        or not re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)
    ] == []


def guides() -> list[Path]:
    """The ``__init__.py`` of every package."""
    return [
        path.relative_to(ROOT)
        for folder in INSTALLED_FOLDERS
        for path in sorted((ROOT / folder).rglob("__init__.py"))
    ]


_TRACED = re.compile(r"(\w+)\.(\w+) ([\w/]+\.py):\d+")
"""A line of a trace in a document: a method and where it stands."""


def test_every_method_in_the_traces_of_the_documents_exists() -> None:
    traced = _TRACED.findall((ROOT / "docs/debugging.md").read_text())

    assert traced
    missing = [each for each in traced if not _has_method(*each)]
    assert missing == []


def _has_method(owner: str, method: str, path: str) -> bool:
    classes = (
        node for node in nodes(ROOT / path) if isinstance(node, ast.ClassDef) and node.name == owner
    )
    return any(
        isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and member.name == method
        for class_ in classes
        for member in class_.body
    )


@pytest.mark.parametrize("guide", guides(), ids=lambda path: str(path.parent))
def test_every_package_has_a_guide_to_modules_that_exist(guide: Path) -> None:
    text = (ROOT / guide).read_text()
    named = re.findall(r":mod:`\.(\w+)`", text)
    folder = ROOT / guide.parent

    assert len(text.splitlines()) >= 5, "a guide says what lives here and in which order to read it"
    assert [
        name
        for name in named
        if not (folder / f"{name}.py").exists() and not (folder / name / "__init__.py").exists()
    ] == []


def definitions(file: Path) -> set[str]:
    """What a module defines: classes, functions, names, and ``Class.method``."""
    found: set[str] = set()
    for node in parsed(file).body:
        match node:
            case ast.ClassDef():
                inner = (each for each in node.body if isinstance(each, FUNCTION))
                found |= {node.name, *(f"{node.name}.{each.name}" for each in inner)}
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.Assign(targets=targets):
                names = (each for target in targets for each in ast.walk(target))
                found |= {each.id for each in names if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case _:
                pass
    return found


def document_rows(document: str) -> list[tuple[str, str, list[str]]]:
    """(first cell, second cell, files of the last cell) of each row of a document's tables."""
    rows = []
    for line in (ROOT / document).read_text().splitlines():
        cells = line.strip("|").split(" | ")
        if line.startswith("| ") and len(cells) >= 3:
            rows.append((cells[0], cells[-2], re.findall(r"`([\w/]+\.py)`", cells[-1])))
    return [row for row in rows if row[2]]


NAME = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)?)`")


def test_the_glossary_is_long_enough_to_look_things_up() -> None:
    kafka_names = {
        name
        for first, _, _ in document_rows("docs/glossary.md")
        for name in re.findall(r"`([A-Z]\w+)(?:\.\w+)?`", first)
    }

    assert len(kafka_names) >= 120


NAMING_TABLES = ("docs/glossary.md", "docs/walkthrough-broker.md", "tests/README.md")


@pytest.mark.parametrize("document", NAMING_TABLES)
def test_every_name_of_a_table_is_defined_in_the_file_beside_it(document: str) -> None:
    rows = document_rows(document)

    assert rows
    assert [
        (first, name)
        for first, here, files in rows
        for name in NAME.findall(here)
        if name != "zkctl"
        and not any(name in definitions(ROOT / file) for file in files if (ROOT / file).exists())
    ] == []


@pytest.mark.parametrize("document", NAMING_TABLES)
def test_every_file_of_a_table_exists(document: str) -> None:
    named = [file for _, _, files in document_rows(document) for file in files]

    assert named
    assert [file for file in named if not (ROOT / file).exists()] == []


THREADS_AND_LOCKS = {
    *("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"),
    *("Thread", "ThreadPoolExecutor", "ProcessPoolExecutor"),
}


def makes_threads_or_locks(file: Path) -> bool:
    """Whether a module makes a thread, a pool or a lock, asyncio's included."""
    called = (node.func for node in nodes(file) if isinstance(node, ast.Call))
    names = (
        each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in called
    )
    return any(name in THREADS_AND_LOCKS for name in names)


def test_the_tables_of_threads_and_locks_name_every_module_that_makes_one() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("\n## Threads and locks\n")[2].partition("\n## ")[0]
    named = set(
        re.findall(r"`((?:zkcontroller\w*|replica_manager|kafka_\w+|kraft)/[\w/]+\.py)`", section)
    )

    making = {
        str(path)
        for path in modules()
        if path.parts[0] not in ("cli", "zkcontroller_testing")
        and makes_threads_or_locks(ROOT / path)
    }

    assert making == named


def anchors(document: Path) -> set[str]:
    """What a link may name behind its #: the headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_every_link_to_a_heading_leads_to_one(project_files: list[Path]) -> None:
    links = [
        (path, target, anchor)
        for path in project_files
        if path.suffix == ".md"
        for target, anchor in re.findall(r"\]\((?!https?://)([^)#\s]*)#([^)]+)\)", path.read_text())
    ]

    assert links
    assert [
        (path.relative_to(ROOT), target, anchor)
        for path, target, anchor in links
        if anchor not in anchors(path.parent / target if target else path)
    ] == []


def test_every_test_asserts_something() -> None:
    folders = ("tests", "benchmarks", "zkcontroller_simulation", "zkcontroller_testing")

    assert Suite(ROOT, folders).without_assertion() == []


def documentation(file: Path, is_wanted: Callable[[str], object]) -> list[str]:
    """The docstrings and comments of a module that are wanted.

    What a comment is needs the whole file, and half a second for some: so a line is looked at
    first from its first ``#`` on, which may be part of a string.
    """
    texts = [
        node.value.value
        for node in nodes(file)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    source = file.read_text()
    if any(is_wanted(line[line.index("#") :]) for line in source.splitlines() if "#" in line):
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        texts += [token.string for token in tokens if token.type == tokenize.COMMENT]
    return [text for text in texts if is_wanted(text)]


def retired_words(text: str) -> list[str]:
    """The retired words of a text, names in backticks left out."""
    return RETIRED_WORDS.findall(re.sub(r"`+[^`]*`+", "", text))


def test_retired_words_do_not_come_back() -> None:
    found = {
        str(path.relative_to(ROOT)): words
        for folder in (*INSTALLED_FOLDERS, "tests", "benchmarks", "scripts", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if RETIRED_WORDS.search(path.read_text())
        and (
            words := [
                word
                for text in documentation(path, RETIRED_WORDS.search)
                for word in retired_words(text)
            ]
        )
    }

    assert found == {}


def test_retired_words_do_not_come_back_in_documents() -> None:
    found = {
        str(path.relative_to(ROOT)): words
        for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
        if (words := retired_words(_prose(path.read_text())))
    }

    assert found == {}


def _prose(document: str) -> str:
    """A document without its blocks of code and the targets of its links."""
    return re.sub(r"```.*?```|\]\([^)]*\)", "", document, flags=re.DOTALL)


NAMED_FILE = re.compile(r"(?<![\w/.*<>{}-])[\w./-]*\w\.(?:py|md)\b")
NOT_OF_THE_PROJECT = {
    "report.md",  # what `zkctl history report` writes
    *("hang.py", "stale.py", "remnant.py", "fill.py"),  # scripts that docs/drill.md shows
    "trace_broker.py",  # a script that docs/debugging.md shows
    "test_killed.py",  # what `zkctl lab --save-test` writes
    "zkcontroller_cli/histories/job.py",  # a path inside an installed package
}


def test_every_file_that_a_docstring_or_a_document_names_exists(project_files: list[Path]) -> None:
    paths = {str(path.relative_to(ROOT)) for path in project_files}
    endings = {
        "/".join(path.split("/")[at:]) for path in paths for at in range(path.count("/") + 1)
    }

    def missing(text: str) -> set[str]:
        named = {name.lstrip("./") for name in NAMED_FILE.findall(text)}
        return named - endings - NOT_OF_THE_PROJECT

    unknown: dict[str, set[str]] = {}
    for path in project_files:
        # The changelog may name files of earlier versions.
        if path.suffix not in (".py", ".md") or path.name == "CHANGELOG.md":
            continue
        names = missing(path.read_text())
        if names and path.suffix == ".py":
            names = set().union(*map(missing, documentation(path, missing)))
        if names:
            unknown[str(path.relative_to(ROOT))] = names

    assert unknown == {}


USED_ELSEWHERE = {
    "heap_size": "shows tests that timers are taken back",
    **dict.fromkeys(("connection_count", "unfinished_count"), "shows tests what clients leave"),
    **dict.fromkeys(("watched", "under_way"), "shows tests that nothing is waited for any more"),
    "do_GET": "http.server calls it",
    "serialize": "kazoo's Connection calls it",
    "import_kio_types": "kafka_common/__init__.py calls it, before anything else is imported",
}
"""What is public and what the product itself does not use, each with its reason."""


def kit_interface() -> set[str]:
    """What docs/testing.md offers to tests, and the hooks by which pytest calls the plugin."""
    text = (ROOT / "docs" / "testing.md").read_text()
    code = [*re.findall(r"```python\n(.*?)```", text, re.DOTALL), *re.findall(r"`([^`\n]+)`", text)]
    return {
        *re.findall(r"\w+", " ".join(code)),
        *("pytest_addoption", "pytest_configure", "pytest_fixture_setup"),
        *("pytest_runtest_makereport", "pytest_runtest_protocol"),
    }


def test_no_test_module_imports_from_another() -> None:
    imports = re.compile(r"^\s*(?:from|import) tests\.(?:\w+\.)*test_\w+", re.MULTILINE)
    files = (ROOT / "tests").rglob("*.py")
    found = {str(path): those for path in files if (those := imports.findall(path.read_text()))}

    assert found == {}


ON_A_BARE_DEBIAN = {"bash", "env", "git", "make"}


def programs_run(file: Path) -> Iterator[str]:
    """What :mod:`subprocess` is asked to run by its name."""
    for call in nodes(file):
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("subprocess."):
            first = next(iter(getattr(next(iter(call.args), None), "elts", ())), None)
            if isinstance(first, ast.Constant):
                yield str(first.value)


def test_make_test_looks_for_a_program_that_not_every_machine_has() -> None:
    files = ((path, path.read_text()) for path in (ROOT / "tests").rglob("test_*.py"))
    wanting = {
        f"{path.relative_to(ROOT)}: {program}"
        for path, text in files
        if path.relative_to(ROOT / "tests").parts[0] not in leftovers.UNWATCHED
        and "subprocess" in text
        for program in programs_run(path)
        if program not in ON_A_BARE_DEBIAN and f'which("{program}")' not in text
    }

    assert wanting == set()


def names_in_tests() -> set[str]:
    """Every name that a test uses: the simulator is for tests as well as for the lab."""
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for path in (ROOT / "tests").rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Name | ast.Attribute)
    }


def _is_registered(definition: ast.stmt) -> bool:
    """Whether a library calls it: a command of click, or the override of a library's method."""
    decorators = map(ast.unparse, getattr(definition, "decorator_list", ()))
    calls = r"override$|[\w.]*(command|group)\(|pytest\.fixture"
    return any(re.match(calls, each) for each in decorators)


def _public_members(body: list[ast.stmt]) -> set[str]:
    """The public methods of the classes among statements, and the classes within them."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.ClassDef):
            found |= _public_members(node.body)
            found |= {
                member.name
                for member in node.body
                if isinstance(member, ast.ClassDef)
                or (isinstance(member, FUNCTION) and not _is_registered(member))
            }
    return {name for name in found if not name.startswith("_")}


def _public_definitions(tree: ast.Module) -> set[str]:
    """The public functions and classes of a module."""
    return {
        node.name
        for node in tree.body
        if isinstance(node, (*FUNCTION, ast.ClassDef))
        and not node.name.startswith("_")
        and not _is_registered(node)
    }


def _taken(file: Path, module: str) -> set[tuple[str, str]]:
    """Which names of which modules a module uses: its own, and those that it imports."""
    imported: dict[str, str] = {}
    taken: set[tuple[str, str]] = set()
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            source = importlib.util.resolve_name(relative, module.rpartition(".")[0])
            taken |= {(source, alias.name) for alias in node.names}
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{source}.{alias.name}"
    for node in nodes(file):
        match node:
            case ast.Name(id=name):
                taken.add((module, name))
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in imported:
                taken.add((imported[owner], name))
            case _:
                pass
    return taken


def test_the_product_uses_every_public_function_and_class_that_it_defines() -> None:
    """What a module defines is used there or imported from there; a method, under its name."""
    defined: set[tuple[str, str]] = set()
    members: set[str] = set()
    taken: set[tuple[str, str]] = set()
    attributes: set[str] = set()
    used_by_tests = names_in_tests()
    for path in modules():
        source = (ROOT / path).read_text()
        tree = parsed(ROOT / path)
        module = re.sub(r"^cli\b", "zkcontroller_cli", ".".join(path.with_suffix("").parts))
        not_used_here: set[str] = set()
        if path.parent.name == "handlers":  # the table of handlers has the modules
            not_used_here |= {"handle", "refuse", "read"}
        if path.parts[0] == "zkcontroller_testing":  # tests use it, as the page tells them
            not_used_here |= kit_interface()
        if path.parts[0] == "zkcontroller_simulation":
            not_used_here |= used_by_tests
        methods = _public_members(tree.body) - not_used_here
        if "from textual" in source:  # which calls these by their names
            methods = {name for name in methods if not name.startswith(("action_", "on_"))}
        members |= methods
        defined |= {(module, name) for name in _public_definitions(tree) - not_used_here}
        taken |= _taken(ROOT / path, module)
        for node in nodes(ROOT / path):
            match node:
                case ast.Attribute(attr=name):
                    attributes.add(name)
                case ast.MatchClass(kwd_attrs=names):
                    attributes.update(names)
                case _:
                    pass

    unused = {name for _, name in defined - taken} | members - attributes
    assert unused == set(USED_ELSEWHERE)


def test_no_two_public_classes_of_the_product_share_a_name() -> None:
    """A name that is looked up leads to one class.  Type aliases may repeat: they are local."""
    places: dict[str, list[str]] = {}
    for module in modules():
        for node in nodes(ROOT / module):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(f"{module}:{node.lineno}")
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert shared == {}


def test_no_table_has_a_key_twice() -> None:
    """The second row would replace the first without a word."""
    repeated = [
        f"{module}:{node.lineno}: {ast.unparse(key)}"
        for module in modules()
        for node in nodes(ROOT / module)
        if isinstance(node, ast.Dict)
        for texts in [[ast.unparse(each) for each in node.keys if each is not None]]
        if len(set(texts)) < len(texts)
        for key in node.keys
        if key is not None and texts.count(ast.unparse(key)) > 1
    ]
    assert repeated == []


def test_what_tests_take_from_zkctl_by_name_is_there() -> None:
    """Tests import the installed ``zkcontroller_cli`` by name, which mypy does not follow."""
    missing = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if "zkcontroller_cli" not in path.read_text():
            continue
        modules_of = {
            name: module
            for node in nodes(path)
            if isinstance(node, ast.AnnAssign | ast.Assign)
            for name, module in _imported_by_name(node)
        }
        for node in nodes(path):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in modules_of:
                    module = modules_of[name]
                    if not hasattr(importlib.import_module(module), attribute):
                        missing.append(f"{path.relative_to(ROOT)}:{node.lineno} {attribute}")
                case _:
                    pass
    assert missing == []


def _imported_by_name(assignment: ast.AnnAssign | ast.Assign) -> Iterator[tuple[str, str]]:
    """The name and the module of ``name = import_module("zkcontroller_cli.…")``."""
    targets = [assignment.target] if isinstance(assignment, ast.AnnAssign) else assignment.targets
    match targets, assignment.value:
        case (
            [ast.Name(id=name)],
            ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(module))]),
        ) if module.startswith("zkcontroller_cli"):
            yield name, module
        case _:
            pass


RETIRED_IN_NAMES = re.compile(
    r"(?:^|_)(?:deeds?|desks?|story|stories|duty|duties|told|hears?|heard|news|"
    r"(?:some|no|every)body|who(?:m)?ever)(?:_|$)"
    r"|(?:Deed|Desk|Dut(?:y|ies)|News|Stor(?:y|ies)|Told)(?![a-z])"
)


def test_no_function_class_or_test_is_named_by_a_retired_word() -> None:
    names = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for folder in (*INSTALLED_FOLDERS, "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in nodes(path)
        if isinstance(node, (*FUNCTION, ast.ClassDef))
        and (folder != "tests" or node.name.startswith("test_"))
        and RETIRED_IN_NAMES.search(node.name)
    ]

    assert names == []


def test_no_module_beside_the_job_of_spark_submit_hides_one_of_pythons_own() -> None:
    """``spark-submit`` runs a file of this folder as a script, and so looks there first."""
    names = {path.stem for path in (ROOT / "cli" / "histories").glob("*.py")}

    assert names & sys.stdlib_module_names == set()


def test_what_make_test_runs_is_watched_for_leftovers(
    setup_cfg: configparser.ConfigParser,
) -> None:
    left_out = set(re.findall(r"not (\w+)", setup_cfg["tool:pytest"]["addopts"]))

    assert left_out >= leftovers.UNWATCHED
