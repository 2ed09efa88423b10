"""What of this machine zkctl uses: processes, ports, the file of a local cluster.

:mod:`.cluster_file` is ``cluster.json``; :mod:`.processes` starts and ends processes and knows one
again by its start time; :mod:`.ports` finds free ports; :mod:`.embedded_server` is the process
that holds an embedded ZooKeeper.

May import ``console``.  What must not be done here: signal a process that is known by its number
alone.
"""
