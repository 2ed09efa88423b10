"""Registrations of brokers and controllers.

Registrations are in the log; only the active controller knows which brokers are alive
(:mod:`kraft.controller.heartbeats`).  A broker registers at each start and gets a broker epoch,
which it sends with its later requests.  So a request from before its restart cannot be taken for
one from after it.

Source: Kafka ``ClusterControlManager``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, assert_never
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.errors import IllegalState
from kafka_common.observability.java_values import message_text
from kafka_common.protocol.uuid_text import uuid_text
from kraft.controller import directory_ids
from kraft.controller.broker_registration_checks import RegistrationChecks
from kraft.controller.broker_transitions import BrokerTransitions
from kraft.controller.cluster_requests import (
    BrokerRegistrationReply,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
)
from kraft.controller.cluster_view import UsableBroker
from kraft.controller.features import FeatureControlManager
from kraft.controller.heartbeats import BrokerHeartbeatManager
from kraft.controller.registrations import (
    BrokerRegistration,
    ControllerRegistration,
    VersionRange,
    unknown_security_protocol,
)
from kraft.controller.result import ControllerResult, VersionedRecord
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineDict, TimelineValue
from kraft.metadata.records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

ClusterRecord: TypeAlias = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | BrokerRegistrationChangeRecord
    | RegisterControllerRecord
)

# The meaning of the numbers in a BrokerRegistrationChangeRecord; None is no change.
_FENCED_CHANGE = {0: None, 1: True, -1: False}
_SHUTDOWN_CHANGE = {0: None, 1: True}


class ClusterControlManager:
    """The registrations, and on the active controller the heartbeats."""

    def __init__(
        self,
        registry: SnapshotRegistry,
        cluster_id: str,
        features: FeatureControlManager,
        *,
        session_timeout_ms: int,
    ) -> None:
        self.cluster_id = cluster_id
        self._registry = registry
        self._logger = registry.logger("ClusterControlManager")
        self._features = features
        self._session_timeout_ms = session_timeout_ms
        self._brokers: TimelineDict[int, BrokerRegistration] = TimelineDict(registry)
        self._register_offsets: TimelineDict[int, int] = TimelineDict(registry)
        self._controllers: TimelineDict[int, ControllerRegistration] = TimelineDict(registry)
        self._directory_to_broker: TimelineDict[UUID, int] = TimelineDict(registry)
        self._fenced_count: TimelineValue[int] = TimelineValue(registry, 0)
        self._heartbeats: BrokerHeartbeatManager | None = None

    # ------------------------------------------------------------------ activity

    def activate(self, now_ms: int) -> None:
        """Makes the manager active: the session of every unfenced broker starts now."""
        self._heartbeats = BrokerHeartbeatManager(
            self._session_timeout_ms, self._registry.logger("BrokerHeartbeatManager")
        )
        for broker in self._brokers.values():
            self._heartbeats.register(broker.id, fenced=broker.fenced, now_ms=now_ms)

    def deactivate(self) -> None:
        """Makes the manager a standby's: forgets the heartbeats."""
        self._heartbeats = None

    @property
    def heartbeats(self) -> BrokerHeartbeatManager:
        """The heartbeats; :class:`IllegalState` on a standby."""
        if self._heartbeats is None:
            raise IllegalState("only the active controller knows who is alive")
        return self._heartbeats

    # ------------------------------------------------------------------ reads

    def registration(self, broker_id: int) -> BrokerRegistration | None:
        """The broker's registration; None if it is not registered."""
        return self._brokers.get(broker_id)

    def registrations(self) -> list[BrokerRegistration]:
        """Every registered broker, in ascending order of ids."""
        return sorted(self._brokers.values(), key=_broker_id)

    @property
    def fenced_broker_count(self) -> int:
        """The number of fenced brokers."""
        return self._fenced_count.get()

    @property
    def active_broker_count(self) -> int:
        """The number of unfenced brokers."""
        return len(self._brokers) - self._fenced_count.get()

    def controllers(self, epoch: int | None = None) -> dict[int, ControllerRegistration]:
        """Every registered controller by id, now or at offset ``epoch``."""
        return dict(self._controllers.items(epoch=epoch))

    def register_broker_record_offset(self, broker_id: int) -> int | None:
        """The log offset of the broker's registration; None if it is not registered.

        The broker is unfenced only after it has read the log up to that offset.
        """
        return self._register_offsets.get(broker_id)

    def is_unfenced(self, broker_id: int) -> bool:
        """Whether the broker is registered and not fenced."""
        broker = self.registration(broker_id)
        return broker is not None and not broker.fenced

    def in_controlled_shutdown(self, broker_id: int) -> bool:
        """Whether the broker is registered and in controlled shutdown."""
        broker = self.registration(broker_id)
        return broker is not None and broker.in_controlled_shutdown

    def is_active(self, broker_id: int) -> bool:
        """Whether the broker is registered, unfenced and not in controlled shutdown."""
        broker = self.registration(broker_id)
        return broker is not None and broker.is_active

    def usable_brokers(self) -> list[UsableBroker]:
        """Every broker that may get replicas, ascending; :class:`IllegalState` on a standby."""
        usable = []
        for broker_id in self.heartbeats.usable_broker_ids():
            broker = self._brokers[broker_id]
            usable.append(UsableBroker(broker_id, broker.rack, broker.fenced))
        return usable

    def default_dir(self, broker_id: int) -> UUID:
        """The log directory of a new replica: the broker's only directory, or UNASSIGNED."""
        broker = self.registration(broker_id)
        return directory_ids.default_directory(None if broker is None else broker.directories)

    def has_online_dir(self, broker_id: int, directory: UUID) -> bool:
        """Whether the broker's log directory is online; False for an unknown broker."""
        broker = self.registration(broker_id)
        return broker is not None and broker.has_online_dir(directory)

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> None:
        """ApiException(STALE_BROKER_EPOCH) unless the broker is registered with that epoch."""
        broker = self.registration(broker_id)
        if broker is None:
            raise _refused(ErrorCode.stale_broker_epoch, f"broker {broker_id} is not registered")
        if broker.epoch != broker_epoch:
            message = f"broker {broker_id} has epoch {broker.epoch}, and not {broker_epoch}"
            raise _refused(ErrorCode.stale_broker_epoch, message)

    def broker_supported_features(self) -> Iterator[tuple[int, Mapping[str, VersionRange]]]:
        """Each registered broker's id and supported ranges, by feature."""
        return ((broker.id, broker.supported_features) for broker in self.registrations())

    def controller_supported_features(self) -> Iterator[tuple[int, Mapping[str, VersionRange]]]:
        """Each registered controller's id and ranges; UNSUPPORTED_VERSION below 3.7-IV0."""
        self._check_controllers_register()
        controllers = self._controllers.items()
        return ((node_id, controller.supported_features) for node_id, controller in controllers)

    def state_records(self, epoch: int) -> Iterator[VersionedRecord]:
        """A record for every registration at offset ``epoch``: brokers first, then controllers."""
        version = self._features.metadata_version_at(epoch)
        for broker in self._brokers.values(epoch=epoch):
            record = broker.to_record(version)
            yield VersionedRecord(record, version.register_broker_record_version())
        for controller in self._controllers.values(epoch=epoch):
            if not version.is_controller_registration_supported:
                version.refuse_loss("registrations of controllers")
            record_version = version.register_controller_record_version()
            yield VersionedRecord(controller.to_record(), record_version)

    # ------------------------------------------------------------------ generate

    def register_broker(
        self,
        request: BrokerRegistrationRequest,
        new_broker_epoch: int,
        finalized_levels: Mapping[str, int],
        transitions: BrokerTransitions,
        now_ms: int,
    ) -> ControllerResult[BrokerRegistrationReply]:
        """Registers a broker; ApiException if a check fails.

        A new incarnation gets ``new_broker_epoch``.  ``finalized_levels`` includes kraft.version.
        """
        existing = self.registration(request.broker_id)
        supported = self._checks(request, existing, now_ms).run(finalized_levels)
        version = self._features.metadata_version
        is_new = existing is None or existing.incarnation_id != request.incarnation_id
        records = transitions.handle_broker_unclean_shutdown(request.broker_id) if is_new else []
        self._log_registration(request, existing, len(records), new_broker_epoch)
        record = RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=new_broker_epoch if existing is None or is_new else existing.epoch,
            end_points=request.listeners,
            features=supported,
            rack=request.rack,
            fenced=existing is None or is_new or existing.fenced,
            in_controlled_shutdown=(
                existing is not None and not is_new and existing.in_controlled_shutdown
            ),
            log_dirs=request.log_dirs if version.is_directory_assignment_supported else (),
        )
        versioned = VersionedRecord(record, version.register_broker_record_version())
        # The session begins with the replay, because a record that is too large is refused.
        reply = BrokerRegistrationReply(record.broker_epoch)
        return ControllerResult.atomic_of([*records, versioned], reply)

    def _log_registration(
        self, request: BrokerRegistrationRequest, existing: BrokerRegistration | None,
        records: int, new_broker_epoch: int,
    ) -> None:  # fmt: skip
        incarnation = uuid_text(request.incarnation_id)
        if existing is None:
            self._logger.info(
                "No previous registration found for broker %d. New incarnation ID is %s.  "
                "Generated %d record(s) to clean up previous incarnations. New broker epoch is %d.",
                request.broker_id, incarnation, records, new_broker_epoch,
            )  # fmt: skip
        elif existing.incarnation_id != request.incarnation_id:
            self._logger.info(
                "Registering a new incarnation of broker %d. Previous incarnation ID was %s; new "
                "incarnation ID is %s. Generated %d record(s) to clean up previous incarnations. "
                "Broker epoch will become %d.",
                request.broker_id, uuid_text(existing.incarnation_id), incarnation, records,
                new_broker_epoch,
            )  # fmt: skip
        else:
            self._logger.info(
                "Amending registration of broker %d, incarnation ID %s. Broker epoch remains %d.",
                request.broker_id, incarnation, existing.epoch,
            )  # fmt: skip

    def _checks(
        self, request: BrokerRegistrationRequest, existing: BrokerRegistration | None, now_ms: int
    ) -> RegistrationChecks:
        return RegistrationChecks(
            request=request,
            cluster_id=self.cluster_id,
            existing=existing,
            has_valid_session=self.heartbeats.has_valid_session(request.broker_id, now_ms),
            is_in_pre_migration_mode=self._features.is_in_pre_migration_mode,
            version=self._features.metadata_version,
            directory_owner=self._directory_to_broker.get,
        )

    def register_controller(self, request: ControllerRegistrationRequest) -> ControllerResult[None]:
        """Registers a controller; UNSUPPORTED_VERSION below 3.7-IV0."""
        self._check_controllers_register()
        reason = unknown_security_protocol(request.listeners)
        if reason is not None:
            raise _refused(ErrorCode.invalid_registration, reason)
        record = RegisterControllerRecord(
            controller_id=request.controller_id,
            incarnation_id=request.incarnation_id,
            zk_migration_ready=request.zk_migration_ready,
            end_points=request.listeners,
            features=request.features,
        )
        version = self._features.metadata_version.register_controller_record_version()
        return ControllerResult.atomic_of([VersionedRecord(record, version)], None)

    def _check_controllers_register(self) -> None:
        version = self._features.metadata_version
        if not version.is_controller_registration_supported:
            message = f"controllers do not register at metadata.version {version}"
            raise _refused(ErrorCode.unsupported_version, message)

    # ------------------------------------------------------------------ replay

    def replay(self, record: ClusterRecord, offset: int, now_ms: int) -> None:
        """Replays a record; :class:`IllegalState` for an unknown broker or broker epoch."""
        match record:
            case RegisterBrokerRecord():
                self._replay_register_broker(record, offset, now_ms)
            case UnregisterBrokerRecord():
                self._replay_unregister_broker(record)
            case FenceBrokerRecord():
                self._replay_change(record, record.id, record.epoch, now_ms, True)
            case UnfenceBrokerRecord():
                self._replay_change(record, record.id, record.epoch, now_ms, False)
            case BrokerRegistrationChangeRecord():
                self._replay_registration_change(record, now_ms)
            case RegisterControllerRecord():
                self._replay_register_controller(record)
            case _:
                assert_never(record)

    def _replay_register_broker(
        self, record: RegisterBrokerRecord, offset: int, now_ms: int
    ) -> None:
        broker_id = record.broker_id
        self._register_offsets[broker_id] = offset
        previous = self.registration(broker_id)
        self._brokers[broker_id] = BrokerRegistration.from_record(record)
        if previous is None:
            done = "initial RegisterBrokerRecord for"
        elif previous.incarnation_id == record.incarnation_id:
            done = "RegisterBrokerRecord modifying the registration for"
        else:
            done = "RegisterBrokerRecord establishing a new incarnation of"
        self._logger.info("Replayed %s broker %d: %s", done, broker_id, message_text(record))
        self._count_fenced(previous is not None and previous.fenced, record.fenced)
        self._update_directories(
            broker_id, () if previous is None else previous.directories, record.log_dirs
        )
        if self._heartbeats is not None:
            if previous is not None:
                self._heartbeats.remove(broker_id)
            self._heartbeats.register(broker_id, fenced=record.fenced, now_ms=now_ms)

    def _replay_register_controller(self, record: RegisterControllerRecord) -> None:
        registration = ControllerRegistration.from_record(record)
        before = self._controllers.get(record.controller_id)
        self._controllers[record.controller_id] = registration
        was = ""
        if before is not None:
            was = f" Previous incarnation was {uuid_text(before.incarnation_id)}"
        # The word is misspelt in Kafka.
        self._logger.info("Replayed RegisterControllerRecord contaning %s.%s", registration, was)

    def _replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch, record)
        self._register_offsets.pop(broker.id)
        if self._heartbeats is not None:
            self._heartbeats.remove(broker.id)
        self._update_directories(broker.id, broker.directories, ())
        del self._brokers[broker.id]
        self._count_fenced(broker.fenced, False)
        self._logger.info("Replayed %s", message_text(record))

    def _replay_registration_change(
        self, record: BrokerRegistrationChangeRecord, now_ms: int
    ) -> None:
        if (
            record.fenced not in _FENCED_CHANGE
            or record.in_controlled_shutdown not in _SHUTDOWN_CHANGE
        ):
            raise IllegalState(f"{record} says what cannot be said")
        self._replay_change(
            record,
            record.broker_id,
            record.broker_epoch,
            now_ms,
            _FENCED_CHANGE[record.fenced],
            _SHUTDOWN_CHANGE[record.in_controlled_shutdown],
            record.log_dirs or None,
        )

    def _replay_change(
        self,
        record: FenceBrokerRecord | UnfenceBrokerRecord | BrokerRegistrationChangeRecord,
        broker_id: int,
        broker_epoch: int,
        now_ms: int,
        fenced: bool | None,
        in_controlled_shutdown: bool | None = None,
        directories: tuple[UUID, ...] | None = None,
    ) -> None:
        broker = self._registered(broker_id, broker_epoch, record)
        changed = broker.changed(
            fenced=fenced, in_controlled_shutdown=in_controlled_shutdown, directories=directories
        )
        if changed != broker:
            self._brokers[broker.id] = changed
            self._count_fenced(broker.fenced, changed.fenced)
            self._logger.info(
                "Replayed %s modifying the registration for broker %d: %s",
                type(record).__name__, broker.id, message_text(record),
            )  # fmt: skip
        else:
            self._logger.info("Ignoring no-op registration change for broker %d", broker.id)
        self._update_directories(broker.id, broker.directories, changed.directories)
        if self._heartbeats is not None:
            self._heartbeats.register(broker.id, fenced=changed.fenced, now_ms=now_ms)

    def _count_fenced(self, before: bool, after: bool) -> None:
        if before is not after:
            self._fenced_count.set(self._fenced_count.get() + after - before)

    def _registered(self, broker_id: int, epoch: int, record: ClusterRecord) -> BrokerRegistration:
        broker = self.registration(broker_id)
        if broker is None:
            raise IllegalState(f"{record}: that broker is not registered")
        if broker.epoch != epoch:
            raise IllegalState(f"{record}: the registered epoch is {broker.epoch}")
        return broker

    def _update_directories(
        self, broker_id: int, gone: tuple[UUID, ...], added: tuple[UUID, ...]
    ) -> None:
        for directory in gone:
            owner = self._directory_to_broker.pop(directory)
            if owner != broker_id:
                raise IllegalState(f"directory {directory} of broker {broker_id} was {owner}'s")
        for directory in added:
            owner = self._directory_to_broker.setdefault(directory, broker_id)
            if owner != broker_id:
                raise IllegalState(f"directory {directory} of broker {broker_id} is {owner}'s")


def _broker_id(broker: BrokerRegistration) -> int:
    return broker.id


def _refused(error: ErrorCode, message: str) -> ApiException:
    return ApiException(error, message)
