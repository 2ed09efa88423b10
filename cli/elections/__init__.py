"""``zkctl controller elect`` and ``watch``: another controller, and the proof that it came.

:mod:`.election` removes ``/controller`` and waits; :mod:`.election_evidence` finds when brokers
learned of it; :mod:`.controller_watch` follows by ZooKeeper's watches.

What must not be done here: delete ``/controller`` in another version than the one shown.
"""
