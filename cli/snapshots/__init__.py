"""``zkctl snapshot``: the metadata of a cluster in one file.

:mod:`.file` is the format (docs/snapshot-format.md); :mod:`.reading` fills it from ZooKeeper and
:mod:`.brokers` from brokers; :mod:`.differences` compares two.

What must not be done here: store a secret.
"""
