"""``zkctl topic``: created, described, grown, deleted; offsets and records.

:mod:`.reading` describes topics from either side; :mod:`.changes`, :mod:`.delete`,
:mod:`.offsets` and :mod:`.records` are verbs; :mod:`.presence` proves that a topic is there, or
gone.
"""
