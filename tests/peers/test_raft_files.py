"""The files of a KRaft node under Kafka's eyes, and Kafka's under ours."""

from __future__ import annotations

import re
import stat
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from benchmarks.kafka_peer import kafka_tool, run_kafka_tool
from kafka_common.net.loopback_ports import free_port
from kafka_common.protocol.record_batch import iterate_batches
from kraft.metadata.metadata_batches import encode_control_batch
from kraft.metadata.records import FeatureLevelRecord, NoOpRecord, VersionedRecord
from kraft.node.metadata_log import FOLDER, KafkaMetadataLog
from kraft.node.metadata_log_config import MetadataLogConfig
from kraft.node.node_files import initialize_log_dirs
from kraft.node.quorum_state_file import read_quorum_state
from kraft.raft.control_records import LeaderChange, SnapshotFooter, SnapshotHeader
from kraft.raft.values import OffsetAndEpoch
from tests.peers.clients import run_tool
from tests.support.cli_world import zkctl_here
from tests.support.metadata_batches import encode_data_batch

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

STORAGE: Final = "kafka.tools.StorageTool"
DUMP: Final = "kafka.tools.DumpLogSegments"
CLUSTER: Final = "AAECAwQFBgcICQoLDA0ODw"
GIVEN_SALT: Final = 'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]'
PASSWORD: Final = 'SCRAM-SHA-256=[name=bob,password=bob-secret,salt="N3E="]'
PATIENCE_S: Final = 60.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def config_in(folder: Path, port: int = 9093) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "server.properties"
    file.write_text(
        f"process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{port}\n"
        f"controller.listener.names=CONTROLLER\nlisteners=CONTROLLER://127.0.0.1:{port}\n"
        f"log.dirs={folder}/a,{folder}/b\nmetadata.log.dir={folder}/m\n"
    )
    return file


def ours(*arguments: str) -> tuple[int, str, str]:
    result = zkctl_here("storage", *arguments)
    return result.exit_code, result.stdout, result.stderr


def kafkas(*arguments: str) -> tuple[int, str, str]:
    """Runs Kafka's tool; drops log4j's lines, and all of an uncaught exception but its message."""
    done = run_kafka_tool(STORAGE, *arguments)
    lines = [
        re.sub(r'Exception in thread "main" [\w.]+: ', "", line)
        for line in done.stderr.splitlines()
        if not line.startswith(("log4j:", "\tat "))
    ]
    return done.returncode, done.stdout, "".join(f"{line}\n" for line in lines)


def normalized(text: str, folder: Path) -> str:
    """Without what is another one every time: ids, dates, the folder.

    Which formatted directory Kafka complains of is up to a hash table.
    """
    text = re.sub(rf"Log directory {folder}/[abm] is", "Log directory DIR/… is", text)
    text = re.sub(r"directory\.id=[A-Za-z0-9_-]{22}", "directory.id=…", text)
    return re.sub(r"#[A-Z][a-z]{2} .* UTC \d{4}", "#date", text).replace(str(folder), "DIR")


def without_times(content: bytes) -> bytes:
    """Batches without timestamps and the checksums over them."""
    blank = bytearray(content)
    for position, _ in iterate_batches(content):
        blank[position + 17 : position + 21] = bytes(4)
        blank[position + 27 : position + 43] = bytes(16)
    return bytes(blank)


def files_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file but the configuration: its mode, and what is in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "server.properties":
            content = path.read_bytes()
            if path.suffix == ".properties":
                content = normalized(content.decode(), folder).encode()
            else:
                content = without_times(content)
            found[str(path.relative_to(folder))] = (stat.S_IMODE(path.stat().st_mode), content)
    return found


@pytest.mark.usefixtures("kafka")
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--release-version", "3.7"),
        ("--feature", "metadata.version=20", "--feature", "transaction.version=0"),
        ("--add-scram", GIVEN_SALT, "--add-scram", PASSWORD),
    ],
)
def test_both_format_equal_folders(tmp_path: Path, options: Sequence[str]) -> None:
    printed: list[list[object]] = []
    for name in ("ours", "kafkas"):
        folder = tmp_path / name
        file = str(config_in(folder))
        run = kafkas if name == "kafkas" else ours
        responses = [
            run("format", "-t", CLUSTER, "-c", file, *options),
            run("format", "-t", CLUSTER, "-c", file, *options),
            run("format", "-t", CLUSTER, "-c", file, "--ignore-formatted", *options),
            run("info", "-c", file),
        ]
        # Kafka formats in the order of a hash table.
        printed.append(
            [
                (code, sorted(normalized(out, folder).splitlines()), normalized(err, folder))
                for code, out, err in responses
            ]
        )

    assert printed[0] == printed[1]
    formatted, expected = files_of(tmp_path / "ours"), files_of(tmp_path / "kafkas")
    for name, (_, content) in expected.items():
        if name.endswith("bootstrap.checkpoint"):
            # It may hold SCRAM credentials: here only its owner may read it.
            expected[name] = (0o600, content)
    assert formatted == expected
    assert len(formatted) == 6


@pytest.mark.usefixtures("kafka")
@pytest.mark.parametrize(
    "options",
    [
        ("--feature", "metadata.version=22"),
        ("--feature", "kraft.version=1"),
        ("--feature", "nope=1"),
        ("--feature", "bad"),
        ("--release-version", "3.0"),
        ("--release-version", "2.8"),
        ("--release-version", "9.9"),
        ("--add-scram", "SCRAM-SHA-256=[name=a,password=b,iterations=1]"),
        ("--add-scram", "SCRAM-SHA-1=[name=a,password=b]"),
    ],
)
def test_both_refuse_in_the_same_words(tmp_path: Path, options: Sequence[str]) -> None:
    file = str(config_in(tmp_path))

    expected = kafkas("format", "-t", CLUSTER, "-c", file, *options)

    assert expected[0] == 1
    assert ours("format", "-t", CLUSTER, "-c", file, *options) == expected


def log_written_by_us(directory: Path) -> KafkaMetadataLog:
    log = KafkaMetadataLog.open(directory, MetadataLogConfig(1000, 12), now_ms)
    log.append_as_leader(
        encode_control_batch([LeaderChange(1, (1,), (1,))], base_offset=0, epoch=1, timestamp=5), 1
    )
    for offset in range(1, 40):
        records = [VersionedRecord(NoOpRecord(), 0)]
        log.append_as_leader(
            encode_data_batch(records, base_offset=offset, epoch=1, timestamp=now_ms()), 1
        )
    log.update_high_watermark(40)
    writer = log.create_snapshot(OffsetAndEpoch(30, 1))
    assert writer is not None
    for batch in (
        encode_control_batch([SnapshotHeader(7)], base_offset=0, epoch=1, timestamp=7),
        encode_data_batch(
            [VersionedRecord(FeatureLevelRecord("metadata.version", 21), 0)],
            base_offset=1, epoch=1, timestamp=7,
        ),
        encode_control_batch([SnapshotFooter()], base_offset=2, epoch=1, timestamp=7),
    ):  # fmt: skip
        writer.append(batch)
    writer.freeze()
    log.add_snapshot(writer)
    log.close()
    return log


@pytest.mark.usefixtures("kafka")
def test_kafka_reads_our_log_and_our_snapshot(tmp_path: Path) -> None:
    log_written_by_us(tmp_path)
    folder = tmp_path / FOLDER

    files = sorted(map(str, (*folder.glob("*.log"), *folder.glob("*.index"))))
    printed = run_tool(DUMP, "--cluster-metadata-decoder", "--files", ",".join(files))
    assert len([name for name in files if name.endswith(".log")]) > 2
    assert printed.count('"type":"NO_OP_RECORD"') == 39
    assert printed.count("controlType: LEADER_CHANGE(2)") == 1
    assert "isvalid: false" not in printed
    assert "Found" not in printed

    [snapshot] = folder.glob("*.checkpoint")
    printed = run_tool(DUMP, "--cluster-metadata-decoder", "--files", str(snapshot))
    assert '"lastContainedLogTimestamp":7' in printed.replace(" ", "")
    assert '"featureLevel":21' in printed
    assert "SnapshotFooter" in printed


@contextmanager
def controller(config: Path, directory: Path, *, until_offset: int) -> Iterator[None]:
    """Runs a real controller; stops it once its log on disk reaches ``until_offset``."""
    console = directory / "console.log"
    with console.open("a") as out:
        process = subprocess.Popen(
            kafka_tool("kafka.Kafka", str(config)), stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield
        deadline = time.monotonic() + PATIENCE_S
        while end_of(directory / "m" / FOLDER) < until_offset:
            assert process.poll() is None, console.read_text()
            assert time.monotonic() < deadline, console.read_text()
            time.sleep(0.1)
        process.terminate()
        assert process.wait(PATIENCE_S) == 143, console.read_text()
    finally:
        process.kill()
        process.wait()


def end_of(folder: Path) -> int:
    content = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    return max((header.next_offset for _, header in iterate_batches(content)), default=0)


@pytest.mark.usefixtures("kafka")
def test_kafka_starts_in_a_folder_of_ours_and_we_go_on_with_its_log(tmp_path: Path) -> None:
    config = config_in(tmp_path, free_port())
    assert ours("format", "-t", CLUSTER, "-c", str(config))[0] == 0
    metadata_log_dir = tmp_path / "m"
    before = (metadata_log_dir / "meta.properties").read_bytes()

    with controller(config, tmp_path, until_offset=8):
        pass
    # Kafka found everything as it has to be: even the directory's id.
    assert (metadata_log_dir / "meta.properties").read_bytes() == before
    election = read_quorum_state(metadata_log_dir / FOLDER)
    assert election is not None
    assert (election.leader_id, election.voted_key) == (1, None)
    found = initialize_log_dirs(
        [tmp_path / "a", tmp_path / "b"], metadata_log_dir, 1, lambda: pytest.fail("a new id")
    )
    assert found.cluster_id == CLUSTER

    log = KafkaMetadataLog.open(metadata_log_dir, MetadataLogConfig(), now_ms)
    assert log.last_epoch == election.epoch
    end = log.end_offset
    assert end >= 8
    assert log.read(0, 10**6) == next((metadata_log_dir / FOLDER).glob("*.log")).read_bytes()
    records = [VersionedRecord(NoOpRecord(), 0)]
    log.append_as_leader(
        encode_data_batch(records, base_offset=end, epoch=election.epoch, timestamp=now_ms()),
        election.epoch,
    )
    log.close()

    with controller(config, tmp_path, until_offset=end + 4):
        pass
    again = KafkaMetadataLog.open(metadata_log_dir, MetadataLogConfig(), now_ms)
    assert again.last_epoch > election.epoch
    assert again.end_offset_for_epoch(election.epoch) == OffsetAndEpoch(end + 1, election.epoch)
