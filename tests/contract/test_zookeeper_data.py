"""Znodes, versions, batches and transactions: what both ZooKeepers must agree on."""

from __future__ import annotations

import pytest

from kafka_common.errors import ControllerMoved, ZooKeeperRefused
from tests.contract.conftest import Client, ZooKeeper
from zkcontroller.zookeeper.requests import (
    Check,
    CheckExists,
    Committed,
    Create,
    Delete,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    RolledBack,
    SetData,
    Stat,
    UnfencedBatch,
    Write,
    Written,
    ZkCode,
    ZkTransaction,
    Znode,
)


def write(client: Client, *operations: Write) -> list[Written | ZkCode]:
    results: list[Written | ZkCode] = client.perform(UnfencedBatch(operations))
    return results


def read(client: Client, path: str) -> Znode | ZkCode:
    result: Znode | ZkCode = client.perform(ReadZnodes([path]))[0]
    return result


def stat(client: Client, path: str) -> Stat:
    result = client.perform(CheckExists([path]))[0]
    assert isinstance(result, Stat)
    return result


def test_a_new_znode_is_at_version_zero_and_every_write_counts_one_up(client: Client) -> None:
    assert write(client, Create("/a", b"one")) == [Written("/a", 0, -1)]
    czxid = stat(client, "/a").czxid

    assert write(client, SetData("/a", b"two", 0), SetData("/a", b"three")) == [
        Written("/a", 1, czxid),
        Written("/a", 2, czxid),
    ]
    assert read(client, "/a") == Znode(b"three", 2, czxid, 0)


def test_a_write_at_another_version_is_refused(client: Client) -> None:
    write(client, Create("/a", b"x"))

    assert write(client, SetData("/a", b"y", 3), Delete("/a", 3)) == [
        ZkCode.BAD_VERSION,
        ZkCode.BAD_VERSION,
    ]
    assert write(client, SetData("/b", b"y"), Delete("/b")) == [ZkCode.NO_NODE, ZkCode.NO_NODE]
    assert write(client, Delete("/a", 0)) == [Written("/a", -1, -1)]
    assert read(client, "/a") is ZkCode.NO_NODE


def test_null_data_reads_as_empty_and_so_does_empty_data(client: Client) -> None:
    write(client, Create("/null"), Create("/empty", b""), Create("/both", b"x"))
    write(client, SetData("/both", None))

    found = client.perform(ReadZnodes(["/null", "/empty", "/both"]))

    assert [znode.data for znode in found] == [b"", b"", b""]
    assert stat(client, "/null").data_length == 0


def test_many_paths_are_answered_in_order_whether_they_exist_or_not(client: Client) -> None:
    write(client, *(Create(f"/n{number}", b"%d" % number) for number in range(0, 200, 2)))

    found = client.perform(ReadZnodes([f"/n{number}" for number in range(200)]))
    stats = client.perform(CheckExists([f"/n{number}" for number in range(200)]))

    for number in range(200):
        if number % 2:
            assert found[number] is ZkCode.NO_NODE
            assert stats[number] is ZkCode.NO_NODE
        else:
            assert found[number].data == b"%d" % number
            assert stats[number].data_length == len(b"%d" % number)
            assert stats[number].czxid == found[number].czxid


def test_children_are_listed_in_any_order(client: Client) -> None:
    write(client, Create("/p"), Create("/p/b"), Create("/p/a"), Create("/p/a/deep"), Create("/q"))

    first, second, third, fourth = client.perform(ListChildren(["/p", "/p/a", "/q", "/nope"]))

    assert sorted(first) == ["a", "b"]
    assert second == ["deep"]
    assert third == []
    assert fourth is ZkCode.NO_NODE
    assert sorted(client.perform(ListChildren(["/"]))[0]) == ["p", "q"]
    assert stat(client, "/p").num_children == 2


def test_children_of_many_znodes_are_listed_in_one_question(client: Client) -> None:
    write(client, *(Create(f"/t{number}") for number in range(60)))
    write(client, *(Create(f"/t{number}/c{number}") for number in range(60)))

    listed = client.perform(ListChildren([f"/t{number}" for number in range(61)]))

    assert listed == [[f"c{number}"] for number in range(60)] + [ZkCode.NO_NODE]


def test_a_parent_must_exist_may_not_be_ephemeral_and_goes_last(client: Client) -> None:
    write(client, Create("/p"), Create("/p/c"), Create("/e", b"", ephemeral=True))

    assert write(client, Create("/x/y"), Create("/e/c"), Delete("/p"), Create("/p")) == [
        ZkCode.NO_NODE,
        ZkCode.NO_CHILDREN_FOR_EPHEMERALS,
        ZkCode.NOT_EMPTY,
        ZkCode.NODE_EXISTS,
    ]


def test_sequential_znodes_are_numbered_by_their_parent(client: Client, other: Client) -> None:
    write(client, Create("/s"))
    first = write(client, Create("/s/n_", b"", sequential=True))[0]
    second = write(other, Create("/s/n_", b"", sequential=True))[0]

    assert first == Written("/s/n_0000000000", 0, -1)
    assert second == Written("/s/n_0000000001", 0, -1)


def test_ephemerals_name_their_session_and_end_with_it(
    zookeeper: ZooKeeper, client: Client, other: Client
) -> None:
    write(client, Create("/a", b"", ephemeral=True), Create("/b", b""))

    assert stat(other, "/a").ephemeral_owner == client.session.session_id
    found = read(other, "/a")
    assert isinstance(found, Znode)
    assert found.ephemeral_owner == client.session.session_id
    zookeeper.expire(client)

    assert read(other, "/a") is ZkCode.NO_NODE
    assert isinstance(read(other, "/b"), Znode)


def test_closing_a_session_ends_its_ephemerals(zookeeper: ZooKeeper, other: Client) -> None:
    closing = zookeeper.connect()
    write(closing, Create("/a", b"", ephemeral=True))

    closing.session.close()

    assert read(other, "/a") is ZkCode.NO_NODE


def test_one_refused_operation_does_not_stop_the_others(client: Client) -> None:
    write(client, Create("/exists"), Create("/v", b""), SetData("/v", b""))

    results = write(
        client,
        Create("/a"),
        Create("/exists"),
        SetData("/v", b"old", 0),
        Create("/b"),
        Create("/exists/child"),
        SetData("/v", b"new", 1),
        Delete("/nope"),
        Create("/c"),
    )

    czxid = stat(client, "/v").czxid
    assert results == [
        Written("/a", 0, -1),
        ZkCode.NODE_EXISTS,
        ZkCode.BAD_VERSION,
        Written("/b", 0, -1),
        Written("/exists/child", 0, -1),
        Written("/v", 2, czxid),
        ZkCode.NO_NODE,
        Written("/c", 0, -1),
    ]


def test_a_child_lands_though_its_parent_was_there_and_a_later_refusal_depends_on_both(
    client: Client,
) -> None:
    write(client, Create("/p"))

    results = write(
        client,
        Create("/p"),
        Create("/p/c"),
        Create("/p/c"),
        Delete("/p"),
        Create("/p/c/d"),
        Delete("/p/c/d"),
        Delete("/p/c"),
        Delete("/p"),
        Delete("/p"),
    )

    assert results == [
        ZkCode.NODE_EXISTS,
        Written("/p/c", 0, -1),
        ZkCode.NODE_EXISTS,
        ZkCode.NOT_EMPTY,
        Written("/p/c/d", 0, -1),
        Written("/p/c/d", -1, -1),
        Written("/p/c", -1, -1),
        Written("/p", -1, -1),
        ZkCode.NO_NODE,
    ]


def test_in_a_large_batch_every_operation_gets_its_own_verdict(client: Client) -> None:
    write(client, Create("/p"), *(Create(f"/p/{number}") for number in range(0, 2500, 7)))

    results = write(client, *(Create(f"/p/{number}") for number in range(2500)))

    for number, result in enumerate(results):
        expected = ZkCode.NODE_EXISTS if number % 7 == 0 else Written(f"/p/{number}", 0, -1)
        assert result == expected
    assert stat(client, "/p").num_children == 2500


def test_writes_of_a_batch_happen_in_its_order(client: Client) -> None:
    rounds = 700
    operations: list[Write] = []
    for number in range(rounds):
        operations += (Create("/a", b"%d" % number), SetData("/a", b"x", 0), Delete("/a", 1))
    operations.append(Create("/a", b"last"))

    results = write(client, *operations)

    assert [result for result in results if isinstance(result, ZkCode)] == []
    found = read(client, "/a")
    assert isinstance(found, Znode)
    assert (found.data, found.zk_version) == (b"last", 0)


def test_a_fenced_write_lands_only_at_the_controller_epochs_version(client: Client) -> None:
    write(client, Create("/controller_epoch", b"1"), Create("/a", b""))

    done = client.perform(FencedBatch([SetData("/a", b"1"), Create("/a"), Create("/b")], 0))
    assert done == [Written("/a", 1, stat(client, "/a").czxid), -110, Written("/b", 0, -1)]
    write(client, SetData("/controller_epoch", b"2"))

    with pytest.raises(ControllerMoved) as moved:
        client.perform(FencedBatch([SetData("/a", b"2"), Delete("/b")], 0))
    assert str(moved.value) == ("Controller epoch zkVersion check fails. Expected zkVersion = 0")
    found = read(client, "/a")
    assert isinstance(found, Znode)
    assert found.data == b"1"
    assert isinstance(read(client, "/b"), Znode)


def test_a_fence_that_does_not_exist_is_an_error_of_its_own(client: Client) -> None:
    write(client, Create("/a", b""))

    with pytest.raises(ZooKeeperRefused, match="NO_NODE for /controller_epoch"):
        client.perform(FencedBatch([SetData("/a", b"x")], 0))


def test_an_empty_question_has_an_empty_answer(client: Client) -> None:
    assert client.perform(ReadZnodes([], watch=True)) == []
    assert client.perform(ListChildren([])) == []
    assert client.perform(CheckExists([])) == []
    assert client.perform(UnfencedBatch([])) == []
    assert client.perform(FencedBatch([], 5)) == []


def test_a_transaction_happens_whole(client: Client) -> None:
    write(client, Create("/epoch", b"1"))

    done = client.perform(
        ZkTransaction(
            [
                Check("/epoch", 0),
                Create("/p", b"p"),
                Create("/p/c", b"c", ephemeral=True),
                SetData("/epoch", b"2", 0),
                SetData("/p", b"q", 0),
                Delete("/p/c"),
            ]
        )
    )

    assert done == Committed(
        (
            Written("/epoch", 0, -1),
            Written("/p", 0, -1),
            Written("/p/c", 0, -1),
            Written("/epoch", 1, stat(client, "/epoch").czxid),
            Written("/p", 1, stat(client, "/p").czxid),
            Written("/p/c", -1, -1),
        )
    )


def test_a_transaction_that_fails_leaves_nothing_and_names_its_first_culprit(
    client: Client,
) -> None:
    write(client, Create("/epoch", b"1"), Create("/there"))

    assert client.perform(
        ZkTransaction([Create("/a"), SetData("/epoch", b"2", 0), Create("/there"), Delete("/nope")])
    ) == RolledBack(ZkCode.NODE_EXISTS, 2)
    assert client.perform(ZkTransaction([Check("/epoch", 4), Create("/a")])) == RolledBack(
        ZkCode.BAD_VERSION, 0
    )
    assert client.perform(ZkTransaction([Create("/a"), Check("/nope", 0)])) == RolledBack(
        ZkCode.NO_NODE, 1
    )
    assert read(client, "/a") is ZkCode.NO_NODE
    found = read(client, "/epoch")
    assert isinstance(found, Znode)
    assert (found.data, found.zk_version) == (b"1", 0)
