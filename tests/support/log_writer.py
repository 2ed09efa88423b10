"""A process that appends to a compacted log for ever and says what it has done; see its test.

``python log_writer.py FOLDER``: prints the number of each record once it is appended.  The value of
record *n* is *n*, its key *n* modulo 23; meanwhile the log is flushed, compacted and retained.
"""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kafka_common.model import TopicPartition
from kafka_common.protocol.record_batch import encode_batch
from kafka_common.protocol.records import Record
from replica_manager.log.cleaner_manager import CleanerManager
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_manager import LogManager
from replica_manager.log.maintenance import LogMaintenance, Schedule

ORDERS = TopicPartition("orders", 0)
KEYS = 23
CONFIG = LogConfig(
    segment_bytes=1500,
    index_interval_bytes=200,
    is_compacted=True,
    is_deleted=False,
    min_cleanable_dirty_ratio=0.1,
    file_delete_delay_ms=1,
    delete_retention_ms=1,
)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def open_logs(folder: Path) -> LogManager:
    manager = LogManager([folder], now_ms, default_config=CONFIG)
    manager.load({})
    return manager


async def write_for_ever(folder: Path) -> None:
    manager = open_logs(folder)
    log = manager.get_or_create(ORDERS, CONFIG)
    with ThreadPoolExecutor(2) as executor:
        maintenance = LogMaintenance(manager, executor, Schedule(5, 5, 5, 5, 5, 5, 0))
        cleaner = CleanerManager(manager, executor, lambda: 2**20)

        async def keep_up() -> None:
            while True:
                await maintenance.run_due()

        async def compact() -> None:
            while True:
                if not await cleaner.clean_next():
                    await asyncio.sleep(0.001)

        tasks = [asyncio.create_task(keep_up()), asyncio.create_task(compact())]
        while not any(task.done() for task in tasks):
            for _ in range(7):
                number = log.log_end_offset
                record = Record(0, now_ms(), b"%d" % (number % KEYS), b"%d" % number)
                log.append_as_leader(encode_batch([record]), 0)
                log.update_high_watermark(log.log_end_offset)
                print(number, flush=True)
            await asyncio.sleep(0.002)


if __name__ == "__main__":
    asyncio.run(write_for_ever(Path(sys.argv[1])))
