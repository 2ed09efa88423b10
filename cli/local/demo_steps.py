"""The demonstration ``zkctl demo``: a cluster loses its controller and a broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import orjson

from zkcontroller_cli.console.options import Settings
from zkcontroller_cli.local import demonstration
from zkcontroller_cli.local.demonstration import Demonstration
from zkcontroller_cli.local.local_cluster import SESSION_TIMEOUT_MS

_BROKERS: Final = (1, 2, 3)
_TOPIC: Final = "orders"
_PARTITIONS: Final = 6
_ELECTIONS_MAX: Final = 20
"""The most elections, as the same broker may be elected again several times."""


def run(settings: Settings) -> int:
    """Run the demo in ``--dir``, or a temporary directory; stop the cluster whatever happens."""
    return demonstration.run(settings, _make, _steps, _clean_up)


def _make(directory: Path, console: Any) -> Demonstration:
    return Demonstration(directory, console, ("--dir", str(directory)))


def _steps(demo: Demonstration) -> None:
    _brokers_come_up(demo)
    _topic_is_created(demo)
    _controller_moves(demo)
    killed = _broker_dies(demo)
    _broker_returns(demo, *killed)
    _same_facts_by_command(demo)


def _brokers_come_up(demo: Demonstration) -> None:
    demo.chapter("Three brokers on an embedded ZooKeeper")
    began = time.monotonic()
    with demo.console.status("starting"):
        status = demo.zkctl(*("cluster", "start", "--brokers", str(len(_BROKERS)), "--detach"))
    elapsed_s = round(time.monotonic() - began, 1)
    for broker in status["brokers"]:
        demo.say(
            f"broker {broker['broker_id']} on port {broker['port']}, pid {broker['pid']}, "
            f"broker epoch {broker['broker_epoch']}"
        )
    ids = tuple(broker["broker_id"] for broker in status["brokers"] if broker["registered"])
    demo.fact(
        f"brokers {', '.join(map(str, ids))} are registered after {elapsed_s} s",
        ids == _BROKERS,
        brokers=ids,
        elapsed_s=elapsed_s,
    )
    controller = {key: status[key] for key in ("controller_id", "controller_epoch")}
    demo.fact(
        f"broker {controller['controller_id']} is the controller, "
        f"epoch {controller['controller_epoch']}",
        controller["controller_id"] in _BROKERS,
        **controller,
    )


def _topic_is_created(demo: Demonstration) -> None:
    demo.chapter(f"Topic {_TOPIC}: {_PARTITIONS} partitions with {len(_BROKERS)} replicas each")
    demo.zkctl(
        *("topic", "create", _TOPIC),
        *("--partitions", str(_PARTITIONS), "--replication-factor", str(len(_BROKERS))),
    )
    rows = demo.zkctl("partition", "list", "--topic", _TOPIC)
    _show(demo, rows)
    is_complete = len(rows) == _PARTITIONS and all(
        row["leader"] in _BROKERS and sorted(row["isr"]) == sorted(row["replicas"]) == [*_BROKERS]
        for row in rows
    )
    demo.fact(
        f"all {len(rows)} partitions have a leader and {len(_BROKERS)} replicas in sync",
        is_complete,
        partitions=_brief(rows),
    )


def _controller_moves(demo: Demonstration) -> None:
    demo.chapter("The znode /controller is deleted")
    elections = 0
    while True:
        election = demo.zkctl("controller", "elect", "--yes", is_shown=elections == 0)
        elections += 1
        before, after = election["controller_epoch_before"], election["controller_epoch"]
        first_ms = election["first_update_metadata_ms"]
        first = "" if first_ms is None else f", updated the first broker after {first_ms:g} ms"
        demo.say(
            f"broker {election['controller_id_before']} → broker {election['controller_id']}, "
            f"epoch {before} → {after}, elected after {election['elapsed_ms']:g} ms{first}"
        )
        demo.fact(f"epoch {after} follows epoch {before}", after == before + 1, **election)
        if (
            election["controller_id"] != election["controller_id_before"]
            or elections == _ELECTIONS_MAX
        ):
            break
        demo.say("the same broker was the quickest again: once more")
    demo.fact(
        f"another broker is the controller: {election['controller_id']}",
        election["controller_id"] not in (election["controller_id_before"], None),
        **election,
    )


def _broker_dies(demo: Demonstration) -> tuple[int, int]:
    """Kill a broker that is not the controller; returns its id and its broker epoch."""
    status = demo.zkctl("cluster", "status", is_shown=False)
    # Do not kill the controller: that would show two things at once.
    victim = next(b for b in status["brokers"] if b["broker_id"] != status["controller_id"])
    broker_id = victim["broker_id"]
    demo.chapter(f"Broker {broker_id} is killed (SIGKILL)")
    before = demo.zkctl("partition", "list", "--topic", _TOPIC, is_shown=False)
    led = [row["partition"] for row in before if row["leader"] == broker_id]
    demo.zkctl("broker", "stop", str(broker_id), "--kill")
    began = time.monotonic()
    rows = demo.wait_for(
        f"its session ends {SESSION_TIMEOUT_MS / 1000:g} s after its last sign of life",
        ("partition", "list", "--topic", _TOPIC),
        lambda rows: all(broker_id not in row["isr"] for row in rows),
    )
    elapsed_s = round(time.monotonic() - began, 1)
    _show(demo, rows)
    epochs = {row["partition"]: row["leader_epoch"] for row in before}
    taken_over = [row for row in rows if row["partition"] in led]
    demo.fact(
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
    demo.fact(
        f"broker {broker_id} is in no in-sync list any more",
        all(broker_id not in row["isr"] and row["leader"] in row["isr"] for row in rows),
        partitions=_brief(rows),
    )
    return broker_id, victim["broker_epoch"]


def _broker_returns(demo: Demonstration, broker_id: int, epoch_before: int) -> None:
    demo.chapter(f"Broker {broker_id} comes back")
    file = demo.directory / f"broker-{broker_id}" / "server.properties"
    demo.say(f"[dim]$ zkctl broker start …/broker-{broker_id}/server.properties --detach[/]")
    demo.zkctl("broker", "start", str(file), "--detach", is_shown=False)
    status = demo.wait_for(
        "waiting for its registration",
        ("cluster", "status"),
        lambda status: status["state"] == "running",
    )
    broker = next(b for b in status["brokers"] if b["broker_id"] == broker_id)
    epoch = broker["broker_epoch"]
    demo.fact(
        f"broker {broker_id} is registered again: epoch {epoch_before} → {epoch}",
        broker["alive"] and broker["registered"] and epoch > epoch_before,
        **broker,
    )


def _same_facts_by_command(demo: Demonstration) -> None:
    demo.chapter("The same, asked of the cluster itself")
    shown = {}
    for arguments in (
        ("controller", "show"),
        ("broker", "list"),
        ("partition", "list", "--topic", _TOPIC),
    ):
        output = demo.output_of(*arguments)
        demo.show(*arguments)
        demo.console.print(output.rstrip(), markup=False, soft_wrap=True)
        shown[arguments[0]] = orjson.loads(output)
    controller, rows = shown["controller"], shown["partition"]
    demo.fact(
        "controller, brokers and partitions agree with what was shown",
        controller["controller_id"] in _BROKERS
        and tuple(broker["broker_id"] for broker in shown["broker"]) == _BROKERS
        and all(row["controller_epoch"] <= controller["controller_epoch"] for row in rows)
        and all(row["leader"] in row["isr"] for row in rows),
        controller_id=controller["controller_id"],
        controller_epoch=controller["controller_epoch"],
        partitions=_brief(rows),
    )


def _clean_up(demo: Demonstration) -> None:
    from zkcontroller_cli.local import local_cluster
    from zkcontroller_cli.machine.cluster_file import ClusterFile

    demo.chapter("Cleaning up")
    if ClusterFile.load(demo.directory) is None:
        return
    try:
        status = demo.zkctl("cluster", "stop")
        demo.say(f"the cluster is {status['state']}")
    finally:
        # No process may be left behind, also after an error.
        if (cluster := ClusterFile.load(demo.directory)) is not None:
            local_cluster.kill(cluster)


def _show(demo: Demonstration, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        isr = ",".join(map(str, row["isr"]))
        demo.say(
            f"{row['topic']}-{row['partition']}  leader {row['leader']}  leader epoch "
            f"{row['leader_epoch']}  in sync {isr}"
        )


def _brief(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = ("partition", "leader", "leader_epoch", "isr")
    return [{key: row[key] for key in keys} for row in rows]
