"""One ZooKeeper for all tests that need one; each gets a chroot of its own."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator

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
# pytest --hypothesis-profile=default.  No example has a time limit: a machine may be busy.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


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
    """A path below the server's root that nobody else uses; it does not exist yet."""
    return f"/test-{next(_numbers)}"


@pytest.fixture
def own_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper for one test alone, which may kill and restart it."""
    server = EmbeddedZooKeeper(tmp_path_factory.mktemp("own-zookeeper"))
    server.start()
    yield server
    server.kill()
