"""A simulated cluster: ZooKeeper, brokers, network and clock in memory, repeatable by its seed.

It runs the production core.  The seed determines a whole run: :mod:`.timeline` has the only clock
and the only source of randomness.  Read :mod:`.world` first, whose methods are what an operator
does.

* :mod:`.process` drives one broker's controller: events, questions, results, effects.
* :mod:`.broker_side`, :mod:`.channel`, :mod:`.control_requests`: how a broker handles a request of
  the controller, and how the request gets there.
* :mod:`.zookeeper_server`, :mod:`.zookeeper`, :mod:`.zookeeper_link`: the ZooKeeper, its client,
  and the connection between them.  :mod:`.registration` is a broker's own part of it.
* :mod:`.weather`, :mod:`.refusals`: the faults.  :mod:`.invariants`: what must be true in spite of
  them; it is checked after each action.
* The quorum has a world of its own, :mod:`.raft_world`, with :mod:`.raft_process` (a node),
  :mod:`.raft_network`, :mod:`.raft_log_model`, :mod:`.raft_counter` (a state machine) and
  :mod:`.raft_invariants`; :mod:`.raft_mirrored_log` runs the production log beside its model.
* :mod:`.history`, :mod:`.words`: a run in plain words.
* :mod:`.observer`: the interface for recording a run.

``tests/simulation`` runs thousands of seeds, ``tests/contract`` compares the ZooKeeper with a real
one, and ``zkctl lab`` shows a run on a page (:mod:`zkcontroller_lab`).

What must not be done here: read a clock, use another source of randomness, iterate over a set of
strings; import pytest.
"""

import kafka_common  # noqa: F401  before any module here imports kio
