"""Names that are paths: nothing outside of the log directories is made, renamed or deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from kafka_common.protocol.api_versions import APIS, ApiKey
from tests.attack.campaign import Campaign
from tests.attack.checks import assert_harmless, assert_serving
from tests.attack.conftest import NewBroker
from tests.attack.shapes import Kind, message, slots
from tests.attack.targets import BrokerTarget
from tests.attack.values import useful
from tests.support.request_shapes import OFFERED
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession

FOLDER_MAKERS: Final = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA)


@pytest.fixture(scope="module")
def campaign(new_broker: NewBroker) -> Iterator[Campaign]:
    with closing(Campaign(new_broker())) as campaign:
        yield campaign


def hostile_names(target: BrokerTarget) -> list[str]:
    """Names that lead into the decoy tree, by its path or by a way out of the data folder.

    ``orders-0`` and ``sub`` stand in that tree: a partition 0 of ``…/orders`` would be the former.
    """
    decoy = target.decoy
    data = decoy.parent / "broker" / "data"
    assert data.is_dir()
    out = Path("..") / ".." / "decoy"
    assert (data / out).resolve() == decoy.resolve()
    return [
        *(f"{base}/{name}" for base in (decoy, out) for name in ("orders", "new", "sub/x", ".")),
        *("..", ".", "../x", "a/../../../decoy/orders", "orders\0", f"{out}/orders\0", "", "a/b"),
        *("a" * 250, "a" * 300, "ü" * 120, "a b", "a\nb", "~", "*", "a" * 30_000),
    ]


def naming(name: str) -> Callable[[str, str, str], Any]:
    """Values of a controller that commands this broker, with that name wherever one is wanted."""

    def value(api: str, path: str, kafka_type: str) -> Any:
        field = path.rpartition(".")[2]
        if kafka_type == "string" and field not in ("host_name", "host", "listener"):
            return name.encode()
        match field:
            case "controller_epoch":
                return 2**20
            case "type" | "leader_epoch" | "zk_version" | "partition_epoch":
                return 1
            case "delete_partition" | "delete_partitions" | "is_new":
                return True
            case _:
                return useful(api, path, kafka_type)

    return value


@pytest.mark.parametrize("api_key", FOLDER_MAKERS, ids=lambda key: key.name)
def test_a_controller_s_request_cannot_leave_the_log_directories(
    api_key: ApiKey, campaign: Campaign
) -> None:
    target = campaign.target
    assert isinstance(target, BrokerTarget)
    first, last = OFFERED[api_key]
    for name in hostile_names(target):
        for version in range(first, last + 1):
            shape = f"the name {name[:60]!r}"
            assert_harmless(campaign.send(message(api_key, version, naming(name), shape=shape)))

    assert_serving(target)


@pytest.mark.parametrize("api_key", OFFERED, ids=lambda key: APIS[key].name)
def test_no_name_in_any_request_leaves_the_log_directories(
    api_key: int, campaign: Campaign
) -> None:
    target = campaign.target
    assert isinstance(target, BrokerTarget)
    _, last = OFFERED[api_key]
    strings = [slot.path for slot in slots(api_key, last) if slot.kind is Kind.STRING]
    for name in hostile_names(target) if strings else ():
        shape = f"the name {name[:60]!r}"
        asked = message(api_key, last, naming(name), shape=shape)
        assert_harmless(campaign.send(asked, patience_s=5))

    assert_serving(target)


def test_no_topic_in_zookeeper_leaves_the_log_directories(new_broker: NewBroker) -> None:
    target = new_broker()
    session = ZooKeeperSession(ZooKeeperConfig(connect=target.zookeeper))
    session.start()
    try:
        for name in ("..", ".", "a b", "a" * 250, "a" * 300, "~", "*", "ü"):
            for path in (f"/brokers/topics/{name}", f"/config/topics/{name}"):
                session.write(Create(path, b'{"version":1,"partitions":{"0":[0]},"config":{}}'))
            session.write(Create(f"/admin/delete_topics/{name}", b""))
    finally:
        session.close()
    with closing(Campaign(target)) as other:
        row = other.send(message(ApiKey.METADATA, 12, useful))

    assert_harmless(row)
    assert_serving(target)
