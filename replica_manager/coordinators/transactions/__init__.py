"""The transaction coordinator: pure decisions, without I/O or threads.

A transaction begins when a producer adds the first partition.  Every change of its state is a
record in ``__transaction_state``; the leader of the transactional id's partition is its
coordinator.  A transaction ends in three steps: the coordinator writes the decision (commit or
abort), responds to the producer, and then writes a marker to every added partition.  After the
first step the decision is final, so the partition's next leader can continue with the markers.

Nothing here opens a socket, reads a clock or writes a log.  The coordinator takes one input at a
time (:mod:`.requests`, :mod:`.events`) and returns outputs; the driver performs them.

How to read it, top down:

* :mod:`.coordinator`: which module handles an input, and what the driver must do;
* one file per concern: :mod:`.producers` (a producer starts and fences the earlier one),
  :mod:`.membership` (partitions join a transaction), :mod:`.ending` (commits, aborts and timeouts),
  :mod:`.markers`, :mod:`.expiry` (of transactional ids), :mod:`.loading` (a partition is loaded or
  unloaded), :mod:`.administration`;
* the state: :mod:`.transaction`, with :mod:`.states`, the table of legal transitions;
* :mod:`.transaction_state_manager` and :mod:`.config`: shared by all of them;
* bytes: :mod:`.records`.

Pure: no asyncio, socket, thread, clock or random number.  What must not be done here: respond to
EndTxn before the decision is in the log; drop a marker that a leader has not confirmed.
"""
