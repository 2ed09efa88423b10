"""``zkctl config``, ``user`` and ``quota``: configurations read, compared, changed and proven.

:mod:`.reading` asks brokers or ZooKeeper (:mod:`.stored_configs`); :mod:`.changes` holds the verbs
and :mod:`.changing` sends; :mod:`.differences` is ``config diff``.  :mod:`.credential_stores` is
for SCRAM, :mod:`.stopped_brokers` for a broker that does not run.

What must not be done here: print a password.
"""
