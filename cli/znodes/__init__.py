"""What ZooKeeper holds, read in bulk.

:mod:`.session` is a verb's short session.  On it: :mod:`.registrations` (brokers),
:mod:`.partitions` and :mod:`.topics`, :mod:`.cluster_view` (the controller, and a local cluster's
processes).

May import ``values``, ``machine`` and ``console``.  What must not be done here: write a znode;
create a chroot that is not there; read the states of 100,000 partitions one by one.
"""
