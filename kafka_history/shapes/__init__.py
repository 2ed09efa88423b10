"""The lines of real Kafka's logs, 0.11 to 3.9, as readable data: one YAML file a subject.

:mod:`.catalogue` loads them, :mod:`.template` turns their notation into regular expressions.  No
Spark in here.
"""
