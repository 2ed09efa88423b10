"""The coordinators of groups and of transactions.

:mod:`.groups` and :mod:`.transactions` decide, and are pure.  What they ask for is done here:

* :mod:`.coordinator_run`: one coordinator, the requests that wait for it, its appends and timers;
* :mod:`.group_service` and :mod:`.transaction_service`: each of the two, run by it;
* :mod:`.group_loading`: reads a partition of their topics when this broker becomes its leader;
* :mod:`.transaction_verification`: asks whether a partition belongs to a transaction (KIP-890);
* :mod:`.group_settings`, :mod:`.transaction_settings`, :mod:`.transaction_messages`.

May import ``network``, ``replication``, ``log``, configuration and ``zkcontroller``; not
``server``.

What must not be done here: decide; read a log on the event loop.
"""
