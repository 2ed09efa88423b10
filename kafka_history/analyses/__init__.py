"""Rules carried by Spark, for more rows than one process should hold; answers that are kept.

:class:`.history.History` gives the events that :class:`kafka_history.rules.history.Answers` asks
for: what is few in any cluster as lists in the driver, what may be millions as DataFrames of which
a rule sees one partition at a time (:mod:`.carrying`).  :mod:`.kept` and :mod:`.results` keep
answers for the next question; the names under which findings are reported stand in :mod:`.rules`.

Times are milliseconds since 1970, UTC. Evidence is the ``file`` and ``line`` of the record that
proves a row.
"""
