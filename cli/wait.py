"""``zkctl wait``: returns when the cluster fulfils all conditions.

It looks again when a ZooKeeper watch fires, and at the latest after a second, so that it also sees
a change between a look and setting the watches.  Brokers have no watches, so they are polled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.console.errors import BadUsage, CannotConnect, NotLetIn, TimedOut
from zkcontroller_cli.console.options import Settings, say, settings, shared_options
from zkcontroller_cli.console.render import named
from zkcontroller_cli.waiting.conditions import (
    ClusterLook,
    Condition,
    WaitKind,
    missing_for,
    parse_condition,
    summary_of,
)

if TYPE_CHECKING:
    from zkcontroller_cli.wire.requests import Deadline

_KEYS: Final = ("condition", "is_met", "elapsed_ms", "waits_for")
_LAYOUT: Final = named("condition", keys=_KEYS)
_LATEST_LOOK_S: Final = 1.0
_POLL_S: Final = 0.25
_SHOWN: Final = 3
"""The most unfulfilled parts of a condition named on stderr; the result has more of them."""

Look = Callable[[], ClusterLook]
Pause = Callable[[ClusterLook], None]


@shared_options
@click.command("wait")
@click.option(
    "--for",
    "wanted",
    multiple=True,
    required=True,
    metavar="CONDITION",
    help="isr=full, controller, deleted=TOPIC, reassigned, broker=ID or leader=TOPIC-PARTITION.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="GLOB",
    help="isr=full and reassigned: only these topics.",
)
def command(wanted: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """Wait until every CONDITION holds at once; exit code 4 if not within --timeout.

    Looks at ZooKeeper where it is named, else at brokers. What it still waits for goes to stderr.
    isr=full: every partition has a live leader and all its replicas in sync. deleted: the topic's
    znodes, replicas and deletion mark are gone. reassigned: nothing is being moved. broker: it is
    registered. controller: one is elected, and its broker registered.

    Examples:
      zkctl wait --for isr=full --timeout 600
      zkctl wait --for broker=3 --for controller
      zkctl wait --for deleted=orders
    """
    conditions = [parse_condition(text) for text in dict.fromkeys(wanted)]
    kinds = {condition.kind for condition in conditions}
    if topics and not kinds & {WaitKind.ISR, WaitKind.REASSIGNED}:
        raise BadUsage("--topic limits isr=full and reassigned: neither is waited for")
    given = settings()
    if _is_watched(given):
        _wait_at_zookeeper(given, conditions, topics)
    else:
        _wait_at_brokers(given, conditions, topics)


def _is_watched(given: Settings) -> bool:
    """Whether to read ZooKeeper: it is named, and brokers are not named more explicitly."""
    zookeeper, bootstrap = given.find_zookeeper(), given.find_bootstrap()
    if zookeeper is None or bootstrap is None:
        return zookeeper is not None
    return zookeeper.origin <= bootstrap.origin


def _wait_at_zookeeper(
    given: Settings, conditions: Sequence[Condition], topics: Sequence[str]
) -> None:
    from zkcontroller_cli.waiting.looks import look_at_zookeeper, watch_for
    from zkcontroller_cli.wire.requests import Deadline
    from zkcontroller_cli.znodes.session import open_zookeeper

    woken = threading.Event()
    deadline = Deadline(given.deadline_s)
    with open_zookeeper(given, lambda _fired: woken.set()) as zookeeper:

        def look() -> ClusterLook:
            woken.clear()
            return look_at_zookeeper(zookeeper, conditions)

        def pause(seen: ClusterLook) -> None:
            watch_for(zookeeper, conditions, seen)
            woken.wait(min(_LATEST_LOOK_S, deadline.left_s))

        _wait(given, deadline, conditions, topics, look, pause)


def _wait_at_brokers(
    given: Settings, conditions: Sequence[Condition], topics: Sequence[str]
) -> None:
    from zkcontroller_cli.waiting.looks import look_at_brokers
    from zkcontroller_cli.wire.requests import Deadline, run

    deadline = Deadline(given.deadline_s)
    bootstrap = given.bootstrap()

    def look() -> ClusterLook:
        return run(look_at_brokers(bootstrap, deadline, conditions))

    def pause(_seen: ClusterLook) -> None:
        time.sleep(min(_POLL_S, deadline.left_s))

    _wait(given, deadline, conditions, topics, look, pause)


def _wait(
    given: Settings,
    deadline: Deadline,
    conditions: Sequence[Condition],
    topics: Sequence[str],
    look: Look,
    pause: Pause,
) -> None:
    """Wait until all conditions are fulfilled or time is up, and show the result.

    TimedOut after the result if a condition is not fulfilled.
    """
    began = time.monotonic()
    said: list[str] = []
    is_seen = False
    missing: Mapping[str, list[str]] = {each.text: ["nothing was seen yet"] for each in conditions}
    while True:
        seen = None
        try:
            seen = look()
        except NotLetIn:
            raise
        except (CannotConnect, TimedOut) as error:
            if is_seen and deadline.is_over:
                break  # the last successful look is more useful than this error
            missing = {text: [str(error)] for text in missing}
        else:
            is_seen = True
            missing = {each.text: missing_for(each, seen, topics) for each in conditions}
        if not any(missing.values()) or deadline.is_over:
            break
        lines = [_line(text, left) for text, left in missing.items() if left]
        if lines != said:
            said = lines
            for line in lines:
                say(line)
        if seen is None:
            time.sleep(min(_POLL_S, deadline.left_s))
        else:
            pause(seen)
    elapsed_ms = round((time.monotonic() - began) * 1000)
    given.renderer.rows(
        [_row(each.text, missing[each.text], elapsed_ms) for each in conditions], _LAYOUT
    )
    left = [text for text, those in missing.items() if those]
    if left:
        raise TimedOut(f"not in time: {'; '.join(_line(text, missing[text]) for text in left)}")


def _line(text: str, missing: Sequence[str]) -> str:
    return f"waits for {text}: {', '.join(summary_of(missing, _SHOWN))}"


def _row(text: str, missing: Sequence[str], elapsed_ms: int) -> dict[str, Any]:
    return {
        "condition": text,
        "is_met": not missing,
        "elapsed_ms": elapsed_ms,
        "waits_for": summary_of(missing),
    }
