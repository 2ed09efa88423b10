"""Topics: how they are created, get partitions and are deleted.

:mod:`.topic_creation` and :mod:`.partition_creation` check, :mod:`.assignment` places replicas: all
pure.  :mod:`.topic_admin` writes to ZooKeeper, :mod:`.auto_creation` creates the topics that a
client asks for by name, :mod:`.topic_waiters` are requests that wait for leaders or deletions.
"""
