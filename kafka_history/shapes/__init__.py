"""The lines of Kafka's logs, 0.11 to 3.9, as readable data: one YAML file for each subject.

:mod:`.catalogue` loads them, :mod:`.template` turns their notation into regular expressions.  This
package does not use Spark.
"""
