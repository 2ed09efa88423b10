"""What happened, as functions of events: no Spark, no clock, no file.

A rule takes :class:`.event.Event` values in the order of :func:`.event.in_order`, and what other
rules have found; it gives findings, which are named tuples with their evidence (file and line).
:class:`.history.Answers` knows which rule needs what.  What carries it decides where the events
come from: :class:`.history.EventHistory` has them in memory, Spark :mod:`kafka_history.analyses`.

* :mod:`.history`: all answers about one cluster, each asked once.
* :mod:`.copies`: each line once, in however many files it stands.
* :mod:`.tenures`: who was controller, until when, and the steps of each failover.
* :mod:`.log_dir_failures`: log directories that failed, why, and what went with them.
* :mod:`.failed_transitions`: state transitions that failed, those that are alike as one.
* :mod:`.topic_deletions`: deletions of topics, and what held them up.
* :mod:`.slow_requests`: how long brokers took for LeaderAndIsr requests.
* :mod:`.broker_lives`: when each process started and ended, and how; lost sessions.
* :mod:`.departures`: what took brokers out of the cluster; pauses of processes.
* :mod:`.zookeeper_gaps`: times without a connection to ZooKeeper.
* :mod:`.deposed_controllers`: controllers that went on after their successor's election, and
  what was refused to them.
* :mod:`.reassignments`: what was ordered to move, and how it ended.
* :mod:`.acts`: what operators ordered, and what the controller did on its own.
* :mod:`.partition_states`: what stood in the state znode of each partition, write by write.
* :mod:`.isr_changes`: who left and joined in-sync replicas, and storms of it; :mod:`.isr_sums`:
  the same by broker and by time.
* :mod:`.min_isr`: how long partitions had fewer replicas in sync than writes need.
* :mod:`.unclean_elections`: leaders that were not in sync, and the records that went with it.
* :mod:`.invariants`: what must hold in every history, and where it did not.
* :mod:`.clocks`: how far the brokers' clocks are apart.
* :mod:`.leaderless`, :mod:`.dead_leaders`: times in which partitions had no leader, and why;
  :mod:`.outages`: their sums.
* :mod:`.blast_radius`, :mod:`.blast_sums`: what followed from each departure.
* :mod:`.moment`: the cluster at a moment; :mod:`.audit`: its end against ZooKeeper.
* :mod:`.windows`: two windows of time compared; :mod:`.totals`: sums over all lines.
* :mod:`.texts`: lists that stand in a text.

What must not be done here: import pyspark or pyarrow; depend on the order of rows that
:func:`.event.in_order` does not tell apart.
"""
