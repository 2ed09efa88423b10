"""A process killed with SIGKILL while it appends, flushes and compacts: nothing it did is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kafka_common.protocol.record_batch import iterate_batch, iterate_batches
from replica_manager.log.log_cleaner import cleaning_job
from tests.support import log_writer
from tests.support.log_writer import KEYS, ORDERS, now_ms, open_logs
from tests.support.paths import ROOT

APPENDS = (100, 400, 777)
"""How many are seen before each kill."""


def killed_after(folder: Path, appends: int) -> int:
    """The last record that the writer spoke of."""
    writer = subprocess.Popen(
        [sys.executable, log_writer.__file__, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert writer.stdout is not None
    last = -1
    with writer:
        for _ in range(appends):
            last = int(writer.stdout.readline())
        writer.kill()
        for line in writer.stdout:
            last = int(line) if line.endswith("\n") else last
    return last


def test_nothing_that_was_appended_is_lost_whenever_the_process_is_killed(tmp_path: Path) -> None:
    has_compacted = False
    for appends in APPENDS:
        last = killed_after(tmp_path, appends)

        manager = open_logs(tmp_path)
        log = manager.log(ORDERS)
        assert log is not None
        assert log.log_end_offset > last
        newest: dict[bytes | None, int] = {}
        offsets: list[int] = []
        for segment in log.segments:
            data = segment.file.read(0, segment.size)
            for place, header in iterate_batches(data):
                for record in iterate_batch(data, place, header):
                    assert record.value == b"%d" % record.offset
                    newest[record.key] = record.offset
                    offsets.append(record.offset)
        end = log.log_end_offset
        assert offsets == sorted(set(offsets))
        assert newest == {b"%d" % (n % KEYS): n for n in range(end - KEYS, end)}
        has_compacted = has_compacted or len(offsets) < end
        log.update_high_watermark(end)
        assert cleaning_job(log, None, now_ms()).segments
    assert has_compacted
