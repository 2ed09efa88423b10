"""zkctl in a real terminal: completed by real shells, and repainted by ``--watch``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.integration.cli_cluster import LocalCluster
from tests.integration.terminal import Terminal

pytestmark = pytest.mark.integration

SHELLS: Final = {
    "bash": (("bash", "--norc", "--noprofile", "-i"), 'eval "$(zkctl completion bash)"'),
    "zsh": (
        ("zsh", "-f", "-i"),
        'autoload -Uz compinit && compinit -u -D && eval "$(zkctl completion zsh)"',
    ),
    "fish": (("fish", "--no-config", "-i"), "zkctl completion fish | source"),
}
ERASE_LINE: Final = "\x15"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("terminal")
    cluster = LocalCluster(directory / "cluster")
    try:
        started = cluster("cluster", "start", "--brokers", "2", "--detach")
        assert started.exit_code == 0, started.stderr
        cluster.json("topic", "create", "orders", "--partitions", "12")
        environment = {
            **cluster.environment,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(directory),
            "XDG_CACHE_HOME": str(directory / "cache"),
            "ZKCTL_CONFIG": str(directory / "contexts.json"),
            "PS1": "$ ",
        }
        cluster.environment = environment
        servers = cluster.json("cluster", "status")["bootstrap_servers"]
        cluster.command = [sys.executable, "-m", "zkcontroller_cli"]
        cluster.json("context", "set", "production", "-b", servers, "--use")
        _commit(cluster, servers)
        yield cluster
    finally:
        cluster.command = [
            sys.executable,
            "-m",
            "zkcontroller_cli",
            "--dir",
            str(cluster.directory),
        ]
        cluster.end()


def _commit(cluster: LocalCluster, servers: str) -> None:
    """Make the group ``billing``."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing"})

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        except KafkaException:  # no coordinator yet
            return False
        return True

    cluster.wait_for(is_committed)
    consumer.close()


def offered(cluster: LocalCluster, line: str) -> list[str]:
    """What bash is offered for a line, without a shell."""
    done = subprocess.run(
        cluster.command,
        env={**cluster.environment, "_ZKCTL_COMPLETE": "bash_complete", "_ZKCTL_LINE": line},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return [result.partition(",")[2] for result in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("zkctl topic describe o", ["orders"]),
        ("zkctl log-dirs sizes ", ["1", "2"]),
        ("zkctl group describe b", ["billing"]),
        ("zkctl partition elect orders-1", ["orders-1", "orders-10", "orders-11"]),
    ],
)
def test_brokers_are_asked_for_the_values(
    cluster: LocalCluster, line: str, names: list[str]
) -> None:
    # On a busy machine a broker may need longer than a completion waits: a key is pressed again.
    cluster.wait_for(lambda: offered(cluster, line) != [], timeout_s=120)

    assert offered(cluster, line) == names


@pytest.mark.parametrize("shell", SHELLS)
def test_a_real_shell_completes_verbs_and_values(cluster: LocalCluster, shell: str) -> None:
    for needed in (shell, "setsid"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    command, setup = SHELLS[shell]

    # A shell with a prompt wants a terminal that is its own.
    with Terminal(("setsid", "--ctty", "--wait", *command), cluster.environment, 100, 30) as screen:

        def types(text: str, completed: str) -> None:
            screen.press(text)
            screen.until(lambda lines: any(line.endswith(completed) for line in lines))
            screen.press(ERASE_LINE)

        screen.press(f"{setup}; echo is-'ready'\r")
        screen.until(lambda lines: "is-ready" in lines)
        types("zkctl topic descr\t", "zkctl topic describe")
        types("zkctl context use prod\t", "zkctl context use production")
        types("zkctl --context=prod\t", "zkctl --context=production")
        types("zkctl config set topic x --config retention.m\t", "--config retention.ms=")
        types("zkctl config set topic x --config=retention.m\t", "--config=retention.ms=")
        cluster.wait_for(lambda: offered(cluster, "zkctl topic describe ") != [])
        types("zkctl topic describe ord\t", "zkctl topic describe orders")
        types("zkctl reassign start orders-3\t", "zkctl reassign start orders-3:")
        for line in screen.lines:
            assert "Traceback" not in line
            assert "not found" not in line


def test_a_watched_listing_is_repainted_until_ctrl_c(cluster: LocalCluster) -> None:
    command = [*cluster.command, "topic", "list", "--watch", "0.5"]
    with Terminal(command, cluster.environment, 80, 24) as screen:
        screen.until(lambda lines: any(line.startswith("orders") for line in lines))
        cluster.json("topic", "create", "invoices", "--partitions", "1")
        lines = screen.until(
            lambda lines: (
                any(line.startswith("invoices") for line in lines)
                and sum(line.startswith("orders") for line in lines) == 1
            )
        )
        screen.process.send_signal(signal.SIGINT)

        assert screen.until_ended() == 130
    assert "zkctl topic list, every 0.5 s" in lines[0]
