"""Replicas that move: ``zkctl reassign``, ``broker drain``, ``log-dirs`` and leaders.

Read :mod:`.replica_planner` (the fewest moves), :mod:`.move_plan` and :mod:`.move_runner`, which
carries a plan out and can go on after an interruption; :mod:`.moves_reading` asks the cluster,
:mod:`.move_costs` and :mod:`.move_progress` count bytes and time, :mod:`.throttle_end` proves that
no throttle stays.  The verbs are ``reassign_…``, ``broker_drain``, ``broker_leadership``,
``log_dirs_…`` and ``partition_elect``.

What must not be done here: leave a throttle behind without a word.
"""
