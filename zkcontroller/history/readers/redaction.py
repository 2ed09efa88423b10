"""Rows without names: topics, hosts and free text become hashes that stay the same for one key."""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)

from zkcontroller.history.shapes.catalogue import shapes
from zkcontroller.history.shapes.template import PARTS

_HARMLESS: Final = frozenset(
    ("id", "int", "number", "bool", "ints", "map", "collection", "brokers")
)
"""Types of fields that hold numbers or words of Kafka's own."""

_ADDRESS: Final = "[0-9]+[.][0-9]+[.][0-9]+[.][0-9]+"
"""A host may be nothing but numbers."""

_FIELD: Final = re.compile(r"<([A-Z][A-Z0-9_]*)>|<[a-z_][a-z0-9_]*(?::([^>]*))?>")


def redacted(rows: DataFrame, key: str) -> DataFrame:
    """The rows with every name replaced by ``r-`` and twelve hexadecimal digits.

    The same name under the same ``key`` gives the same digits; without the key the name cannot be
    derived from the name by trying.  Topics, topic ids and what may contain names (free fields,
    messages of exceptions) are hashed; the text is kept only of shapes that can hold no name.
    Broker ids, epochs, times and the paths of the files remain.
    """
    secret = key.encode().hex()

    def hashed(text: str) -> str:
        return f"concat('r-', left(sha2(concat('{secret}', {text}), 256), 12))"

    free = "^[0-9,.> -]*$|^(?i:handling|completed|true|false|null)$"
    safe = [shape.id for shape in shapes() if _is_harmless(shape.template)]
    fingerprint = (
        f"CASE WHEN exception_class IS NOT NULL THEN concat_ws(' | ', exception_class, "
        f"{hashed('fingerprint')}, get(exception_frames, 0)) END"
    )
    columns = {
        "topic": hashed("topic"),
        "topic_id": hashed("topic_id"),
        "exception_message": hashed("exception_message"),
        "fingerprint": fingerprint,
        "error": f"CASE WHEN error RLIKE '^[A-Z_]*$' THEN error ELSE {hashed('error')} END",
        "values": (
            f"transform_values(values, (k, v) -> CASE WHEN v RLIKE '{free}' "
            f"AND NOT v RLIKE '{_ADDRESS}' THEN v ELSE {hashed('v')} END)"
        ),
    }
    changed = rows.withColumns({name: F.expr(sql) for name, sql in columns.items()})
    return changed.withColumn("text", F.when(F.col("shape").isin(safe), F.col("text")))


def _is_harmless(template: str) -> bool:
    """Whether all fields, in the shared parts too, are of harmless types."""
    for part, kind in _FIELD.findall(template):
        if part:
            if not _is_harmless(PARTS[part]):
                return False
        elif kind not in _HARMLESS and "|" not in kind:
            return False
    return True
