"""``zkctl deletion``: topics whose deletion does not end.

:mod:`.reading` looks at ZooKeeper and at brokers; :mod:`.blockers` names what a deletion waits
for; :mod:`.plan` and :mod:`.unblock` are the safe act.

What must not be done here: remove the znodes of a topic: the controller
has the topic in memory and would write some of them again.
"""
