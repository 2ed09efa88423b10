"""Logs into typed rows, with Spark: files, records, shapes, Parquet.

In the order of the data: :mod:`.sources` (which files there are), :mod:`.pieces` (the work of an
ingest, cut into tasks), :mod:`.piece_reader` (one task), :mod:`.record_blocks` (bytes into whole
records), :mod:`.shape_columns` and :mod:`.typed_tables` (records into columns),
:mod:`.event_files` and :mod:`.store` (columns into Parquet); :mod:`.ordering` puts the rows of all
brokers into one order.  :mod:`.typed_rows`, :mod:`.log_rows` and :mod:`.export_rows` do the same as
Spark SQL; redaction and our own export still go that way.

These modules may import pyspark; nothing of the controller or the broker imports them.
"""
