"""What a cluster must keep and tell while its processes, disks and links fail.

That these tests notice something was tried with bugs planted in the broker on purpose.  Each was
named by a test that failed, and by what the failure said:

- *A leader acknowledges acks=all without waiting for the followers.*  Leaders killed one after the
  other (the producer's sequence does not fit the next leader's log), bytes that never came to the
  disk (lost-record), both isolated leaders (``NO_ERROR`` where none followed), a live leader whose
  session expires (the deposed one acknowledges, for ever, what it alone has; before it was given
  records to its face, that was noticed in one run of two).
  Not by: frozen leaders and followers, a ZooKeeper killed and back, the protocol of 2.6.
- *A follower tells an offset before it has appended what is below.*  Leaders killed one after the
  other, a live leader whose session expires (the consumer learns that its log was truncated), a
  frozen leader that wakes up in one run of two.  Not by: a frozen follower, one cut off, one far
  behind, bytes that never came to the disk.
- *A follower joins the ISR without having caught up.*  The follower far behind, which was written
  for it: once it is left alone it leads with a log that ends too early, or it was out of the ISR
  again before and leads nothing.  By none of the others: their followers catch up faster than
  anybody can be killed.
- *A broker that is started again goes on with its broker epoch of before.*  The follower far behind
  and leaders killed one after the other: it is taken back into no ISR, and nothing is acknowledged.
"""
