"""Values that verbs and requests share; no I/O.

:mod:`.moves` (a partition by name, a move of its replicas) and :mod:`.topic_names` are used most.
:mod:`.move_state` and :mod:`.throttles` say what is next in a reassignment and which throttle it
needs; :mod:`.acls`, :mod:`.config_entities`, :mod:`.config_values`, :mod:`.config_plan`,
:mod:`.quotas` and :mod:`.users` are what the verbs of these names read, compare and plan.

May import ``console`` alone.  What must not be done here: ask a cluster, read a clock or a file.
"""
