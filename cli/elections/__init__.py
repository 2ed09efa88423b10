"""``zkctl controller elect`` and ``watch``: elect another controller, and prove the election.

:mod:`.election` deletes ``/controller`` and waits; :mod:`.election_evidence` finds when brokers
learned of the new controller; :mod:`.controller_watch` shows changes by ZooKeeper's watches.

What must not be done here: delete a ``/controller`` that has changed since it was shown.
"""
