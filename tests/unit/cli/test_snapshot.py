"""``zkctl snapshot``: what is saved is read back, and a diff names what was changed and no more."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.model import ReplicaAssignment, TopicPartition
from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from zkcontroller.zookeeper.delegation_token_znodes import DelegationTokenZnode
from zkcontroller.zookeeper.kafka_acl_znodes import AclZnode
from zkcontroller.zookeeper.requests import Delete, SetData, Stat, ZkCode
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ClusterIdZnode,
    ConfigZnode,
    DeleteTopicZnode,
    PartitionStateZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)

files: Any = import_module("zkcontroller_cli.snapshots.file")
diffs: Any = import_module("zkcontroller_cli.snapshots.differences")
errors: Any = import_module("zkcontroller_cli.console.errors")

AT: Final = ("-z", "zk:1", "-o", "json")
HEADER: Final = files.SavedHeader("the-cluster", 1_700_000_000_000, "ZooKeeper")

# Snapshots that are made up.

_texts = st.sampled_from(("", "orders", "orders-10", "orders-9", "größe", "a\n{}", "\x00", "x,y=z"))
_values = st.dictionaries(
    st.sampled_from(("leader", "rack", "retention.ms", "a.b")),
    st.none() | st.integers(-(2**53), 2**53) | _texts | st.lists(st.integers(0, 9), max_size=3),
    max_size=4,
)
_stamps = st.builds(
    lambda version, zxid: files.Stamp(f"/z/{zxid}", version, zxid, zxid + version, 5, 9),
    st.integers(0, 9),
    st.integers(1, 2**40),
)


@st.composite
def snapshots(draw: st.DrawFn) -> Any:
    """Records with different names and znodes."""
    keys = draw(st.sets(st.tuples(st.sampled_from(files.KINDS), _texts), max_size=4))
    records = [
        files.SnapshotRecord(
            kind, name, draw(_values), draw(_stamps)._replace(path=f"/{kind}/{index}")
        )
        for index, (kind, name) in enumerate(sorted(keys))
    ]
    return files.SavedMetadata(HEADER, records, draw(st.dictionaries(_texts, _texts, max_size=2)))


@given(snapshots())
def test_what_is_saved_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, snapshot: Any
) -> None:
    directory = tmp_path_factory.mktemp("saved")
    plain, packed = directory / "a.jsonl", directory / "a.jsonl.gz"

    files.save(snapshot, plain)
    files.save(snapshot, packed)

    assert files.load(plain) == files.load(packed) == snapshot
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert {path.name for path in directory.iterdir()} == {"a.jsonl", "a.jsonl.gz"}


@given(snapshots())
def test_nothing_changed_from_a_snapshot_to_itself(snapshot: Any) -> None:
    assert diffs.changes(snapshot, snapshot, files.KINDS) == []


Mutation = tuple[Any, set[tuple[Any, ...]]]


def mutated(draw: st.DrawFn, record: Any) -> tuple[Any | None, set[tuple[Any, ...]]]:
    """The record changed in one way, and what a diff must say of it."""
    key = (record.kind, record.name)
    stamp = record.stamp
    written = stamp._replace(zk_version=stamp.zk_version + 1, mzxid=stamp.mzxid + 1, mtime_ms=77)
    match draw(st.sampled_from(("none", "removed", "changed", "field", "rewritten", "recreated"))):
        case "removed":
            return None, {(*key, "removed", None)}
        case "changed":
            changed = record._replace(value={**record.value, "new field": 1}, stamp=written)
            return changed, {(*key, "changed", "new field")}
        case "field" if record.value:
            name = draw(st.sampled_from(sorted(record.value)))
            value = {k: v for k, v in record.value.items() if k != name}
            return record._replace(value=value, stamp=written), {(*key, "changed", name)}
        case "rewritten":
            return record._replace(stamp=written), {(*key, "rewritten", None)}
        case "recreated":
            again = stamp._replace(czxid=stamp.czxid + 5, mzxid=stamp.czxid + 5, zk_version=0)
            return record._replace(stamp=again), {(*key, "recreated", None)}
        case _:
            return record, set()


@given(snapshots(), st.data())
def test_a_diff_names_exactly_what_was_changed(snapshot: Any, data: st.DataObject) -> None:
    expected: set[tuple[Any, ...]] = set()
    records = []
    for record in snapshot.records:
        changed, told = data.draw(st.composite(mutated)(record))
        expected |= told
        records += [] if changed is None else [changed]
    names = {(each.kind, each.name) for each in snapshot.records}
    for kind in data.draw(st.sets(st.sampled_from(files.KINDS), max_size=2)):
        if (kind, "the new one") not in names:
            stamp = files.Stamp(f"/new/{kind}", 0, 2**50, 2**50, 1, 2)
            records.append(files.SnapshotRecord(kind, "the new one", {}, stamp))
            expected.add((kind, "the new one", "added", None))

    found = diffs.changes(snapshot, replace(snapshot, records=records), files.KINDS)

    assert {(each.kind, each.name, each.change.value, each.field) for each in found} == expected
    assert len(found) == len(expected)
    counted = sum(
        int(word) for line in diffs.summary(found) for word in line.split() if word.isdecimal()
    )
    assert counted == len({(kind, name) for kind, name, *_ in expected})


# Files that are not a whole snapshot.


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    stamp = files.Stamp("/brokers/topics/orders", 3, 5, 9, 1, 2)
    records = [
        files.SnapshotRecord("topic", "orders", {"topic_id": None, "partitions": {}}, stamp),
        files.SnapshotRecord("acl", "x", {}, None),
    ]
    path = tmp_path / "whole.jsonl"
    files.save(files.SavedMetadata(HEADER, records, {"quota": "why not"}), path)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(errors.BadUsage) as raised:
        files.load(path)
    return str(raised.value)


def test_a_file_cut_off_anywhere_is_refused(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    packed = gzip.compress(whole)
    cut = tmp_path / "cut"

    for length in range(len(whole) - 1):  # the last byte is the line's end
        cut.write_bytes(whole[:length])
        assert refusal(cut)
    for length in range(0, len(packed), 5):
        cut.write_bytes(packed[:length])
        assert refusal(cut)


@given(st.data())
def test_no_damage_raises_anything_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "a.jsonl"
    files.save(files.SavedMetadata(HEADER, [files.SnapshotRecord("acl", "x", {}, None)]), path)
    content = bytearray(path.read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[at] = data.draw(st.integers(0, 255))
    path.write_bytes(content)

    # Anything but a refusal would end this test.
    with contextlib.suppress(errors.BadUsage):
        assert len(files.load(path).records) <= 1


def edited(path: Path, line: int, change: Callable[[dict[str, Any]], None]) -> Path:
    lines = [orjson.loads(each) for each in path.read_bytes().splitlines()]
    change(lines[line])
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
    return path


def test_foreign_newer_and_wrong_files_are_refused_by_name(saved: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b'{"format":"other"}\n')
    assert "is no snapshot of zkctl" in refusal(foreign)
    foreign.write_bytes(b"\x00\x01 no text")
    assert "is no snapshot of zkctl" in refusal(foreign)
    foreign.write_bytes(b"")
    assert "is no snapshot of zkctl" in refusal(foreign)
    assert "cannot read" in refusal(tmp_path / "missing")
    content = saved.read_bytes()

    def says(line: int, change: Callable[[dict[str, Any]], None]) -> str:
        saved.write_bytes(content)
        return refusal(edited(saved, line, change))

    assert "written by a newer zkctl" in says(0, lambda each: each.update(version=2))
    assert "not the header" in says(0, lambda each: each.update(version=0))
    assert "not the header" in says(0, lambda each: each.pop("taken_at_ms"))
    assert "there is no kind" in says(1, lambda each: each.update(kind="secret"))
    assert "not a record" in says(1, lambda each: each.pop("value"))
    assert "stat is not complete" in says(1, lambda each: each.update(mzxid="9"))
    assert "should have 7" in says(-1, lambda each: each.update(record_count=7))
    saved.write_bytes(content + content)
    assert "goes on after its end" in refusal(saved)


def test_a_line_without_end_is_not_read_to_its_end(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_LINE_BYTES", 1000)
    saved.write_bytes(saved.read_bytes() + b"x" * 5000)
    content = saved.read_bytes().splitlines(keepends=True)
    saved.write_bytes(content[0] + b'{"kind":"' + b"x" * 5000)

    assert "line 2: longer than 1,000 bytes" in refusal(saved)


# Snapshots of a ZooKeeper in memory.


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    for zkctl in installed_zkctl(monkeypatch, capsys):
        furnish(zkctl)
        zkctl.create(ClusterIdZnode.PATH, ClusterIdZnode("the-cluster").encode())
        yield zkctl


SALTED: Final = "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=8192"


def furnish_security(zkctl: Zkctl) -> None:
    """Users, quotas, ACLs, tokens and broker configurations, some of them secret."""
    alice = {"SCRAM-SHA-256": SALTED, "producer_byte_rate": "1024.0"}
    zkctl.create(ConfigZnode.path("users/alice"), ConfigZnode(alice).encode())
    zkctl.create(ConfigZnode.path("users/bob/clients/app"), quota("2048"))
    zkctl.create(ConfigZnode.path("clients/<default>"), quota("7.5"))
    zkctl.create(ConfigZnode.path("ips/10.0.0.1"), quota("3"))
    broker = {
        "ssl.keystore.password": "encoded-secret",
        "listener.name.internal.ssl.key.password": "encoded-secret",
        "my.plugin.credential": "a-secret",
        "log.cleaner.threads": "2",
    }
    zkctl.create(ConfigZnode.broker_path(1), ConfigZnode(broker).encode())
    allow = AccessControlEntry("User:alice", "*", AclOperation.READ, PermissionType.ALLOW)
    orders = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.PREFIXED)
    zkctl.create(AclZnode.path(orders), AclZnode((allow,)).encode())
    token = DelegationTokenZnode("t1", "User:alice", "User:bob", (), 1, 3, 2)
    zkctl.create(DelegationTokenZnode.path("t1"), token.encode())
    zkctl.create(DeleteTopicZnode.path("old"))
    orders_0 = {TopicPartition("orders", 0): (2, 3)}
    zkctl.create(ReassignPartitionsZnode.PATH, ReassignPartitionsZnode(orders_0).encode())
    zkctl.create("/migration", b'{"version":0,"kraft_controller_id":9}')


def quota(rate: str) -> bytes:
    return ConfigZnode({"producer_byte_rate": rate}).encode()


def saved_rows(zkctl: Zkctl, path: Path) -> dict[tuple[str, str], Any]:
    done = zkctl("snapshot", "save", str(path), *AT)
    assert done.exit_code == 0, done.stderr
    shown = zkctl("snapshot", "show", str(path), "-o", "json")
    assert shown.exit_code == 0, shown.stderr
    assert len(shown.json) == done.json["record_count"]
    return {(row["kind"], row["name"]): row for row in shown.json}


def test_a_snapshot_has_every_part_with_the_versions_of_the_znodes(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    furnish_security(zkctl)
    path = PartitionStateZnode.path("orders", 0)
    zkctl.session().write(SetData(path, PartitionStateZnode(2, 5, (2,), 8).encode()))

    rows = saved_rows(zkctl, tmp_path / "a.jsonl.gz")

    assert rows["cluster", "cluster"]["value"] == {"cluster_id": "the-cluster"}
    assert rows["controller", "controller"]["value"]["controller_id"] == 1
    assert rows["controller_epoch", "controller_epoch"]["value"] == {"controller_epoch": 7}
    assert rows["broker", "2"]["value"]["endpoints"] == {"PLAINTEXT": "PLAINTEXT://127.0.0.1:9092"}
    assert rows["topic", "orders"]["value"]["partitions"]["2"] == {"replicas": [3, 2]}
    state = rows["partition", "orders-0"]
    assert (state["path"], state["zk_version"]) == (path, 1)
    assert state["mzxid"] > state["czxid"]
    assert state["value"] == {
        "leader": 2,
        "leader_epoch": 5,
        "isr": [2],
        "controller_epoch": 8,
        "leader_recovery_state": 0,
    }
    assert rows["topic_config", "orders"]["value"] == {"retention.ms": "1000"}
    assert rows["quota", "user=alice"]["value"] == {"producer_byte_rate": 1024}
    assert rows["quota", "user=bob,client-id=app"]["value"] == {"producer_byte_rate": 2048}
    assert rows["quota", "client-id=<default>"]["value"] == {"producer_byte_rate": 7.5}
    assert rows["quota", "ip=10.0.0.1"]["value"] == {"producer_byte_rate": 3}
    assert rows["scram_user", "alice"]["value"] == {"SCRAM-SHA-256": {"iterations": 8192}}
    rule = "Topic Prefixed orders: Allow User:alice Read from *"
    assert rows["acl", rule]["value"]["operation"] == "Read"
    assert rows["delegation_token", "t1"]["value"]["requester"] == "User:bob"
    assert ("deletion", "old") in rows
    assert rows["reassignment", "orders-0"]["value"] == {"replicas": [2, 3]}
    assert rows["migration", "migration"]["value"]["kraft_controller_id"] == 9


def test_no_secret_is_in_a_snapshot(zkctl: Zkctl, tmp_path: Path) -> None:
    furnish_security(zkctl)
    path = tmp_path / "a.jsonl"

    rows = saved_rows(zkctl, path)

    content = path.read_bytes()
    for secret in (b"c2FsdA", b"c3RvcmVk", b"c2VydmVy", b"encoded-secret", b"a-secret"):
        assert secret not in content
    assert rows["broker_config", "1"]["value"] == {
        "ssl.keystore.password": "(hidden)",
        "listener.name.internal.ssl.key.password": "(hidden)",
        "my.plugin.credential": "(hidden)",
        "log.cleaner.threads": "2",
    }


def test_a_new_password_is_seen_as_a_znode_written_again(zkctl: Zkctl, tmp_path: Path) -> None:
    furnish_security(zkctl)
    saved_rows(zkctl, tmp_path / "a")
    changed = {"SCRAM-SHA-256": SALTED.replace("c2", "d2"), "producer_byte_rate": "1024.0"}
    zkctl.session().write(SetData(ConfigZnode.path("users/alice"), ConfigZnode(changed).encode()))

    rows = zkctl("snapshot", "diff", str(tmp_path / "a"), "--live", *AT).json

    assert {(row["kind"], row["name"], row["change"]) for row in rows} == {
        ("quota", "user=alice", "rewritten"),
        ("scram_user", "alice", "rewritten"),
    }


def test_a_diff_says_what_changed_where_and_when(zkctl: Zkctl, tmp_path: Path) -> None:
    old = tmp_path / "monday.jsonl"
    saved_rows(zkctl, old)
    session = zkctl.session()
    config = ConfigZnode({"retention.ms": "2000", "segment.ms": "5"})
    session.write(SetData(ConfigZnode.topic_path("orders"), config.encode()))
    state = PartitionStateZnode.path("orders", 1)
    session.write(SetData(state, PartitionStateZnode(1, 6, (2, 1), 9).encode()))
    session.write(Delete(BrokerIdZnode.path(2)))
    topic = TopicZnode(None, {0: ReplicaAssignment((1,))})
    zkctl.create(TopicZnode.path("payments"), topic.encode())

    result = zkctl("snapshot", "diff", str(old), "--live", *AT)
    new = tmp_path / "tuesday.jsonl.gz"
    saved_rows(zkctl, new)
    from_files = zkctl("snapshot", "diff", str(old), str(new), "-o", "json")

    assert result.exit_code == from_files.exit_code == 1
    assert result.json == from_files.json
    rows = {(row["kind"], row["name"], row["change"], row["field"]): row for row in result.json}
    assert set(rows) == {
        ("broker", "2", "removed", None),
        ("topic", "payments", "added", None),
        ("partition", "orders-1", "changed", "leader"),
        ("partition", "orders-1", "changed", "leader_epoch"),
        ("partition", "orders-1", "changed", "isr"),
        ("partition", "orders-1", "changed", "controller_epoch"),
        ("topic_config", "orders", "changed", "retention.ms"),
        ("topic_config", "orders", "changed", "segment.ms"),
    }
    retention = rows["topic_config", "orders", "changed", "retention.ms"]
    stat = zkctl.session().exists(ConfigZnode.topic_path("orders"))
    assert isinstance(stat, Stat)
    assert (retention["old"], retention["new"]) == ("1000", "2000")
    assert (retention["old_zk_version"], retention["new_zk_version"]) == (0, 1)
    assert (retention["new_mzxid"], retention["changed_at_ms"]) == (stat.mzxid, stat.mtime_ms)
    assert rows["broker", "2", "removed", None]["changed_at_ms"] is None
    lines = result.stderr.splitlines()
    assert lines[1:] == [
        "broker: 1 removed",
        "topic: 1 added",
        "partition: 1 changed",
        "topic_config: 1 changed",
    ]


def test_a_diff_is_filtered_by_topic_and_kind(zkctl: Zkctl, tmp_path: Path) -> None:
    saved_rows(zkctl, tmp_path / "a")
    session = zkctl.session()
    session.write(SetData(ConfigZnode.topic_path("orders"), ConfigZnode({}).encode()))
    session.write(Delete(BrokerIdZnode.path(2)))

    def kinds(*arguments: str) -> list[str]:
        result = zkctl("snapshot", "diff", str(tmp_path / "a"), "--live", *AT, *arguments)
        return [row["kind"] for row in result.json]

    assert kinds() == ["broker", "topic_config"]
    assert kinds("--topic", "ord*") == ["topic_config"]
    assert kinds("--topic", "pay*") == []
    assert kinds("--kind", "broker") == ["broker"]
    wrong = zkctl("snapshot", "diff", str(tmp_path / "a"), "--live", "--kind", "x", *AT)
    assert wrong.exit_code == 2
    assert "--kind x: there are cluster, controller" in wrong.stderr


def test_a_diff_needs_one_other_side(zkctl: Zkctl, tmp_path: Path) -> None:
    saved_rows(zkctl, tmp_path / "a")
    old = str(tmp_path / "a")

    assert zkctl("snapshot", "diff", old, *AT).exit_code == 2
    assert zkctl("snapshot", "diff", old, old, "--live", *AT).exit_code == 2
    same = zkctl("snapshot", "diff", old, old)
    assert (same.exit_code, same.stderr.splitlines()[1:]) == (0, ["nothing changed"])


def test_a_corrupt_znode_is_recorded_as_such(zkctl: Zkctl, tmp_path: Path) -> None:
    session = zkctl.session()
    session.write(SetData(PartitionStateZnode.path("orders", 0), b"{"))
    zkctl.create(ConfigZnode.path("users/alice"), b'{"SCRAM-SHA-256": "half a secret')

    rows = saved_rows(zkctl, tmp_path / "a")

    assert rows["partition", "orders-0"]["value"]["is_corrupt"] is True
    assert rows["quota", "user=alice"]["value"] == {"is_corrupt": True}
    assert b"half a secret" not in (tmp_path / "a").read_bytes()


def test_a_snapshot_never_overwrites_a_file(zkctl: Zkctl, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("mine")

    refused = zkctl("snapshot", "save", str(there), *AT)
    nowhere = zkctl("snapshot", "save", str(tmp_path / "no" / "where"), *AT)

    assert (refused.exit_code, nowhere.exit_code) == (5, 5)
    assert there.read_text() == "mine"
    assert zkctl.connected_to == []


def test_what_zookeeper_does_not_show_is_named(
    zkctl: Zkctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish_security(zkctl)
    module = import_module("zkcontroller_cli.znodes.session")
    read = module.ZooKeeper.read

    def refusing(self: Any, paths: Any, **keywords: Any) -> Any:
        return [
            ZkCode.NO_AUTH if path.startswith("/config/users/") else result
            for path, result in zip(paths, read(self, paths, **keywords), strict=True)
        ]

    monkeypatch.setattr(module.ZooKeeper, "read", refusing)
    done = zkctl("snapshot", "save", str(tmp_path / "a"), *AT)

    assert done.exit_code == 0
    assert done.json["not_known"] == ["quota", "scram_user"]
    assert "not known: quota, scram_user: " in done.stderr
    monkeypatch.undo()


def test_a_znode_that_changes_while_it_is_read_has_the_version_of_its_data(
    zkctl: Zkctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written once between the read of its data and that of its stat."""
    module = import_module("zkcontroller_cli.znodes.session")
    stats = module.ZooKeeper.stats
    path = PartitionStateZnode.path("orders", 0)
    writes = [PartitionStateZnode(2, 5, (2,), 8).encode()]
    session = zkctl.session()

    def late(self: Any, paths: Any, **keywords: Any) -> Any:
        if path in paths and writes:
            session.write(SetData(path, writes.pop()))
        return stats(self, paths, **keywords)

    monkeypatch.setattr(module.ZooKeeper, "stats", late)
    row = saved_rows(zkctl, tmp_path / "a")["partition", "orders-0"]

    assert (row["zk_version"], row["value"]["leader_epoch"]) == (1, 5)


def test_a_snapshot_of_brokers_is_compared_in_what_both_know() -> None:
    stamp = files.Stamp("/p", 1, 2, 3, 4, 5)
    partition = {"leader": 1, "leader_epoch": 3, "isr": [1, 2], "controller_epoch": 7}
    old = files.SavedMetadata(
        HEADER,
        [
            files.SnapshotRecord("partition", "orders-0", partition, stamp),
            files.SnapshotRecord("controller_epoch", "c", {"controller_epoch": 7}, stamp),
            files.SnapshotRecord("broker_config", "1", {}, stamp),
        ],
    )
    told = {"leader": 2, "leader_epoch": 3, "isr": [2, 1]}
    new = files.SavedMetadata(
        replace(HEADER, source="brokers"),
        [files.SnapshotRecord("partition", "orders-0", told, None)],
        {"controller_epoch": "only ZooKeeper holds it"},
    )

    reasons = diffs.comparable_kinds(old, new)
    compared = {kind for kind, reason in reasons.items() if reason is None}
    found = diffs.changes(old, new, compared)

    assert "controller_epoch" not in compared
    assert [(each.name, each.field, each.old, each.new) for each in found] == [
        ("orders-0", "leader", 1, 2)
    ]
