"""Metrics and log files of a process.

* Metrics: :mod:`.metrics` (Kafka's MBeans by name), :mod:`.instruments` and :mod:`.sensors` (what
  they measure), :mod:`.exposition` (all of them for Prometheus).
* Log files: :mod:`.log_text` (a record as text), :mod:`.rolling_file`, :mod:`.sturdy_file` (a file
  on a disk that may fail).  :mod:`zkcontroller.state_changes` writes the log files.
* :mod:`.loop_watch`: how long callbacks hold the event loop.

What must not be done here: raise an error because a metric or a log line cannot be written.
"""
