"""The group coordinator: pure decisions, without I/O or threads.

Nothing here opens a socket, reads a clock, makes a random number or writes a log.  The coordinator
takes one input at a time (:mod:`.requests`, :mod:`.events`) and returns outputs; the driver
performs them.

How to read it, top down:

* :mod:`.coordinator`: which module handles an input, and what the driver must do;
* one file per concern: :mod:`.joining`, :mod:`.membership` (heartbeats, leaving),
  :mod:`.static_members` (static members that rejoin), :mod:`.rebalance` (from one generation to
  the next), :mod:`.offsets`, :mod:`.expiry`, :mod:`.loading` (a partition is loaded or unloaded),
  :mod:`.administration`;
* the state: :mod:`.group`, with the table of legal transitions, :mod:`.member` and
  :mod:`.offset_table`;
* :mod:`.group_metadata_manager`, :mod:`.sessions`, :mod:`.timers`, :mod:`.config`: tools that
  all of them share;
* bytes: :mod:`.records` (with :mod:`.record_reader`), :mod:`.batches`,
  :mod:`.consumer_protocol`, :mod:`.coordinated_partition`.

Pure: no asyncio, socket, thread, clock or random number.

What must not be done here: send a member its response before the group's record is written, where
Kafka waits for that write.
"""
