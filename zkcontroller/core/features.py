"""The finalized features of the cluster: ``/feature`` and UpdateFeatures.

A ZooKeeper-mode broker supports no feature of its own, so no feature is finalized.  The version and
the status of the znode depend on ``inter.broker.protocol.version``.

Source: Kafka ``KafkaController.maybeSetupFeatureVersioning`` (KIP-584).
"""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZnodeCorrupt, ZooKeeperRefused
from kafka_common.protocol.inter_broker_versions import (
    feature_znode_version,
    is_feature_versioning_supported,
)
from zkcontroller.core.effects import FeatureResults, Procedure, RequestResponse
from zkcontroller.core.events import FeatureUpdate, UpdateFeatures, event_text
from zkcontroller.core.journal import keeper_exception, scala_small_map
from zkcontroller.core.tools import ControllerTools
from zkcontroller.zookeeper.requests import Create, SetData, ZkCode
from zkcontroller.zookeeper.znodes import FeatureStatus, FeatureZnode

UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3


def set_up_feature_versioning(tools: ControllerTools) -> Procedure[None]:
    """Creates or updates ``/feature`` at failover; does not change a corrupt znode.

    The writes are fenced, so that a controller that was suspended cannot undo a write of its
    successor.  Kafka's writes are not fenced.
    """
    ibp = tools.config.inter_broker_version
    status = (
        FeatureStatus.ENABLED if is_feature_versioning_supported(ibp) else FeatureStatus.DISABLED
    )
    wanted = FeatureZnode(features={}, status=status, version=feature_znode_version(ibp))
    znode = yield from tools.read_one(FeatureZnode.PATH)
    if znode is None:
        tools.journal.info(
            f"Creating FeatureZNode at path: {FeatureZnode.PATH} with contents: {_text(wanted)}"
        )
        (result,) = yield from tools.write([Create(FeatureZnode.PATH, wanted.encode())])
        # NODE_EXISTS: the reply to this write was lost, and the write was repeated.
        if isinstance(result, ZkCode) and result is not ZkCode.NODE_EXISTS:
            raise ZooKeeperRefused(FeatureZnode.PATH, result.name)
        return
    try:
        found = FeatureZnode.decode(znode.data)
    except ZnodeCorrupt as corrupt:
        tools.journal.error(f"{corrupt}; leaving it as it is")
        return
    if status is FeatureStatus.ENABLED and found.status is FeatureStatus.ENABLED:
        wanted = FeatureZnode(features=found.features, status=status, version=wanted.version)
    elif found.features and status is FeatureStatus.ENABLED:
        tools.journal.warn(
            f"FeatureZNode at path: {FeatureZnode.PATH} with disabled status contains non-empty"
            f" features: {scala_small_map(found.features.items())}"
        )
    if wanted != found:
        tools.journal.info(
            f"Updating FeatureZNode at path: {FeatureZnode.PATH} with contents: {_text(wanted)}"
        )
        (result,) = yield from tools.write([SetData(FeatureZnode.PATH, wanted.encode())])
        if isinstance(result, ZkCode):
            raise ZooKeeperRefused(FeatureZnode.PATH, result.name)
    tools.context.finalized_features = dict(wanted.features)


class FeatureUpdates:
    """Handles UpdateFeatures and makes its response."""

    def __init__(self, tools: ControllerTools) -> None:
        self._tools = tools

    def update(self, event: UpdateFeatures) -> Procedure[None]:
        """Checks each item; writes the accepted ones if they change anything."""
        existing: dict[str, int] = {}
        znode = yield from self._tools.read_one(FeatureZnode.PATH)
        if znode is not None:
            try:
                existing = dict(FeatureZnode.decode(znode.data).features)
            except ZnodeCorrupt as corrupt:
                self._tools.journal.error(str(corrupt))
                response = FeatureResults(ErrorCode.unknown_server_error, str(corrupt))
                self._tools.outbox.append(RequestResponse(event.request_id, response))
                return
        target = dict(existing)
        results: dict[str, tuple[ErrorCode, str | None]] = {}
        for item in event.updates:
            reason = self._refusal(item, existing.get(item.feature))
            results[item.feature] = (
                (ErrorCode.none, None) if reason is None else (ErrorCode.invalid_request, reason)
            )
            if reason is None and _is_deletion(item):
                target.pop(item.feature, None)
            elif reason is None:
                target[item.feature] = item.max_version_level
        epoch = None
        if target != existing and not event.validate_only:
            epoch = yield from self._write(event, target, results)
        named = tuple((name, code, message) for name, (code, message) in results.items())
        self._tools.outbox.append(
            RequestResponse(event.request_id, FeatureResults(ErrorCode.none, None, named, epoch))
        )

    def _write(
        self,
        event: UpdateFeatures,
        target: Mapping[str, int],
        results: dict[str, tuple[ErrorCode, str | None]],
    ) -> Procedure[int | None]:
        """Writes the features; returns the new version of ``/feature``.

        If ZooKeeper refuses, returns None and changes each success in ``results`` to an error.
        """
        version = feature_znode_version(self._tools.config.inter_broker_version)
        wanted = FeatureZnode(features=target, status=FeatureStatus.ENABLED, version=version)
        [written] = yield from self._tools.write([SetData(FeatureZnode.PATH, wanted.encode())])
        if isinstance(written, ZkCode):
            self._tools.journal.warn(
                f"Processing of feature updates: {event_text(event)} failed due to error:"
                f" {keeper_exception(written, FeatureZnode.PATH)}"
            )
            for name, (code, _) in results.items():
                if code is ErrorCode.none:
                    results[name] = (ErrorCode.feature_update_failed, None)
            return None
        self._tools.context.finalized_features = dict(target)
        return written.zk_version

    def _refusal(self, item: FeatureUpdate, existing: int | None) -> str | None:
        """Why the item cannot be applied, checks in Kafka's order; None if it can."""
        level = item.max_version_level
        if not item.feature:
            return "Feature name can not be empty."
        if item.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            return "Received unknown upgrade type."
        if _is_deletion(item):
            return (
                None if existing is not None else "Can not delete non-existing finalized feature."
            )
        if level < 1:
            return (
                f"Can not provide versionLevel: {level} less than 1 without setting the SAFE"
                " downgradeType in the request."
            )
        if existing is not None and level == existing:
            verb = "downgrade" if item.upgrade_type == SAFE_DOWNGRADE else "upgrade"
            return (
                f"Can not {verb} a finalized feature from existing versionLevel:{existing} to the"
                " same value."
            )
        if existing is not None and level < existing and item.upgrade_type != SAFE_DOWNGRADE:
            return (
                f"Can not downgrade finalized feature from existing versionLevel:{existing} to"
                f" provided versionLevel:{level} without setting the downgradeType to SAFE in the"
                " request."
            )
        if existing is not None and level > existing and item.upgrade_type != UPGRADE:
            return (
                "When the downgradeType is set to SAFE in the request, the provided"
                f" versionLevel:{level} can not be greater than existing versionLevel:{existing}."
            )
        return self._incompatibility(item.feature, level)

    def _incompatibility(self, feature: str, level: int) -> str | None:
        supported = self._tools.config.supported_features.get(feature)
        if supported is None:
            return (
                "Could not apply finalized feature update because the provided feature is not"
                " supported."
            )
        lowest, highest = supported
        if not lowest <= level <= highest:
            return (
                "Could not apply finalized feature update because the provided"
                f" versionLevel:{level} is lower than the supported minVersion:{lowest}."
            )
        for broker in self._tools.context.live_brokers.values():
            least, most = broker.features.get(feature, (0, 0))
            if not least <= level <= most:
                return (
                    "Could not apply finalized feature update because brokers were found to have"
                    " incompatible versions for the feature."
                )
        return None


def _is_deletion(item: FeatureUpdate) -> bool:
    return item.max_version_level < 1 and item.upgrade_type != UPGRADE


def _text(znode: FeatureZnode) -> str:
    features = scala_small_map(znode.features.items())
    return f"FeatureZNode({znode.version},{znode.status.name.capitalize()},{features})"
