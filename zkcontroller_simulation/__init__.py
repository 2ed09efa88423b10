"""The world in memory: a ZooKeeper, brokers, a network and a clock, repeatable from one seed.

The very core of production runs in it.  A run is a function of its seed: :mod:`.timeline` has the
only clock and the only randomness.  Read :mod:`.world` first, which speaks an operator's words.

* :mod:`.process` drives one broker's controller: events, questions, answers, effects.
* :mod:`.broker_side`, :mod:`.channel`, :mod:`.control_requests`: what a broker does with a request
  of the controller, and how it travels.
* :mod:`.zookeeper_server`, :mod:`.zookeeper`, :mod:`.zookeeper_link`: the ZooKeeper, its client,
  and the connection between them.  :mod:`.registration` is a broker's own part of it.
* :mod:`.weather`, :mod:`.refusals`: what goes wrong.  :mod:`.invariants`: what must
  hold all the same; it is checked after each action.
* The quorum has a world of its own, :mod:`.raft_world`, with :mod:`.raft_process` (a node),
  :mod:`.raft_network`, :mod:`.raft_log_model`, :mod:`.raft_counter` (a state machine) and
  :mod:`.raft_invariants`; with :mod:`.raft_mirrored_log` the log of production stands beside.
* :mod:`.history`, :mod:`.words`: a run in plain words.
* :mod:`.observer`: how a recording of a run is made.

``tests/simulation`` runs thousands of seeds, ``tests/contract`` compares the ZooKeeper with a real
one, and ``zkctl lab`` shows a run on a page (:mod:`zkcontroller_lab`).

May import ``kraft`` and what is below it; none of them imports it.

What must not be done here: read a clock, use another source of randomness, iterate over a set of
strings; import pytest.
"""

import kafka_common  # noqa: F401  before any module here imports kio
