"""Clusters that zkctl runs on this machine: ZooKeeper, brokers, quorum nodes, demonstrations.

:mod:`.local_cluster` starts and ends a cluster, :mod:`.broker_process` one broker.
:mod:`.demonstration` runs the steps of :mod:`.demo_steps` (``zkctl demo``) and of
:mod:`.quorum_demo`.  :mod:`.quorum_dump` prints the files of a metadata log.

What must not be done here: leave a process behind after an error.
"""
