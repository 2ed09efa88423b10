"""Logs into typed rows: files, records, shapes, Parquet.

In the order of the data: :mod:`.sources` (which files there are), :mod:`.pieces` (the work of an
ingest, cut into tasks), :mod:`.piece_reader` (one task), :mod:`.record_blocks` (bytes into whole
records), :mod:`.shape_columns` and :mod:`.typed_tables` (records into columns),
:mod:`.export_tables` (the same for lines of our own export), :mod:`.redaction` (names into hashes),
:mod:`.event_files` and :mod:`.store` (columns into Parquet).
Every format goes this way, one piece of a file after the other in a Python worker: Spark's SQL
reads no text.

On one machine :mod:`.local_ingest` runs these workers and :mod:`.found_tables` adds up what they
found, without Spark; on several :mod:`.ingest` and :mod:`.store` do, by Spark.  :mod:`.ingest_plan`
and :mod:`.manifest` are common to both.

These modules may import pyspark; nothing of the controller or the broker imports them.
"""
