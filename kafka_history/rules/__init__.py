"""What happened, as functions of events: no Spark, no clock, no file.

A rule takes :class:`.event.Event` values in the order of :func:`.event.in_order`, and what other
rules have found; it gives findings, which are named tuples with their evidence (file and line).
What carries it decides where the events come from: :mod:`kafka_history.analyses` has them from
Spark, :mod:`kafka_history.readers.local_events` from the tables, in one process.

* :mod:`.copies`: each line once, in however many files it stands.
* :mod:`.tenures`: who was controller, until when, and the steps of each failover.
* :mod:`.partition_states`: what stood in the state znode of each partition, write by write.
* :mod:`.isr_changes`: who left and joined in-sync replicas, and storms of it.
* :mod:`.min_isr`: how long partitions had fewer replicas in sync than writes need.
* :mod:`.unclean_elections`: leaders that were not in sync, and the records that went with it.
* :mod:`.invariants`: what must hold in every history, and where it did not.
* :mod:`.dead_leaders`: leaders that were gone before the controller knew it.
* :mod:`.leaderless`: the times in which partitions had no leader, and why.
* :mod:`.blast_radius`: what each departure of a broker changed, and which tenure it ended.

What must not be done here: import pyspark or pyarrow; depend on the order of rows that
:func:`.event.in_order` does not tell apart.
"""
