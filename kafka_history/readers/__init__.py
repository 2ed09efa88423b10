"""Turns logs into typed rows: finds files, cuts records, matches shapes, writes Parquet.

In the order in which data passes through them: :mod:`.sources` (finds and describes files),
:mod:`.pieces` (cuts the work of an ingest into tasks), :mod:`.piece_reader` (runs one task),
:mod:`.record_blocks` (bytes into complete records), :mod:`.shape_columns` and :mod:`.typed_tables`
(records into columns), :mod:`.export_tables` (lines of our own export into columns),
:mod:`.redaction` (names into hashes), :mod:`.event_files` (columns into Parquet) and :mod:`.store`
(reads the rows).  Every format is read like this in Python workers; Spark reads no text.

On one machine :mod:`.local_ingest` runs these workers without Spark.  On several machines
:mod:`.ingest` runs them by Spark.  Both use :mod:`.ingest_plan`, :mod:`.manifest` and
:mod:`.found_tables`, which sums up what the workers found.
"""
