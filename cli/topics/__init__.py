"""``zkctl topic``: create, describe, alter and delete topics, and their offsets and records.

:mod:`.reading` reads topics from brokers or ZooKeeper; :mod:`.changes`, :mod:`.delete`,
:mod:`.offsets` and :mod:`.records` hold verbs; :mod:`.presence` proves that a topic is deleted.
"""
