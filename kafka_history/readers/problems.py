"""The error for unusable logs, options or tables of a history."""

from kafka_common.errors import ZkControllerError


class HistoryInvalid(ZkControllerError):
    """A path, an option or a directory of tables is not usable; the message is one sentence."""
