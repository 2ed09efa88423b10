"""A story for newcomers, and a check of the whole house: each fact is asked for, none assumed.

Each step is a ``zkctl`` command in a process of its own, shown as one could type it, and what it
answers as JSON is checked.  A fact that is not as it must be ends the story with exit code 1.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import orjson

from .errors import CommandFailed, ExitCode, Refused, TimedOut
from .local_cluster import SESSION_TIMEOUT_MS
from .options import Settings
from .processes import python_module
from .render import Format, Layout, console_for, named

_BROKERS: Final = (1, 2, 3)
_TOPIC: Final = "orders"
_PARTITIONS: Final = 6
_ELECTIONS_MAX: Final = 20
"""The same broker may win again; so many times in a row it never does."""
_STEP_S: Final = 50.0
_NOTICE_S: Final = 20.0
_FACTS: Final = Layout(named("fact").name, ("fact", "is_true", "evidence"), ("fact", "is_true"))


class FactIsFalse(CommandFailed):
    """Something that the story tells was not so."""

    exit_code = ExitCode.FINDING


@dataclass
class Story:
    """The cluster of the demo, and what was found true so far."""

    directory: Path
    console: Any
    facts: list[dict[str, Any]] = field(default_factory=list)

    def chapter(self, title: str) -> None:
        """Say what comes."""
        self.console.print(f"\n[bold cyan]{title}[/]")

    def tell(self, text: str) -> None:
        """Say what happened."""
        self.console.print(f"  {text}", soft_wrap=True)

    def zkctl(self, *arguments: str, is_shown: bool = True) -> Any:
        """Run a command in its own process and return what it answered, from JSON."""
        if is_shown:
            self.tell(f"[dim]$ zkctl {shlex.join(arguments)} --dir … -o json[/]")
        return orjson.loads(self.output_of(*arguments))

    def output_of(self, *arguments: str) -> str:
        """What the command prints with ``-o json``; Refused, with its own words, if it fails."""
        assert __package__, "part of a package"
        command = python_module(__package__, *arguments, "--dir", str(self.directory))
        # An address in the user's environment would outrank the demo's own cluster.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ZKCTL_")}
        try:
            done = subprocess.run(
                [*command, "-o", "json"],
                capture_output=True,
                text=True,
                timeout=_STEP_S,
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimedOut(f"zkctl {shlex.join(arguments)} took over {_STEP_S:g} s") from None
        if done.returncode != ExitCode.OK:
            raise Refused(f"zkctl {shlex.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def fact(self, fact: str, is_true: bool, **evidence: Any) -> None:
        """Note a fact and what shows it; FactIsFalse ends the story."""
        self.facts.append({"fact": fact, "is_true": is_true, "evidence": evidence})
        mark = "[bold green]✓[/]" if is_true else "[bold red]✗[/]"
        self.tell(f"{mark} {fact}")
        if not is_true:
            shown = orjson.dumps(evidence).decode()
            raise FactIsFalse(f"not true: {fact}; seen: {shown}")

    def wait_for(self, what: str, arguments: tuple[str, ...], is_so: Callable[[Any], bool]) -> Any:
        """Ask again and again until the answer is as it must be; the last answer either way."""
        deadline = time.monotonic() + _NOTICE_S
        with self.console.status(what):
            while not is_so(answer := self.zkctl(*arguments, is_shown=False)):
                if time.monotonic() > deadline:
                    break
        return answer


def tell(settings: Settings) -> int:
    """Run the demo in ``--dir``, or a temporary directory; stop the cluster whatever happens."""
    is_table = settings.renderer.format is Format.TABLE
    console = console_for(sys.stdout if is_table else sys.stderr)
    with tempfile.TemporaryDirectory(prefix="zkctl-demo-") as temporary:
        story = Story((settings.directory_flag or Path(temporary)).absolute(), console)
        # SIGTERM unwinds like Ctrl-C: no process of the demo may outlive it.
        signal.signal(signal.SIGTERM, _interrupt)
        began = time.monotonic()
        try:
            _tell(story)
        finally:
            _clean_up(story)
            if not is_table:
                settings.renderer.rows(story.facts, _FACTS)
    elapsed_s = time.monotonic() - began
    console.print(f"\n[bold]{len(story.facts)} facts, all true, in {elapsed_s:.0f} s.[/]")
    return ExitCode.OK


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _tell(story: Story) -> None:
    _brokers_come_up(story)
    _topic_is_created(story)
    _controller_moves(story)
    killed = _broker_dies(story)
    _broker_returns(story, *killed)
    _same_facts_by_command(story)


def _brokers_come_up(story: Story) -> None:
    story.chapter("Three brokers on an embedded ZooKeeper")
    began = time.monotonic()
    with story.console.status("starting"):
        status = story.zkctl(*("cluster", "start", "--brokers", str(len(_BROKERS)), "--detach"))
    elapsed_s = round(time.monotonic() - began, 1)
    for broker in status["brokers"]:
        story.tell(
            f"broker {broker['broker_id']} on port {broker['port']}, pid {broker['pid']}, "
            f"broker epoch {broker['broker_epoch']}"
        )
    ids = tuple(broker["broker_id"] for broker in status["brokers"] if broker["registered"])
    story.fact(
        f"brokers {', '.join(map(str, ids))} are registered after {elapsed_s} s",
        ids == _BROKERS,
        brokers=ids,
        elapsed_s=elapsed_s,
    )
    controller = {key: status[key] for key in ("controller_id", "controller_epoch")}
    story.fact(
        f"broker {controller['controller_id']} is the controller, "
        f"epoch {controller['controller_epoch']}",
        controller["controller_id"] in _BROKERS,
        **controller,
    )


def _topic_is_created(story: Story) -> None:
    story.chapter(f"Topic {_TOPIC}: {_PARTITIONS} partitions with {len(_BROKERS)} replicas each")
    story.zkctl(
        *("topic", "create", _TOPIC),
        *("--partitions", str(_PARTITIONS), "--replication-factor", str(len(_BROKERS))),
    )
    rows = story.zkctl("partition", "list", "--topic", _TOPIC)
    _show(story, rows)
    is_complete = len(rows) == _PARTITIONS and all(
        row["leader"] in _BROKERS and sorted(row["isr"]) == sorted(row["replicas"]) == [*_BROKERS]
        for row in rows
    )
    story.fact(
        f"all {len(rows)} partitions have a leader and {len(_BROKERS)} replicas in sync",
        is_complete,
        partitions=_brief(rows),
    )


def _controller_moves(story: Story) -> None:
    story.chapter("The znode /controller is deleted")
    elections = 0
    while True:
        election = story.zkctl("controller", "elect", "--yes", is_shown=elections == 0)
        elections += 1
        before, after = election["controller_epoch_before"], election["controller_epoch"]
        first_ms = election["first_update_metadata_ms"]
        heard = f", told the first broker after {first_ms:g} ms" if first_ms is not None else ""
        story.tell(
            f"broker {election['controller_id_before']} → broker {election['controller_id']}, "
            f"epoch {before} → {after}, elected after {election['elapsed_ms']:g} ms{heard}"
        )
        story.fact(f"epoch {after} follows epoch {before}", after == before + 1, **election)
        if (
            election["controller_id"] != election["controller_id_before"]
            or elections == _ELECTIONS_MAX
        ):
            break
        story.tell("the same broker was the quickest again: once more")
    story.fact(
        f"another broker is the controller: {election['controller_id']}",
        election["controller_id"] not in (election["controller_id_before"], None),
        **election,
    )


def _broker_dies(story: Story) -> tuple[int, int]:
    """Kill a broker; its id and the epoch it had."""
    status = story.zkctl("cluster", "status", is_shown=False)
    # Not the controller: that one was moved already, and its death would be two stories in one.
    victim = next(b for b in status["brokers"] if b["broker_id"] != status["controller_id"])
    broker_id = victim["broker_id"]
    story.chapter(f"Broker {broker_id} is killed (SIGKILL)")
    before = story.zkctl("partition", "list", "--topic", _TOPIC, is_shown=False)
    led = [row["partition"] for row in before if row["leader"] == broker_id]
    story.zkctl("broker", "stop", str(broker_id), "--kill")
    began = time.monotonic()
    rows = story.wait_for(
        f"its session ends {SESSION_TIMEOUT_MS / 1000:g} s after its last sign of life",
        ("partition", "list", "--topic", _TOPIC),
        lambda rows: all(broker_id not in row["isr"] for row in rows),
    )
    elapsed_s = round(time.monotonic() - began, 1)
    _show(story, rows)
    epochs = {row["partition"]: row["leader_epoch"] for row in before}
    taken_over = [row for row in rows if row["partition"] in led]
    story.fact(
        f"the partitions it led ({', '.join(map(str, led))}) are led by others after {elapsed_s} s",
        bool(led)
        and all(
            row["leader"] in _BROKERS
            and row["leader"] != broker_id
            and row["leader_epoch"] > epochs[row["partition"]]
            for row in taken_over
        ),
        partitions=_brief(taken_over),
        elapsed_s=elapsed_s,
    )
    story.fact(
        f"broker {broker_id} is in no in-sync list any more",
        all(broker_id not in row["isr"] and row["leader"] in row["isr"] for row in rows),
        partitions=_brief(rows),
    )
    return broker_id, victim["broker_epoch"]


def _broker_returns(story: Story, broker_id: int, epoch_before: int) -> None:
    story.chapter(f"Broker {broker_id} comes back")
    file = story.directory / f"broker-{broker_id}" / "server.properties"
    story.tell(f"[dim]$ zkctl broker start …/broker-{broker_id}/server.properties --detach[/]")
    story.zkctl("broker", "start", str(file), "--detach", is_shown=False)
    status = story.wait_for(
        "waiting for its registration",
        ("cluster", "status"),
        lambda status: status["state"] == "running",
    )
    broker = next(b for b in status["brokers"] if b["broker_id"] == broker_id)
    epoch = broker["broker_epoch"]
    story.fact(
        f"broker {broker_id} is registered again: epoch {epoch_before} → {epoch}",
        broker["alive"] and broker["registered"] and epoch > epoch_before,
        **broker,
    )


def _same_facts_by_command(story: Story) -> None:
    story.chapter("The same, asked of the cluster itself")
    shown = {}
    for arguments in (
        ("controller", "show"),
        ("broker", "list"),
        ("partition", "list", "--topic", _TOPIC),
    ):
        output = story.output_of(*arguments)
        story.tell(f"[dim]$ zkctl {shlex.join(arguments)} --dir … -o json[/]")
        story.console.print(output.rstrip(), markup=False, soft_wrap=True)
        shown[arguments[0]] = orjson.loads(output)
    controller, rows = shown["controller"], shown["partition"]
    story.fact(
        "controller, brokers and partitions agree with what was told",
        controller["controller_id"] in _BROKERS
        and tuple(broker["broker_id"] for broker in shown["broker"]) == _BROKERS
        and all(row["controller_epoch"] <= controller["controller_epoch"] for row in rows)
        and all(row["leader"] in row["isr"] for row in rows),
        controller_id=controller["controller_id"],
        controller_epoch=controller["controller_epoch"],
        partitions=_brief(rows),
    )


def _clean_up(story: Story) -> None:
    from . import local_cluster
    from .cluster_file import ClusterFile

    story.chapter("Cleaning up")
    if ClusterFile.load(story.directory) is None:
        return
    try:
        status = story.zkctl("cluster", "stop")
        story.tell(f"the cluster is {status['state']}")
    finally:
        # Whatever the story died of: nothing of it stays behind.
        if (cluster := ClusterFile.load(story.directory)) is not None:
            local_cluster.kill(cluster)


def _show(story: Story, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        isr = ",".join(map(str, row["isr"]))
        story.tell(
            f"{row['topic']}-{row['partition']}  leader {row['leader']}  leader epoch "
            f"{row['leader_epoch']}  in sync {isr}"
        )


def _brief(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = ("partition", "leader", "leader_epoch", "isr")
    return [{key: row[key] for key in keys} for row in rows]
