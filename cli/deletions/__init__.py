"""``zkctl deletion``: topics whose deletion does not end.

:mod:`.reading` reads ZooKeeper and asks brokers; :mod:`.blockers` names what a deletion waits for;
:mod:`.plan` decides what can be done safely, and :mod:`.unblock` does it.

What must not be done here: delete the znodes of a topic.  The controller has the topic in memory,
and would write some of them again.
"""
