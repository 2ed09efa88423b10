"""Creation and deletion of topics, and added partitions.

:mod:`.topic_creation` and :mod:`.partition_creation` validate, :mod:`.assignment` assigns replicas;
all three are pure.  :mod:`.topic_admin` writes to ZooKeeper, :mod:`.auto_creation` creates missing
topics that clients name, :mod:`.topic_waiters` holds requests that wait for leaders or deletions.
"""
