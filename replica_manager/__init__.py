"""The broker, and the node of a KRaft quorum.

Read :mod:`.broker` first, then docs/walkthrough-broker.md, which follows a Produce, a Fetch and a
LeaderAndIsr through the packages.

From the top down; a module imports only what is below it (*The broker is built from the disk up*
in ``setup.cfg``):

* :mod:`.container`: the process in a container, configured by its environment;
* ``__main__``: the process; :mod:`.broker`: a broker in ZooKeeper mode; :mod:`.quorum`: a node of a
  KRaft quorum (``broker`` and ``quorum`` do not import each other); :mod:`.metrics_server`;
* :mod:`.server`: requests and their handlers;
* :mod:`.coordinators`: groups and transactions; :mod:`.network`: sockets; :mod:`.quotas`;
* :mod:`.replication`: partitions, leaders, followers; :mod:`.security`: who may do what;
* :mod:`.log`: files;
* :mod:`.configuration`: keys and their values.

``replication`` and ``security`` do not import each other.

What must not be done here: import the command line; block the event loop.
"""

import zkcontroller  # noqa: F401  before any module here imports kio
