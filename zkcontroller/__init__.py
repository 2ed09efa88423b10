"""The controller, and the vocabulary that brokers share with it.

The packages, from the bottom up.  A package imports only what stands above it in this list;
``setup.cfg`` holds the contract (*The controller's shell calls its core, never the reverse*).

1. :mod:`.errors` (the one exception tree), then :mod:`.model`, :mod:`.topic_names` and
   :mod:`.json_values` (values and types).  :mod:`.lean_kio` comes before any import of kio.
2. :mod:`.protocol` (Kafka's wire format) and :mod:`.zookeeper` (znodes, requests, the session).
   Neither imports the other.
3. :mod:`.state_changes`: the record of each change, and Kafka's log lines.
4. :mod:`.core` (the ZooKeeper controller) and :mod:`.kraft` (the quorum and its controller).
   Both are pure, and neither imports the other.
5. What touches the world: :mod:`.net` (connections to brokers), :mod:`.observability` (metrics and
   log files), :mod:`.process` (the clock, limits of the process).
6. :mod:`.runtime` (the event queue, its thread, the channels to brokers), and :mod:`.history` (what
   happened, out of logs, by Spark).

Read :mod:`.model` first, then the docstring of :mod:`.core`, then
``zkcontroller/core/controller.py``.

What must not be done here: import ``replica_manager`` or the command line; read a clock, a socket
or a random number in a module that the contract *Pure code does no I/O* names; raise an error that
a caller must handle and that is not in :mod:`.errors`.
"""

from kafka_common.lean_kio import import_kio_types

import_kio_types()
