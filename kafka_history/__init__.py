"""What happened to clusters, read from their logs: ``zkctl history``.

The packages, in the order in which data passes through them:

* :mod:`.shapes`: the formats of log lines, for all versions of Kafka;
* :mod:`.event_schema`: the one schema of a typed row, for every kind of log;
* :mod:`.readers`: turns files into rows; :mod:`.following`: reads files that still grow;
* :mod:`.rules`: pure functions that find out from events what happened;
* :mod:`.analyses`: runs the rules in Spark, for many rows;
* :mod:`.report`: writes the findings on one page.

May import :mod:`kafka_common` and ``zkcontroller.state_changes``.  Only ``analyses``
and ``readers`` may import pyspark.

Two rules: controllers and brokers must not import this package, because Spark takes seconds to
start.  Removing or renaming a column of the rows needs a new ``schema_version``
(docs/state-changes-schema.md).
"""
