"""The coordinators of groups and of transactions.

:mod:`.groups` and :mod:`.transactions` are pure and make the decisions.  The modules of this folder
perform their outputs:

* :mod:`.coordinator_run`: runs one coordinator, with its waiting requests, appends and timers;
* :mod:`.group_service` and :mod:`.transaction_service`: the two coordinators that run on it;
* :mod:`.group_loading`: reads a partition of their topics when this broker becomes its leader;
* :mod:`.transaction_verification`: asks whether a partition belongs to a transaction (KIP-890);
* :mod:`.group_settings`, :mod:`.transaction_settings`, :mod:`.transaction_messages`.

What must not be done here: make a coordinator's decision; read a log on the event loop.
"""
