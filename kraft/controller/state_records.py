"""The controller's state as records: the content of a snapshot.

The order is that of Kafka's snapshots: metadata.version first, which determines how the other
records are read, then brokers, which partitions refer to.

Source: Kafka ``MetadataImage.write``.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraft.controller.quorum_controller_state import QuorumControllerState
from kraft.metadata.records import VersionedRecord


def state_records(state: QuorumControllerState, epoch: int) -> Iterator[VersionedRecord]:
    """The records of the state at offset ``epoch``, from the registry's snapshot of that offset.

    The state may change while the records are read.  IllegalState if the snapshot was deleted
    meanwhile, UnsupportedVersion if the metadata.version has no record for a part of the state.
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
