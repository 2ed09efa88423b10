"""Reads znodes in bulk.

:mod:`.session` is the short session of one verb.  With it, :mod:`.registrations` reads brokers,
:mod:`.partitions` and :mod:`.topics` read topics, and :mod:`.cluster_view` reads the controller and
the state of a local cluster.

What must not be done here: write a znode; create a missing chroot; read the states of 100,000
partitions one by one.
"""
