"""The shell around the pure packages: event queue, event thread, channels, metrics, log files.

Three groups of modules live here.

* The ZooKeeper controller's shell.  Read :mod:`.controller_runtime` (the assembly), then
  :mod:`.event_queue`, :mod:`.event_thread`, :mod:`.driver` (performs what a procedure asks for)
  and :mod:`.broker_channel` (requests to brokers).
* The quorum's shell: :mod:`.raft_driver` runs the raft step, :mod:`.controller_loop` the quorum
  controller in its thread, :mod:`.raft_channel` the connections, :mod:`.snapshot_generator` the
  snapshots.
* What the broker uses as well: :mod:`.connection`, :mod:`.byte_stream`, :mod:`.client_security`;
  :mod:`.metrics` with :mod:`.instruments`, :mod:`.sensors`, :mod:`.exposition`;
  :mod:`.log_files` with :mod:`.log_writer`; :mod:`.loop_watch`, :mod:`.presence`,
  :mod:`.resource_limits`, :mod:`.wall_clock`.

May import every package of ``zkcontroller``; none of them imports ``runtime``.

What must not be done here: decide.  A choice that depends on the state of the cluster belongs to
``core`` or ``kraft``.  Nothing may block the event loop, and a new lock needs a row in the table of
ARCHITECTURE.md.
"""
