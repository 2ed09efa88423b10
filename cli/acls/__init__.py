"""``zkctl acl``: ACLs, what they allow, and their changes.

:mod:`.reading` reads ACLs from brokers or ZooKeeper; :mod:`.decisions` decides as Kafka's
authorizer does; :mod:`.needs` lists the rights that each request needs, and :mod:`.explanations`
says why it is refused.  Changes: :mod:`.plan`, :mod:`.targets` (brokers, or ZooKeeper),
:mod:`.changes`.

What must not be done here: decide otherwise than ``replica_manager.security``.
"""
