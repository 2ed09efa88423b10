"""Checkpoint files: offsets of many partitions, or leader epochs of one partition.

A file has a version, a count, then one entry on each line.  Source: Kafka ``CheckpointFile``,
``OffsetCheckpointFile``, ``LeaderEpochCheckpointFile``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafka_common.errors import ZkControllerError
from kafka_common.model import TopicPartition
from replica_manager.log.files import (
    replace_file,
)
from replica_manager.log.leader_epoch_file_cache import EpochEntry
from replica_manager.regular_files import read_file

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"

_VERSION: Final = "0"
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_WHITESPACE: Final = re.compile(r"\s+")


class CheckpointMalformed(ZkControllerError):
    """A checkpoint file is malformed."""


class CheckpointFile:
    """A checkpoint file of a log directory; an older write never replaces a newer one.

    Writes run in threads, in any order.  A late write of an older plan would restore the entry of a
    partition that was deleted since.
    """

    def __init__(self, log_dir: Path, file_name: str) -> None:
        self.log_dir = log_dir
        self.file_name = file_name
        self.path = log_dir / file_name
        self._lock = threading.Lock()
        self._planned = 0
        self._written = 0

    def read(self) -> dict[TopicPartition, int]:
        """The offsets in the file; CheckpointMalformed or OSError if it cannot be read."""
        return read_offsets(self.path)

    def plan(self, offsets: Mapping[TopicPartition, int]) -> CheckpointWrite:
        """A write of ``offsets``, to be run in an executor."""
        self._planned += 1
        return CheckpointWrite(self.log_dir, self.file_name, offsets, self._planned, self)

    def write(self, number: int, offsets: Mapping[TopicPartition, int]) -> None:
        """Writes the offsets of plan ``number``, unless a later plan has been written."""
        with self._lock:
            if number > self._written:
                write_offsets(self.path, offsets)
                self._written = number


class CheckpointWrite(NamedTuple):
    """A planned write of a checkpoint file; ``number`` counts the plans of that file."""

    log_dir: Path
    file_name: str
    offsets: Mapping[TopicPartition, int]
    number: int
    file: CheckpointFile

    @property
    def path(self) -> Path:
        return self.file.path

    def run(self) -> None:
        """Writes the checkpoint file.  Blocks; for an executor.  OSError if the disk fails."""
        self.file.write(self.number, self.offsets)


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replaces a file of offsets.  Blocks until it is on disk."""
    replace_file(
        path, _encode([f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()])
    )


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """The offsets in a file, empty if it does not exist; CheckpointMalformed if not readable."""
    offsets: dict[TopicPartition, int] = {}
    for words in _entries(path, 3):
        topic_partition = TopicPartition(words[0], _number(path, words[1], bits=32))
        offsets[topic_partition] = _number(path, words[2])
    return offsets


def write_epochs(path: Path, entries: Sequence[EpochEntry]) -> None:
    """Replaces a file of leader epochs.  Blocks until it is on disk."""
    replace_file(path, _encode([f"{entry.epoch} {entry.start_offset}" for entry in entries]))


def read_epochs(path: Path) -> list[EpochEntry]:
    """The epochs in a file, empty if it does not exist; CheckpointMalformed if not readable."""
    epochs = [
        EpochEntry(_number(path, words[0], bits=32), _number(path, words[1]))
        for words in _entries(path, 2)
    ]
    for entry in epochs:
        if entry.epoch < 0 or entry.start_offset < 0:
            raise CheckpointMalformed(f"Negative numbers in checkpoint file {path}: {entry}")
    return epochs


def _encode(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()


def _entries(path: Path, words: int) -> list[list[str]]:
    try:
        lines = read_file(path).decode().splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as failure:
        raise CheckpointMalformed(f"Malformed checkpoint file {path}: {failure}") from None
    if not lines:
        return []
    if lines[0] != _VERSION:
        raise CheckpointMalformed(
            f"Unrecognized version of the checkpoint file ({path}): {lines[0]!r}"
        )
    count = _number(path, lines[1]) if len(lines) > 1 else -1
    entries = [_WHITESPACE.split(line) for line in lines[2:]]
    if len(entries) != count:
        raise CheckpointMalformed(
            f"Expected {count} entries in checkpoint file ({path}), but found {len(entries)}"
        )
    for entry in entries:
        if len(entry) != words:
            raise CheckpointMalformed(f"Malformed line in checkpoint file ({path}): {entry}")
    return entries


def _number(path: Path, word: str, *, bits: int = 64) -> int:
    if _NUMBER.fullmatch(word):
        number = int(word)
        if -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            return number
    raise CheckpointMalformed(f"Malformed number in checkpoint file ({path}): {word[:40]!r}")
