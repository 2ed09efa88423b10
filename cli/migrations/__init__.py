"""``zkctl migration check``: obstacles to a migration to KRaft, and remnants of an earlier one.

:mod:`.reading` asks brokers; :mod:`.obstacles` finds the obstacles in a snapshot and in the
brokers' responses, and is pure.  What must not be done here: write anything anywhere.
"""
