"""The controller's state as records: the content of a snapshot.

The order is that of Kafka's snapshots: metadata.version first, by which the rest is read, then
brokers, without which no partition can have a replica.

Source: Kafka ``MetadataImage.write``.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraft.controller.quorum_controller_state import QuorumControllerState
from kraft.metadata.records import VersionedRecord


def state_records(state: QuorumControllerState, epoch: int) -> Iterator[VersionedRecord]:
    """The records of the state at an epoch, whose snapshot must stay in the registry meanwhile.

    The state may change between two of them.  IllegalState once the epoch cannot be read any more,
    UnsupportedVersion for what its metadata.version has no record for.
    """
    version = state.features.metadata_version_at(epoch)
    yield from state.features.state_records(epoch)
    yield from state.cluster.state_records(epoch)
    yield from state.replication.state.state_records(epoch, version)
    yield from state.configs.state_records(epoch)
    yield from state.quotas.state_records(epoch)
    yield from state.producer_ids.state_records(epoch)
    yield from state.acls.state_records(epoch)
    yield from state.scram.state_records(epoch, version)
    yield from state.tokens.state_records(epoch, version)
