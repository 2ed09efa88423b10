"""``zkctl migration check``: what stands in the way of a migration to KRaft, and its remnants.

:mod:`.obstacles` judges, and is pure: it is given what a snapshot holds and what brokers answer.
:mod:`.reading` asks them.  What must not be done here: write anything anywhere.
"""
