"""The demonstration of a raft quorum: its leader is killed and restarted, another node stops.

It needs no broker, no ZooKeeper and no Java.
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

from kafka_common.net.loopback_ports import LOOPBACK
from replica_manager.regular_files import write_private
from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.console.options import Settings
from zkcontroller_cli.local import demonstration
from zkcontroller_cli.local.demonstration import Demonstration
from zkcontroller_cli.machine.ports import pick_free
from zkcontroller_cli.machine.processes import ZKCTL, ProcessId, last_lines, python_module, spawn

_NODES: Final = (1, 2, 3)
_EXIT_S: Final = 20.0
_MORE_RECORDS: Final = 3
"""How many more records to wait for; the active controller writes two per second."""


@dataclass
class Nodes(Demonstration):
    """The demonstration's three nodes of a quorum."""

    ports: dict[int, int] = field(default_factory=dict)
    processes: dict[int, ProcessId] = field(default_factory=dict)

    def folder(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}"

    def properties(self, node_id: int) -> Path:
        return self.folder(node_id) / "controller.properties"

    def configure(self, node_id: int) -> None:
        """Write the node's controller.properties."""
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
        """Start a node in the background."""
        file = str(self.properties(node_id))
        command = python_module(ZKCTL, "quorum", "start", file)
        self.processes[node_id] = spawn(command, self.console_of(node_id))
        self.say(f"[dim]$ zkctl quorum start …/node-{node_id}/controller.properties &[/]")
        self.say(f"node {node_id} on port {self.ports[node_id]}, pid {self.pid(node_id)}")

    def end(self, node_id: int, number: signal.Signals) -> None:
        """Send a signal to a node, and wait until it has ended."""
        process = self.processes.pop(node_id)
        self.say(f"[dim]$ kill -{number.name.removeprefix('SIG')} {process.pid}[/]")
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
        """The command that describes the quorum, with the addresses of the running nodes."""
        servers = ",".join(f"{LOOPBACK}:{self.ports[each]}" for each in sorted(self.processes))
        return ("quorum", "describe", "--bootstrap-controller", servers)

    def led_after(self, epoch: int, what: str) -> Any:
        """Wait for a leader of a later epoch; its description when its high watermark is known."""

        def is_led(status: Mapping[str, Any]) -> bool:
            return bool(status["leader_epoch"] > epoch and status["high_watermark"] > 0)

        return self.wait_for(what, self.ask, is_led)


def run(settings: Settings) -> int:
    """Run the demo in ``--dir``, or a temporary directory; end the nodes whatever happens."""
    return demonstration.run(settings, Nodes, _steps, _clean_up)


def _steps(demo: Nodes) -> None:
    _nodes_come_up(demo)
    killed, before = _leader_is_killed(demo)
    _killed_one_returns(demo, killed, before)
    _leader_stops(demo)
    _logs_are_equal(demo)


def _nodes_come_up(demo: Nodes) -> None:
    demo.chapter("Three nodes, formatted as one cluster")
    cluster_id = demo.zkctl("storage", "random-uuid")["uuid"]
    for node_id in _NODES:
        demo.ports[node_id] = pick_free(demo.ports.values())
    for node_id in _NODES:
        demo.configure(node_id)
        given = ("storage", "format", "--cluster-id", cluster_id, "--config")
        demo.say(f"[dim]$ zkctl {' '.join(given)} …/node-{node_id}/controller.properties[/]")
        demo.output_of(*given, str(demo.properties(node_id)))
    began = time.monotonic()
    for node_id in _NODES:
        demo.start(node_id)
    status = demo.led_after(0, "waiting for the first leader")
    elapsed_s = round(time.monotonic() - began, 1)
    demo.show(*demo.ask)
    demo.fact(
        f"node {status['leader_id']} leads in epoch {status['leader_epoch']} after {elapsed_s} s",
        status["leader_id"] in _NODES and tuple(status["current_voters"]) == _NODES,
        **status,
        elapsed_s=elapsed_s,
    )


def _leader_is_killed(demo: Nodes) -> tuple[int, Mapping[str, Any]]:
    """Kill the leader; returns its id, and the description of the quorum before."""
    before = demo.zkctl(*demo.ask, is_shown=False)
    leader = before["leader_id"]
    demo.chapter(f"Node {leader}, the leader, is killed (SIGKILL)")
    demo.end(leader, signal.SIGKILL)
    began = time.monotonic()
    status = demo.led_after(before["leader_epoch"], "the others notice after some two seconds")
    elapsed_s = round(time.monotonic() - began, 1)
    demo.fact(
        f"node {status['leader_id']} leads in epoch {status['leader_epoch']} after {elapsed_s} s",
        status["leader_id"] in demo.processes,
        **status,
        elapsed_s=elapsed_s,
    )
    demo.fact(
        f"nothing that was committed is lost: {before['high_watermark']} records, "
        f"now {status['high_watermark']}",
        status["high_watermark"] >= before["high_watermark"],
        before=before["high_watermark"],
        now=status["high_watermark"],
    )
    return leader, before


def _killed_one_returns(demo: Nodes, node_id: int, before: Mapping[str, Any]) -> None:
    demo.chapter(f"Node {node_id} comes back")
    demo.start(node_id)
    ask = (*demo.ask, "--replication")
    rows = demo.wait_for(
        "it fetches what it has missed",
        ask,
        lambda rows: any(
            row["node_id"] == node_id
            and row["lag"] <= 1
            and row["log_end_offset"] > before["high_watermark"]
            for row in rows
        ),
    )
    demo.show(*ask)
    for row in rows:
        demo.say(
            f"node {row['node_id']}  {row['status']}  log end offset {row['log_end_offset']}  "
            f"lag {row['lag']}"
        )
    returned = next(row for row in rows if row["node_id"] == node_id)
    demo.fact(
        f"node {node_id} follows and has everything up to {returned['log_end_offset']}",
        returned["status"] == "follower" and returned["lag"] <= 1,
        **returned,
    )


def _leader_stops(demo: Nodes) -> None:
    before = demo.zkctl(*demo.ask, is_shown=False)
    leader = before["leader_id"]
    demo.chapter(f"Node {leader}, the leader, is stopped (SIGTERM): it hands over")
    demo.end(leader, signal.SIGTERM)
    began = time.monotonic()
    status = demo.led_after(before["leader_epoch"], "waiting for its successor")
    elapsed_s = round(time.monotonic() - began, 1)
    demo.fact(
        f"node {status['leader_id']} leads in epoch {status['leader_epoch']}, "
        f"seen {elapsed_s} s after the other had gone",
        status["leader_id"] in demo.processes,
        **status,
        elapsed_s=elapsed_s,
    )
    demo.start(leader)


def _logs_are_equal(demo: Nodes) -> None:
    demo.chapter("The three logs, read from the files")
    status = demo.zkctl(*demo.ask, is_shown=False)
    enough = status["high_watermark"] + _MORE_RECORDS
    demo.wait_for(
        "every node gets some records more",
        (*demo.ask, "--replication"),
        lambda rows: (
            len(rows) == len(_NODES) and all(row["log_end_offset"] >= enough for row in rows)
        ),
    )
    demo.say("[dim]$ zkctl quorum dump …/node-*/data/__cluster_metadata-0/*.log[/]")
    end = status["high_watermark"]
    found = {node_id: _records_below(demo, node_id, end) for node_id in _NODES}
    digests = {
        node_id: hashlib.sha256(b"\n".join(map(orjson.dumps, records))).hexdigest()
        for node_id, records in found.items()
    }
    changes = [record for record in found[1] if record["type"] == "LEADER_CHANGE"]
    leaders = {record["epoch"]: record["data"]["leaderId"] for record in changes}
    for epoch, leader in leaders.items():
        demo.say(f"epoch {epoch}: node {leader} led")
    demo.fact(
        f"the first {end} records are the same on all three nodes",
        len(found[1]) == end and len(set(digests.values())) == 1,
        records={node_id: len(records) for node_id, records in found.items()},
        sha256=digests,
    )
    demo.fact(
        f"each of the {len(leaders)} epochs had one leader",
        len(changes) == len(leaders) >= len(_NODES) and max(leaders) == status["leader_epoch"],
        leaders={str(epoch): leader for epoch, leader in leaders.items()},
    )


def _records_below(demo: Nodes, node_id: int, end: int) -> list[dict[str, Any]]:
    """The records of the node's log below offset ``end``, without the names of their files."""
    files = sorted((demo.folder(node_id) / "data" / "__cluster_metadata-0").glob("*.log"))
    lines = demo.output_of("quorum", "dump", *map(str, files)).splitlines()
    rows = [orjson.loads(line) for line in lines]
    return [
        {key: value for key, value in row.items() if key != "file"}
        for row in rows
        if row["offset"] < end
    ]


def _clean_up(demo: Nodes) -> None:
    demo.chapter("Cleaning up")
    for node_id, process in demo.processes.items():
        if not process.is_alive:
            said = "\n".join(last_lines(demo.console_of(node_id)))
            demo.say(f"node {node_id} had ended by itself:\n{said}")
        process.signal(signal.SIGTERM)
    for process in demo.processes.values():
        if not process.wait_gone(_EXIT_S):
            process.signal(signal.SIGKILL)
    demo.say("the nodes have ended")
