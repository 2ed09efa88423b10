"""What changed from one snapshot to another: records, their fields, and when.

A znode holds only the time of its last change, not who made it.  A record whose znode was written
without a visible change is ``rewritten``.  For a secret, which no snapshot holds, this is the only
visible change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from kafka_common.json_values import JsonObject, JsonValue
from zkcontroller_cli.snapshots.file import KINDS, SavedMetadata, SnapshotRecord, Stamp

_DIGITS: Final = re.compile(r"([0-9]+)")

_Key = tuple[str, str]


class RecordChange(StrEnum):
    """How a record differs from the earlier one."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    RECREATED = "recreated"
    """The znode was deleted and created again."""
    REWRITTEN = "rewritten"
    """The znode was written, and its value in the snapshots is the same."""


class SnapshotChange(NamedTuple):
    """One changed field of a record; for ``added`` and ``removed`` the whole value (field None)."""

    kind: str
    name: str
    change: RecordChange
    field: str | None
    old: JsonValue
    new: JsonValue
    old_stamp: Stamp | None
    new_stamp: Stamp | None

    def row(self) -> JsonObject:
        """The row that ``snapshot diff`` shows."""
        old, new = self.old_stamp, self.new_stamp
        path = new.path if new is not None else old.path if old is not None else None
        return {
            "kind": self.kind,
            "name": self.name,
            "change": self.change.value,
            "field": self.field,
            "old": self.old,
            "new": self.new,
            # ZooKeeper keeps no time of a deletion.
            "changed_at_ms": None if new is None else new.mtime_ms,
            "path": path,
            "old_zk_version": None if old is None else old.zk_version,
            "new_zk_version": None if new is None else new.zk_version,
            "old_mzxid": None if old is None else old.mzxid,
            "new_mzxid": None if new is None else new.mzxid,
        }


def comparable_kinds(old: SavedMetadata, new: SavedMetadata) -> dict[str, str | None]:
    """By kind, None if it can be compared, else the reason: a snapshot does not have all of it."""
    reasons: dict[str, str | None] = {}
    for kind in KINDS:
        reasons[kind] = next(
            (
                f"not known in the {which} snapshot: {snapshot.not_known[kind]}"
                for which, snapshot in (("old", old), ("new", new))
                if kind in snapshot.not_known
            ),
            None,
        )
    return reasons


def changes(old: SavedMetadata, new: SavedMetadata, kinds: Collection[str]) -> list[SnapshotChange]:
    """Every change of records of these kinds, in the order of kinds and names."""
    is_mixed = old.header.source != new.header.source
    before = _by_key(old, kinds)
    after = _by_key(new, kinds)
    found: list[SnapshotChange] = []
    untouched: list[tuple[SnapshotRecord, SnapshotRecord]] = []
    for key in before.keys() | after.keys():
        was, now = before.get(key), after.get(key)
        if was is None or now is None:
            whole = _whole(was, now)
            # Brokers show no difference between an empty configuration and a missing one.
            if not is_mixed or whole.old or whole.new:
                found.append(whole)
        elif mine := list(_of_both(was, now)):
            found += mine
        else:
            untouched.append((was, now))
    # One znode may hold several records: if one of them has changed, the others are not rewritten.
    named = {each.row()["path"] for each in found}
    for was, now in untouched:
        if now.stamp is not None and now.stamp.path not in named and _is_rewritten(was, now):
            found.append(_change(RecordChange.REWRITTEN, was, now))
    return sorted(found, key=_order)


def summary(found: Collection[SnapshotChange]) -> list[str]:
    """For each kind a line such as ``topic: 2 added, 1 removed``, which counts records."""
    records = {(each.kind, each.name): each.change for each in found}
    counts = Counter((kind, change) for (kind, _), change in records.items())
    lines = []
    for kind in KINDS:
        parts = [f"{n:,} {change}" for change in RecordChange if (n := counts[kind, change])]
        if parts:
            lines.append(f"{kind}: {', '.join(parts)}")
    return lines


def _by_key(snapshot: SavedMetadata, kinds: Collection[str]) -> dict[_Key, SnapshotRecord]:
    return {(each.kind, each.name): each for each in snapshot.records if each.kind in kinds}


def _whole(was: SnapshotRecord | None, now: SnapshotRecord | None) -> SnapshotChange:
    shown = was or now
    assert shown is not None, "a key of one of the snapshots"
    return SnapshotChange(
        shown.kind,
        shown.name,
        RecordChange.REMOVED if now is None else RecordChange.ADDED,
        None,
        None if was is None else was.value,
        None if now is None else now.value,
        None if was is None else was.stamp,
        None if now is None else now.stamp,
    )


def _of_both(was: SnapshotRecord, now: SnapshotRecord) -> Iterator[SnapshotChange]:
    is_of_znodes = was.stamp is not None and now.stamp is not None
    is_recreated = is_of_znodes and was.stamp.czxid != now.stamp.czxid  # type: ignore[union-attr]
    change = RecordChange.RECREATED if is_recreated else RecordChange.CHANGED
    before, after = _flat(was.value), _flat(now.value)
    fields = before.keys() | after.keys()
    if (was.stamp is None) != (now.stamp is None):
        # One snapshot is from brokers, whose records have fewer fields.
        fields = before.keys() & after.keys()
    differing = [name for name in sorted(fields, key=_natural) if _differs(name, before, after)]
    for name in differing:
        yield _change(change, was, now)._replace(
            field=name, old=before.get(name), new=after.get(name)
        )
    if is_recreated and not differing:
        yield _change(change, was, now)


def _change(change: RecordChange, was: SnapshotRecord, now: SnapshotRecord) -> SnapshotChange:
    return SnapshotChange(now.kind, now.name, change, None, None, None, was.stamp, now.stamp)


def _differs(name: str, before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> bool:
    was, now = before.get(name), after.get(name)
    if name == "isr" and isinstance(was, list) and isinstance(now, list):
        return sorted(map(str, was)) != sorted(map(str, now))  # the order of the ISR means nothing
    return was != now or (name in before) != (name in after)


def _is_rewritten(was: SnapshotRecord, now: SnapshotRecord) -> bool:
    if was.stamp is None or now.stamp is None:
        return False
    return was.stamp.zk_version != now.stamp.zk_version


def _flat(value: JsonObject, prefix: str = "") -> dict[str, JsonValue]:
    """Values by path, such as ``partitions.3.replicas``; lists are not divided."""
    fields: dict[str, JsonValue] = {}
    for key, each in value.items():
        if isinstance(each, dict) and each:
            fields |= _flat(each, f"{prefix}{key}.")
        else:
            fields[f"{prefix}{key}"] = each
    return fields


def _order(each: SnapshotChange) -> tuple[int, list[str | int], list[str | int]]:
    return KINDS.index(each.kind), _natural(each.name), _natural(each.field or "")


def _natural(text: str) -> list[str | int]:
    """A sort key by which ``orders-9`` comes before ``orders-10``."""
    return [int(part) if part.isdecimal() else part for part in _DIGITS.split(text)]
