"""Partitions: leaders, followers, in-sync replicas and high watermarks.

How to read it:

1. :mod:`.replica_manager`: every partition of this broker; :mod:`.leader_and_isr`: how one
   LeaderAndIsr request changes them;
2. :mod:`.partition` (role, epochs, replicas) and :mod:`.isr` (the rules of the ISR and of the high
   watermark);
3. appends: :mod:`.record_appends`, :mod:`.delayed_produce`; reads: :mod:`.record_reads`,
   :mod:`.partition_reads`, :mod:`.delayed_fetch`, :mod:`.fetch_sessions`;
   :mod:`.purgatory` and :mod:`.waiting_room` hold the requests that wait;
4. the follower: :mod:`.replica_fetcher` (pure: what to request, what a response changes),
   :mod:`.fetcher_task` (waits), :mod:`.leader_end_point` (the connection),
   :mod:`.replica_fetchers`;
5. changes of the ISR: :mod:`.isr_proposals`, :mod:`.alter_partition_manager`,
   :mod:`.controller_link` (to the controller), or :mod:`.isr_znodes` below 2.7-IV2;
6. :mod:`.zk_metadata_cache`, :mod:`.log_dir_moves`, :mod:`.throttle`.

The modules that the contract *Pure code does no I/O* names import neither asyncio nor a clock.

What must not be done here: put an ``await`` into a method of ``Partition``, ``ReplicaManager`` or
``ReplicaFetcher`` (each must run to its end); raise a leader's high watermark by another rule than
that in :mod:`.isr`; continue after an ``await`` without checking that this broker is still leader.
"""
