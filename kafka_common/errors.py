"""The exception tree: the errors that callers must handle.

Programmer errors are ``assert``; refusals that a protocol step expects (a bad version, a node that
exists) are values in :mod:`zkcontroller.zookeeper.requests`.  The rest stands here.  Its mapping
to Kafka's wire error codes is in one place, :mod:`kafka_common.protocol.error_codes`.
"""

from __future__ import annotations

from typing import Final

MAX_SHOWN_VALUE: Final = 300
"""Characters of a configuration's key or value in a message."""
MAX_SHOWN_RULE: Final = 1000
"""Characters of what is allowed: it may list the names that a file defines."""


def _shortened(text: str, most: int = MAX_SHOWN_VALUE) -> str:
    """The text on one line, its end left out where it is longer than ``most``."""
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
    """Another broker is the controller now: ``/controller_epoch`` is not at the version we hold."""


class StateChangeFailed(ZkControllerError):
    """A partition or replica cannot reach the state asked for.

    Source: Kafka ``StateChangeFailedException``.
    """


class IllegalState(ZkControllerError):
    """The state is inconsistent: a controller resigns, a broker refuses the change."""


class EventQueueFull(ZkControllerError):
    """Too many requests wait for the controller; the caller may try again later."""

    def __init__(self, capacity: int) -> None:
        super().__init__(f"{capacity} requests already wait for the controller")
        self.capacity = capacity


class ZooKeeperError(ZkControllerError):
    """Base of the errors of ZooKeeper and its connection."""


class ZooKeeperUnavailable(ZooKeeperError):
    """No connection within the connection timeout."""


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
    """An API key or version outside of what is advertised."""


class ConfigInvalid(ZkControllerError):
    """A configuration value is refused; the message names key, value and what is allowed.

    Each of the three is shortened there: a message is one sentence, whatever a file holds.
    """

    def __init__(self, key: str, value: object, allowed: str) -> None:
        shown = repr(value[: MAX_SHOWN_VALUE + 1] if isinstance(value, str) else value)
        sentence = f"invalid value {_shortened(shown)} for {_shortened(key)}: "
        super().__init__(sentence + _shortened(allowed, MAX_SHOWN_RULE))
        self.key = key
        self.value = value
        self.allowed = allowed


class NotInstalled(ZkControllerError):
    """A program or package is not on the machine; the message says how to get it."""


class ContainerUnavailable(ZkControllerError):
    """Docker could not start a container, or what ran in it ended; the message says why."""


class InconsistentClusterId(ZkControllerError):
    """``meta.properties`` belongs to another cluster than ``/cluster/id`` names."""


class RecordsRefused(ZkControllerError):
    """Base of the reasons why records are not appended to a log."""


class CorruptRecord(RecordsRefused):
    """Bytes that are no record batch, or whose checksum is wrong."""


class UnpackedTooLarge(CorruptRecord):
    """A compressed batch unpacks to more bytes than the reader allows."""


class InvalidRecord(RecordsRefused):
    """A complete batch that breaks a rule.

    ``record_errors`` names the records at fault by their place in the batch, as Produce v8 and
    newer tell the client; it is empty when the batch as a whole is at fault.
    """

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class InvalidTimestamp(InvalidRecord):
    """A record's timestamp is outside the range that the topic allows."""


class UnsupportedCompressionType(RecordsRefused):
    """A codec that this topic, or the version of the request, does not allow."""


class UnsupportedForMessageFormat(RecordsRefused):
    """A feature that an old message format does not support."""


class MessageTooLarge(RecordsRefused):
    """A batch of more than ``max.message.bytes``."""


class RecordListTooLarge(RecordsRefused):
    """Batches of more than ``segment.bytes`` together."""


class OffsetsOutOfOrder(RecordsRefused):
    """A follower was given batches whose offsets do not rise."""


class UnexpectedAppendOffset(RecordsRefused):
    """A follower was given offsets that its log holds already."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class OutOfOrderSequence(RecordsRefused):
    """A producer's sequence number does not follow its last one."""


class InvalidProducerEpoch(RecordsRefused):
    """A producer's epoch is older than the last one seen."""


class InvalidTxnState(RecordsRefused):
    """A transactional write outside a transaction, or a plain write inside one."""


class TransactionCoordinatorFenced(RecordsRefused):
    """A transaction marker of a coordinator that has been replaced."""


class OffsetOutOfRange(ZkControllerError):
    """An offset below the log start or above the log end."""


class InconsistentTopicId(ZkControllerError):
    """A log belongs to another topic of the same name."""


class KafkaStorage(ZkControllerError):
    """A log directory failed: it is offline until the broker is started again."""


class LimitReached(KafkaStorage):
    """A limit of the process or the system stops a log operation; the disk is not at fault."""


class BufferAllocation(ZkControllerError):
    """Too many batches wait to be written to the metadata log.

    The same records may be appended a moment later.  Source: Kafka ``BufferAllocationException``.
    """


class NotLeader(ZkControllerError):
    """The caller's epoch as quorum leader is over.

    Source: Kafka ``NotLeaderException``.
    """


class RaftFatal(ZkControllerError):
    """The quorum state of this node is inconsistent; the process must end."""


class SaslRefused(ZkControllerError):
    """A login failed, on either side; the text for the peer is made elsewhere."""
