"""What can be wrong with the logs, the options or the tables of a history."""

from kafka_common.errors import ZkControllerError


class HistoryInvalid(ZkControllerError):
    """A path, an option or a directory of tables is not usable; the message is one sentence."""
