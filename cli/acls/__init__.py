"""``zkctl acl``: rules, decisions, changes.

:mod:`.reading` gathers what brokers or ZooKeeper hold; :mod:`.decisions` decides as Kafka's
authorizer does; :mod:`.needs` knows what each request needs and :mod:`.explanations` says why it
was refused.  Changes: :mod:`.plan`, :mod:`.targets` (brokers, or ZooKeeper), :mod:`.changes`.

What must not be done here: decide unlike ``replica_manager.security``.
"""
