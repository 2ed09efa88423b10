"""Values that verbs and requests share.

:mod:`.moves` (a partition by name, a move of its replicas) and :mod:`.topic_names` are used most.
:mod:`.move_state` and :mod:`.throttles` decide what a reassignment does next and which throttle it
needs; :mod:`.acls`, :mod:`.config_entities`, :mod:`.config_values`, :mod:`.config_plan`,
:mod:`.quotas` and :mod:`.users` hold what the verbs of these names read, compare and plan.

What must not be done here: ask a cluster, or read a clock.  Only :mod:`.moves` reads and writes
files, those of ``kafka-reassign-partitions``.
"""
