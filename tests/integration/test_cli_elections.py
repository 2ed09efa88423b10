"""``zkctl controller elect`` where the next controller writes its epoch late, or never."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.conftest import Client
from tests.support.cli_world import CommandResult, zkctl_here
from zkcontroller.zookeeper.requests import Create, SetData, Written, Znode
from zkcontroller.zookeeper.znodes import ControllerEpochZnode, ControllerZnode
from zkcontroller_testing.waiting import until

pytestmark = pytest.mark.integration


@contextmanager
def old_controllers(direct: Client, *, late_s: float | None) -> Iterator[None]:
    """Broker 1 is controller in epoch 5; broker 2 is the next, in epoch 6 after ``late_s``."""
    for path, data in (
        (ControllerEpochZnode.PATH, b"5"),
        (ControllerZnode.PATH, ControllerZnode(1, 0).encode()),
    ):
        assert isinstance(direct.session.write(Create(path, data)), Written)

    def take_over() -> None:
        def is_gone() -> bool | None:
            return None if isinstance(direct.session.read(ControllerZnode.PATH), Znode) else True

        until(is_gone, lambda: "/controller is deleted", 30)
        direct.session.write(Create(ControllerZnode.PATH, ControllerZnode(2, 0).encode()))
        if late_s is not None:
            time.sleep(late_s)
            direct.session.write(SetData(ControllerEpochZnode.PATH, b"6"))

    next_one = threading.Thread(target=take_over)
    next_one.start()
    yield
    next_one.join()


def elect(zookeeper: str) -> CommandResult:
    return zkctl_here(
        *("-z", zookeeper, "-o", "json", "--timeout", "2", "controller", "elect", "--yes")
    )


def test_a_controller_that_writes_its_epoch_late_is_waited_for(
    direct: Client, zookeeper_connect: str, chroot: str
) -> None:
    with old_controllers(direct, late_s=0.5):
        elected = elect(zookeeper_connect + chroot)

    assert elected.exit_code == 0, elected.stderr
    assert (elected.json["controller_id"], elected.json["controller_epoch"]) == (2, 6)


def test_a_controller_without_an_epoch_of_its_own_was_not_elected(
    direct: Client, zookeeper_connect: str, chroot: str
) -> None:
    with old_controllers(direct, late_s=None):
        refused = elect(zookeeper_connect + chroot)

    assert refused.exit_code == 5
    assert "broker 2 is controller in epoch 5, which is not after 5" in refused.stderr
