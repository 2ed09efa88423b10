"""``zkctl top`` in a real terminal, beside a real cluster that loses a broker."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.cli_cluster import LocalCluster
from tests.integration.terminal import Terminal
from tests.support.confluent_calls import unless_retriable

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("top"))
    try:
        started = cluster("cluster", "start", "--brokers", "3", "--detach", "--metrics-port", "0")
        assert started.exit_code == 0, started.stderr
        cluster.json("topic", "create", "orders", "--partitions", "6", "--replication-factor", "3")
        yield cluster
    finally:
        cluster.end()


def screen(cluster: LocalCluster, *arguments: str, **environment: str) -> Terminal:
    command = [*cluster.command, "top", "--interval", "0.2", *arguments]
    return Terminal(command, {**cluster.environment, **environment}, 80, 24)


def states(lines: list[str]) -> dict[str, str]:
    """The state of each broker in the listing of brokers."""
    found = (re.match(r"\s*(\d+)  (alive|gone)\b", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def leaders(lines: list[str]) -> dict[str, int]:
    """The leaders of each broker in the listing of brokers."""
    found = (re.match(r"\s*(\d+)  (?:alive|gone) +(?:yes +)?([\d,]+) ", line) for line in lines)
    return {match[1]: int(match[2]) for match in found if match}


def bootstrap(cluster: LocalCluster) -> str:
    servers: str = cluster.json("cluster", "status")["bootstrap_servers"]
    return servers


def test_once_has_the_lag_of_a_group_and_the_controllers_event_queue(
    cluster: LocalCluster,
) -> None:
    servers = bootstrap(cluster)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(50):
        producer.produce("orders", b"x" * 100, partition=number % 2)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing"})
    committed = [TopicPartition("orders", 0, 20), TopicPartition("orders", 1, 10)]
    cluster.wait_for(
        lambda: unless_retriable(lambda: consumer.commit(offsets=committed, asynchronous=False))
    )
    consumer.close()

    shown = cluster.json("top", "--once")

    [group] = shown["groups"]
    assert group["group"] == "billing"
    assert (group["lag"], group["partition_count"]) == (20, 2)
    assert group["unknown_count"] == 0
    assert shown["problems"] == []
    assert shown["event_queue_size"] >= 0
    assert shown["partition_count"] == 56
    assert sum(broker["leader_count"] for broker in shown["brokers"]) == 56
    assert all(broker["size_bytes"] > 0 for broker in shown["brokers"])


def test_brokers_alone_are_enough_for_a_reading(cluster: LocalCluster) -> None:
    command = LocalCluster(cluster.directory)
    command.command = cluster.command[:3]

    result = command("-b", bootstrap(cluster), "top", "--once", "-o", "json")

    assert result.exit_code == 0, result.stderr
    assert result.json["source"] == "brokers"
    assert result.json["partition_count"] >= 6
    assert result.json["controller_epoch"] is None
    assert result.json["deletions"] is None


def test_a_broker_is_killed_and_its_leaders_move_on_the_screen(cluster: LocalCluster) -> None:
    with screen(cluster) as terminal:
        led = leaders(terminal.until(lambda lines: len(leaders(lines)) == 3))
        assert states(terminal.lines) == dict.fromkeys("123", "alive")
        controller = cluster.json("cluster", "status")["controller_id"]
        victim = next(broker for broker in led if int(broker) != controller)

        cluster.json("broker", "stop", victim, "--kill")

        terminal.until(lambda lines: states(lines).get(victim) == "gone")
        # A look at ZooKeeper may fall between two partitions' elections.
        expected = sum(led.values())
        terminal.until(
            lambda lines: leaders(lines)[victim] == 0 and sum(leaders(lines).values()) == expected
        )
        terminal.press("6")
        # Below the listing stand the latest changes, whatever it shows.
        terminal.until(
            lambda lines: (
                any(line.startswith("changes") for line in lines)
                and any(re.search(rf"broker {victim} +gone", line) for line in lines)
            )
        )
        terminal.press("/orders-\r")
        # The next key is a letter of the pattern as long as its field is open.
        terminal.until(
            lambda lines: (
                any(line.startswith("changes matching orders-") for line in lines)
                and "orders-" not in map(str.strip, lines)
            )
        )
        moved = rf"orders-\d +leader {victim} → \d, epoch \d+ → \d+"
        terminal.until(lambda lines: any(re.search(moved, line) for line in lines))
        terminal.press("q")
        assert terminal.until_ended() == 0
    file = cluster.properties(int(victim))
    started = cluster("broker", "start", str(file), "--detach")
    assert started.exit_code == 0, started.stderr


def test_another_size_is_used_at_once_and_quitting_restores_the_terminal(
    cluster: LocalCluster,
) -> None:
    # As a shell that exports the size that it began with.
    with screen(cluster, COLUMNS="80", LINES="24") as terminal:
        terminal.until(lambda lines: lines[-1].endswith("q quit") and bool(states(lines)))
        terminal.resize(120, 40)
        terminal.until(
            lambda lines: lines[39].endswith("q quit") and any("GROWTH" in line for line in lines)
        )
        terminal.resize(80, 24)
        terminal.until(lambda lines: lines[23].endswith("q quit"))
        assert terminal.modes != terminal.modes_before

        terminal.press("q")

        assert terminal.until_ended() == 0
        assert terminal.modes == terminal.modes_before
    # The other screen is left, and the cursor is seen again.
    for on, off in ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?25l", b"\x1b[?25h")):
        assert 0 <= terminal.raw.rfind(on) < terminal.raw.rfind(off)


def test_no_color_is_obeyed(cluster: LocalCluster) -> None:
    def colours(raw: bytes) -> set[int]:
        codes = re.findall(rb"\x1b\[([\d;]*)m", raw)
        numbers = {int(code) for found in codes for code in found.split(b";") if code}
        return numbers & {*range(30, 39), *range(40, 49), *range(90, 108)}

    written = {}
    for no_color in ("", "1"):
        environment = {"NO_COLOR": no_color} if no_color else {}
        with screen(cluster, **environment) as terminal:
            terminal.until(lambda lines: any(line.startswith("brokers by") for line in lines))
            terminal.press("q")
            assert terminal.until_ended() == 0
            written[no_color] = colours(terminal.raw)

    assert written[""]
    assert written["1"] == set()


def test_a_refresh_writes_only_what_has_changed(cluster: LocalCluster) -> None:
    with screen(cluster) as terminal:
        terminal.until(lambda lines: lines[-1].endswith("q quit") and bool(states(lines)))
        first = len(terminal.raw)
        clock = terminal.lines[0].split()[2]
        terminal.until(lambda lines: lines[0].split()[2] not in ("", clock))
        after = terminal.raw[first:]
        terminal.press("q")
        assert terminal.until_ended() == 0

    assert after
    assert b"\x1b[2J" not in after
    assert b"q quit" not in after
