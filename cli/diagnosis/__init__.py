"""``zkctl doctor``: what is wrong, where it stands, and the next safe step.

:mod:`.reading` takes a look at ZooKeeper, :mod:`.brokers` at brokers and :mod:`.ensemble` at
ZooKeeper's servers; :mod:`.looks` compares two of them; :mod:`.rules` judges, one function for each
id of docs/doctor.md; :mod:`.findings` is what they say.

What must not be done here: write anything anywhere.  A rule needs its evidence in the finding, a
row in docs/doctor.md, and a test that causes the trouble.
"""
