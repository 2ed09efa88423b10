"""``zkctl topic``: verbs that create, describe, alter and delete topics; offsets and records.

:mod:`.reading` reads topics from brokers or ZooKeeper; :mod:`.changes`, :mod:`.delete`,
:mod:`.offsets` and :mod:`.records` are verbs; :mod:`.presence` proves that a topic is deleted.
"""
