"""``zkctl group`` and ``txn``: groups and transactions, which coordinators keep.

:mod:`.group_lag` computes the lag; :mod:`.group_plan` finds the offsets of a reset, and
:mod:`.group_changes` commits and proves them; :mod:`.transactions` finds hanging transactions.

What must not be done here: reset a group that has members, or end a transaction in progress.
"""
