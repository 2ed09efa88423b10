"""``zkctl group`` and ``txn``: what coordinators keep.

:mod:`.group_lag` counts; :mod:`.group_plan` finds the offsets of a reset, and
:mod:`.group_changes` sets and proves them; :mod:`.transactions` finds those that hang.

What must not be done here: reset a group that has members, or end a transaction that goes on.
"""
