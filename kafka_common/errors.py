"""The exception tree: the errors that callers must handle.

Programmer errors are ``assert``.  Refusals that callers of ZooKeeper expect (a bad version, a znode
that exists) are values in :mod:`zkcontroller.zookeeper.requests`.  All other errors are here.
:mod:`kafka_common.protocol.error_codes` maps them to Kafka's error codes.
"""

from __future__ import annotations

from typing import Final

MAX_SHOWN_VALUE: Final = 300
"""The most characters of a configuration's key or value in an error message."""
MAX_SHOWN_RULE: Final = 1000
"""The most characters of ``allowed`` in an error message; it may list many names."""
INVALID_VALUE: Final = "Invalid value {value} for configuration {key}: {allowed}"
REQUIREMENT: Final = "requirement failed: {allowed}"
MESSAGE_ONLY: Final = "{allowed}"
"""Forms of a ConfigException's sentence."""


def one_line(text: str, most: int = MAX_SHOWN_VALUE) -> str:
    """The text on one line, cut to ``most`` characters."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: most + 1])
    return shown if len(shown) <= most else shown[:most] + "…"


class ZkControllerError(Exception):
    """Base of every error this project raises on purpose."""


class ZnodeCorrupt(ZkControllerError):
    """A znode holds data that its codec cannot read; the data is left as it is."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"znode {path} is corrupt: {reason}")
        self.path = path
        self.reason = reason


class ControllerMoved(ZkControllerError):
    """Another broker is the controller: ``/controller_epoch`` has another zk_version than ours."""


class StateChangeFailed(ZkControllerError):
    """A partition or replica cannot change to the target state.

    Source: Kafka ``StateChangeFailedException``.
    """


class IllegalState(ZkControllerError):
    """The state is inconsistent; a controller then resigns, a broker refuses the change."""


class EventQueueFull(ZkControllerError):
    """Too many requests wait in the controller's queue; the caller may try again later."""

    def __init__(self, capacity: int) -> None:
        super().__init__(f"{capacity} requests already wait for the controller")
        self.capacity = capacity


class ZooKeeperError(ZkControllerError):
    """Base of the errors of ZooKeeper and its connection."""


class ZooKeeperUnavailable(ZooKeeperError):
    """There is no connection to ZooKeeper within the connection timeout."""


class SessionExpired(ZooKeeperError):
    """The session in which the call began has expired."""


class AuthenticationFailed(ZooKeeperError):
    """ZooKeeper refused the credentials."""


class ZooKeeperRefused(ZooKeeperError):
    """ZooKeeper answered with an error code that the caller does not handle."""

    def __init__(self, path: str, code_name: str) -> None:
        super().__init__(f"ZooKeeper answered {code_name} for {path}")
        self.path = path
        self.code_name = code_name


class BrokerIdInUse(ZooKeeperError):
    """Another live session owns ``/brokers/ids/<id>``."""


class InvalidFrame(ZkControllerError):
    """Bytes from a peer that are not a request or response of the Kafka protocol."""


class UnsupportedVersion(InvalidFrame):
    """An API key, or a version of a message, record or feature, that is not supported."""


class ConfigInvalid(ZkControllerError):
    """A configuration value is refused; the message names key, value and what is allowed.

    All three are shortened and put on one line.  A value of None is one that is missing.
    """

    def __init__(self, key: str, value: object, allowed: str) -> None:
        shown = repr(value[: MAX_SHOWN_VALUE + 1] if isinstance(value, str) else value)
        sentence = f"invalid value {one_line(shown)} for {one_line(key)}: "
        if value is None:
            sentence = f"{one_line(key)} is missing: expected "
        super().__init__(sentence + one_line(allowed, MAX_SHOWN_RULE))
        self.key = key
        self.value = value
        self.allowed = allowed


class ConfigException(ConfigInvalid):
    """A key of Kafka's configuration has a value that is refused; the message is Kafka's.

    ``form``: the sentence; where Kafka names neither key nor value, ``allowed`` is all of it.
    Source: Kafka ``ConfigException``, and Scala's ``require``.
    """

    def __init__(self, key: str, value: object, allowed: str, form: str = INVALID_VALUE) -> None:
        super().__init__(key, value, allowed)
        shown = one_line(str(value)[: MAX_SHOWN_VALUE + 1])
        rule = one_line(allowed, MAX_SHOWN_RULE)
        self.args = (form.format(value=shown, key=one_line(key), allowed=rule),)


class NotInstalled(ZkControllerError):
    """A program or package is not on the machine; the message says how to get it."""


class ContainerUnavailable(ZkControllerError):
    """Docker could not start a container, or what ran in it ended; the message says why."""


class InconsistentClusterId(ZkControllerError):
    """The cluster id in ``meta.properties`` differs from that in ``/cluster/id``."""


class RecordsRefused(ZkControllerError):
    """Base of the reasons why records are not appended to a log."""


class CorruptRecord(RecordsRefused):
    """The bytes are no record batch, or their checksum is wrong."""


class UnpackedTooLarge(CorruptRecord):
    """A compressed batch unpacks to more bytes than the reader allows."""


class InvalidRecord(RecordsRefused):
    """A complete batch breaks a rule.

    ``record_errors`` holds (index in the batch, message) of each invalid record, for Produce
    responses from version 8 on; it is empty when the batch as a whole is invalid.

    ``meter`` names the meter of the broker's topics that counts it, ``count`` times; empty if none
    does.
    """

    def __init__(
        self,
        message: str,
        record_errors: tuple[tuple[int, str], ...] = (),
        *,
        meter: str = "",
        count: int = 1,
    ) -> None:
        super().__init__(message)
        self.record_errors = record_errors
        self.meter = meter
        self.count = count


class InvalidTimestamp(InvalidRecord):
    """A record's timestamp is outside the range that the topic allows."""


class UnsupportedCompressionType(RecordsRefused):
    """The topic or the version of the request does not allow the codec."""


class UnsupportedForMessageFormat(RecordsRefused):
    """An old message format does not support a feature."""


class MessageTooLarge(RecordsRefused):
    """A batch is larger than ``max.message.bytes``."""


class RecordListTooLarge(RecordsRefused):
    """Batches that are appended together are larger than ``segment.bytes``."""


class OffsetsOutOfOrder(RecordsRefused):
    """A follower fetched batches whose offsets do not rise."""


class UnexpectedAppendOffset(RecordsRefused):
    """A follower fetched offsets that are below its log end offset."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class OutOfOrderSequence(RecordsRefused):
    """A producer's sequence number does not follow its last one."""


class InvalidProducerEpoch(RecordsRefused):
    """A producer's epoch is older than the last one seen."""


class InvalidTxnState(RecordsRefused):
    """A transactional write came outside a transaction, or another write inside one."""


class TransactionCoordinatorFenced(RecordsRefused):
    """A transaction marker came from a coordinator that has been replaced."""


class OffsetOutOfRange(ZkControllerError):
    """An offset is below the log start offset or above the log end offset."""


class InconsistentTopicId(ZkControllerError):
    """A log belongs to another topic id of the same topic name."""


class KafkaStorage(ZkControllerError):
    """A log directory failed: it is offline until the broker is started again."""


class LimitReached(KafkaStorage):
    """A limit of the process or the system stops a log operation; the disk is not at fault."""


class BufferAllocation(ZkControllerError):
    """Too many batches wait to be written to the metadata log.

    The caller may append the same records again later.  Source: Kafka
    ``BufferAllocationException``.
    """


class NotLeader(ZkControllerError):
    """The caller is no longer the quorum leader of its epoch.

    Source: Kafka ``NotLeaderException``.
    """


class RaftFatal(ZkControllerError):
    """The quorum state of this node is inconsistent; the process must end."""


class SaslRefused(ZkControllerError):
    """A SASL login failed, on the client's or the server's side.

    The message is for our log; the peer gets another text.
    """
