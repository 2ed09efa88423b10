"""File systems without a free byte: a log directory fails, and what was in it is elsewhere too."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.faults.cluster import BROKERS, FaultCluster
from tests.faults.conftest import three_brokers
from tests.faults.scenario import PARTITIONS, under_load

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

SIZE: Final = "8m"
FILLER: Final = "filler"
BETWEEN_TWO, ONLY_ONE, _ = BROKERS


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """A file system of SIZE; skips the test where none can be mounted."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount on this machine")
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture(scope="module")
def cramped_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultCluster]:
    """One broker with a small disk beside a large one, one with nothing but a small one."""
    disks = tmp_path_factory.mktemp("disks")
    with (
        small_disk(disks / "first") as first,
        small_disk(disks / "second") as second,
        three_brokers(
            tmp_path_factory,
            log_dirs={BETWEEN_TWO: (first, disks / "large"), ONLY_ONE: (second,)},
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def full_cluster(cramped_cluster: FaultCluster) -> Iterator[FaultCluster]:
    """The same; what brokers say is shown if the test fails."""
    yield cramped_cluster
    cramped_cluster.tell()


def fill(disk: Path) -> None:
    """Takes every byte that is left, until the system says that there is none."""
    with pytest.raises(OSError, match="No space left on device"):
        _write_on(disk / FILLER)


def _write_on(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_full_disk_takes_its_log_directory_offline_and_the_other_serves_on(
    full_cluster: FaultCluster, random: Random
) -> None:
    cluster, broker = full_cluster, BETWEEN_TWO
    full, large = cluster.log_dirs[broker]
    with under_load(cluster, "full") as load:
        there = {p: cluster.folder(broker, "full", p).parent for p in range(PARTITIONS)}
        gone = [p for p, log_dir in there.items() if log_dir == full]
        left = [p for p, log_dir in there.items() if log_dir == large]
        assert gone
        assert left

        fill(full)
        cluster.wait_until(
            lambda: all(broker not in cluster.state("full", p)[1] for p in gone),
            lambda: f"{broker} leaves {gone}: {[cluster.state('full', p) for p in gone]}",
        )
        load.wait_for_progress(random.randrange(100, 300))
        assert cluster.registered() == set(BROKERS)
        assert all(broker not in cluster.state("full", p)[1] for p in gone)
        cluster.wait_until(
            lambda: all(broker in cluster.state("full", p)[1] for p in left),
            lambda: f"{broker} stays in {left}: {[cluster.state('full', p) for p in left]}",
        )
        cluster.wait_until(
            lambda: any("No space left on device" in line for line in cluster.server_log(broker)),
            lambda: f"{broker} says why",
        )

        (full / FILLER).unlink()
        cluster.kill(broker)
        cluster.start(broker)


def test_a_broker_whose_only_disk_is_full_ends_and_comes_back(
    full_cluster: FaultCluster, random: Random
) -> None:
    cluster, broker = full_cluster, ONLY_ONE
    [full] = cluster.log_dirs[broker]
    with under_load(cluster, "halted") as load:
        fill(full)
        cluster.wait_until(lambda: not cluster.is_alive(broker), lambda: f"broker {broker} ends")
        cluster.wait_until_out_of_isrs(broker, "halted", PARTITIONS)
        load.wait_for_progress(random.randrange(100, 300))

        (full / FILLER).unlink()
        cluster.start(broker)
