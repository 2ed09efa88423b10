"""The pytest plugin: clusters as fixtures, and their state changes in reports of failed tests.

pytest imports this module in every run of every user, so it imports nothing but pytest.  The
cluster is imported when a test asks for it.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import pytest

if TYPE_CHECKING:
    from zkcontroller_testing.cluster import KafkaCluster

_MARKER: Final = "kafka_cluster"
_LINES_SHOWN: Final = 40
_Owner: TypeAlias = pytest.Item | pytest.FixtureRequest
_CLUSTERS: Final = pytest.StashKey[dict["KafkaCluster", _Owner]]()
"""The running clusters, each with the test or fixture with which it ends."""
_OWNERS: Final = pytest.StashKey[list[_Owner]]()
"""The running test and the fixtures that are being set up for it, innermost last."""
_OPTIONS: Final = {
    "kafka_brokers": "how many brokers a cluster has (default: 3)",
    "kafka_zookeeper": "embedded, shared, container, or HOST:PORT/CHROOT (default: shared)",
    "kafka_listeners": "what clients speak: plaintext (default), tls, sasl[_tls] or oauth[_tls]",
    "kafka_artefacts": "a folder for the logs of the clusters of failed tests",
}


class StartCluster(Protocol):
    """The type of ``kafka_cluster_factory``: starts a cluster, which ends with its test."""

    def __call__(self, brokers: int | None = None, **settings: Any) -> KafkaCluster: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the command-line options, and settings of the same names."""
    group = parser.getgroup("kafka_cluster", "real Kafka clusters as fixtures")
    for name, meaning in _OPTIONS.items():
        group.addoption(f"--{name.replace('_', '-')}", dest=name, help=meaning, metavar="VALUE")
        parser.addini(name, meaning)
    parser.addini("kafka_configs", "KEY=VALUE lines for every server.properties", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.stash[_CLUSTERS] = {}
    owners: list[_Owner] = []
    config.stash[_OWNERS] = owners
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(brokers=3, zookeeper='shared', listeners='plaintext', configs={{}}, "
        "broker_configs={}, disks={}): what cluster the fixture kafka_cluster starts for this test",
    )


@pytest.fixture(scope="session")
def kafka_shared_zookeeper(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The folder of the ZooKeeper that all workers of this run share; the last one ends it."""
    from zkcontroller_testing.shared_server import SharedServer

    root = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):  # a worker of pytest-xdist: the run's folder
        root = root.parent
    user = SharedServer(root / "kafka-zookeeper")
    user.acquire()
    yield root / "kafka-zookeeper"
    user.release()


@pytest.fixture(scope="session")
def kafka_cluster_factory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> StartCluster:
    """Starts clusters; each ends with the test that has started it, or with its fixture."""
    stash = request.config.stash

    def start(brokers: int | None = None, **settings: Any) -> KafkaCluster:
        cluster = _new_cluster(request, tmp_path_factory, brokers, settings)
        running = stash[_CLUSTERS]
        owner = stash[_OWNERS][-1]

        def end() -> None:
            del running[cluster]
            cluster.close()
            if not request.session.testsfailed:
                shutil.rmtree(cluster.directory, ignore_errors=True)

        running[cluster] = owner
        owner.addfinalizer(end)
        return cluster.start()

    return start


@pytest.fixture(scope="session")
def kafka_cluster_session(kafka_cluster_factory: StartCluster) -> KafkaCluster:
    """One cluster for all tests of this worker; each test must leave it as it found it."""
    return kafka_cluster_factory()


@pytest.fixture(scope="module")
def kafka_cluster_module(
    request: pytest.FixtureRequest, kafka_cluster_factory: StartCluster
) -> KafkaCluster:
    """One cluster for the tests of a file, which may have the marker; tests must not change it."""
    return kafka_cluster_factory(**_marked(request))


@pytest.fixture
def kafka_cluster(
    request: pytest.FixtureRequest, kafka_cluster_factory: StartCluster
) -> KafkaCluster:
    """A cluster for one test: three brokers, unless a marker or an option says otherwise."""
    return kafka_cluster_factory(**_marked(request))


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker(_MARKER)
    return dict(marker.kwargs) if marker else {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Makes a cluster that a test itself starts end with the test."""
    owners: list[_Owner] = [item]
    item.config.stash[_OWNERS] = owners
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """Makes a cluster that a fixture starts during its setup end with the fixture."""
    owners = request.config.stash[_OWNERS]
    owners.append(request)
    try:
        return (yield)
    finally:
        owners.pop()


def _new_cluster(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    brokers: int | None,
    settings: dict[str, Any],
) -> KafkaCluster:
    from zkcontroller_testing import KafkaCluster
    from zkcontroller_testing.zookeepers import SHARED

    config = request.config
    settings = dict(settings)
    zookeeper = settings.pop("zookeeper", None) or _setting(config, "kafka_zookeeper") or SHARED
    settings.setdefault("listeners", _setting(config, "kafka_listeners") or "plaintext")
    lines: list[str] = config.getini("kafka_configs")
    configs = dict(line.partition("=")[::2] for line in lines)
    shared = request.getfixturevalue("kafka_shared_zookeeper") if zookeeper == SHARED else None
    return KafkaCluster(
        brokers or _count(config),
        zookeeper,
        configs={**configs, **settings.pop("configs", {})},
        directory=tmp_path_factory.mktemp("kafka"),
        shared_directory=shared,
        **settings,
    )


def _setting(config: pytest.Config, name: str) -> str | None:
    """The value from the command line, else from the configuration file; None: neither has it."""
    found: str | None = config.getoption(name) or config.getini(name)
    return found or None


def _count(config: pytest.Config) -> int:
    text = _setting(config, "kafka_brokers") or "3"
    if not text.isdecimal():
        raise pytest.UsageError(f"kafka_brokers is a number, not {text!r}")
    return int(text)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the journal and state changes of its clusters to the report of a failed test."""
    report = yield
    if report.failed and call.when != "teardown":
        for cluster in _clusters_of(item):
            report.sections.append(("kafka_cluster", _what_happened(item, cluster)))
    return report


def _clusters_of(item: pytest.Item) -> list[KafkaCluster]:
    names = getattr(item, "fixturenames", ())
    return [
        cluster
        for cluster, owner in item.config.stash[_CLUSTERS].items()
        if owner is item or getattr(owner, "fixturename", None) in names
    ]


def _what_happened(item: pytest.Item, cluster: KafkaCluster) -> str:
    try:
        folder = cluster.write_artefacts()
    except Exception as error:  # noqa: BLE001 - the test's own failure must be shown in any case
        return f"the artefacts of {cluster.directory} could not be written: {error!r}"
    kept = _setting(item.config, "kafka_artefacts")
    if kept:
        target = Path(kept) / f"{item.nodeid.translate(_UNSAFE)}-{folder.name}"
        # Leave out the brokers' data, which may be large.
        shutil.copytree(
            folder, target, ignore=shutil.ignore_patterns("data", "disk.img"), dirs_exist_ok=True
        )
        folder = target
    page = (folder / "state-changes.txt").read_text(encoding="utf-8").splitlines()
    journal = (folder / "journal.txt").read_text(encoding="utf-8").rstrip()
    return "\n".join(
        (
            f"logs, state changes and journal: {folder}",
            f"again: {_repeated(item)}",
            "",
            "what the test did:",
            journal,
            "",
            f"the last {_LINES_SHOWN} of {len(page)} lines of state-changes.txt:",
            *page[-_LINES_SHOWN:],
        )
    )


_UNSAFE: Final = str.maketrans(dict.fromkeys("/:[] ", "_"))


def _repeated(item: pytest.Item) -> str:
    """The command that runs this test alone, with the same cluster."""
    options = [
        f"--{name.replace('_', '-')}={value}"
        for name in _OPTIONS
        if (value := item.config.getoption(name)) is not None
    ]
    return shlex.join(["pytest", item.nodeid, *options])
