"""The table of the API: method, path, function, and the members of the kit that it offers.

A function's docstring, the class of its body or query parameters and the class of its response make
the path's entries in the OpenAPI document and in docs/serve.md.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, get_args, get_type_hints

from zkcontroller_testing.serving import bodies
from zkcontroller_testing.serving.served_request import ServedRequest
from zkcontroller_testing.serving.verbs import (
    brokers,
    clusters,
    controllers,
    evidence,
    ledgers,
    network,
    topics,
    znodes,
)


@dataclass(frozen=True)
class ApiRoute:
    """One row of the table of routes."""

    operation: str
    """The operationId in the OpenAPI document."""
    method: str
    path: str
    do: Callable[[ServedRequest[Any]], Any]
    kit: tuple[str, ...] = ()
    """The members of the kit that it offers: of KafkaCluster, or ``Class.member``."""
    status: HTTPStatus = HTTPStatus.OK
    """The status of a success; NO_CONTENT if the response has no body."""

    @functools.cached_property
    def body(self) -> type[Any]:
        """The class of the body; for GET and DELETE, of the query parameters."""
        found: type[Any] = get_args(next(iter(get_type_hints(self.do).values())))[0]
        return found

    @functools.cached_property
    def response(self) -> type[Any] | None:
        """The class of the response; None if it has no body."""
        found: type[Any] = get_type_hints(self.do)["return"]
        return None if found is type(None) else found

    @property
    def summary(self) -> str:
        """The function's docstring on one line."""
        return " ".join((self.do.__doc__ or "").split())

    @property
    def has_body(self) -> bool:
        """Whether the fields are in a body, not in the query."""
        return self.method in ("POST", "PUT")

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the route's paths before they are percent-decoded."""
        return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path))

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """The names in braces, in their order."""
        return tuple(self.pattern.groupindex)


def _openapi(_request: ServedRequest[bodies.NoFields]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of this API."""
    from zkcontroller_testing.serving.openapi import document

    return document(ROUTES)


_AT: Final = "/clusters/{cluster}"
_BROKER: Final = f"{_AT}/brokers/{{broker}}"
_PARTITION: Final = f"{_AT}/topics/{{topic}}/partitions/{{partition}}"
_LEDGER: Final = f"{_AT}/ledgers/{{ledger}}"
_NONE: Final = HTTPStatus.NO_CONTENT
_NEW: Final = HTTPStatus.CREATED


def _verb(
    below: str, do: Callable[[ServedRequest[Any]], Any], status: HTTPStatus = HTTPStatus.OK
) -> ApiRoute:
    """The route of a member of KafkaCluster whose function and path have its name."""
    name = do.__name__
    return ApiRoute(name, "POST", f"{below}/{name}", do, (name,), status)


ROUTES: Final = (
    ApiRoute("server", "GET", "/", clusters.server),
    ApiRoute("openapi", "GET", "/openapi.json", _openapi),
    ApiRoute("hold_points", "GET", "/hold_points", clusters.hold_points),
    ApiRoute("clusters", "GET", "/clusters", clusters.clusters),
    ApiRoute("create_cluster", "POST", "/clusters", clusters.create_cluster, ("start",), _NEW),
    ApiRoute(
        *("cluster", "GET", _AT, clusters.cluster),
        kit=(
            *("bootstrap_servers", "client_config", "zookeeper_connect", "directory", "broker_ids"),
            *("live_brokers", "controller_id", "controller_epoch", "is_running"),
        ),
    ),
    ApiRoute("remove_cluster", "DELETE", _AT, clusters.remove_cluster, ("close",)),
    ApiRoute(
        "broker",
        "GET",
        _BROKER,
        brokers.broker,
        ("is_alive", "pid", "broker_epoch", "logs_directory"),
    ),
    _verb(_BROKER, brokers.start, _NONE),
    _verb(_BROKER, brokers.stop, _NONE),
    _verb(_BROKER, brokers.kill, _NONE),
    _verb(_BROKER, brokers.pause, _NONE),
    _verb(_BROKER, brokers.resume, _NONE),
    _verb(_BROKER, brokers.bounce, _NONE),
    _verb(_BROKER, brokers.disk_full, _NONE),
    _verb(_BROKER, brokers.free_disk, _NONE),
    _verb(_BROKER, brokers.make_disk_read_only, _NONE),
    _verb(_BROKER, brokers.lose_page_cache, _NONE),
    _verb(_BROKER, brokers.mend_disk, _NONE),
    _verb(_BROKER, brokers.set_clock, _NONE),
    _verb(_BROKER, brokers.expire_session, _NONE),
    _verb(_BROKER, brokers.wait_stopped, _NONE),
    _verb(_BROKER, brokers.wait_unregistered, _NONE),
    _verb(_BROKER, brokers.lose_zookeeper_response, _NONE),
    _verb(_AT, brokers.wait_registered),
    _verb(_AT, controllers.wait_controller),
    _verb(_AT, controllers.delete_controller, _NONE),
    _verb(_AT, controllers.elect_controller),
    ApiRoute("hold", "POST", f"{_AT}/holds", controllers.hold, ("at", "HoldPoint.hold"), _NEW),
    ApiRoute(
        *("wait_reached", "POST", f"{_AT}/holds/{{hold}}/wait_reached", controllers.wait_reached),
        kit=("HoldPoint.wait_reached",),
    ),
    ApiRoute(
        *("release", "DELETE", f"{_AT}/holds/{{hold}}", controllers.release),
        *(("HoldPoint.release",), _NONE),
    ),
    ApiRoute(
        "create_topic", "POST", f"{_AT}/topics", topics.create_topic, ("create_topic",), _NONE
    ),
    ApiRoute("partition", "GET", _PARTITION, topics.partition, ("partition_state", "leader")),
    _verb(_PARTITION, topics.wait_leader),
    _verb(_PARTITION, topics.wait_isr),
    _verb(_AT, network.cut, _NONE),
    _verb(_AT, network.heal, _NONE),
    _verb(_AT, network.delay, _NEW),
    _verb(_AT, network.drop, _NEW),
    _verb(_AT, network.fail, _NEW),
    ApiRoute("faults", "GET", f"{_AT}/faults", network.faults),
    ApiRoute("fault", "GET", f"{_AT}/faults/{{fault}}", network.fault),
    ApiRoute(
        "remove_fault", "DELETE", f"{_AT}/faults/{{fault}}", network.remove_fault, ("remove",)
    ),
    _verb(_AT, network.offer_versions, _NONE),
    ApiRoute(
        *("versions_used", "GET", f"{_AT}/versions_used", network.versions_used),
        kit=("versions_used",),
    ),
    ApiRoute(
        *("znode", "GET", f"{_AT}/znode", znodes.znode),
        kit=("znode", "ZnodeHandle.get", "ZnodeHandle.version"),
    ),
    ApiRoute("set_znode", "PUT", f"{_AT}/znode", znodes.set_znode, ("ZnodeHandle.set",)),
    ApiRoute(
        "delete_znode", "DELETE", f"{_AT}/znode", znodes.delete_znode, ("ZnodeHandle.delete",)
    ),
    ApiRoute(
        *("corrupt_znode", "POST", f"{_AT}/znode/corrupt", znodes.corrupt_znode),
        kit=("ZnodeHandle.corrupt",),
    ),
    ApiRoute("watch", "POST", f"{_AT}/watches", znodes.watch, ("ZnodeHandle.watch",), _NEW),
    ApiRoute(
        *("wait_change", "POST", f"{_AT}/watches/{{watch}}/wait_change", znodes.wait_change),
        kit=("ZnodeWatch.wait",),
    ),
    ApiRoute(
        *("remove_watch", "DELETE", f"{_AT}/watches/{{watch}}", znodes.remove_watch), status=_NONE
    ),
    ApiRoute("new_ledger", "POST", f"{_AT}/ledgers", ledgers.new_ledger, ("ledger",), _NEW),
    ApiRoute("ledger", "GET", _LEDGER, ledgers.show_ledger),
    ApiRoute("produce", "POST", f"{_LEDGER}/produce", ledgers.produce, ("Ledger.produce",)),
    ApiRoute(
        *("start_producing", "POST", f"{_LEDGER}/start_producing", ledgers.start_producing),
        kit=("Ledger.producing",),
    ),
    ApiRoute(
        *("stop_producing", "POST", f"{_LEDGER}/stop_producing", ledgers.stop_producing),
        kit=("Ledger.producing",),
    ),
    ApiRoute("acknowledged", "GET", f"{_LEDGER}/acknowledged", ledgers.acknowledged),
    ApiRoute("read", "POST", f"{_LEDGER}/read", ledgers.read, ("Ledger.read",)),
    ApiRoute("lost", "POST", f"{_LEDGER}/lost", ledgers.lost, ("Ledger.lost",)),
    ApiRoute(
        *("no_acknowledged_record_lost", "POST", f"{_AT}/checks/no_acknowledged_record_lost"),
        *(evidence.no_acknowledged_record_lost, ("no_acknowledged_record_lost",)),
    ),
    ApiRoute(
        *("epochs_monotonic", "POST", f"{_AT}/checks/epochs_monotonic", evidence.epochs_monotonic),
        kit=("epochs_monotonic",),
    ),
    ApiRoute(
        "state_changes", "GET", f"{_AT}/state_changes", evidence.state_changes, ("state_changes",)
    ),
    ApiRoute("journal", "GET", f"{_AT}/journal", evidence.journal, ("journal",)),
    ApiRoute(
        *("write_artefacts", "POST", f"{_AT}/artefacts", evidence.write_artefacts),
        kit=("write_artefacts",),
    ),
)
"""Every route of the API."""
