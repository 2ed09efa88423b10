"""The feature levels that the controllers of this quorum support.

Source: Kafka ``QuorumFeatures``, ``Features``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kraft.controller.registrations import VersionRange
from kraft.metadata import metadata_version

KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
MAX_TRANSACTION_VERSION: Final = 2


DISABLED: Final = VersionRange(0, 0)
"""The range of a feature that a node does not know."""


def reason_not_supported(level: int, who: str, supported: VersionRange) -> str | None:
    """Why a node with that range does not support the level; None if it does."""
    if supported.contains(level):
        return None
    if supported.max == 0:
        return f"{who} does not know this feature"
    return f"{who} supports versions {supported} of it"


def default_feature_map(*, is_unstable_enabled: bool = False) -> dict[str, VersionRange]:
    """The features that a Kafka 3.9 controller supports, except ``kraft.version``.

    Of ``kraft.version`` only level 0 (static voters) is supported here.  As in Kafka, a controller
    does not name a feature of which it supports only level 0.

    ``is_unstable_enabled`` (``unstable.feature.versions.enable``) adds levels that are not
    production-ready.
    """
    lowest, newest = metadata_version.MINIMUM_KRAFT_VERSION, metadata_version.LATEST_PRODUCTION
    if is_unstable_enabled:
        newest = metadata_version.VERSIONS[-1]
    features = {
        metadata_version.FEATURE_NAME: VersionRange(lowest.level, newest.level),
    }
    if is_unstable_enabled:
        features[TRANSACTION_VERSION] = VersionRange(0, MAX_TRANSACTION_VERSION)
    return features


@dataclass(frozen=True, slots=True)
class QuorumFeatures:
    """The features that this controller supports, and the ids of the quorum's members."""

    node_id: int
    local_supported_features: Mapping[str, VersionRange]
    quorum_node_ids: tuple[int, ...]

    def local_supported_feature(self, name: str) -> VersionRange:
        """The range of one feature; only level 0 for an unknown feature."""
        return self.local_supported_features.get(name, DISABLED)

    def is_controller_id(self, node_id: int) -> bool:
        """Whether the node is a member of the quorum."""
        return node_id in self.quorum_node_ids

    def reason_not_locally_supported(self, name: str, level: int) -> str | None:
        """Why this controller does not support that level; None if it does."""
        supported = self.local_supported_feature(name)
        return reason_not_supported(level, f"local controller {self.node_id}", supported)
