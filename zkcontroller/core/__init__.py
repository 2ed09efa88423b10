"""The ZooKeeper controller's decisions: pure code without sockets, threads or clocks.

Nothing here opens a socket, reads a clock, starts a thread or knows kazoo.  One event goes in
(:mod:`.events`), questions and effects come out (:mod:`.effects`), and a driver outside performs
them: the controller-event-thread in production, a seeded simulator in the tests.

How to read it, top down:

* :mod:`.controller`: which part of the core handles an event;
* one file per concern: :mod:`.failover` (becoming controller and ceasing to be it),
  :mod:`.brokers`, :mod:`.topics`, :mod:`.topic_deletion`, :mod:`.reassignment`,
  :mod:`.preferred_election`, :mod:`.isr_changes`, :mod:`.controlled_shutdown`, :mod:`.responses`,
  :mod:`.log_dir_failures`, :mod:`.producer_ids`, :mod:`.features`;
* the two state machines that they use: :mod:`.partition_states`, :mod:`.replica_states`, with
  the tables of legal transitions; :mod:`.elections`, the choice of a leader as plain functions;
  :mod:`.leader_epochs`, raising an epoch without an election; :mod:`.state_znodes`, which reads and
  writes the states of partitions; :mod:`.refused_partitions`, which retries refused writes;
* :mod:`.broker_requests`: the requests to the brokers;
* the state in memory: :mod:`.context`, :mod:`.partition_table` (columns for a million partitions),
  :mod:`.states`;
* :mod:`.tools`, :mod:`.journal`, :mod:`.config`, :mod:`.topic_configs`, :mod:`.watches`: the
  tools that all of them share.

Pure: no asyncio, kazoo, socket, thread, clock or random number; of ``zookeeper`` only the values.

What must not be done here: take a result other than NO_NODE for "there is nothing"; send a request
to a broker past the outbox; iterate over a set whose order reaches a request, a line or a znode.
"""
