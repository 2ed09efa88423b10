"""The broker of a cluster in ZooKeeper mode.

Read :mod:`.broker` first, then docs/walkthrough-broker.md, which follows a Produce, a Fetch and a
LeaderAndIsr through the packages.

From the top down; a module imports only what is below it (*The broker is built from the disk up*
in ``setup.cfg``):

* :mod:`.container`: the process in a container, configured by its environment;
* ``__main__``: the process; :mod:`.broker`: a broker put together; :mod:`.metrics_server`;
* :mod:`.server`: requests and their handlers;
* :mod:`.coordinators`: groups and transactions; :mod:`.network`: sockets; :mod:`.quotas`;
* :mod:`.replication`: partitions, leaders, followers; :mod:`.security`: who may do what;
* :mod:`.log`: files;
* :mod:`.configuration`: keys and their values.

``replication`` and ``security`` do not import each other.

A node of a KRaft quorum is in :mod:`kraft.node`, which uses these packages.

What must not be done here: import :mod:`kraft` or the command line; block the event loop.
"""

import kafka_common  # noqa: F401  before any module here imports kio
