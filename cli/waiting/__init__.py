"""``zkctl wait``: waits until partitions, brokers or the controller fulfil all conditions.

:mod:`.conditions` parses and checks conditions (pure); :mod:`.looks` reads the cluster.

What must not be done here: change anything; treat a missing response as a fulfilled condition.
"""
