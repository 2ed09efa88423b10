"""Logs on disk, in Kafka's own format.

From the bytes up: a :mod:`~replica_manager.log.segment` is a file of batches with two sparse
indexes; :mod:`~replica_manager.log.local_log` is the row of segments in one folder;
:mod:`~replica_manager.log.unified_log` adds what the records mean (leader epochs, producers, high
watermark, log start) and is what a replica uses; :mod:`~replica_manager.log.log_manager` has them
all, in several log directories.  :mod:`~replica_manager.log.log_loading` opens what a stop or a
crash has left.

What a caller must do, and nothing else:

1. load the manager before serving (it blocks), and close it at the end (it blocks too);
2. call a log on the event loop only; nothing there waits for the disk;
3. run a :class:`~replica_manager.log.maintenance.LogMaintenance`, which does in threads what logs
   have left to be done, and a :class:`~replica_manager.log.cleaner_manager.CleanerManager`;
4. when an append says that a flush is due, let the maintenance flush the log before it answers;
5. tell a log its high watermark: it has no opinion of its own;
6. serve what a read gives by its slice: ``sendfile``, or a read in a thread;
7. take ``KafkaStorage`` for what it says: the directory is offline, its logs are gone.

May import configuration and ``zkcontroller``; not ``replication`` or anything above it.  What must
not be done here: copy or decode records on their way out; change Kafka's format; block the event
loop (leave it to ``LogEnvironment`` or hand out a plan).
"""
