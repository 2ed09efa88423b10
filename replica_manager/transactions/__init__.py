"""The transaction coordinator's decisions, and nothing but decisions.

A transaction is begun by nobody: a producer adds partitions to it, and then it is there.  Its state
stands in ``__transaction_state``, one record for each change; the leader of the transactional id's
partition coordinates it.  To end it is to write down how it ends, to answer the producer, and then
to write a marker into every partition that was added: nothing that happens after the first of these
can make the transaction end differently, so whoever leads the partition next goes on where the
last one stopped.

Nothing here opens a socket, reads a clock or writes a log.  One input goes in (:mod:`.requests`,
:mod:`.events`), outputs come out; whoever drives it performs them.

How to read it, top down:

* :mod:`.coordinator` — which story an input belongs to, and the duties of its driver;
* one file per story: :mod:`.producers` (a producer comes, and fences the one before),
  :mod:`.membership` (partitions join a transaction), :mod:`.ending` (commits, aborts and timeouts),
  :mod:`.markers`, :mod:`.expiry` (of transactional ids), :mod:`.loading` (taking a partition over
  and giving it up), :mod:`.administration`;
* what is remembered: :mod:`.transaction`, with :mod:`.states`, the table of legal transitions;
* :mod:`.desk` and :mod:`.config` — what all stories share;
* bytes: :mod:`.records`.

May import ``groups``, ``log``, configuration and ``zkcontroller``; not ``server``, and neither
asyncio, socket, threading, time nor random.  What must not be done here: answer EndTxn before the
decision is in the log; forget a marker that a leader has not confirmed.
"""
