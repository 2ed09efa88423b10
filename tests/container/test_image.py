"""One broker of the image: who it is, what it may write, its configuration and its health."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import pytest

from tests.container.dockers import IMAGE, docker, run, status, wait_for, wait_for_status

pytestmark = [pytest.mark.container, pytest.mark.timeout(300)]

NAME: Final = f"zkc-image-{os.getpid()}"
ZOOKEEPER: Final = f"{NAME}-zookeeper"
BROKER: Final = f"{NAME}-broker"
CONNECT: Final = f"KAFKA_ZOOKEEPER_CONNECT={ZOOKEEPER}:2181/kafka"
SECRET: Final = "correct-horse-battery"
_SERVING: Final = "exec 3<>/dev/tcp/localhost/2181 && echo srvr >&3 && grep -q Mode: <&3"


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[str]:
    """A network with a ZooKeeper in it; the network's name."""
    docker("network", "create", NAME)
    try:
        image = os.environ["ZKCONTROLLER_ZOOKEEPER_IMAGE"]
        docker("run", "-d", "--name", ZOOKEEPER, "--network", NAME, image)
        wait_for(
            lambda: run("docker", "exec", ZOOKEEPER, "bash", "-c", _SERVING).returncode == 0,
            lambda: docker("logs", "--tail", "20", ZOOKEEPER),
        )
        yield NAME
    finally:
        run("docker", "rm", "-f", "-v", ZOOKEEPER)
        run("docker", "network", "rm", NAME)


@pytest.fixture(scope="module")
def broker(zookeeper: str) -> Iterator[str]:
    """A broker without any right, its root file system read-only; its container's name."""
    variables = (
        CONNECT,
        "KAFKA_BROKER_ID=7",
        "KAFKA_NUM_PARTITIONS=5",
        f"KAFKA_SSL_KEY_PASSWORD={SECRET}",
        "KAFKA_HEAP_OPTS=-Xmx1g",
        "KAFKA_LOG4J_LOGGERS=kafka.controller=WARN",
    )
    docker(
        *("run", "-d", "--name", BROKER, "--hostname", "broker-7", "--network", zookeeper),
        *("--read-only", "--user", "4711:0", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--health-interval", "1s"),
        *(argument for variable in variables for argument in ("-e", variable)),
        IMAGE,
    )
    try:
        yield BROKER
    finally:
        run("docker", "rm", "-f", "-v", BROKER)


def zkctl(container: str, *arguments: str) -> str:
    return docker("exec", container, "zkctl", *arguments)


def test_a_broker_serves_without_rights_and_without_a_root_to_write(broker: str) -> None:
    wait_for_status(broker, "healthy")

    assert docker("exec", broker, "id", "-u") == "4711"
    assert run("docker", "exec", broker, "touch", "/opt/file").returncode != 0
    zkctl(broker, "-b", "broker-7:9092", "topic", "create", "orders")
    listed = zkctl(broker, "-b", "broker-7:9092", "topic", "list", "-o", "jsonl")
    assert '"partition_count":5' in listed.replace(" ", "")
    files = docker("exec", broker, "ls", "/var/lib/kafka/data", "/var/log/kafka").split()
    assert {"orders-0", "meta.properties", "server.log", "state-changes.jsonl"} <= set(files)


def test_secrets_stand_in_no_log_no_file_and_no_command_line(broker: str) -> None:
    wait_for_status(broker, "healthy")

    logs = run("docker", "logs", broker)
    found = run("docker", "exec", broker, "grep", "-rl", SECRET, "/var/lib/kafka", "/var/log/kafka")
    commands = docker("exec", broker, "sh", "-c", "cat /proc/[0-9]*/cmdline")

    assert "KAFKA_HEAP_OPTS has no effect" in logs.stdout
    assert SECRET not in logs.stdout + logs.stderr
    assert found.stdout == ""
    assert SECRET not in commands
    assert docker("exec", broker, "head", "-c", "20", "/var/log/kafka/controller.log") == ""


def test_a_broker_that_hangs_is_unhealthy_until_it_goes_on(broker: str) -> None:
    wait_for_status(broker, "healthy")

    docker("kill", "--signal", "STOP", broker)
    wait_for_status(broker, "unhealthy")
    docker("kill", "--signal", "CONT", broker)
    wait_for_status(broker, "healthy")

    reasons = docker("inspect", "--format", "{{json .State.Health.Log}}", broker)
    assert '"ExitCode":0' in reasons


def test_docker_stop_ends_a_broker_in_order(zookeeper: str) -> None:
    name = f"{NAME}-stopped"
    docker(
        *("run", "-d", "--name", name, "--hostname", name, "--network", zookeeper),
        *("--health-interval", "1s", "-e", CONNECT, "-e", "KAFKA_BROKER_ID=8", IMAGE),
    )
    try:
        wait_for_status(name, "healthy")
        docker("stop", "-t", "30", name)

        assert status(name) == "exited"
        assert docker("inspect", "--format", "{{.State.ExitCode}}", name) == "0"
        assert "[KafkaServer id=8] shut down completed" in docker("logs", "--tail", "5", name)
    finally:
        run("docker", "rm", "-f", "-v", name)


def test_keys_of_a_mounted_file_count_and_variables_win(zookeeper: str) -> None:
    name = f"{NAME}-mounted"
    docker(
        *("create", "--name", name, "--hostname", name, "--network", zookeeper),
        *("--health-interval", "1s", "-e", CONNECT, "-e", "KAFKA_NUM_PARTITIONS=2", IMAGE),
    )
    try:
        # Copied instead of mounted: the daemon need not see the test's files.
        script = "tar -C / -cf - mnt/shared/config/server.properties"
        content = f"zookeeper.connect=nowhere:2181\nbroker.id=9\nssl.key.password={SECRET}\n"
        made = (
            f"mkdir -p /mnt/shared/config && cat > /mnt/shared/config/server.properties && {script}"
        )
        packed = run(
            *("docker", "run", "--rm", "-i", "--user", "0", IMAGE, "sh", "-c", made), stdin=content
        )
        assert packed.returncode == 0, packed.stderr
        copied = run("docker", "cp", "-", f"{name}:/", stdin=packed.stdout)
        assert copied.returncode == 0, copied.stderr
        docker("start", name)
        wait_for_status(name, "healthy")

        brokers = zkctl(name, "-z", f"{ZOOKEEPER}:2181/kafka", "broker", "list", "-o", "name")
        assert "9" in brokers.split()
        assert SECRET not in docker("logs", name)
    finally:
        run("docker", "rm", "-f", "-v", name)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "set KAFKA_ZOOKEEPER_CONNECT, or mount /mnt/shared/config/server.properties"),
        (
            ("-e", CONNECT, "-e", "KAFKA_NUM_PARTITIONS=many"),
            "invalid value 'many' for num.partitions (KAFKA_NUM_PARTITIONS): "
            "Not a number of type INT",
        ),
        (
            ("-e", CONNECT, "-e", f"KAFKA_SSL_KEY_PASSWORD={SECRET}\nbroker.id=9"),
            "invalid value '[hidden]' for KAFKA_SSL_KEY_PASSWORD",
        ),
        (
            ("-e", CONNECT, "-e", "KAFKA_SSL_KEYSTORE_FILENAME=broker.p12"),
            "KAFKA_SSL_KEYSTORE_FILENAME: the name of a file in /etc/kafka/secrets",
        ),
        (
            ("-e", CONNECT, "--user", "4711:4711"),
            "that user 4711 may write",
        ),
    ],
)
def test_what_cannot_work_ends_with_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    done = run("docker", "run", "--rm", "--read-only", "--network", "none", *arguments, IMAGE)

    assert done.returncode == 1
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert SECRET not in done.stderr


def test_zkctl_is_in_the_image_and_what_installs_packages_is_not() -> None:
    version = docker("run", "--rm", "--read-only", "--network", "none", IMAGE, "zkctl", "--version")
    pip = run("docker", "run", "--rm", IMAGE, "python", "-c", "import pip")

    assert version.startswith("zkctl, version ")
    assert "No module named 'pip'" in pip.stderr
