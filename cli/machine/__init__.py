"""Processes, ports and the file of a local cluster on this machine.

:mod:`.cluster_file` is ``cluster.json``; :mod:`.processes` starts and ends processes, and
identifies them by pid and start time; :mod:`.ports` finds free ports; :mod:`.embedded_server` is
the process that holds an embedded ZooKeeper.

What must not be done here: signal a process of which only the pid is known.
"""
