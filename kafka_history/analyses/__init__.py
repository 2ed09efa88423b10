"""Runs the rules in Spark, for more rows than one process should hold, and stores the findings.

:class:`.history.History` is the :class:`kafka_history.rules.history.Answers` whose events come from
Spark.  Findings that are few in any cluster are lists in the driver.  Findings that may be millions
are DataFrames; a rule sees the rows of one partition at a time (:mod:`.carrying`).  :mod:`.kept`
and :mod:`.results` store findings and results for the next run.  :mod:`.rules` holds the ids and
texts under which findings are reported.

Times are milliseconds since 1970, UTC. Evidence is the ``file`` and ``line`` of the record that
proves a row.
"""
