"""The iteration order of Scala's and Java's hash maps.

Kafka writes its znodes by iterating over hash maps, so the order of JSON keys depends on the map's
class.  To write the same bytes, this module computes the order of the four classes Kafka uses:

* Scala 2.13 ``mutable.HashMap`` (partition ids in a topic znode),
* Scala 2.13 ``immutable.Map`` (listener names, finalized features),
* ``java.util.HashMap`` (features a broker supports),
* ``java.util.Properties`` of JDK 9 and later (the ``config`` of a config znode).

Readers never depend on the order.  The order of integer keys in an ``immutable.HashMap`` is here,
too: it is the order of brokers in which a controller changes replica states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from kafka_common.java import signed, string_hash

_Key = TypeVar("_Key")
_SCALA_LOAD_FACTOR: Final = 0.75
_SCALA_INITIAL_CAPACITY: Final = 16
_CHAMP_BITS: Final = 5
_CHAMP_MASK: Final = 31
_HASH_BITS: Final = 32
_SMALL_MAP: Final = 4
"""``Map1`` to ``Map4`` keep the order of insertion."""


def _spread(text: str) -> int:
    code = string_hash(text)
    return code ^ (code >> 16)


def mutable_hash_map_order(keys: Sequence[str]) -> list[str]:
    """The iteration order of a ``scala.collection.mutable.HashMap`` filled in that order.

    Source: Scala 2.13 ``mutable.HashMap``: within a bucket, nodes are sorted by their signed hash.
    """
    capacity = _SCALA_INITIAL_CAPACITY
    while len(keys) >= capacity * _SCALA_LOAD_FACTOR:
        capacity *= 2
    codes = [(_spread(key), key) for key in keys]
    # sort() is stable, as the map is: keys with equal hashes stay in the order of insertion.
    codes.sort(key=lambda pair: (pair[0] & (capacity - 1), signed(pair[0])))
    return [key for _, key in codes]


def immutable_map_order(keys: Sequence[str]) -> list[str]:
    """The iteration order of a ``scala.collection.immutable.Map`` built in that order.

    Source: Scala 2.13 ``immutable.HashMap``, a CHAMP trie: a node gives its own entries first,
    by the five hash bits of its level, and then its sub-nodes.
    """
    if len(keys) <= _SMALL_MAP:
        return list(keys)
    return _champ([(_improved(string_hash(key)), key) for key in keys], 0)


def immutable_int_map_order(keys: Iterable[int]) -> list[int]:
    """The order of non-negative integers in a ``scala.collection.immutable.HashMap``.

    Scala's ``groupBy`` makes such a map also for few keys.
    """
    return _champ([(_improved(key), key) for key in keys], 0)


def _improved(code: int) -> int:
    """Scala's ``Hashing.improve``."""
    code = (code + ~(code << 9)) & 0xFFFFFFFF
    code ^= code >> 14
    code = (code + (code << 4)) & 0xFFFFFFFF
    return code ^ (code >> 10)


def _champ(entries: list[tuple[int, _Key]], shift: int) -> list[_Key]:
    if shift >= _HASH_BITS:
        return [key for _, key in entries]
    slots: dict[int, list[tuple[int, _Key]]] = {}
    for entry in entries:
        slots.setdefault((entry[0] >> shift) & _CHAMP_MASK, []).append(entry)
    own = [slots[slot][0][1] for slot in sorted(slots) if len(slots[slot]) == 1]
    for slot in sorted(slots):
        if len(slots[slot]) > 1:
            own.extend(_champ(slots[slot], shift + _CHAMP_BITS))
    return own


def java_hash_map_order(keys: Sequence[str]) -> list[str]:
    """The iteration order of a ``java.util.HashMap`` into which the keys were put in this order.

    Source: JDK ``HashMap``; growing keeps the order within a bin.
    """
    capacity = 16
    while len(keys) > capacity * 0.75:
        capacity *= 2
    return sorted(keys, key=lambda key: _spread(key) & (capacity - 1))


def properties_order(keys: Iterable[str]) -> list[str]:
    """The iteration order of a ``java.util.Properties`` filled in that order.

    Source: JDK 17 ``ConcurrentHashMap``.  A bin of more than eight keys becomes a tree there, which
    still iterates in the order of insertion.
    """
    table: list[list[tuple[int, str]]] = [[] for _ in range(16)]
    for size, key in enumerate(keys, start=1):
        code = _spread(key)
        table[code & (len(table) - 1)].append((code, key))
        if size >= len(table) - len(table) // 4:
            table = _doubled(table)
    return [key for bin_ in table for _, key in bin_]


def _doubled(table: list[list[tuple[int, str]]]) -> list[list[tuple[int, str]]]:
    """``ConcurrentHashMap.transfer``: splits a bin; its last run keeps the order."""
    bit = len(table)
    low: list[list[tuple[int, str]]] = []
    high: list[list[tuple[int, str]]] = []
    for bin_ in table:
        start = len(bin_)
        while start > 0 and (bin_[start - 1][0] & bit) == (bin_[-1][0] & bit):
            start -= 1
        tail, turned = bin_[start:], bin_[:start][::-1]
        tail_is_high = bool(tail) and bool(tail[0][0] & bit)
        stay = [entry for entry in turned if not entry[0] & bit]
        move = [entry for entry in turned if entry[0] & bit]
        low.append(stay if tail_is_high else stay + tail)
        high.append(move + tail if tail_is_high else move)
    return low + high
