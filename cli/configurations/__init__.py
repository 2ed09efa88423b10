"""``zkctl config``, ``user`` and ``quota``: reads, compares and changes configurations.

:mod:`.reading` asks brokers or ZooKeeper (:mod:`.stored_configs`); :mod:`.changes` holds the verbs,
:mod:`.changing` makes and proves changes; :mod:`.differences` is ``config diff``.
:mod:`.credential_stores` is for SCRAM, :mod:`.stopped_brokers` for a broker that does not run.

What must not be done here: print a password.
"""
