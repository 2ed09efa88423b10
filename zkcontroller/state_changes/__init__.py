"""The record of what happened: state changes as values, as Kafka's lines, and exported.

* :mod:`.record`: one change as a value.  Read this first: controller and brokers make these.
* :mod:`.kafka_lines`, :mod:`.controller_lines`, :mod:`.broker_lines`, :mod:`.kafka_values`: the
  record as the line that Kafka writes into ``state-change.log``.
* :mod:`.export`: the record as a line of ``state-changes.jsonl``.
* :mod:`.log_files`: which logger writes to which file; :mod:`.log_writer`: the thread that writes.

What is made of them, by Spark, is in :mod:`kafka_history`.

May import :mod:`kafka_common`.

What must not be done here: import pyspark, numpy or pyarrow; wait for the disk in another
thread than the log writer's; change a line of Kafka's logs; remove or rename a field of the export
without a new ``schema_version`` (docs/state-changes-schema.md).
"""
