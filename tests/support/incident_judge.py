"""Compares what was done to a cluster with what ``zkctl history`` finds in its logs, both ways.

*Missed* is an act, or what surely followed from it, without its finding.  *False* is a finding that
no act can have caused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_events import read_events_here
from kafka_history.readers.local_ingest import ingest_here
from kafka_history.readers.manifest import clusters_in
from kafka_history.report.assemble import assemble
from kafka_history.rules.history import EventHistory
from kafka_history.rules.moment import brokers_at, controller_at, partitions_at
from tests.support.incidents import NEAR_MS, IncidentAct, Name

Row = Mapping[str, Any]
PAUSE_MS: Final = 2_500
"""So exactly is the beginning of a pause known: a broker and ZooKeeper exchange pings."""
FULL: Final = "No space left on device"
DEPARTURES: Final = {
    "kill": "killed",
    "bounce": "killed",
    "fill disk": "killed",
    "stop": "clean_shutdown",
    "pause": "paused",
    "expire": "session_expired",
    "cut for long": "session_expired",
}
"""How a broker leaves by an act, in the words of the history."""
ENDS: Final = {
    "kill": "killed",
    "bounce": "killed",
    "fill disk": "killed",
    "stop": "clean_shutdown",
    "pause": "session_expired",
    "expire": "session_expired",
    "cut for long": "session_expired",
    "delete /controller": "controller_moved",
}
"""How the tenure of the controller ends by an act."""
DEATHS: Final = tuple(kind for kind, how in DEPARTURES.items() if how == "killed")


@dataclass
class Judgement:
    """``found``: how much was compared and is right."""

    timeline: Sequence[IncidentAct]
    found: int = 0
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return not self.missed and not self.false

    @override
    def __str__(self) -> str:
        lines = [*(f"missed: {each}" for each in self.missed)]
        lines += [f"false: {each}" for each in self.false]
        return "\n".join([*lines, *map(str, self.timeline)])


@dataclass
class Dark:
    """A time without a leader, as it was."""

    name: Name
    opened: IncidentAct
    closed: IncidentAct | None = None
    ordered: IncidentAct | None = None
    """The order to delete its topic, if there was one before a leader."""
    is_sure: bool = True
    rows: int = 0


def judged(
    timeline: Sequence[IncidentAct], logs: Path, out: Path, *, tells_versions: bool = True
) -> Judgement:
    """Reads the brokers' folders of logs and compares.

    ``tells_versions``: whether every change of an ISR is logged with the version of its znode.
    """
    ingest_here(
        [str(each) for each in sorted(logs.glob("broker-*/logs"))], IngestOptions(str(out)), 1
    )
    (cluster,) = clusters_in(out)
    history = EventHistory(read_events_here(out, cluster))
    return _Judge(timeline, history, tells_versions=tells_versions).judgement


class _Judge:
    def __init__(
        self, timeline: Sequence[IncidentAct], history: EventHistory, *, tells_versions: bool
    ) -> None:
        self._tells_versions = tells_versions
        self.timeline = timeline
        self.history = history
        self.report = assemble(history)
        self.judgement = Judgement(timeline)
        self.first = timeline[0].begun_ms
        self.darkness = self._darkness()
        for look in (
            self._lines, self._lives, self._tenures, self._departures, self._sessions, self._gaps,
            self._zombies, self._windows, self._acts, self._moments, self._min_isr, self._unclean,
            self._deletions, self._moves, self._log_dirs, self._signs, self._isr_changes,
            self._rules,
        ):  # fmt: skip
            look()

    # What is compared.

    def _lines(self) -> None:
        for row in self.report["unknown_lines"]:
            self._false(f"K01 {row['count']} times {row['logger']}: {row['text']}")
        for key in ("copies", "files", "invariants"):
            for row in self.report[key]:
                # What our brokers write beside state-change.log.
                if key != "copies" or not row["file"].endswith("/state-changes.jsonl"):
                    self._false(f"{key} {row}")
        for row in self.report["clock_skew"]:
            if row["is_doubtful"]:
                self._false(f"K02 {row}")
        for row in self.report["isr_changes"]["storms"]:
            self._false(f"I01 {row}")

    def _lives(self) -> None:
        """Each process with its beginning and its end."""
        rows = list(self.report["broker_lives"])
        for broker in sorted({row["broker"] for row in rows} | {1, 2, 3}):
            mine = sorted((r for r in rows if r["broker"] == broker), key=lambda r: r["from_ms"])
            acts = [a for a in self.timeline if a.broker == broker]
            starts = [a for a in acts if a.kind in ("start", "bounce")]
            ends = [a for a in acts if a.kind in (*DEATHS, "stop")]
            begun = [None, *starts]
            while mine and len(mine) > len(begun):
                self._false(f"life {mine.pop()}")
            for row, start, end in zip(mine, begun, [*ends, None], strict=False):
                if start is None:
                    is_begun = row["from_ms"] < self.first
                else:
                    is_begun = start.is_within(row["from_ms"])
                if end is None:
                    is_over = row["ended_by"] == "open" and row["to_ms"] is None
                else:
                    is_over = row["ended_by"] == DEPARTURES[end.kind] and self._is_end(row, end)
                self._check(is_begun and is_over, f"life of {broker} until {end}", row)
            for start in begun[len(mine) :]:
                self._missed(f"life of {broker} from {start} on")

    def _is_end(self, row: Row, end: IncidentAct) -> bool:
        to_ms: int = row["to_ms"]
        return end.begun_ms - self._early_ms(end) <= to_ms <= end.done_ms + NEAR_MS

    def _early_ms(self, act: IncidentAct) -> int:
        """So much before the act may what it did seem to begin.

        A death lies behind the last line, and a peer that has a connection to the broker says when
        it breaks.
        """
        if act.kind == "pause":
            return PAUSE_MS
        if act.kind not in DEATHS:
            return NEAR_MS
        events = self.history.events
        own = (e.time_ms for e in events if e.broker_id == act.broker and e.time_ms <= act.begun_ms)
        return act.begun_ms - max(own, default=act.begun_ms)

    def _tenures(self) -> None:
        """Each epoch of the controller; what ended it."""
        rows = {row["controller_epoch"]: row for row in self.report["tenures"]}
        for row in self.report["tenures"]:
            if rows[row["controller_epoch"]] is not row:
                self._false(f"a second tenure of epoch {row['controller_epoch']}: {row}")
        last = self.timeline[-1].then
        for epoch in sorted(rows.keys() - range(1, last.controller_epoch + 1)):
            self._false(f"tenure {rows[epoch]}")
        for epoch in range(1, last.controller_epoch + 1):
            row = rows.get(epoch)
            began = self._act_between(epoch - 1, epoch)
            ended = self._act_between(epoch, epoch + 1)
            if row is None:
                self._missed(f"tenure {epoch}, from {began} to {ended}")
                continue
            is_right = began is None or began is self.timeline[0] or began.is_within(row["from_ms"])
            if ended is None:
                is_right &= row["to_ms"] is None and row["ended_by"] == "open"
                is_right &= row["broker"] == last.controller
            elif ended is not self.timeline[0]:
                is_last = ended.before.controller_epoch == epoch
                is_right &= ended.is_within(row["to_ms"])
                if is_last:
                    is_right &= row["broker"] == ended.before.controller
                    is_right &= row["ended_by"] == ENDS.get(ended.kind)
            self._check(is_right, f"tenure {epoch} ended by {ended}", row)

    def _act_between(self, epoch: int, following: int) -> IncidentAct | None:
        """The act by which the controller's epoch went on."""
        acts = [
            act
            for act in self.timeline
            if act.before.controller_epoch <= epoch < following <= act.then.controller_epoch
        ]
        about_it = [
            act for act in acts
            if act.kind == "delete /controller" or act.broker == act.before.controller
        ]  # fmt: skip
        # Of two, the second may have hit the controller that the first had brought.
        exact = [act for act in about_it if act.before.controller_epoch == epoch]
        return next(iter(exact or about_it or acts), None)

    def _departures(self) -> None:
        """Each departure with what followed."""
        rows = list(self.report["blast_radius"])
        for act in self.timeline:
            how = DEPARTURES.get(act.kind)
            if how is None or act.broker is None:
                continue
            early_ms = self._early_ms(act)
            mine = [
                row for row in rows
                if row["broker"] == act.broker and row["how"] == how
                and act.is_within(row["at_ms"], early_ms)
            ]  # fmt: skip
            if not mine:
                self._missed(f"departure by {act}")
                continue
            row = mine[0]
            rows.remove(row)
            was, now = act.before.partitions, act.then.partitions
            both = [name for name in was if name in now]
            moves = sum(
                was[n].leader == act.broker and (now[n].leader not in (-1, act.broker))
                for n in both
            )
            # A broker that is back at once may not have been missed.
            shrinks = sum(
                act.broker in was[n].isr and len(was[n].isr) > 1 and was[n].version < now[n].version
                for n in both
            )
            opened = [dark for dark in self.darkness if dark.opened is act]
            sure = sum(dark.is_sure for dark in opened)
            # What is left without a leader may get one out of sync later.
            late = sum(self._is_led_by_another(dark) for dark in opened)
            # What the controller has given back, it had taken away.
            late += sum(
                was[n].leader == now[n].leader == act.broker
                and was[n].leader_epoch < now[n].leader_epoch
                for n in both
            )
            is_right = moves <= row["leader_moves"] <= moves + late
            is_right &= shrinks <= row["isr_shrinks"] <= shrinks + late
            # The first session that ends may move a leader to the other dead broker.
            is_right |= act.is_one_of_two
            is_right &= sure <= row["leaderless"] <= len(opened)
            was_controller = act.before.controller == act.broker
            is_right &= row["controller_epoch"] == (
                act.before.controller_epoch if was_controller else None
            )
            self._check(
                is_right,
                f"{act}: {moves} moves, {shrinks} shrinks, {sure} to {len(opened)} without a "
                f"leader, controller: {was_controller}",
                row,
            )
        for row in rows:
            self._false(f"departure {row}")

    @staticmethod
    def _is_led_by_another(dark: Dark) -> bool:
        """Whether another broker led behind it, without an order."""
        closed = dark.closed
        if closed is None or closed.kind == "elect unclean":
            return False
        now = closed.then.partitions.get(dark.name)
        return closed is not dark.opened and now is not None and now.leader != dark.opened.broker

    def _sessions(self) -> None:
        """Pauses, and sessions that were lost."""
        self._matched(
            "pauses",
            self._of("pause"),
            lambda act, row: (
                row["broker"] == act.broker
                and abs(row["from_ms"] - act.begun_ms) < PAUSE_MS
                and abs(row["to_ms"] - act.done_ms) < NEAR_MS + 1_000
            ),
        )
        self._matched(
            "session_expiries",
            self._of("pause", "expire", "cut for long"),
            lambda act, row: (
                row["broker"] == act.broker
                and act.is_within(row["at_ms"])
                and (row["paused_ms"] is not None) == (act.kind == "pause")
            ),
        )

    def _gaps(self) -> None:
        self._matched(
            "zookeeper_gaps",
            self._of("cut", "cut for long"),
            lambda act, row: (
                row["brokers"] == [act.broker]
                and not row["is_all"]
                and row["sessions_lost"] == (act.kind == "cut for long")
                and act.is_within(row["from_ms"])
                and act.is_within(row["to_ms"])
            ),
            # ZooKeeper closes the connection of a session that it ends.
            lambda row: any(
                act.is_within(row["from_ms"]) and row["brokers"] == [act.broker]
                for act in self._of("expire")
            ),
        )

    def _zombies(self) -> None:
        silent = [
            act for act in self._of("pause", "cut for long")
            if act.before.controller == act.broker
        ]  # fmt: skip
        # The client of an older Kafka takes some seconds to connect again, and learns it then.
        expired = [act for act in self._of("expire") if act.before.controller == act.broker]
        elected = {
            act.before.controller_epoch: row["from_ms"]
            for act in silent
            for row in self.report["tenures"]
            if row["controller_epoch"] == act.before.controller_epoch + 1
        }

        def late_ms(act: IncidentAct) -> int:
            elected_ms: int = elected.get(act.before.controller_epoch, act.done_ms)
            return act.done_ms - elected_ms

        self._matched(
            "zombies",
            [act for act in silent if late_ms(act) > 3_000],
            lambda act, row: (
                row["broker"] == act.broker
                and row["controller_epoch"] == act.before.controller_epoch
            ),
            lambda row: any(
                row["broker"] == a.broker and a.is_within(row["from_ms"])
                for a in (*silent, *expired)
            ),
        )
        # Another was elected while it carried something out.
        deposed = [*silent, *expired, *self._of("delete /controller")]
        for row in self.report["refusals"]:
            if not any(act.is_within(row["first_ms"]) for act in deposed):
                self._false(f"refusal {row}")

    def _windows(self) -> None:
        for row in self.report["leaderless"]:
            known = [d for d in self.darkness if d.name == (row["topic"], row["partition"])]
            mine = [dark for dark in known if self._is_window(dark, row)]
            if mine:
                min(mine, key=lambda dark: dark.rows).rows += 1
            else:
                self._false(f"window {self._shown(row)}; known: {list(map(self._dark, known))}")
        for dark in self.darkness:
            if dark.rows > 1:
                self._false(f"{dark.rows} windows for {self._dark(dark)}")
            elif dark.rows:
                self.judgement.found += 1
            elif dark.is_sure:
                self._missed(f"window {self._dark(dark)}")

    def _is_window(self, dark: Dark, row: Row) -> bool:
        act = dark.opened
        early = self._early_ms(act)
        is_at_once = act.kind in DEATHS and not act.is_amid_order
        begun_ms = act.done_ms if is_at_once else act.then.at_ms
        words = {"stop": "was stopped", "pause": "was paused", **dict.fromkeys(DEATHS, "died")}
        said = words.get(act.kind, "lost its ZooKeeper session")
        if not act.begun_ms - early <= row["from_ms"] <= begun_ms + NEAR_MS:
            return False
        if row["cause"] != f"broker {act.broker} {said}":
            return False
        # The controller need not notice a broker that is back at once.
        is_unnoticed = row["noticed_ms"] is None and act.kind == "bounce"
        if not is_unnoticed and not act.is_within(row["noticed_ms"], early):
            return False
        # At TRACE the controller says that it gives the partition up when the deletion begins.
        if dark.ordered is not None and dark.ordered.is_within(row["to_ms"]):
            return True
        if dark.closed is None:
            return row["to_ms"] is None
        return dark.closed.is_within(row["to_ms"], early if dark.closed is act else 0)

    def _acts(self) -> None:
        """What was ordered: of each topic what ended alike is one row."""
        words = {
            "create": "topic created", "delete": "topic deleted", "grow": "partitions added",
            "elect preferred": "preferred election", "elect unclean": "unclean election",
            "configure": "configuration changed", "move": "reassignment",
        }  # fmt: skip
        orders: list[tuple[IncidentAct, str | None, int | None, str | None]] = []
        for act in self._of(*words):
            if act.kind == "move":
                ends = Counter(self._end_of_move(act, name)[1] for name in act.partitions)
                orders += [(act, act.partitions[0][0], n, outcome) for outcome, n in ends.items()]
            else:
                number = len(act.partitions) or act.details.get("count")
                orders.append((act, act.topic, number, None))
        rows = list(self.report["acts"])
        for act, *order in orders:
            mine = [
                row
                for row in rows
                if row["act"] == words[act.kind]
                and act.is_within(row["at_ms"])
                and [row["topic"], row["partitions"], row["outcome"]] == order
            ]
            if mine:
                rows.remove(mine[0])
                self.judgement.found += 1
            else:
                self._missed(f"order {order} of {act} among {list(map(self._shown, rows))}")
        for row in rows:
            if row["act"] != "leaders balanced" or not self._is_given_back(row["at_ms"]):
                self._false(f"order {self._shown(row)}")

    def _is_given_back(self, at_ms: int) -> bool:
        """Whether a preferred leader that had not led came to lead then."""
        return any(
            view.leader == view.replicas[0]
            and name in act.before.partitions
            and view.leader_epoch > act.before.partitions[name].leader_epoch
            for act in self.timeline
            if act.is_within(at_ms)
            for name, view in act.then.partitions.items()
        )

    def _moments(self) -> None:
        """The state of the cluster whenever it was at rest."""
        for act, following in zip(self.timeline, [*self.timeline[1:], None], strict=True):
            if not act.is_rest:
                continue
            until_ms = None if following is None else following.begun_ms
            found = {
                (each.topic, each.partition): (
                    each.leader, each.leader_epoch, set(each.isr or ()), each.zk_version
                )
                for each in partitions_at(self.history.states, until_ms)
            }  # fmt: skip
            for name, view in act.then.partitions.items():
                truth = view.leader, view.leader_epoch, set(view.isr), view.version
                mine = found.get(name)
                is_known = self._tells_versions or mine is None or mine[3] is not None
                self._check(
                    mine == (truth if is_known else (*truth[:3], None)),
                    f"state of {name} after {act}: {truth}",
                    mine,
                )
            # Who is killed later may seem to have died right behind its last line.
            doomed = {
                later.broker
                for later in self.timeline
                if DEPARTURES.get(later.kind) == "killed"
                and later.begun_ms - self._early_ms(later) <= act.then.at_ms <= later.begun_ms
            }
            live = brokers_at(self.history.broker_lives, act.then.at_ms)
            self._check(
                set(act.then.live) - doomed <= set(live) <= set(act.then.live),
                f"live {act.then.live} after {act}",
                live,
            )
            tenure = controller_at(self.history.tenures, act.then.at_ms)
            self._check(
                tenure is not None and tenure.broker == act.then.controller,
                f"controller {act.then.controller} after {act}", tenure,
            )  # fmt: skip

    def _min_isr(self) -> None:
        """Whenever the cluster was at rest."""
        for act in filter(lambda act: act.is_rest, self.timeline):
            at_ms = act.then.at_ms
            for name, view in act.then.partitions.items():
                needed = act.then.min_isr.get(name[0], 0)
                is_under = view.leader >= 0 and len(view.isr) < needed
                rows = self._about(name, "under_min_isr")
                is_found = any(
                    row["from_ms"] <= at_ms and (row["to_ms"] is None or at_ms < row["to_ms"])
                    for row in rows
                )
                what = f"{name} under min ISR: {is_under} after {act}"
                self._check(is_found == is_under, what, rows)

    def _unclean(self) -> None:
        rows = list(self.report["unclean_elections"])
        for act, name in self._unclean_elections():
            mine = [
                row
                for row in self._about(name, "unclean_elections")
                if act.is_within(row["at_ms"])
                and sorted(row["last_isr"] or ()) == sorted(act.before.partitions[name].isr)
            ]
            if mine:
                rows.remove(mine[0])
                self.judgement.found += 1
            else:
                self._missed(f"unclean election of {name} by {act}")
        for row in rows:
            if not self._is_unclean_amid_move(row):
                self._false(f"unclean election {row}")

    def _unclean_elections(self) -> list[tuple[IncidentAct, Name]]:
        """Where a leader came that had not been in sync.

        The only one that came: behind a leader in sync, balancing may elect any that joined it.
        """
        return [
            (act, name)
            for act in self.timeline
            if act.is_first
            for name in sorted(act.before.dark & act.then.partitions.keys())
            for before, then in [(act.before.partitions[name], act.then.partitions[name])]
            if then.leader not in (-1, *before.isr) and then.leader_epoch == before.leader_epoch + 1
        ]

    def _is_unclean_amid_move(self, row: Row) -> bool:
        """Whether a leader died while its partition moved to a broker that had not caught up."""
        return any(
            act.is_one_of_two
            and act.is_within(row["at_ms"])
            and (row["topic"], row["partition"]) in act.partitions
            and row["topic"] in act.before.unclean
            for act in self._of("move")
        )

    def _deletions(self) -> None:
        self._matched(
            "deletions",
            self._of("delete"),
            lambda act, row: (
                row["topic"] == act.topic
                and act.is_within(row["from_ms"])
                and self._is_done(row, act)
            ),
        )

    def _is_done(self, row: Row, act: IncidentAct) -> bool:
        """A deletion waits for brokers that hold a replica."""
        end = self._deleted_by(act, act.topic)
        if end is None:
            return row["to_ms"] is None
        return end.is_within(row["to_ms"]) and bool(row["halts"]) >= (end is not act)

    def _moves(self) -> None:
        rows = list(self.report["reassignments"])
        for act in self._of("move"):
            for name in act.partitions:
                end, outcome = self._end_of_move(act, name)
                mine = [
                    row
                    for row in self._about(name, "reassignments")
                    if act.is_within(row["from_ms"])
                    and row["outcome"] == outcome
                    and (row["to_ms"] is None if end is None else end.is_within(row["to_ms"]))
                ]
                if mine:
                    rows.remove(mine[0])
                    self.judgement.found += 1
                else:
                    self._missed(f"{outcome} move of {name} by {act}, until {end}")
        for row in rows:
            self._false(f"reassignment {self._shown(row)}")

    def _log_dirs(self) -> None:
        """Each full disk with the failure of its log directory, and why it failed."""
        self._matched(
            "log_dir_failures",
            self._of("fill disk"),
            lambda act, row: (
                row["broker"] == act.broker
                and act.is_within(row["at_ms"])
                and row["reason"] == FULL
            ),
        )

    def _end_of_move(self, act: IncidentAct, name: Name) -> tuple[IncidentAct | None, str | None]:
        """The act by which it ended, and how; a move to a dead broker waits for that one."""
        old, new = act.before.partitions[name].replicas, act.details["replicas"][name]
        for end in self.timeline[self.timeline.index(act) :]:
            if name in end.then.partitions and end.then.partitions[name].is_moving:
                continue
            if end.kind == "cancel move":
                return end, "cancelled"
            if old == new:
                return end, "no change"
            return end, "order only" if set(old) == set(new) else "completed"
        return None, None

    def _signs(self) -> None:
        """A stop that left leaders behind."""
        rows = [row for row in self.report["signs"] if row["sign"] == "shutdown-unclean"]
        for broker in (1, 2, 3):
            stops = [act for act in self._of("stop") if act.broker == broker]
            bad = [
                act
                for act in stops
                # A move may leave a partition one replica: no leader could have taken it over.
                if any(
                    min(len(each.partitions[name].replicas) for each in (act.before, act.then)) > 1
                    for name in act.then.dark & act.before.led_by(broker)
                )
            ]
            count = sum(row["count"] for row in rows if row["broker"] == broker)
            # What an order has changed a moment before is not known here.
            more = sum(act.is_amid_order for act in stops if act not in bad)
            self._check(
                len(bad) <= count <= len(bad) + more,
                f"{len(bad)} stops of {broker} left leaders behind",
                count,
            )
        can_fail = [act for act in self.timeline if self._can_fail(act)]
        for row in self.report["failed_transitions"]:
            # Before 2.6 an automatic election may choose a replica that has not caught up.
            is_preferred = "Preferred" in (row["strategy"] or "")
            away = self._of(*DEPARTURES, "start") if is_preferred else []
            if not any(act.is_within(row["first_ms"]) for act in (*can_fail, *away)):
                self._false(f"failed transition {row}")
        for row in self.report["signs"]:
            is_allowed = any(act.then.unclean for act in self.timeline)
            if row["sign"] == "unclean-enabled" and not is_allowed:
                self._false(f"sign {row}")

    def _can_fail(self, act: IncidentAct) -> bool:
        """Whether the controller may try in vain to bring a partition or a replica on."""
        views = act.before.partitions.values()
        is_dark = act.before.dark or act.then.dark
        is_alone = any(view.isr == (act.broker,) for view in views)
        is_deleting = act.before.deleting or act.then.deleting
        # A new controller begins a move anew, with replicas that are dead; and with those that are
        # back.
        is_moving = any(view.is_moving for view in views)
        return bool(is_dark or is_alone or is_deleting or is_moving or act.is_amid_order)

    def _isr_changes(self) -> None:
        """Who left or joined: by what was done to that broker, or to the partition."""
        for change in self.history.isr_changes:
            name = change.topic, change.partition
            acts = [act for act in self.timeline if act.is_within(change.at_ms)]
            can = any(
                act.broker == change.broker
                or name in act.partitions
                or act.topic == change.topic
                or (name in act.before.partitions and act.before.partitions[name].is_moving)
                or act.kind == "start"
                for act in acts
            )
            if not can:
                self._false(f"ISR change {change}")

    def _rules(self) -> None:
        """Rules that only some acts can hit."""
        by_act = {
            "B05": DEATHS, "B06": ("expire", "cut for long"), "B07": ("stop",), "B09": ("pause",),
            "L02": ("fill disk",), "Z12": ("cut", "cut for long"),
        }  # fmt: skip
        counts = {rule: len(self._of(*kinds)) for rule, kinds in by_act.items()}
        counts["P11"] = len(self._unclean_elections())
        # ZooKeeper may close the connection of a session that it ends.
        amid_move = sum(map(self._is_unclean_amid_move, self.report["unclean_elections"]))
        more = {"Z12": len(self._of("expire")), "P11": amid_move}
        hit = {rule["id"]: rule for rule in self.report["rules"]}
        for rule, count in counts.items():
            said = hit[rule]["count"] if rule in hit else 0
            is_right = count <= said <= count + more.get(rule, 0)
            self._check(is_right, f"rule {rule} hit {count} times", said)
        for rule in ("C02", "P03", "P07", "P12", "Z11", "K03", "C09"):
            if rule in hit:
                self._false(f"rule {rule}: {hit[rule]['says']}")

    # The truth about leaders.

    def _darkness(self) -> list[Dark]:
        found: list[Dark] = []
        open_: dict[Name, Dark] = {}
        for act in self.timeline:
            now = act.then.partitions
            for name in list(open_):
                if name not in now:  # its topic is being deleted
                    dark = open_.pop(name)
                    dark.ordered, dark.closed = act, self._deleted_by(act, name[0])
                elif now[name].leader >= 0:
                    open_.pop(name).closed = act
            if act.kind in DEPARTURES:
                opened = [*self._darkened(act)]
                found += opened
                open_ |= {dark.name: dark for dark in opened if dark.closed is None}
        return found

    def _darkened(self, act: IncidentAct) -> Iterator[Dark]:
        """The partitions that a departure leaves without a leader, if only for a moment."""
        was, now = act.before.partitions, act.then.partitions
        for name in sorted(was.keys() | now.keys()):
            before, then = was.get(name), now.get(name)
            is_left = then is not None and then.leader < 0
            if before is None or then is None or before.leader not in (-1, act.broker):
                # The order may have made it the leader a moment before.
                views = [view for view in (before, then) if view is not None]
                if act.is_amid_order and any(act.broker in view.replicas for view in views):
                    # No leader is wanted any more when the deletion of its topic begins.
                    yield Dark(name, act, None if is_left else act, is_sure=False)
            elif before.leader == act.broker and (is_left or act.kind != "stop"):
                dark = Dark(name, act, None if is_left else act)
                if act.is_amid_order:
                    # The order may have given it another leader a moment before.
                    dark.is_sure = False
                elif act.kind in ("expire", "cut for long"):
                    # A controller that is elected takes leaders away before it elects others.
                    is_alone = set(before.isr) == {act.broker}
                    if not is_alone and act.before.controller != act.broker:
                        continue
                    is_missed = before.version < then.version
                    dark.is_sure = is_alone and is_missed and act.kind == "cut for long"
                yield dark

    def _deleted_by(self, act: IncidentAct, topic: str | None) -> IncidentAct | None:
        """The act by which a deletion that has begun ends."""
        later = self.timeline[self.timeline.index(act) :]
        return next((each for each in later if topic not in each.then.deleting), None)

    # Inside.

    def _about(self, name: Name, key: str) -> list[Row]:
        """The rows about a partition."""
        return [row for row in self.report[key] if (row["topic"], row["partition"]) == name]

    def _of(self, *kinds: str) -> list[IncidentAct]:
        return [act for act in self.timeline if act.kind in kinds]

    def _matched(
        self,
        key: str,
        acts: Iterable[IncidentAct],
        fits: Callable[[IncidentAct, Row], bool],
        may_be: Callable[[Row], bool] = lambda _: False,
    ) -> None:
        """Each act has a row of its own, and each row an act."""
        rows = list(self.report[key])
        for act in acts:
            mine = next((row for row in rows if fits(act, row)), None)
            if mine is None:
                self._missed(f"{key}: {act} among {[self._shown(row) for row in rows]}")
            else:
                rows.remove(mine)
                self.judgement.found += 1
        for row in rows:
            if not may_be(row):
                self._false(f"{key}: {self._shown(row)}")

    def _check(self, is_right: bool, what: str, found: object) -> None:
        if is_right:
            self.judgement.found += 1
        else:
            self.judgement.missed.append(f"{what}; found: {found}")

    def _missed(self, what: str) -> None:
        self.judgement.missed.append(what)

    def _false(self, what: str) -> None:
        self.judgement.false.append(what)

    def _shown(self, row: Row) -> dict[str, Any]:
        return {k: v for k, v in row.items() if k not in ("file", "line", "end_file", "end_line")}

    def _dark(self, dark: Dark) -> str:
        return (
            f"{dark.name} from {dark.opened} to {dark.closed}{'' if dark.is_sure else ' perhaps'}"
        )
