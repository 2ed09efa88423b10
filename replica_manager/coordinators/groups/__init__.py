"""The group coordinator: pure decisions, without I/O or threads.

Nothing here opens a socket, reads a clock, makes a random number or writes a log.  One input goes
in (:mod:`.requests`, :mod:`.events`), outputs come out; the driver performs them.

How to read it, top down:

* :mod:`.coordinator` — which module handles an input, and what its driver must do;
* one file per concern: :mod:`.joining`, :mod:`.membership` (staying alive, leaving),
  :mod:`.static_members` (coming back), :mod:`.rebalance` (from one generation to the next),
  :mod:`.offsets`, :mod:`.expiry`, :mod:`.loading` (taking a partition over and giving it up),
  :mod:`.administration`;
* what is remembered: :mod:`.group`, with the table of legal transitions, :mod:`.member` and
  :mod:`.offset_table`;
* :mod:`.group_metadata_manager`, :mod:`.sessions`, :mod:`.timers`, :mod:`.config`: tools that
  all of them share;
* bytes: :mod:`.records` (with :mod:`.record_reader`), :mod:`.batches`,
  :mod:`.consumer_protocol`, :mod:`.coordinated_partition`.

May import ``log``, configuration and ``zkcontroller``; not ``replication``, ``security``,
``transactions``, ``network`` or ``server``, and neither asyncio, socket, threading, time nor
random.

What must not be done here: answer a member before its group's record is written where Kafka waits
for it.
"""
