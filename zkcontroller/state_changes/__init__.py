"""The record of what happened: state-change lines, their export, and the analyses of logs.

* :mod:`.record`: one change as a value.  Read this first: controller and brokers make these.
* :mod:`.kafka_lines`, :mod:`.controller_lines`, :mod:`.broker_lines`, :mod:`.kafka_values`: the
  record as the line that Kafka writes into ``state-change.log``.
* :mod:`.export`: the record as a line of ``state-changes.jsonl``.
* :mod:`.event_schema`: the one schema of a typed row, whichever log it comes from.
* ``zkctl history``, in the order of the data: :mod:`.shapes` (how lines look), :mod:`.readers`
  (files into rows), :mod:`.following` (files that grow), :mod:`.analyses` (questions to the rows),
  :mod:`.report` (the answers on one page).

May import ``zookeeper``, ``protocol``, ``model``, ``topic_names`` and ``errors``.  Only
``analyses``, ``following``, ``readers`` and ``report`` may import pyspark.

What must not be done here: import pyspark, numpy or pyarrow in a module that a controller or a
broker imports; change a line of Kafka's logs; remove or rename a field of the export without a new
``schema_version`` (docs/state-changes-schema.md).
"""
