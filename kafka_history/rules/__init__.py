"""What happened, as functions of events: no Spark, no clock, no file.

A rule takes :class:`.event.Event` values in the order of :func:`.event.in_order`, and the findings
of other rules.  It returns findings: named tuples with their evidence (file and line).
:class:`.history.Answers` passes each rule its input.  Its subclasses provide the events:
:class:`.history.EventHistory` from memory, :mod:`kafka_history.analyses` from Spark.

* :mod:`.history`: all findings about one cluster, each computed once.
* :mod:`.copies`: lines that several files contain, so that each counts once.
* :mod:`.tenures`: who was controller, until when, and the steps of each failover.
* :mod:`.log_dir_failures`: log directories that failed, why, and which partitions they held.
* :mod:`.failed_transitions`: state transitions that failed; similar failures form one finding.
* :mod:`.topic_deletions`: deletions of topics, and what delayed them.
* :mod:`.slow_requests`: how long brokers took for LeaderAndIsr requests.
* :mod:`.broker_lives`: when each process started and ended, and how; lost sessions.
* :mod:`.departures`: why brokers left the cluster; pauses of processes.
* :mod:`.zookeeper_gaps`: times without a connection to ZooKeeper.
* :mod:`.deposed_controllers`: controllers that continued after their successor's election, and
  their requests and writes that were refused.
* :mod:`.reassignments`: reassignments of partitions, and how each one ended.
* :mod:`.acts`: what operators ordered, and what the controller did on its own.
* :mod:`.partition_states`: the contents of each partition's state znode after each write.
* :mod:`.isr_changes`: brokers that left and joined the ISR, and minutes with many shrinks;
  :mod:`.isr_sums`: these changes summed by broker and by time.
* :mod:`.min_isr`: how long partitions had fewer in-sync replicas than writes need.
* :mod:`.unclean_elections`: leaders that were not in sync, and the records that were lost.
* :mod:`.invariants`: what must hold in every history, and where it did not.
* :mod:`.clocks`: how far the brokers' clocks are apart.
* :mod:`.leaderless`, :mod:`.dead_leaders`: times in which partitions had no leader, and why;
  :mod:`.outages`: their sums.
* :mod:`.blast_radius`, :mod:`.blast_sums`: the partition changes that each departure caused.
* :mod:`.moment`: the cluster at a moment; :mod:`.audit`: its last state compared with ZooKeeper.
* :mod:`.windows`: two windows of time compared; :mod:`.totals`: sums over all lines.
* :mod:`.texts`: reads lists in a text, and shortens a text.

Code here must not import pyspark or pyarrow.  It must not depend on the order of rows that
:func:`.event.in_order` leaves open.
"""
