"""The group coordinator's decisions, and nothing but decisions.

Nothing here opens a socket, reads a clock, makes a random number or writes a log.  One input goes
in (:mod:`.requests`, :mod:`.events`), outputs come out; whoever drives it performs them.

How to read it, top down:

* :mod:`.coordinator` — which story an input belongs to, and the duties of its driver;
* one file per story: :mod:`.joining`, :mod:`.membership` (staying alive, leaving),
  :mod:`.static_members` (coming back), :mod:`.rebalance` (from one generation to the next),
  :mod:`.offsets`, :mod:`.expiry`, :mod:`.loading` (taking a partition over and giving it up),
  :mod:`.administration`;
* what is remembered: :mod:`.group`, with the table of legal transitions, :mod:`.member` and
  :mod:`.offset_table`;
* :mod:`.desk`, :mod:`.sessions`, :mod:`.timers`, :mod:`.config` — the tools all stories share;
* bytes: :mod:`.records` (with :mod:`.record_reader`), :mod:`.batches`,
  :mod:`.consumer_protocol`, :mod:`.java_hash`.

May import ``log``, configuration and ``zkcontroller``; not ``replication``, ``security``,
``transactions`` or ``server``, and neither asyncio, socket, threading, time nor random.  What must
not be done here: answer a member before its group's record is written where Kafka waits for it.
"""
