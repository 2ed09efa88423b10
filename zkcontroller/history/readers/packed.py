"""What a file holds, unpacked: its beginning, how much there is, and where it is damaged.

Spark reads a packed file up to the damage and says nothing.  So each is unpacked once before, in
bounded memory: what Spark made of it can then be compared with what there was.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types
from pyspark.sql import SparkSession

STEP_BYTES: Final = 1 << 20
"""How much is unpacked at once."""

_FIRST_STEP_BYTES: Final = 4 * 1024
"""The same while the beginning is kept: what comes in one step with the damage is lost for it."""


class Content(NamedTuple):
    """One file, unpacked."""

    beginning: bytes
    size_bytes: int
    """Bytes in all, up to the damage if there is one; those of a zst to the step before it."""
    damage: str | None = None


def content_of(spark: SparkSession, path: Path, wanted: int) -> Content:
    """What the file holds, with its first ``wanted`` bytes.

    Raises:
        OSError: it cannot be opened or read.
    """
    if path.suffix == ".gz":
        return _gzip(path, wanted)
    with path.open("rb") as plain:
        beginning = plain.read(wanted)
    if path.suffix == ".zst":
        return _zstandard(spark, path, wanted)
    return Content(beginning, path.stat().st_size)


def _gzip(path: Path, wanted: int) -> Content:
    beginning = b""
    size = 0
    try:
        with gzip.open(path) as packed:
            while chunk := packed.read1(STEP_BYTES):
                beginning += chunk[: wanted - len(beginning)]
                size += len(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        return Content(beginning, size, f"damaged gzip, {size} bytes came out of it: {error}")
    return Content(beginning, size)


def _zstandard(spark: SparkSession, path: Path, wanted: int) -> Content:
    """By the library that Spark itself carries: Python 3.11 has none for it."""
    jvm = spark._jvm
    assert jvm is not None
    beginning = b""
    size = 0
    try:
        packed = jvm.com.github.luben.zstd.ZstdInputStream(jvm.java.io.FileInputStream(str(path)))
        try:
            while size < wanted and (chunk := packed.readNBytes(_FIRST_STEP_BYTES)):
                beginning += chunk
                size += len(chunk)
            while skipped := packed.skip(STEP_BYTES):
                size += skipped
        finally:
            packed.close()
    except Py4JJavaError as error:
        reason = error.java_exception.getMessage()
        return Content(beginning, size, f"damaged zst, {size} bytes came out of it: {reason}")
    return Content(beginning, size)
