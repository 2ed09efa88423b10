"""zkctl: the operator's command line, one module per command group.

Read :mod:`.main` (finds the verb, turns every end into an exit code), :mod:`.options` (what every
verb shares), then one group, such as :mod:`.partition`.

* Groups: ``broker``, ``cluster``, ``config``, ``controller``, ``demo``, ``doctor``, ``history``,
  ``partition``, ``quorum``, ``storage``, ``topic``, ``znode``.
* How they ask: :mod:`.zookeeper` (znodes, in bulk), :mod:`.wire` and ``wire_…`` (brokers).
* What is wrong: :mod:`.doctor`, its rules, and its readings of ZooKeeper and of brokers.
* How they answer: :mod:`.render`, one result in six formats; :mod:`.errors`, the exit codes.
* Processes: :mod:`.local_cluster`, :mod:`.processes`, :mod:`.broker_process`.

The folder installs as ``zkcontroller_cli`` and imports itself relatively.  It may import
``replica_manager`` and ``zkcontroller``; neither imports it.  Only :mod:`.history_answers` knows
pyspark.

What must not be done here: import anything heavy before a verb runs (``zkctl --help`` answers at
once); change the meaning of an exit code or a key of an output; print a result by anything but
:mod:`.render`; decide what belongs to the controller.
"""
