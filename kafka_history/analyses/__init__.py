"""What happened: questions to the typed rows of :mod:`kafka_history.event_schema`.

Each module answers one question by a function from DataFrame to DataFrame, for the rows of *one*
cluster. :class:`.history.History` holds the answers of one set of rows, each made once. Rules, the
names under which findings are reported, stand in :mod:`.rules`.

Nothing here collects: what grows with the logs stays in Spark, and the code that shows an answer
takes a bounded part of it. Times are milliseconds since 1970, UTC. Evidence is the ``file`` and
``line`` of the record that proves a row.
"""
