"""zkctl: the operator's command line.  A module of this folder is a command; folders hold the rest.

Read :mod:`.main` (finds the command, and turns its result or error into an exit code),
:mod:`.console.options` (what all verbs share), then one command, such as :mod:`.partition`.

* Commands: ``acl``, ``broker``, ``check``, ``cluster``, ``completion``, ``config``, ``context``,
  ``controller``, ``deletion``, ``demo``, ``doctor``, ``group``, ``history``, ``lab``,
  ``log-dirs``, ``metadata``, ``metrics``, ``migration``, ``partition``, ``quorum``, ``quota``,
  ``reassign``, ``serve``, ``snapshot``, ``storage``, ``token``, ``top``, ``topic``, ``txn``,
  ``user``, ``wait``, ``znode``.
* Reading the cluster: :mod:`.znodes` (ZooKeeper), :mod:`.wire` (brokers); :mod:`.values` holds the
  types that both use.
* Output and options: :mod:`.console`.
* The work of commands: :mod:`.acls`, :mod:`.configurations`, :mod:`.coordinators`,
  :mod:`.deletions`, :mod:`.diagnosis` (``doctor``), :mod:`.elections`, :mod:`.histories`,
  :mod:`.migrations`, :mod:`.moving`, :mod:`.screen` (``top``), :mod:`.snapshots`, :mod:`.topics`,
  :mod:`.truth` (``metadata diff``, ``check perf``), :mod:`.waiting`.
* Processes of this machine: :mod:`.machine`, and :mod:`.local` for whole clusters.

The ``__init__`` of each folder says in which order to read it.  Folders import only those that come
later in this list: the work of commands, ``wire``, ``znodes``, ``values``, ``machine``,
``console``.  A contract in setup.cfg checks that.

The folder installs as ``zkcontroller_cli``.  It may import every package below it;
none of them imports it.  Only :mod:`.screen.screen` imports textual, and no module here imports
pyspark: :mod:`.histories` uses it through ``kafka_history``.

What must not be done here: import a slow module before a verb runs (``zkctl --help`` must be fast);
change the meaning of an exit code or of a key in an output; print a result by anything but
:mod:`.console.render`; make decisions of the controller.
"""

import kafka_common  # noqa: F401  before any module here imports kio
