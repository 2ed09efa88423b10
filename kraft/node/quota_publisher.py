"""Applies the ``controller_mutation_rate`` of the metadata log to a controller's quotas.

The event loop applies records while the controller's thread uses the quotas.  So each change makes
a new table of quotas, which then replaces the old one.

Source: Kafka ``DynamicClientQuotaPublisher``, ``ClientQuotaMetadataManager`` (KIP-599).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_common.process.wall_clock import monotonic_ms
from kafka_common.sanitizer import DEFAULT_ENTITY, sanitize
from kraft.metadata.records import ClientQuotaRecord, MetadataRecord
from kraft.node.controller_config import ControllerServerConfig
from replica_manager.quotas.client_quotas import ClientQuotas, QuotaEntity
from replica_manager.quotas.mutation_quotas import QUOTA_KEY, MutationQuotas

_USER: Final = "user"
_CLIENT_ID: Final = "client-id"


def mutation_quotas(config: ControllerServerConfig) -> MutationQuotas:
    """The mutation quotas of a node, measured over the configured window; no client has one yet."""
    window_s = config.integer("controller.quota.window.num") * config.integer(
        "controller.quota.window.size.seconds"
    )
    return MutationQuotas(window_s, monotonic_ms)


class MutationQuotaPublisher:
    """Keeps the mutation quotas of a controller's clients equal to the log."""

    name = "DynamicClientQuotaPublisher"

    record_types = frozenset((ClientQuotaRecord,))

    def __init__(self, mutations: MutationQuotas) -> None:
        self._mutations = mutations

    def publish(self, records: Sequence[MetadataRecord]) -> None:
        """Applies the changes."""
        self._apply(records, self._mutations.quotas.copy())

    def load(self, records: Sequence[MetadataRecord]) -> None:
        """Replaces all quotas."""
        self._apply(records, self._mutations.quotas.copy(with_bounds=False))

    def caught_up(self) -> None:
        """Does nothing: a quota counts as soon as it is known."""

    def _apply(self, records: Sequence[MetadataRecord], quotas: ClientQuotas) -> None:
        for record in records:
            assert isinstance(record, ClientQuotaRecord), f"{record} is not asked for"
            names = {part.entity_type: part.entity_name for part in record.entity}
            if record.key == QUOTA_KEY and names.keys() <= {_USER, _CLIENT_ID}:
                entity = QuotaEntity(_sanitized(names, _USER), _sanitized(names, _CLIENT_ID))
                quotas.update(entity, None if record.remove else record.value)
        self._mutations.quotas = quotas


def _sanitized(names: dict[str, str | None], entity_type: str) -> str | None:
    if entity_type not in names:
        return None
    name = names[entity_type]
    return DEFAULT_ENTITY if name is None else sanitize(name)
