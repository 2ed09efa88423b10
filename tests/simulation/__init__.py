"""Thousands of seeds of the simulators, the bugs that they must find, and the replication's world.

The worlds of the ZooKeeper controller and of the quorum are in :mod:`zkcontroller_simulation`.
"""
