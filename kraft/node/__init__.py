"""A node of a KRaft quorum: its log and snapshots on disk, its sockets, its process.

``kraft.raft`` and ``kraft.controller`` decide; this package has files, sockets and the process.
How to read it:

1. :mod:`.quorum_process`: a node as a process, from its properties to its exit code;
2. :mod:`.quorum_node`: log, listener and driver put together; :mod:`.controller_service`: the
   controller on top; :mod:`.node_security`: how both are secured;
   :mod:`.raft_driver` runs the raft step and performs its outputs, :mod:`.raft_channel` has
   its connections; :mod:`.controller_loop` runs the quorum controller in a thread of its own, and
   :mod:`.snapshot_generator` makes snapshots of its state;
3. :mod:`.metadata_log`: the log that raft replicates, on :mod:`replica_manager.log`;
   :mod:`.snapshot_files`, :mod:`.quorum_state_file`, :mod:`.recovery`;
4. :mod:`.quorum_requests`: from a request's frame to its response; :mod:`.controller_apis`: the
   requests of brokers and clients to the controller;
5. :mod:`.metadata_publishing`: committed records, for the parts of a node that need some of them;
6. :mod:`.storage_format` and :mod:`.node_files`: ``zkctl storage``.

What must not be done here: respond to a Vote or a Fetch before a flush that the raft step requires;
touch the controller's state from the event loop (``ControllerLoop.ask`` and ``look``); serve a
directory whose ``meta.properties`` names another cluster or node.

Source: Kafka ``KafkaMetadataLog``, ``FileQuorumStateStore``, ``Snapshots``.
"""
