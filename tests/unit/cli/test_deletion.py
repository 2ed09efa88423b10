"""What holds a deletion up, what is safe then, and ``zkctl deletion`` on a ZooKeeper in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import pytest

from kafka_common.model import ReplicaAssignment
from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from zkcontroller.zookeeper.requests import ReadZnodes, SetData, ZkCode
from zkcontroller.zookeeper.znodes import (
    ControllerEpochZnode,
    ControllerZnode,
    DeleteTopicZnode,
    TopicZnode,
)

blockers: Any = import_module("zkcontroller_cli.deletions.blockers")
plans: Any = import_module("zkcontroller_cli.deletions.plan")
errors: Any = import_module("zkcontroller_cli.console.errors")
partitions: Any = import_module("zkcontroller_cli.znodes.partitions")

HERE: Final = ("-z", "zookeeper:2181")
OLD_MS: Final = 60_000


def view(number: int, *replicas: int, adding: Sequence[int] = ()) -> Any:
    assignment = ReplicaAssignment((*replicas, *adding), tuple(adding))
    return partitions.PartitionView("orders", number, assignment, None, None, False)


def held(*left: int, **more: Any) -> Any:
    """A broker that has these partitions still."""
    return blockers.BrokerReplicas(dict.fromkeys(left, 100), **more)


def deletion(
    *views: Any,
    live: Sequence[int] = (1, 2),
    age_ms: int = OLD_MS,
    brokers: Mapping[int, Any] | None = None,
    **more: Any,
) -> Any:
    """A deletion whose controller, broker 1, works."""
    given: dict[str, Any] = {
        "has_znode": True,
        "controller_id": 1,
        "controller_error": None,
        "is_enabled": True,
        **more,
    }
    return blockers.Deletion(
        topic="orders",
        mark=blockers.Mark(1_000, 77, 0),
        age_ms=age_ms,
        partitions=views or (view(0, 1, 2),),
        live_brokers=live,
        held=brokers or {},
        **given,
    )


def kinds(found: Any) -> list[str]:
    return [str(blocker.kind) for blocker in blockers.blockers_of(found)]


def refusal(found: Any, kept: str | None = None) -> str:
    with pytest.raises(errors.Refused) as refused:
        plans.plan_unblock(found, kept=kept)
    return str(refused.value)


def test_a_dead_broker_with_a_replica_is_named_with_both_ways_out() -> None:
    [blocker] = blockers.blockers_of(deletion(view(0, 1, 2), view(1, 3, 1)))

    assert (str(blocker.kind), blocker.broker_id) == ("dead_broker", 3)
    assert blocker.what == "broker 3 has replicas and is not alive"
    assert "start broker 3" in blocker.next_step
    assert "start an empty broker with the id 3" in blocker.next_step


def test_every_blocker_is_named_that_of_the_controller_first() -> None:
    found = deletion(
        view(0, 1, 2, adding=[3]),
        live=(1, 2),
        is_enabled=False,
        brokers={
            1: held(0, log_dir_errors=("/data: KAFKA_STORAGE_ERROR",)),
            2: blockers.BrokerReplicas(None, (), "it did not answer"),
        },
    )

    assert kinds(found) == [
        *("deletion_disabled", "dead_broker", "reassignment"),
        *("offline_log_dir", "silent_broker"),
    ]
    assert kinds(deletion(controller_id=None)) == ["no_controller"]
    assert kinds(deletion(controller_error="broker 1 did not answer in time")) == [
        "silent_controller"
    ]


def test_a_young_deletion_without_a_visible_blocker_is_under_way() -> None:
    young = deletion(age_ms=500, brokers={1: held(0), 2: held()})

    assert kinds(young) == []
    assert young.row()["is_blocked"] is False
    assert "nothing holds the deletion of orders up" in refusal(young)


def test_what_is_left_is_the_blocker_where_nothing_else_is() -> None:
    assert kinds(deletion(brokers={1: held(0), 2: held()})) == ["replicas_left"]
    assert kinds(deletion(brokers={1: held(), 2: held()})) == ["znodes_left"]
    [only_mark] = blockers.blockers_of(deletion(has_znode=False))
    assert "only the mark is left" in only_mark.what


def test_the_row_counts_what_each_broker_has_left() -> None:
    row = deletion(view(0, 1, 2), view(1, 2, 3), brokers={1: held(), 2: held(0, 1)}).row()

    assert row["brokers"] == [
        {
            "broker_id": broker,
            "is_alive": broker != 3,
            "replica_count": assigned,
            "left_count": left,
            "left_bytes": None if left is None else 100 * left,
            "error": None,
        }
        for broker, assigned, left in ((1, 1, 0), (2, 2, 2), (3, 1, None))
    ]
    assert (row["age_ms"], row["czxid"], row["zk_version"]) == (OLD_MS, 77, 0)


def test_another_controller_is_elected_where_this_one_does_not_go_on() -> None:
    for found in (
        deletion(brokers={1: held(0), 2: held()}),
        deletion(brokers={1: held(), 2: held()}),
        deletion(has_znode=False),
        deletion(controller_error="NOT_CONTROLLER", age_ms=1),
    ):
        plan = plans.plan_unblock(found, kept=None)

        assert plan.action is plans.UnblockAction.ELECT
        assert "delete /controller" in plan.steps[0]


def test_nothing_is_done_where_a_broker_a_disk_or_a_setting_is_needed() -> None:
    assert "start broker 3" in refusal(deletion(view(0, 1, 3)))
    assert "no controller" in refusal(deletion(controller_id=None))
    assert "delete.topic.enable=true" in refusal(deletion(is_enabled=False))
    silent = {2: blockers.BrokerReplicas(None, (), "it did not answer")}
    assert "look at broker 2" in refusal(deletion(brokers=silent))
    broken = {2: held(log_dir_errors=("/data: KAFKA_STORAGE_ERROR",))}
    assert "repair the disk" in refusal(deletion(brokers=broken))
    both = refusal(deletion(view(0, 3, 4)))
    assert "(1 more: zkctl deletion status orders)" in both


def test_a_reassignment_is_cancelled_also_if_its_new_broker_is_dead() -> None:
    for live in ((1, 2, 3), (1, 2)):
        plan = plans.plan_unblock(deletion(view(0, 1, 2, adding=[3]), live=live), kept=None)

        assert plan.action is plans.UnblockAction.CANCEL
        assert "cancel the moves of orders-0" in plan.steps[1]
        assert "delete topic orders again" in plan.steps[2]


def test_a_cancel_does_not_help_where_another_partition_needs_the_dead_broker() -> None:
    found = deletion(view(0, 1, 2, adding=[3]), view(1, 3, 1))

    assert "start broker 3" in refusal(found)


def test_a_topic_is_kept_only_if_its_name_is_typed_again() -> None:
    whole = deletion(brokers={1: held(0), 2: held(0)})

    plan = plans.plan_unblock(whole, kept="orders")

    assert plan.action is plans.UnblockAction.KEEP
    assert "delete the deletion mark /admin/delete_topics/orders at version 0" in plan.steps[0]
    with pytest.raises(errors.BadUsage, match="type its name again"):
        plans.plan_unblock(whole, kept="order")


def test_a_topic_is_kept_only_while_every_live_replica_is_there() -> None:
    lost = deletion(brokers={1: held(0), 2: held()})
    unknown = deletion(brokers={1: held(0), 2: blockers.BrokerReplicas(None, (), "silence")})
    not_asked = deletion(brokers={1: held(0)})
    young = deletion(age_ms=900, brokers={1: held(0), 2: held(0)})

    assert "broker 2 has deleted 1 of its 1 replicas" in refusal(lost, "orders")
    assert "is not known: it does not tell: silence" in refusal(unknown, "orders")
    assert "is not known: it is not asked" in refusal(not_asked, "orders")
    assert "may be deleted at this moment" in refusal(young, "orders")
    assert "its znode is gone" in refusal(deletion(has_znode=False), "orders")
    # What a dead broker has is not deleted while it is away.
    dead = deletion(live=(1,), brokers={1: held(0)})
    assert plans.plan_unblock(dead, kept="orders").action is plans.UnblockAction.KEEP


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


@pytest.fixture
def marked(zkctl: Zkctl) -> Zkctl:
    """Topic ``orders`` marked for deletion; its brokers are registered, and none listens."""
    furnish(zkctl)
    zkctl.create(DeleteTopicZnode.path("orders"))
    return zkctl


def test_status_shows_marks_with_their_blockers(marked: Zkctl) -> None:
    result = marked("deletion", "status", *HERE, "-o", "json", "--check")
    [row] = result.json

    assert result.exit_code == 1
    assert (row["topic"], row["partition_count"], row["is_blocked"]) == ("orders", 3, True)
    found = [each["kind"] for each in row["blockers"]]
    assert found == ["silent_controller", "dead_broker", "silent_broker"]
    assert [each["is_alive"] for each in row["brokers"]] == [True, True, False]


def test_status_without_marks_is_empty(zkctl: Zkctl) -> None:
    furnish(zkctl)

    result = zkctl("deletion", "status", *HERE, "-o", "json", "--check")
    named = zkctl("deletion", "status", "orders", *HERE)
    unknown = zkctl("deletion", "unblock", "lost", *HERE, "--dry-run")

    assert (result.exit_code, result.json) == (0, [])
    assert "no topic is marked for deletion" in result.stderr
    assert named.exit_code == 5
    assert "topic orders is not marked for deletion" in named.stderr
    assert (unknown.exit_code, "there is no such topic" in unknown.stderr) == (5, True)


def test_a_mark_without_a_topic_and_a_corrupt_topic_are_shown(zkctl: Zkctl) -> None:
    furnish(zkctl)
    zkctl.create(DeleteTopicZnode.path("lost"))
    zkctl.create(TopicZnode.path("bad"), b"\xff")
    zkctl.create(DeleteTopicZnode.path("bad"))

    result = zkctl("deletion", "status", *HERE, "-o", "json")

    assert [(row["topic"], row["partition_count"]) for row in result.json] == [
        *(("bad", 0), ("lost", 0)),
    ]
    assert "/brokers/topics/bad" in result.stderr


def test_unblock_changes_nothing_without_a_yes_or_where_it_is_refused(marked: Zkctl) -> None:
    unasked = marked("deletion", "unblock", "orders", *HERE)
    refused = marked("deletion", "unblock", "orders", *HERE, "--yes")
    mistyped = marked("deletion", "unblock", "orders", "--keep-topic", "other", *HERE, "--yes")

    assert (unasked.exit_code, "say --yes" in unasked.stderr) == (5, True)
    assert (refused.exit_code, "start broker 3" in refused.stderr) == (5, True)
    assert refused.stdout == ""
    assert mistyped.exit_code == 2
    paths = ["/controller", DeleteTopicZnode.path("orders"), TopicZnode.path("orders")]
    found = marked.session().perform(ReadZnodes(paths))
    assert not any(isinstance(each, ZkCode) for each in found)


def there(zkctl: Zkctl, topic: str) -> list[bool]:
    """Whether the topic, its mark and ``/controller`` are there."""
    paths = [TopicZnode.path(topic), DeleteTopicZnode.path(topic), ControllerZnode.PATH]
    found = zkctl.session().perform(ReadZnodes(paths))
    return [not isinstance(each, ZkCode) for each in found]


def put_marked(zkctl: Zkctl, topic: str, assignment: ReplicaAssignment) -> None:
    """A marked topic beside a controller that does not answer."""
    furnish(zkctl)
    zkctl.create(TopicZnode.path(topic), TopicZnode(None, {0: assignment}).encode())
    zkctl.create(DeleteTopicZnode.path(topic))


def test_a_silent_controller_is_deposed_and_the_mark_stays_for_the_next(zkctl: Zkctl) -> None:
    put_marked(zkctl, "lone", ReplicaAssignment((1,)))
    unblock = ("deletion", "unblock", "lone", *HERE, "--timeout", "0.3")

    planned = zkctl(*unblock, "--dry-run", "-o", "json")
    before = there(zkctl, "lone")
    done = zkctl(*unblock, "--yes")

    assert planned.json["action"] == "elect_controller"
    assert before == [True, True, True]
    # No broker of this ZooKeeper can take over.
    assert (done.exit_code, "no broker took over in time" in done.stderr) == (4, True)
    assert there(zkctl, "lone") == [True, True, False]


def test_nothing_is_done_if_the_controller_has_changed_since_the_plan(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_marked(zkctl, "lone", ReplicaAssignment((1,)))
    plan_unblock = plans.plan_unblock

    def plan_late(*arguments: Any, **more: Any) -> Any:
        plan = plan_unblock(*arguments, **more)
        epoch = SetData(ControllerEpochZnode.PATH, ControllerEpochZnode.encode(8))
        zkctl.session().write(epoch)
        return plan

    monkeypatch.setattr(plans, "plan_unblock", plan_late)

    done = zkctl("deletion", "unblock", "lone", *HERE, "--yes")

    assert (done.exit_code, "nothing was done: the controller" in done.stderr) == (5, True)
    assert there(zkctl, "lone") == [True, True, True]


def test_a_cancel_that_ends_midway_says_where_the_topic_stands(zkctl: Zkctl) -> None:
    put_marked(zkctl, "moving", ReplicaAssignment((1, 2), adding_replicas=(2,)))

    done = zkctl("deletion", "unblock", "moving", *HERE, "--timeout", "0.3", "--yes")

    assert done.exit_code == 4
    assert "no broker took over in time" in done.stderr
    assert "topic moving is not marked any more, and was to be deleted again" in done.stderr
    assert there(zkctl, "moving") == [True, False, False]
