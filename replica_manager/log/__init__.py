"""Logs on disk, in Kafka's own format.

From the bytes up: a :mod:`~replica_manager.log.segment` is a file of batches with two sparse
indexes; :mod:`~replica_manager.log.local_log` is the row of segments in one folder;
:mod:`~replica_manager.log.unified_log` adds what the records mean (leader epochs, producers, high
watermark, log start) and is what a replica uses; :mod:`~replica_manager.log.log_manager` holds
all logs of the broker.  :mod:`~replica_manager.log.log_loading` opens a log's folder after a
shutdown or a crash.

A caller must:

1. load the manager before serving (it blocks), and close it at the end (it blocks too);
2. call a log on the event loop only; nothing there waits for the disk;
3. run a :class:`~replica_manager.log.maintenance.LogMaintenance`, which performs the logs' deferred
   work in threads, and a :class:`~replica_manager.log.cleaner_manager.CleanerManager`;
4. flush the log with the maintenance before the response, if an append returns ``is_flush_due``;
5. set the high watermark of each log: a log does not compute its own;
6. send the slice that a read returns with ``sendfile``, or read it in a thread;
7. expect ``KafkaStorage``: the log directory is offline and its logs are out of service.

What must not be done here: copy or decode records on their way out; change Kafka's format; block
the event loop (leave it to ``LogEnvironment`` or hand out a plan).
"""
