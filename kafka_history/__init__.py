"""What happened to clusters, out of their logs: ``zkctl history``.

In the order of the data:

* :mod:`.shapes`: how the lines of Kafka's logs look, of all versions;
* :mod:`.event_schema`: the one schema of a typed row, whichever log it comes from;
* :mod:`.readers`: files into rows; :mod:`.following`: files that grow;
* :mod:`.rules`: what happened, as functions of events: pure;
* :mod:`.analyses`: the rules carried by Spark, for many rows;
* :mod:`.report`: the answers on one page.

May import :mod:`kafka_common` and ``zkcontroller.state_changes``.  Only ``analyses``
and ``readers`` may import pyspark.

What must not be done here: nothing that a controller or a broker imports, because Spark takes
seconds to start; remove or rename a column of the rows without a new ``schema_version``
(docs/state-changes-schema.md).
"""
