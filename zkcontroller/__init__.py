"""The controller of a Kafka cluster in ZooKeeper mode.

The packages, from the bottom up.  A package imports only what stands above it in this list;
``setup.cfg`` holds the contract (*The controller's shell calls its core, never the reverse*).

1. :mod:`.zookeeper`: znodes, requests and the session.
2. :mod:`.state_changes`: the record of each change, Kafka's log lines, and the files they go to.
3. :mod:`.core`: the decisions, which are pure.
4. :mod:`.runtime`: the event queue, its thread, the channels to brokers.

Read the docstring of :mod:`.core` first, then ``zkcontroller/core/controller.py``; the values are
in :mod:`kafka_common.model`.

What must not be done here: import another package of the project than :mod:`kafka_common`; read a
clock, a socket or a random number in a module that the contract *Pure code does no I/O* names.
"""

import kafka_common  # noqa: F401  before any module here imports kio
