"""The demonstration of a raft quorum: its leader is killed and restarted, another node stops.

No broker, no ZooKeeper and no Java take part.
"""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from replica_manager.regular_files import write_private

from . import story as stories
from .errors import Refused
from .options import Settings
from .ports import LOOPBACK, pick_free
from .processes import ProcessId, last_lines, python_module, spawn
from .story import Story

_NODES: Final = (1, 2, 3)
_EXIT_S: Final = 20.0
_MORE_RECORDS: Final = 3
"""The active controller writes two records a second, which shows that it is active."""


@dataclass
class Nodes(Story):
    """Three nodes of a quorum."""

    ports: dict[int, int] = field(default_factory=dict)
    processes: dict[int, ProcessId] = field(default_factory=dict)

    def folder(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}"

    def properties(self, node_id: int) -> Path:
        return self.folder(node_id) / "controller.properties"

    def configure(self, node_id: int) -> None:
        """Writes the node's controller.properties."""
        voters = ",".join(f"{each}@{LOOPBACK}:{port}" for each, port in self.ports.items())
        lines = (
            "process.roles=controller",
            f"node.id={node_id}",
            f"controller.quorum.voters={voters}",
            "controller.listener.names=CONTROLLER",
            f"listeners=CONTROLLER://{LOOPBACK}:{self.ports[node_id]}",
            f"log.dirs={self.folder(node_id) / 'data'}",
        )
        self.folder(node_id).mkdir(parents=True, exist_ok=True)
        write_private(self.properties(node_id), "\n".join((*lines, "")))

    def start(self, node_id: int) -> None:
        """Starts a node; it goes on in the background."""
        assert __package__, "part of a package"
        file = str(self.properties(node_id))
        command = python_module(__package__, "quorum", "start", file)
        self.processes[node_id] = spawn(command, self.console_of(node_id))
        self.tell(f"[dim]$ zkctl quorum start …/node-{node_id}/controller.properties &[/]")
        self.tell(f"node {node_id} on port {self.ports[node_id]}, pid {self.pid(node_id)}")

    def end(self, node_id: int, number: signal.Signals) -> None:
        """Sends a node a signal and waits for its end."""
        process = self.processes.pop(node_id)
        self.tell(f"[dim]$ kill -{number.name.removeprefix('SIG')} {process.pid}[/]")
        process.signal(number)
        if not process.wait_gone(_EXIT_S):
            process.signal(signal.SIGKILL)
            raise Refused(f"node {node_id} has not ended {_EXIT_S:g} s after {number.name}")

    def pid(self, node_id: int) -> int:
        return self.processes[node_id].pid

    def console_of(self, node_id: int) -> Path:
        return self.folder(node_id) / "console.log"

    @property
    def ask(self) -> tuple[str, ...]:
        """The command that asks the leader."""
        servers = ",".join(f"{LOOPBACK}:{self.ports[each]}" for each in sorted(self.processes))
        return ("quorum", "describe", "--bootstrap-controller", servers)

    def led_after(self, epoch: int, what: str) -> Any:
        """What the leader of a later epoch says, once something of that epoch is committed."""

        def is_led(status: Mapping[str, Any]) -> bool:
            return bool(status["leader_epoch"] > epoch and status["high_watermark"] > 0)

        return self.wait_for(what, self.ask, is_led)


def tell(settings: Settings) -> int:
    """Run the demo in ``--dir``, or a temporary directory; end the nodes whatever happens."""
    return stories.tell(settings, Nodes, _tell, _clean_up)


def _tell(story: Nodes) -> None:
    _nodes_come_up(story)
    killed, before = _leader_is_killed(story)
    _killed_one_returns(story, killed, before)
    _leader_stops(story)
    _logs_are_equal(story)


def _nodes_come_up(story: Nodes) -> None:
    story.chapter("Three nodes, formatted as one cluster")
    cluster_id = story.zkctl("storage", "random-uuid")["uuid"]
    for node_id in _NODES:
        story.ports[node_id] = pick_free(story.ports.values())
    for node_id in _NODES:
        story.configure(node_id)
        given = ("storage", "format", "--cluster-id", cluster_id, "--config")
        story.tell(f"[dim]$ zkctl {' '.join(given)} …/node-{node_id}/controller.properties[/]")
        story.output_of(*given, str(story.properties(node_id)))
    began = time.monotonic()
    for node_id in _NODES:
        story.start(node_id)
    status = story.led_after(0, "waiting for the first leader")
    elapsed_s = round(time.monotonic() - began, 1)
    story.show(*story.ask)
    story.fact(
        f"node {status['leader_id']} leads in epoch {status['leader_epoch']} after {elapsed_s} s",
        status["leader_id"] in _NODES and tuple(status["current_voters"]) == _NODES,
        **status,
        elapsed_s=elapsed_s,
    )


def _leader_is_killed(story: Nodes) -> tuple[int, Mapping[str, Any]]:
    """Its id, and how the quorum stood before."""
    before = story.zkctl(*story.ask, is_shown=False)
    leader = before["leader_id"]
    story.chapter(f"Node {leader}, the leader, is killed (SIGKILL)")
    story.end(leader, signal.SIGKILL)
    began = time.monotonic()
    status = story.led_after(before["leader_epoch"], "the others notice after some two seconds")
    elapsed_s = round(time.monotonic() - began, 1)
    story.fact(
        f"node {status['leader_id']} leads in epoch {status['leader_epoch']} after {elapsed_s} s",
        status["leader_id"] in story.processes,
        **status,
        elapsed_s=elapsed_s,
    )
    story.fact(
        f"nothing that was committed is lost: {before['high_watermark']} records, "
        f"now {status['high_watermark']}",
        status["high_watermark"] >= before["high_watermark"],
        before=before["high_watermark"],
        now=status["high_watermark"],
    )
    return leader, before


def _killed_one_returns(story: Nodes, node_id: int, before: Mapping[str, Any]) -> None:
    story.chapter(f"Node {node_id} comes back")
    story.start(node_id)
    ask = (*story.ask, "--replication")
    rows = story.wait_for(
        "it fetches what it has missed",
        ask,
        lambda rows: any(
            row["node_id"] == node_id
            and row["lag"] <= 1
            and row["log_end_offset"] > before["high_watermark"]
            for row in rows
        ),
    )
    story.show(*ask)
    for row in rows:
        story.tell(
            f"node {row['node_id']}  {row['status']}  log end offset {row['log_end_offset']}  "
            f"lag {row['lag']}"
        )
    returned = next(row for row in rows if row["node_id"] == node_id)
    story.fact(
        f"node {node_id} follows and has everything up to {returned['log_end_offset']}",
        returned["status"] == "follower" and returned["lag"] <= 1,
        **returned,
    )


def _leader_stops(story: Nodes) -> None:
    before = story.zkctl(*story.ask, is_shown=False)
    leader = before["leader_id"]
    story.chapter(f"Node {leader}, the leader, is stopped (SIGTERM): it hands over")
    story.end(leader, signal.SIGTERM)
    began = time.monotonic()
    status = story.led_after(before["leader_epoch"], "waiting for its successor")
    elapsed_s = round(time.monotonic() - began, 1)
    story.fact(
        f"node {status['leader_id']} leads in epoch {status['leader_epoch']}, "
        f"seen {elapsed_s} s after the other had gone",
        status["leader_id"] in story.processes,
        **status,
        elapsed_s=elapsed_s,
    )
    story.start(leader)


def _logs_are_equal(story: Nodes) -> None:
    story.chapter("The three logs, read from the files")
    status = story.zkctl(*story.ask, is_shown=False)
    enough = status["high_watermark"] + _MORE_RECORDS
    story.wait_for(
        "every node gets some records more",
        (*story.ask, "--replication"),
        lambda rows: (
            len(rows) == len(_NODES) and all(row["log_end_offset"] >= enough for row in rows)
        ),
    )
    story.tell("[dim]$ zkctl quorum dump …/node-*/data/__cluster_metadata-0/*.log[/]")
    end = status["high_watermark"]
    found = {node_id: _records_below(story, node_id, end) for node_id in _NODES}
    digests = {
        node_id: hashlib.sha256(b"\n".join(map(orjson.dumps, records))).hexdigest()
        for node_id, records in found.items()
    }
    changes = [record for record in found[1] if record["type"] == "LEADER_CHANGE"]
    leaders = {record["epoch"]: record["data"]["leaderId"] for record in changes}
    for epoch, leader in leaders.items():
        story.tell(f"epoch {epoch}: node {leader} led")
    story.fact(
        f"the first {end} records are the same on all three nodes",
        len(found[1]) == end and len(set(digests.values())) == 1,
        records={node_id: len(records) for node_id, records in found.items()},
        sha256=digests,
    )
    story.fact(
        f"each of the {len(leaders)} epochs had one leader",
        len(changes) == len(leaders) >= len(_NODES) and max(leaders) == status["leader_epoch"],
        leaders={str(epoch): leader for epoch, leader in leaders.items()},
    )


def _records_below(story: Nodes, node_id: int, end: int) -> list[dict[str, Any]]:
    """What the node's log holds, without the names of its files."""
    files = sorted((story.folder(node_id) / "data" / "__cluster_metadata-0").glob("*.log"))
    lines = story.output_of("quorum", "dump", *map(str, files)).splitlines()
    rows = [orjson.loads(line) for line in lines]
    return [
        {key: value for key, value in row.items() if key != "file"}
        for row in rows
        if row["offset"] < end
    ]


def _clean_up(story: Nodes) -> None:
    story.chapter("Cleaning up")
    for node_id, process in story.processes.items():
        if not process.is_alive:
            said = "\n".join(last_lines(story.console_of(node_id)))
            story.tell(f"node {node_id} had ended by itself:\n{said}")
        process.signal(signal.SIGTERM)
    for process in story.processes.values():
        if not process.wait_gone(_EXIT_S):
            process.signal(signal.SIGKILL)
    story.tell("the nodes have ended")
