"""The transaction coordinator: pure decisions, without I/O or threads.

No request begins a transaction: it begins when a producer adds the first partition.  Its state
stands in ``__transaction_state``, one record for each change; the leader of the transactional id's
partition coordinates it.  To end it is to write down how it ends, to answer the producer, and then
to write a marker into every partition that was added: nothing that happens after the first of these
can make the transaction end differently, so the partition's next leader goes on where the
last one stopped.

Nothing here opens a socket, reads a clock or writes a log.  One input goes in (:mod:`.requests`,
:mod:`.events`), outputs come out; the driver performs them.

How to read it, top down:

* :mod:`.coordinator` — which module handles an input, and what its driver must do;
* one file per concern: :mod:`.producers` (a producer starts, and fences the one before),
  :mod:`.membership` (partitions join a transaction), :mod:`.ending` (commits, aborts and timeouts),
  :mod:`.markers`, :mod:`.expiry` (of transactional ids), :mod:`.loading` (taking a partition over
  and giving it up), :mod:`.administration`;
* what is remembered: :mod:`.transaction`, with :mod:`.states`, the table of legal transitions;
* :mod:`.transaction_state_manager` and :mod:`.config` — what all of them share;
* bytes: :mod:`.records`.

May import ``groups``, ``log``, configuration and ``zkcontroller``; not ``server``, and neither
asyncio, socket, threading, time nor random.  What must not be done here: answer EndTxn before the
decision is in the log; forget a marker that a leader has not confirmed.
"""
