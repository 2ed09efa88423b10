"""``zkctl doctor``: what is wrong in the cluster, where, and the next safe step.

:mod:`.reading` reads ZooKeeper, :mod:`.brokers` asks the brokers and :mod:`.ensemble` the
ZooKeeper servers; :mod:`.looks` compares with an earlier reading; :mod:`.rules` lists the rules,
one for each id of docs/doctor.md, and :mod:`.checks` their functions; :mod:`.findings` holds the
types of the result.

What must not be done here: write anything anywhere.  Every rule puts its evidence into the finding,
and has a row in docs/doctor.md and a test that causes the trouble.
"""
