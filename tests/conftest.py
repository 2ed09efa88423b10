"""One ZooKeeper for all tests that need one, and the order in which files of tests run."""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from kazoo import retry as kazoo_retry
from kazoo.protocol import connection as kazoo_connection

from tests.file_seconds import FileSeconds
from tests.first_collection import FirstCollection
from tests.lanes import Lanes
from tests.processor_time import ProcessorTime
from tests.support import coroutine_tests
from tests.support.leftovers import CleanTree, Leftovers
from tests.support.sources import kept
from zkcontroller.zookeeper.container import ZooKeeperContainer
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller_testing.shared_server import SharedServer

_numbers = itertools.count()

# A shell's background job ignores SIGINT, and so would every process that a test starts and
# interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test, and no zkctl that a test starts, reads the contexts or the cache of the user.
os.environ["XDG_CONFIG_HOME"] = f"{os.devnull}/config"
os.environ["XDG_CACHE_HOME"] = f"{os.devnull}/cache"

# kazoo draws a random number before each ping, from a thread.  Hypothesis fails a test during which
# the global generator is used: it takes that for an example that differs from run to run.
kazoo_connection.random = kazoo_retry.random = Random()

# The same examples in every run: a run that fails must fail again.  Others come with
# pytest --hypothesis-profile=default.  No example has a time limit: a machine may be busy.  A
# failure prints the decorator that repeats its example alone.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("repeatable")


LONGEST: Final = (
    "integration/test_doctor_causes.py",
    "integration/test_clients_admin.py",
    "integration/test_deletion.py",
    "integration/test_broker_process.py",
    "integration/test_kit_verbs.py",
    "integration/test_cli_lifecycle.py",
    "integration/test_cli_moves.py",
    "integration/test_cli_truth.py",
    "integration/test_doctor_servers.py",
    "integration/test_transaction_failover.py",
    "integration/test_cli_cluster.py",
    "integration/test_doctor.py",
    "integration/test_prometheus.py",
    "integration/test_top.py",
    "integration/test_records.py",
    "integration/test_zookeeper_security.py",
    "clients/test_confluent_transactions.py",
    "tests/test_house.py",
)
"""The files that take longest: whichever of them runs last keeps one worker alone."""
LONGEST_FIRST: Final = "longest-first"
FOLDERS_NAMED_LIKE_THEIR_MARKER: Final = frozenset({"attack", "peers"})
"""Every test of these has the marker of the folder's name."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--order``: the order of the test files, which no test may depend on."""
    parser.addoption(
        "--order",
        default=LONGEST_FIRST,
        help=f"order of test files: {LONGEST_FIRST}, reverse, or a number that seeds a shuffle",
    )
    parser.addoption(
        "--processor-time",
        action="store_true",
        help="show at the end which files of tests used most processor time",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Runs coroutines, watches what tests leave behind and how long files take, and what else."""
    if not config.getoption("--hypothesis-profile"):
        # Hypothesis tries constants out of all modules that are imported, so that the examples of
        # a test would depend on the tests that its worker has run before.  It would also look for
        # them in a thousand files, in each worker.
        setattr(providers, "_get_local_constants", Constants)  # noqa: B010 - not its type
    config.pluginmanager.register(coroutine_tests)
    config.pluginmanager.register(Leftovers())
    config.pluginmanager.register(FirstCollection(config))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FileSeconds())
        config.pluginmanager.register(CleanTree(config.rootpath))
    if config.getoption("--processor-time"):
        config.pluginmanager.register(ProcessorTime())


def left_out_as_a_whole(path: Path, expression: str) -> str | None:
    """The marker of every test below ``path`` with which the expression of ``-m`` deselects them.

    None where some test there may run, or where only its import could tell.
    """
    if path.is_dir():
        found = path.name if path.name in FOLDERS_NAMED_LIKE_THEIR_MARKER else None
    elif path.name.startswith("test_") and path.suffix == ".py":
        marked = re.search(
            r"^pytestmark = \[?\s*pytest\.mark\.(\w+)", path.read_text(), re.MULTILINE
        )
        found = marked and marked[1]
    else:
        return None
    if " or " not in expression and f"not {found}" in expression.split(" and "):
        return found
    return None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Does not import files of which ``-m`` deselects every test; one in four has large imports.

    What the command line names is collected all the same, and pytest says that it is deselected.
    """
    expression: str = config.getoption("markexpr")
    if left_out_as_a_whole(collection_path, expression) is None:
        return None
    named = [Path(argument.partition("::")[0]).absolute() for argument in config.args]
    if any(path == collection_path or collection_path in path.parents for path in named):
        return None
    return True


def running_order(files: Sequence[Path], order: str = LONGEST_FIRST) -> list[Path]:
    """The order in which ``files`` run: the longest first.

    ``order`` may also be ``reverse`` or the seed of a shuffle.  Raises ``ValueError`` for another.
    """
    if order == "reverse":
        return list(reversed(files))
    if order != LONGEST_FIRST:
        return Random(int(order)).sample(list(files), len(files))
    longest = {name: place for place, name in enumerate(LONGEST)}
    return sorted(files, key=lambda file: longest.get(_short_name(file), len(LONGEST)))


def _short_name(file: Path) -> str:
    return "/".join(file.parts[-2:])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the files into their order; the tests of one file stay as they are."""
    order: str = config.getoption("--order")
    files = list(dict.fromkeys(item.path for item in items))
    try:
        places = {file: place for place, file in enumerate(running_order(files, order))}
    except ValueError:
        message = f"--order is {LONGEST_FIRST}, reverse or a number, not {order!r}"
        raise pytest.UsageError(message) from None
    items.sort(key=lambda item: places[item.path])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes | None:
    """With ``--dist loadfile``, some workers wait while others compute."""
    return Lanes(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Looks for garbage neither during the collection nor, afterwards, in what it left.

    It makes millions of objects, and nearly all of them stay until the run ends.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def zookeeper_connect(request: pytest.FixtureRequest) -> Iterator[str]:
    """``host:port`` of a ZooKeeper that lives as long as the test run, one for all workers.

    With ``ZKCONTROLLER_TEST_ZOOKEEPER=container`` it is one in Docker, else that of the kit.
    """
    if os.environ.get("ZKCONTROLLER_TEST_ZOOKEEPER") == "container":
        with ZooKeeperContainer() as container:
            yield container.connect
    else:
        server = SharedServer(request.getfixturevalue("kafka_shared_zookeeper"))
        yield server.acquire()
        server.release()


@pytest.fixture(scope="module")
def files_parsed_once() -> Iterator[None]:
    """For files whose tests look at the same code again and again."""
    with kept():
        yield


@pytest.fixture
def chroot() -> str:
    """A path below the server's root that no one else uses; it does not exist yet."""
    return f"/test-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{next(_numbers)}"


@pytest.fixture
def own_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper for one test alone, which may kill and restart it."""
    server = EmbeddedZooKeeper(tmp_path_factory.mktemp("own-zookeeper"))
    server.start()
    yield server
    server.kill()
