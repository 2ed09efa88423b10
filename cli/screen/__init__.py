"""``zkctl top``: the cluster on one screen.

:mod:`.reader` asks ZooKeeper, :mod:`.brokers` and :mod:`.metrics`; :mod:`.model` says what two
readings mean, :mod:`.rows` makes rows of it, :mod:`.text` lays them out (both pure);
:mod:`.screen` shows them and takes keys.

Only :mod:`.screen` may import textual.
"""
