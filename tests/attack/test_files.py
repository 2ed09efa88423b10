"""Damaged files in log directories: a broker that starts on them harms nothing else.

It serves what is whole, or takes exactly that log directory offline, or ends with one sentence and
an exit code.  Decoys beside the log directories show whether it followed a link.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest
from kio.schema.errors import ErrorCode
from typing_extensions import override

from kafka_common.model import TopicPartition
from replica_manager.configuration.meta_properties import LOCK_NAME
from replica_manager.log import checkpoints
from replica_manager.log.log_directory import CLEAN_SHUTDOWN_FILE
from tests.attack.damages import DAMAGES, Damage
from tests.attack.record_client import START_MS, RecordClient
from tests.attack.targets import make_decoy
from tests.attack.watch import fingerprint, tracebacks_in
from tests.integration.broker_processes import BrokerProcess, wait_for
from tests.support.quorum import free_ports
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

DIRECTORIES: Final = ("data-0", "other-0")
TOPIC: Final = "orders"
PARTITIONS: Final = 4
RECORDS: Final = 12
"""In every partition: several segments."""
VALUES: Final = [b"%d " % number * 30 for number in range(RECORDS)]
STARTS: Final = 300
"""So many starts on a damaged file at a full share."""
LONGEST_LAST_WORDS: Final = 1_500
"""Characters on stderr of a broker that cannot start: a sentence with paths in it."""
STARTED: Final = "started (kafka.server.KafkaServer)"
SETTINGS: Final = {
    "num__partitions": str(PARTITIONS),
    "log__segment__bytes": "400",
    "log__index__interval__bytes": "100",
    "log__cleaner__dedupe__buffer__size": "4194304",
    "log__retention__ms": "-1",
    "log__initial__task__delay__ms": "0",
    "log__retention__check__interval__ms": "200",
    "replica__high__watermark__checkpoint__interval__ms": "200",
    "log__flush__offset__checkpoint__interval__ms": "200",
    "log__flush__start__offset__checkpoint__interval__ms": "200",
    "controlled__shutdown__enable": "false",
}


class Case(NamedTuple):
    """One damage to one file."""

    file: Path
    """Relative to the folder of all log directories."""
    damage: Damage
    is_clean: bool
    """Whether the broker was stopped and not killed."""

    @override
    def __str__(self) -> str:
        state = "a stop" if self.is_clean else "a kill"
        return f"{self.file} after {state}: {self.damage.name}"


class Place:
    """Two log directories with records, copied for every start, and decoys beside them."""

    def __init__(self, directory: Path, connect: str) -> None:
        self._directory = directory
        self._connect = connect
        [self._port] = free_ports(1)
        self._whole = directory / "whole"
        self.live = directory / "live"
        self.decoy = make_decoy(directory / "decoy")
        self._decoy_before = directory / "decoy-before"
        shutil.copytree(self.decoy, self._decoy_before)
        self.live.mkdir()

    def broker(self) -> BrokerProcess:
        """The broker of these directories, not started; its log files are empty."""
        broker = BrokerProcess(
            self.live,
            self._connect,
            0,
            **SETTINGS,
            log__dirs=",".join(str(self.live / name) for name in DIRECTORIES),
            listeners=f"PLAINTEXT://127.0.0.1:{self._port}",
        )
        shutil.rmtree(broker.logs, ignore_errors=True)
        return broker

    def client(self) -> RecordClient:
        return RecordClient(f"127.0.0.1:{self._port}")

    def keep(self) -> None:
        """What there is now is what every start begins with."""
        for name in DIRECTORIES:
            shutil.copytree(self.live / name, self._whole / name)

    def restore(self) -> None:
        for name in DIRECTORIES:
            shutil.rmtree(self.live / name, ignore_errors=True)
            shutil.copytree(self._whole / name, self.live / name)
        shutil.rmtree(self.decoy)
        shutil.copytree(self._decoy_before, self.decoy)

    def files(self) -> list[Path]:
        """What can be damaged: all of both directories, and one partition's folder of each."""
        found = []
        for name in DIRECTORIES:
            directory = self._whole / name
            folder = min(each for each in directory.iterdir() if each.is_dir())
            entries = [*directory.iterdir(), *folder.iterdir()]
            found += [each.relative_to(self._whole) for each in entries if each.is_file()]
        return sorted(each for each in found if each.name not in (LOCK_NAME, "broker.json"))

    def partitions_in(self, name: str) -> set[int]:
        folders = (self._whole / name).glob(f"{TOPIC}-*")
        return {int(folder.name.rpartition("-")[2]) for folder in folders}


def _all_exist(paths: Sequence[Path]) -> bool:
    return all(path.exists() for path in paths)


def _either(one: Callable[[], bool], other: Callable[[], bool]) -> bool:
    return one() or other()


@pytest.fixture(scope="module")
def place(attack_zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("files"), f"{attack_zookeeper.connect}/attack-files")
    broker = place.broker().start()
    try:
        wait_for(lambda: STARTED in broker.log(), "the broker")
        with closing(place.client()) as client:
            wait_for(lambda: set(client.leaders(TOPIC).values()) == {0}, f"leaders of {TOPIC}")
            for partition in range(PARTITIONS):
                for number in range(RECORDS):
                    error = client.produce(TOPIC, partition, VALUES[number], number)
                    assert error is ErrorCode.none
        all_files = {checkpoints.HIGH_WATERMARK_FILE, checkpoints.LOG_START_OFFSET_FILE}
        for name in DIRECTORIES:
            wait_for(partial(_all_exist, [place.live / name / each for each in all_files]), name)
        assert broker.stop()[0] == 0
    finally:
        broker.end()
    for name in DIRECTORIES:
        folders = sorted((place.live / name).glob(f"{TOPIC}-*"))
        checkpoints.write_offsets(
            place.live / name / checkpoints.CLEANER_FILE,
            {TopicPartition(TOPIC, int(folder.name.rpartition("-")[2])): 2 for folder in folders},
        )
    place.keep()
    return place


def cases(place: Place, damage: Damage, random: Random, share: float) -> list[Case]:
    """Files for a damage, by choice."""
    files = place.files()
    count = min(len(files), max(1, round(STARTS * share / len(DAMAGES))))
    return [
        Case(file, damage, file.name == CLEAN_SHUTDOWN_FILE or random.random() < 0.5)
        for file in random.sample(files, count)
    ]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_a_damaged_file_harms_nothing_but_its_log_directory(
    damage: Damage, place: Place, random: Random, share: float
) -> None:
    outcomes: Counter[str] = Counter()
    for case in cases(place, damage, random, share):
        print(case)
        outcomes[start_on(place, case, random)] += 1
    print(dict(outcomes))


def start_on(place: Place, case: Case, random: Random) -> str:
    """Starts a broker on a damaged file and asserts what must hold; returns what it did."""
    place.restore()
    if not case.is_clean:
        for name in DIRECTORIES:
            (place.live / name / CLEAN_SHUTDOWN_FILE).unlink()
    case.damage.apply(place.live / case.file, random, place.decoy)
    decoy = fingerprint(place.decoy)
    broker = place.broker().start()
    try:
        wait_for(lambda: STARTED in broker.log() or not broker.is_running, f"a start: {case}")
        if broker.is_running:
            outcome = look(place, case, broker)
            code, words = broker.stop()
            assert code == 0, f"{case}: {words}"
        else:
            outcome = "ended"
            code, words = broker.exit_code()
            assert code > 0, f"{case}: {code}, {words}"
            assert len(words.splitlines()) == 1, f"{case}: {words}"
            assert len(words) < LONGEST_LAST_WORDS, f"{case}: {words}"
        assert "Traceback" not in words, f"{case}: {words}"
        assert list(tracebacks_in(broker.logs)) == [], str(case)
        assert fingerprint(place.decoy) == decoy, str(case)
    finally:
        broker.end()
    return outcome


def look(place: Place, case: Case, broker: BrokerProcess) -> str:
    """Reads and writes every partition; all but those that the damage may concern are whole."""
    directory = case.file.parts[0]
    beside, damaged = place.partitions_in(directory), set[int]()
    if len(case.file.parts) > 2:
        damaged = {int(case.file.parts[1].rpartition("-")[2])}
    elif case.file.name == checkpoints.LOG_START_OFFSET_FILE:
        damaged = beside  # records before that offset are deleted

    def is_offline() -> bool:
        return f"Stopping serving logs in dir {place.live / directory}" in broker.log()

    with closing(place.client()) as client:

        def whole(partition: int) -> bool:
            records = client.read_all(TOPIC, partition)
            return [records.get(number) for number in range(RECORDS)] == VALUES

        for partition in set(range(PARTITIONS)) - beside:
            wait_for(partial(whole, partition), f"partition {partition}: {case}")
            is_written = partial(writes, client, partition)
            wait_for(is_written, f"a write to partition {partition}: {case}")
        for partition in sorted(damaged):
            # Whatever comes of it.
            client.read_all(TOPIC, partition)
            client.produce(TOPIC, partition, b"after", RECORDS)
            for number in range(RECORDS + 1):
                client.offset_at(TOPIC, partition, START_MS + number)
            client.read_all(TOPIC, partition)
        for partition in beside - damaged:
            wait_for(
                partial(_either, is_offline, partial(whole, partition)),
                f"partition {partition}: {case}",
            )
    return "offline" if is_offline() else "served"


def writes(client: RecordClient, partition: int) -> bool:
    return client.produce(TOPIC, partition, VALUES[-1], RECORDS) is ErrorCode.none
