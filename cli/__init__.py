"""zkctl: the operator's command line.  A module of this folder is a command; rooms hold the rest.

Read :mod:`.main` (finds the command, turns every end into an exit code), :mod:`.console.options`
(what every verb shares), then one command, such as :mod:`.partition`.

* Commands: ``acl``, ``broker``, ``check``, ``cluster``, ``completion``, ``config``, ``context``,
  ``controller``, ``deletion``, ``demo``, ``doctor``, ``group``, ``history``, ``lab``,
  ``log-dirs``, ``metadata``, ``metrics``, ``migration``, ``partition``, ``quorum``, ``quota``,
  ``reassign``, ``serve``, ``snapshot``, ``storage``, ``token``, ``top``, ``topic``, ``txn``,
  ``user``, ``wait``, ``znode``.
* How a command asks: :mod:`.znodes` (ZooKeeper), :mod:`.wire` (brokers); :mod:`.values` is what
  both give and take.
* How it answers: :mod:`.console`.
* What it does: :mod:`.acls`, :mod:`.configurations`, :mod:`.coordinators`, :mod:`.deletions`,
  :mod:`.diagnosis` (``doctor``), :mod:`.elections`, :mod:`.histories`, :mod:`.migrations`,
  :mod:`.moving`, :mod:`.screen` (``top``), :mod:`.snapshots`, :mod:`.topics`,
  :mod:`.truth` (``metadata diff``, ``check perf``), :mod:`.waiting`.
* Processes of this machine: :mod:`.machine`, and :mod:`.local` for whole clusters.

Each room says in its ``__init__`` in which order to read it.  Rooms import downwards: what a
command does, ``wire``, ``znodes``, ``values``, ``machine``, ``console``.  The contract of setup.cfg
holds that.

The folder installs as ``zkcontroller_cli``.  It may import every package below it;
none of them imports it.  Only :mod:`.histories.answers` knows pyspark, and only
:mod:`.screen.screen` knows textual.

What must not be done here: import anything heavy before a verb runs (``zkctl --help`` answers at
once); change the meaning of an exit code or a key of an output; print a result by anything but
:mod:`.console.render`; decide what belongs to the controller.
"""

import kafka_common  # noqa: F401  before any module here imports kio
