"""``zkctl history``: the verbs that use ``kafka_history``.

:mod:`.opening` opens a history, :mod:`.ingest` makes one from logs, :mod:`.follow` adds to it while
logs grow, :mod:`.answers` shows results; :mod:`.job` is the file that ``spark-submit`` runs.

No module here imports pyspark, only ``kafka_history`` does.  ``spark-submit`` looks for modules in
this folder first, so no file here may have the name of one of Python's own modules.
"""
