"""``zkctl history``: the verbs over ``kafka_history``.

:mod:`.opening` finds a history, :mod:`.ingest` makes one, :mod:`.follow` keeps it growing,
:mod:`.answers` asks it; :mod:`.job` is the file that ``spark-submit`` runs.

Only :mod:`.answers` knows pyspark.  ``spark-submit`` looks for modules in this folder first, so no
file here may have the name of a module of Python.
"""
