"""One ZooKeeper for all tests that need one, and the order in which files of tests run."""

from __future__ import annotations

import gc
import itertools
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from zkcontroller.zookeeper.container import ContainerZooKeeper
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

_numbers = itertools.count()

# A shell's background job ignores SIGINT, and so would every process that a test starts and
# interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run: a run that fails must fail again.  Others come with
# pytest --hypothesis-profile=default.  No example has a time limit: a machine may be busy.  A
# failure prints the decorator that repeats its example alone.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("repeatable")


LONGEST: Final = (
    "integration/test_forced_elections.py",
    "integration/test_broker_process.py",
    "integration/test_cli_cluster.py",
    "simulation/test_mutations.py",
    "integration/test_transaction_failover.py",
)
"""The files that take longest, by far: whichever of them runs last keeps one worker alone."""
LONG_FOLDERS: Final = ("integration", "clients")
"""Those whose tests start processes and wait for them."""


def running_order(file: Path) -> int:
    """The place of a file: files of a lower one run earlier, others as they were collected."""
    name = "/".join(file.parts[-2:])
    if name in LONGEST:
        return LONGEST.index(name)
    return len(LONGEST) + (file.parent.name not in LONG_FOLDERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first, so that the workers end at about the same time."""
    items.sort(key=lambda item: running_order(item.path))


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
def zookeeper_connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of a ZooKeeper that lives as long as the test run.

    With ``ZKCONTROLLER_TEST_ZOOKEEPER=container`` it is one in Docker, else an embedded one.
    """
    if os.environ.get("ZKCONTROLLER_TEST_ZOOKEEPER") == "container":
        with ContainerZooKeeper() as container:
            yield container.connect
    else:
        with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
            yield server.connect


@pytest.fixture
def chroot() -> str:
    """A path below the server's root that no one else uses; it does not exist yet."""
    return f"/test-{next(_numbers)}"


@pytest.fixture
def own_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper for one test alone, which may kill and restart it."""
    server = EmbeddedZooKeeper(tmp_path_factory.mktemp("own-zookeeper"))
    server.start()
    yield server
    server.kill()
