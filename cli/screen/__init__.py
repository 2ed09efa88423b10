"""``zkctl top``: the cluster on one screen.

:mod:`.reader` reads ZooKeeper, and by :mod:`.brokers` and :mod:`.metrics` the brokers;
:mod:`.model` finds the changes between two readings, :mod:`.rows` makes rows of them and
:mod:`.text` fits the rows into the width (all three pure); :mod:`.screen` shows them and takes
keys.

Only :mod:`.screen` may import textual.
"""
