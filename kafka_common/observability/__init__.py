"""What a process shows of itself: metrics and log files.

* Metrics: :mod:`.metrics` (Kafka's MBeans by name), :mod:`.instruments` and :mod:`.sensors` (what
  they measure), :mod:`.exposition` (all of them for Prometheus).
* Log files: :mod:`.log_text` (a record as text), :mod:`.rolling_file`, :mod:`.sturdy_file` (a file
  on a disk that may fail).  Who writes to which is in :mod:`zkcontroller.state_changes`.
* :mod:`.loop_watch`: how long callbacks hold the event loop.

May import ``model`` and ``errors``.

What must not be done here: raise because something cannot be shown.
"""
