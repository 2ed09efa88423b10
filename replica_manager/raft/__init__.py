"""The metadata log of a raft quorum on disk: batches, snapshots and the quorum's state.

Source: Kafka ``KafkaMetadataLog``, ``FileQuorumStateStore``, ``Snapshots``.
"""
