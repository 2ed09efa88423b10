"""``zkctl wait``: until partitions, brokers or the controller are as wanted.

:mod:`.conditions` parses and judges (pure); :mod:`.looks` asks the cluster.

What must not be done here: change anything; take an unanswered question for an answer.
"""
