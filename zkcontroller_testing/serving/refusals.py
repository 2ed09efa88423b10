"""Every way in which the server says no: a status, a code that never changes, a sentence."""

from __future__ import annotations

from http import HTTPStatus

from kafka_common import errors
from zkcontroller_cli.console.errors import BadUsage, CannotConnect, CommandFailed, TimedOut
from zkcontroller_testing.waiting import BrokerEnded, NotInTime


class ApiRefusal(errors.ZkControllerError):
    """The answer to a request that is not done.

    ``code`` is one of docs/serve.md, ``field`` the path of the field at fault, as in
    ``replicas[1][0]``.
    """

    def __init__(
        self, status: HTTPStatus, code: str, message: str, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.allowed: str | None = None
        """The methods that the path has, where it has not this one."""

    def as_json(self) -> dict[str, str | None]:
        """The body of every answer that is not a success."""
        return {"error": self.code, "message": self.message, "field": self.field}


CODES = {
    "invalid": (HTTPStatus.BAD_REQUEST, "a field, or the request itself, is not as it must be"),
    "unauthorized": (HTTPStatus.UNAUTHORIZED, "the token is missing or another one"),
    "cross_site": (HTTPStatus.FORBIDDEN, "a page of another site, or another host name, asks"),
    "not_found": (HTTPStatus.NOT_FOUND, "no such path, cluster, broker, partition, fault, hold"),
    "method_not_allowed": (HTTPStatus.METHOD_NOT_ALLOWED, "the path has other methods, in Allow"),
    "wrong_state": (HTTPStatus.CONFLICT, "not now: the broker runs already, or does not run"),
    "refused": (HTTPStatus.CONFLICT, "a broker refuses: the topic exists already, for one"),
    "broker_ended": (HTTPStatus.CONFLICT, "a broker ended while starting; its last lines follow"),
    "not_installed": (HTTPStatus.CONFLICT, "the machine lacks Java, jars or Docker"),
    "removed": (HTTPStatus.CONFLICT, "the cluster was removed meanwhile"),
    "length_required": (HTTPStatus.LENGTH_REQUIRED, "a body needs Content-Length"),
    "too_large": (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is longer than a MiB"),
    "not_json": (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a body needs Content-Type application/json"),
    "too_many": (HTTPStatus.TOO_MANY_REQUESTS, "as many clusters, requests, … as there may be"),
    "internal": (HTTPStatus.INTERNAL_SERVER_ERROR, "a defect of the server; stderr says where"),
    "ending": (HTTPStatus.SERVICE_UNAVAILABLE, "the server is ending"),
    "not_in_time": (HTTPStatus.GATEWAY_TIMEOUT, "what was waited for has not come"),
}
"""Code to its status and what it means; docs/serve.md has this table."""


def refusal(code: str, message: str, field: str | None = None) -> ApiRefusal:
    """The refusal of a code of :data:`CODES`."""
    return ApiRefusal(CODES[code][0], code, message, field)


def refusal_of(error: Exception) -> ApiRefusal:
    """What a request that ended in this error is answered with."""
    match error:
        case ApiRefusal():
            return error
        case BrokerEnded():
            return refusal("broker_ended", str(error))
        case NotInTime() | TimedOut() | CannotConnect() | TimeoutError():
            return refusal("not_in_time", str(error) or "not in time")
        case errors.ZooKeeperUnavailable() | errors.SessionExpired():
            return refusal("not_in_time", f"ZooKeeper does not answer: {error}")
        case errors.ConfigInvalid(key="broker"):
            # Whether there is such a broker was looked up before.
            return refusal("wrong_state", str(error))
        case errors.ConfigInvalid():
            return refusal("invalid", str(error), error.key.replace(" ", "_"))
        case errors.NotInstalled():
            return refusal("not_installed", str(error))
        case BadUsage():
            return refusal("invalid", str(error))
        case CommandFailed() | errors.ZkControllerError():
            return refusal("refused", str(error))
        case _:
            return refusal("internal", f"{type(error).__name__}: {error}")
