"""Moves of replicas and leaders: ``zkctl reassign``, ``broker drain``, ``log-dirs``, elections.

Read :mod:`.replica_planner` (the fewest moves), :mod:`.move_plan` and :mod:`.move_runner`, which
carries out a plan and can continue an interrupted one; :mod:`.moves_reading` reads the cluster,
:mod:`.move_costs` and :mod:`.move_progress` count bytes and time, :mod:`.throttle_end` removes the
throttle and reports what is left of it.  The verbs are ``reassign_…``, ``broker_drain``,
``broker_leadership``, ``log_dirs_…`` and ``partition_elect``.

What must not be done here: leave a throttle behind without saying so.
"""
