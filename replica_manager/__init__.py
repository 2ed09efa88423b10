"""The broker: configuration, registration, assembly; its parts are in the packages below.

Read :mod:`.broker` first: ``BrokerServer.start`` puts everything together in Kafka's order.  Then
docs/walkthrough-broker.md, which follows a Produce, a Fetch and a LeaderAndIsr through the
packages.

From the top down; a module imports only what is below it (*The broker is built from the disk up*
in ``setup.cfg``):

* ``__main__``: the process; :mod:`.broker`: a broker in ZooKeeper mode; :mod:`.raft`: a node of a
  KRaft quorum (``broker`` and ``raft`` do not import each other);
* ``broker_…`` modules: parts of the assembly; :mod:`.storage`: the disks;
* :mod:`.server`: sockets, requests, handlers; :mod:`.registration`, :mod:`.dynamic_config`,
  :mod:`.refresher`: what follows ZooKeeper;
* :mod:`.transactions`, then :mod:`.groups`: the coordinators, pure;
* :mod:`.replication`: partitions, leaders, followers; :mod:`.security`: who may do what;
* :mod:`.log`: files;
* :mod:`.config` and the tables of keys.

``groups``, ``replication`` and ``security`` do not import each other.

What must not be done here: import the command line; accept a configuration key without a row in
:mod:`.key_effects`; block the event loop.
"""
