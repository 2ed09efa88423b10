"""The quorum of a Kafka cluster without ZooKeeper: its raft, its controller, its nodes.

* :mod:`.raft`: the raft step, which replicates a log.  Pure.
* :mod:`.metadata`: the records of the log ``__cluster_metadata``, bytes to values and back.  Pure.
* :mod:`.controller`: the QuorumController, which writes those records and replays them.  Pure.
* :mod:`.node`: a node as a process, with its files, sockets and threads.

Read the docstring of :mod:`.raft` first, then that of :mod:`.controller`, then :mod:`.node`.

Each imports only the packages above it in this list.  All may import :mod:`kafka_common` and
``zkcontroller.state_changes``; ``node`` may also import the broker's packages for logs, sockets,
security and requests.

What must not be done here: decide in ``node``; wait, or read a clock, anywhere else.
"""

import kafka_common  # noqa: F401  before any module here imports kio
