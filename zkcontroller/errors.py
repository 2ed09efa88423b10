"""The one exception tree: what a caller must handle, and nothing else.

Programmer errors are ``assert``; refusals that a protocol step expects (a bad version, a node that
exists) are values in :mod:`zkcontroller.zookeeper.requests`.  The rest stands here.  Its mapping
to Kafka's wire error codes is in one place, :mod:`zkcontroller.protocol.error_codes`.
"""


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
    """Bookkeeping contradicts itself: a controller resigns, a broker refuses the change."""


class EventQueueFull(ZkControllerError):
    """Too many requests wait for the controller; the caller may try again later."""

    def __init__(self, capacity: int) -> None:
        super().__init__(f"{capacity} requests already wait for the controller")
        self.capacity = capacity


class ZooKeeperError(ZkControllerError):
    """Base of what ZooKeeper itself can do to us."""


class ZooKeeperUnavailable(ZooKeeperError):
    """No connection within the connection timeout."""


class SessionExpired(ZooKeeperError):
    """The session in which the caller began its work is over."""


class AuthenticationFailed(ZooKeeperError):
    """ZooKeeper refused the credentials."""


class ZooKeeperRefused(ZooKeeperError):
    """ZooKeeper answered a code that the caller has no rule for."""

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
    """A configuration value is refused; the message names key, value and what is allowed."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"invalid value {value!r} for {key}: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


class InconsistentClusterId(ZkControllerError):
    """``meta.properties`` belongs to another cluster than ``/cluster/id`` names."""


class RecordsRefused(ZkControllerError):
    """Base of the reasons why records are not appended to a log."""


class CorruptRecord(RecordsRefused):
    """Bytes that are no record batch, or whose checksum is not theirs."""


class UnpackedTooLarge(CorruptRecord):
    """A compressed batch unpacks to more bytes than the reader takes."""


class InvalidRecord(RecordsRefused):
    """A batch that is whole but breaks a rule.

    ``record_errors`` names the records at fault by their place in the batch, as Produce v8 and
    newer tell the client; it is empty when the batch as a whole is at fault.
    """

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class InvalidTimestamp(InvalidRecord):
    """A record's timestamp is not one that the topic takes."""


class UnsupportedCompressionType(RecordsRefused):
    """A codec that this topic, or the version of the request, does not allow."""


class UnsupportedForMessageFormat(RecordsRefused):
    """Something that an old message format cannot hold."""


class MessageTooLarge(RecordsRefused):
    """A batch of more than ``max.message.bytes``."""


class RecordListTooLarge(RecordsRefused):
    """Batches of more than ``segment.bytes`` together."""


class OffsetsOutOfOrder(RecordsRefused):
    """A follower was given batches whose offsets do not rise."""


class UnexpectedAppendOffset(RecordsRefused):
    """A follower was given offsets that it has already."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class OutOfOrderSequence(RecordsRefused):
    """A producer's sequence number is not the one that follows its last."""


class InvalidProducerEpoch(RecordsRefused):
    """A producer's epoch is older than one that was seen."""


class InvalidTxnState(RecordsRefused):
    """A write outside of a transaction that should be within, or the other way round."""


class TransactionCoordinatorFenced(RecordsRefused):
    """A transaction marker of a coordinator that has been replaced."""


class OffsetOutOfRange(ZkControllerError):
    """An offset below the log start or above the log end."""


class InconsistentTopicId(ZkControllerError):
    """A log belongs to another topic of the same name."""


class KafkaStorage(ZkControllerError):
    """A log directory failed: it is offline until the broker is started again."""


class LimitReached(KafkaStorage):
    """A limit of the process or the system stops work on a log; its directory is well."""


class BufferAllocation(ZkControllerError):
    """So many batches wait to be written to the metadata log that there is no room for another.

    The same records may be appended a moment later.  Source: Kafka ``BufferAllocationException``.
    """


class NotLeader(ZkControllerError):
    """The epoch in which the caller leads the quorum is over.

    Source: Kafka ``NotLeaderException``.
    """


class RaftFatal(ZkControllerError):
    """What this node knows of the quorum contradicts itself; the process must end."""


class SaslRefused(ZkControllerError):
    """A login failed, on either side; what goes to the peer is said elsewhere."""
