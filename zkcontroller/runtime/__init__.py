"""The shell of the ZooKeeper controller: performs the questions and effects of its pure core.

Read :mod:`.controller_runtime` (the assembly), then :mod:`.event_queue`, :mod:`.event_thread`,
:mod:`.driver` (performs what a procedure asks for) and :mod:`.controller_channel_manager`
(requests to brokers, whose responses :mod:`.response_text` formats for the log), and
:mod:`.session_metrics` (the metrics of the ZooKeeper session).

What must not be done here: decide.  A choice that depends on the state of the cluster belongs to
``core``.  Nothing may block the event loop, and a new lock needs a row in the table of
ARCHITECTURE.md.
"""
