"""Plans the fewest moves that balance brokers, drain them, or change the replication factor.

Pure.  A plan is a network flow: every partition sends one unit for each replica, through the racks
it may use, to brokers.  First each partition gets a valid set of replicas that keeps as many of its
own as possible.  Then the search applies improving cycles until there is none.  A cycle moves
several replicas between brokers so that the load is more even, or as even with fewer moves.  A flow
without an improving cycle is optimal: the load is as even as the racks allow, and no plan with this
load has fewer moves.  The same search then chooses each partition's preferred leader.

If sizes are known, the search also replaces moves of large partitions by moves of small ones,
without more moves or a less even load.

Draining and a change of the replication factor move no replica that may stay.  After
:data:`MOST_STEPS` the search stops; the plan is then valid, but may not be the best.

Source: KIP-36 (racks), Kafka ``AdminUtils.assignReplicasToBrokers``; the search is our own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from zkcontroller_cli.values.moves import NamedPartition

Replicas = tuple[int, ...]
Racks = Mapping[int, str | None]
MOST_STEPS: Final = 4_000_000
"""The most pairs of a replica and a broker that one search examines, in some ten seconds."""
MOST_STEPS_FOR_BYTES: Final = 1_000_000
"""The most further pairs that the search examines to copy fewer bytes."""
_SINK: Final = -1
"""A node connected with every broker: a cycle through it changes the load of two brokers."""


class PlanMode(StrEnum):
    """The purpose of a plan."""

    BALANCE = "balance"
    DRAIN = "drain"
    ADD = "add"
    REPLICATION_FACTOR = "replication-factor"


class Goal(NamedTuple):
    """The purpose of a plan, and the brokers or the replication factor for it."""

    mode: PlanMode
    brokers: frozenset[int] = frozenset()
    """The brokers to drain, or to add."""
    replication_factor: int = 0
    receivers: frozenset[int] = frozenset()
    """The brokers that may get replicas; empty: all.  With BALANCE, others may keep none."""


class ReplicaPlan(NamedTuple):
    """The partitions that change, and whether the plan is optimal."""

    replicas: dict[NamedPartition, Replicas]
    """By partition, the new replicas with the preferred leader first."""
    is_best: bool
    """Whether the search ended, so that no plan is more even, or as even with fewer moves."""


class CannotPlan(Exception):
    """No plan can reach the goal; the message says why."""


def plan_replicas(
    current: Mapping[NamedPartition, Replicas],
    racks: Racks,
    goal: Goal,
    sizes: Mapping[NamedPartition, int] | None = None,
) -> ReplicaPlan:
    """The partitions that change, with their new replicas.

    ``racks``: every live broker with its rack; racks are used only if each live broker has one.
    ``sizes``: the bytes of the partitions whose size is known.
    CannotPlan if the goal cannot be reached.
    """
    _check(current, racks, goal)
    is_draining = goal.mode is PlanMode.DRAIN
    keeps = is_draining or goal.mode is PlanMode.REPLICATION_FACTOR
    holders = {broker for replicas in current.values() for broker in replicas}
    gone = goal.brokers if is_draining else frozenset[int]()
    if goal.mode is PlanMode.BALANCE and goal.receivers:
        gone = frozenset((holders | set(racks)) - goal.receivers)
    receivers = sorted(_receivers(racks, goal) - gone)
    has_racks = all(rack is not None for rack in racks.values())
    rack_of = {b: racks.get(b) if has_racks else None for b in sorted((holders | {*racks}) - gone)}
    items = []
    for replicas in current.values():
        own = tuple(broker for broker in replicas if broker not in gone)
        others = tuple(broker for broker in receivers if broker not in own)
        items.append(_Item(own, own + others, goal.replication_factor or len(replicas)))
    bytes_of = [(sizes or {}).get(each, 0) for each in current]
    search = _Search(items, rack_of, keeps=keeps, sizes=bytes_of)
    sets = search.result()
    candidates = [
        # A broker that is not alive should not be the preferred leader.
        tuple(b for b in replicas if b in racks) or replicas
        for replicas in sets
    ]
    leading = [
        _Item(replicas[:1] if replicas[0] in options else (), options, 1)
        for replicas, options in zip(current.values(), candidates, strict=True)
    ]
    leader_search = _Search(leading, dict.fromkeys(rack_of), keeps=keeps)
    leaders = leader_search.result()
    planned = {}
    for (partition, before), replicas, (leader,) in zip(
        current.items(), sets, leaders, strict=True
    ):
        after = _ordered(before, replicas, leader)
        if after != before and not (keeps and set(after) == set(before)):
            planned[partition] = after
    return ReplicaPlan(planned, search.is_at_its_end and leader_search.is_at_its_end)


def _receivers(racks: Racks, goal: Goal) -> set[int]:
    """The brokers that may get replicas."""
    if goal.mode is PlanMode.ADD:
        return set(goal.brokers)
    able = set(goal.receivers or racks)
    return able - goal.brokers if goal.mode is PlanMode.DRAIN else able


def _check(current: Mapping[NamedPartition, Replicas], racks: Racks, goal: Goal) -> None:
    receivers = _receivers(racks, goal)
    if missing := receivers - set(racks):
        raise CannotPlan(f"not alive: broker {_listed(missing)}")
    is_exclusive = goal.mode is PlanMode.BALANCE and bool(goal.receivers)
    for (topic, partition), replicas in current.items():
        name = f"{topic}-{partition}"
        is_even = goal.mode in (PlanMode.BALANCE, PlanMode.ADD) and not is_exclusive
        if is_even and (dead := set(replicas) - set(racks)):
            raise CannotPlan(
                f"{name} has a replica on broker {_listed(dead)}, which is not alive: "
                "start it, or drain it first"
            )
        count = goal.replication_factor or len(replicas)
        moves = goal.mode is PlanMode.REPLICATION_FACTOR or goal.brokers & set(replicas)
        stays = set() if is_exclusive else set(replicas)
        usable = receivers | (stays - goal.brokers if moves else stays)
        if count > len(usable):
            raise CannotPlan(
                f"{name} needs {count} replicas, and {len(usable)} brokers may hold them"
            )


def _ordered(before: Replicas, after: Replicas, leader: int) -> Replicas:
    """The new replicas with the leader first; kept replicas stay in their places if possible."""
    new = [broker for broker in after if broker not in before]
    order = []
    for broker in before:
        if broker in after:
            order.append(broker)
        elif new:
            order.append(new.pop(0))
    order += new
    order.remove(leader)
    return (leader, *order)


class _Item(NamedTuple):
    """One partition: its current brokers, its possible brokers, and its number of replicas."""

    original: Replicas
    options: Replicas
    size: int


class _Leg(NamedTuple):
    """One step of a cycle: a replica of an item moves from one broker to another.

    A leg to or from the sink moves no replica.
    """

    item: int
    source: int
    target: int


class _Search:
    """The search for the best flow; it is used for replicas, then for preferred leaders."""

    def __init__(
        self,
        items: Sequence[_Item],
        rack_of: Racks,
        *,
        keeps: bool,
        sizes: Sequence[int] | None = None,
    ) -> None:
        self._items = items
        self._sizes = sizes or [0] * len(items)
        self._move_cost = 1
        self._bytes_count = False
        self._rack_of = rack_of
        self._keeps = keeps
        self._load: Counter[int] = Counter()
        self._steps = 0
        self.is_at_its_end = False
        for item in items:
            self._load.update(item.original)
        self._limits = [self._limits_of(item) for item in items]
        self._held = [self._first(n) for n in range(len(items))]
        self._load = Counter(broker for held in self._held for broker in held)

    def result(self) -> list[Replicas]:
        """The replicas of each item, in no particular order."""
        self._level()
        self.is_at_its_end = self._improved(MOST_STEPS)
        if self.is_at_its_end and any(self._sizes) and not self._keeps:
            # One move costs more than all bytes together.
            copies = sum(
                size * item.size for size, item in zip(self._sizes, self._items, strict=True)
            )
            self._move_cost, self._bytes_count, self._steps = 1 + copies, True, 0
            self._improved(MOST_STEPS_FOR_BYTES)
        return [tuple(held) for held in self._held]

    def _improved(self, most_steps: int) -> bool:
        """Apply improving cycles; True if none is left, False if the steps are used up."""
        while self._steps < most_steps:
            cycle = self._improving_cycle()
            if not cycle:
                return True
            for leg in self._simple(cycle):
                self._apply(leg)
        return False

    def _limits_of(self, item: _Item) -> dict[str | None, tuple[int, int]]:
        """By rack, the least and the most replicas there if they are spread over all racks."""
        sizes = Counter(self._rack_of[broker] for broker in item.options)
        kept: Counter[str | None] = Counter()
        if self._keeps and len(item.original) <= item.size:
            kept.update(self._rack_of[broker] for broker in item.original)
        elif self._keeps:
            sizes = Counter(self._rack_of[broker] for broker in item.original)
        level = 0
        while sum(max(kept[r], min(size, level)) for r, size in sizes.items()) < item.size:
            level += 1
        return {
            rack: (max(kept[rack], min(size, level - 1)), max(kept[rack], min(size, level)))
            for rack, size in sizes.items()
        }

    def _first(self, number: int) -> list[int]:
        """A valid set of replicas that keeps as many of the partition's own as possible."""
        item, limits = self._items[number], self._limits[number]
        own = Counter(self._rack_of[broker] for broker in item.original)
        counts = {rack: min(max(own[rack], low), high) for rack, (low, high) in limits.items()}
        while sum(counts.values()) > item.size:
            able = [rack for rack, (low, _) in limits.items() if counts[rack] > low]
            counts[max(able, key=lambda rack: (counts[rack] > own[rack], counts[rack]))] -= 1
        while sum(counts.values()) < item.size:
            able = [rack for rack, (_, high) in limits.items() if counts[rack] < high]
            counts[min(able, key=lambda rack: (counts[rack] >= own[rack], counts[rack]))] += 1
        held: list[int] = []
        for rack, count in counts.items():
            here = [broker for broker in item.options if self._rack_of[broker] == rack]
            here.sort(key=lambda b: (b not in item.original, self._load[b], b))
            held += here[:count]
            for broker in here[:count]:
                self._load[broker] += broker not in item.original
        for broker in item.original:
            self._load[broker] -= broker not in held
        return held

    def _level(self) -> None:
        """Make single moves from brokers above the average load to brokers below it.

        This is fast; the cycles then find the best plan.
        """
        if not self._load or self._keeps:
            return
        average = sum(self._load.values()) / len(self._rack_of)
        # Small partitions first, so that they are the ones to move.
        for number in sorted(range(len(self._items)), key=self._sizes.__getitem__):
            item = self._items[number]
            for source in tuple(self._held[number]):
                if self._load[source] < average + 1:
                    continue
                able = [
                    b for b in item.options
                    if self._load[b] + 1 <= average and self._may(number, source, b)
                ]  # fmt: skip
                if able:
                    target = min(able, key=lambda broker: (self._load[broker], broker))
                    self._apply(_Leg(number, source, target))

    def _may(self, number: int, source: int, target: int) -> bool:
        """Whether the item's replica may move from ``source`` to ``target``."""
        held, original = self._held[number], self._items[number].original
        if target in held or (self._keeps and source in original and target not in original):
            return False
        left, entered = self._rack_of[source], self._rack_of[target]
        if left == entered:
            return True
        limits = self._limits[number]
        if entered not in limits:
            return False
        counts = Counter(self._rack_of[broker] for broker in held)
        return counts[left] > limits[left][0] and counts[entered] < limits[entered][1]

    def _cost(self, leg: _Leg) -> int:
        """The cost that the leg adds: that of one move, 0, or negative if it undoes a move."""
        original = self._items[leg.item].original
        moves = (leg.target not in original) - (leg.source not in original)
        size = self._sizes[leg.item] if self._bytes_count else 0
        return moves * (self._move_cost + size)

    @property
    def _load_weight(self) -> int:
        """The weight of load in a cycle's cost, larger than the cost of all moves in a cycle."""
        largest = max(self._sizes, default=0) if self._bytes_count else 0
        return (2 * len(self._rack_of) + 4) * (self._move_cost + largest)

    def _apply(self, leg: _Leg) -> None:
        if _SINK in (leg.source, leg.target):
            return
        held = self._held[leg.item]
        held[held.index(leg.source)] = leg.target
        self._load[leg.source] -= 1
        self._load[leg.target] += 1

    def _edges(self) -> dict[tuple[int, int], tuple[int, int]]:
        """By source and target broker, the cost of the cheapest leg, and the number of its item."""
        weight = self._load_weight
        edges: dict[tuple[int, int], tuple[int, int]] = {}
        for number, item in enumerate(self._items):
            self._steps += len(self._held[number]) * len(item.options)
            for source in self._held[number]:
                for target in item.options:
                    if target == source:
                        continue
                    cost = self._cost(_Leg(number, source, target))
                    known = edges.get((source, target))
                    if (known is None or cost < known[0]) and self._may(number, source, target):
                        edges[source, target] = cost, number
        for broker in self._rack_of:
            load = self._load[broker]
            edges[broker, _SINK] = weight * (2 * load + 1), _SINK
            edges[_SINK, broker] = -weight * (2 * load - 1), _SINK
        return edges

    def _improving_cycle(self) -> list[_Leg]:
        """The legs of a cycle with negative cost; empty if there is none.

        Uses the Bellman-Ford algorithm, started from all brokers at once.
        """
        edges = self._edges()
        nodes = [*self._rack_of, _SINK]
        distance = dict.fromkeys(nodes, 0)
        before: dict[int, int] = {}
        last = _SINK
        for _ in nodes:
            is_changed = False
            for (source, target), (cost, _number) in edges.items():
                if distance[source] + cost < distance[target]:
                    distance[target] = distance[source] + cost
                    before[target], is_changed, last = source, True, target
            if not is_changed:
                return []
        for _ in nodes:
            last = before[last]
        legs: list[_Leg] = []
        node = last
        while not legs or node != last:
            source = before[node]
            legs.append(_Leg(edges[source, node][1], source, node))
            node = source
        return legs[::-1]

    def _simple(self, cycle: list[_Leg]) -> list[_Leg]:
        """The cycle, or a part of it that improves and whose legs can all be applied together.

        If two legs of one item share a rack, or both go between racks, applying one may forbid the
        other.  Exchanging their targets divides the cycle into two; the cheaper one is used.
        """
        for second, leg in enumerate(cycle):
            for first in range(second):
                other = cycle[first]
                if leg.item == _SINK or other.item != leg.item or not self._meet(other, leg):
                    continue
                outer = [
                    *cycle[:first],
                    _Leg(leg.item, other.source, leg.target),
                    *cycle[second + 1 :],
                ]
                inner = [*cycle[first + 1 : second], _Leg(leg.item, leg.source, other.target)]
                return self._simple(min(outer, inner, key=self._cost_of))
        return cycle

    def _meet(self, one: _Leg, other: _Leg) -> bool:
        racks = [{self._rack_of[leg.source], self._rack_of[leg.target]} for leg in (one, other)]
        return bool(racks[0] & racks[1]) or len(racks[0]) == len(racks[1]) == 2

    def _cost_of(self, cycle: list[_Leg]) -> int:
        weight = self._load_weight
        cost = 0
        for leg in cycle:
            if leg.target == _SINK:
                cost += weight * (2 * self._load[leg.source] + 1)
            elif leg.source == _SINK:
                cost -= weight * (2 * self._load[leg.target] - 1)
            else:
                cost += self._cost(leg)
        return cost


def _listed(brokers: frozenset[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
