"""State changes: as values, as lines of Kafka's log, and as JSON lines for export.

* :mod:`.record`: one change as a value.  Read this first: controller and brokers make these.
* :mod:`.kafka_lines`, :mod:`.controller_lines`, :mod:`.broker_lines`, :mod:`.kafka_values`: the
  record as the line that Kafka writes into ``state-change.log``.
* :mod:`.export`: the record as a line of ``state-changes.jsonl``.
* :mod:`.log_files`: the file of each logger; :mod:`.log_writer`: the thread that writes the files.

:mod:`kafka_history` analyses the export with Spark.

What must not be done here: import pyspark, numpy or pyarrow; wait for the disk in another
thread than the log writer's; change a line of Kafka's logs; remove or rename a field of the export
without a new ``schema_version`` (docs/state-changes-schema.md).
"""
