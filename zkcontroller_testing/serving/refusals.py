"""The error responses of the server: HTTP status, a code that never changes, and a message."""

from __future__ import annotations

from http import HTTPStatus

from kafka_common import errors
from zkcontroller_cli.console.errors import BadUsage, CannotConnect, CommandFailed, TimedOut
from zkcontroller_testing.waiting import BrokerEnded, NotInTime


class ApiRefusal(errors.ZkControllerError):
    """The server refuses a request; this is its error response.

    ``code`` is a key of :data:`CODES`, ``field`` the path of the invalid field, such as
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
        """The methods of the path, if the request's method is none of them."""

    def as_json(self) -> dict[str, str | None]:
        """The body of the error response."""
        return {"error": self.code, "message": self.message, "field": self.field}


CODES = {
    "invalid": (HTTPStatus.BAD_REQUEST, "a field, or the request itself, is invalid"),
    "unauthorized": (HTTPStatus.UNAUTHORIZED, "the token is missing or wrong"),
    "cross_site": (HTTPStatus.FORBIDDEN, "a web page sent it, or its Host is not this machine"),
    "not_found": (HTTPStatus.NOT_FOUND, "no such path, cluster, broker, partition, fault, …"),
    "method_not_allowed": (HTTPStatus.METHOD_NOT_ALLOWED, "the path has only the methods in Allow"),
    "wrong_state": (HTTPStatus.CONFLICT, "not possible now, as to start a broker that runs"),
    "refused": (HTTPStatus.CONFLICT, "a broker refuses it: the topic exists, for example"),
    "broker_ended": (HTTPStatus.CONFLICT, "a broker ended while starting; its last lines follow"),
    "not_installed": (HTTPStatus.CONFLICT, "Java, jars or Docker are not installed"),
    "removed": (HTTPStatus.CONFLICT, "the cluster was removed during the request"),
    "length_required": (HTTPStatus.LENGTH_REQUIRED, "the body needs a Content-Length"),
    "too_large": (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is larger than 1 MiB"),
    "not_json": (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body needs Content-Type application/json"),
    "too_many": (HTTPStatus.TOO_MANY_REQUESTS, "a limit of clusters, requests, … is reached"),
    "internal": (HTTPStatus.INTERNAL_SERVER_ERROR, "a bug in the server; its stderr says where"),
    "ending": (HTTPStatus.SERVICE_UNAVAILABLE, "the server is ending"),
    "not_in_time": (HTTPStatus.GATEWAY_TIMEOUT, "the wait has timed out"),
}
"""Status and meaning of each code; docs/serve.md has this table."""


def refusal(code: str, message: str, field: str | None = None) -> ApiRefusal:
    """A refusal with a code of :data:`CODES`."""
    return ApiRefusal(CODES[code][0], code, message, field)


def refusal_of(error: Exception) -> ApiRefusal:
    """The refusal for a request that raised this error."""
    match error:
        case ApiRefusal():
            return error
        case BrokerEnded():
            return refusal("broker_ended", str(error))
        case NotInTime() | TimedOut() | CannotConnect() | TimeoutError():
            return refusal("not_in_time", str(error) or "not in time")
        case errors.ZooKeeperUnavailable() | errors.SessionExpired():
            return refusal("not_in_time", f"ZooKeeper does not respond: {error}")
        case errors.ConfigInvalid(key="broker"):
            # That the broker exists was checked before.
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
