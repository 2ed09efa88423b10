"""What a process shows of itself: metrics and log files.

* Metrics: :mod:`.metrics` (Kafka's MBeans by name), :mod:`.instruments` and :mod:`.sensors` (what
  they measure), :mod:`.session_metrics` (those of the ZooKeeper session), :mod:`.exposition` (all
  of them for Prometheus).
* Log files: :mod:`.log_files` (which logger writes to which file), :mod:`.log_writer` (the thread
  that writes), :mod:`.log_text`, :mod:`.rolling_file`, :mod:`.sturdy_file` (a file on a disk that
  may fail).
* :mod:`.loop_watch`: how long callbacks hold the event loop.

May import ``state_changes``, ``zookeeper``, ``model`` and ``errors``.

What must not be done here: wait for the disk in another thread than the log writer's; raise
because something cannot be shown.
"""
