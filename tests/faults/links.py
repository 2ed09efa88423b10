"""The way between brokers, through the kit's proxy before each, which can cut others off."""

from __future__ import annotations

from typing import Final

from zkcontroller_testing.kafka_door import FaultTable, KafkaDoor
from zkcontroller_testing.loop_thread import LoopThread

_PATIENCE_S: Final = 10.0


class Link:
    """Before one broker; listens on a port of its own."""

    def __init__(self, host: str, port: int) -> None:
        self._loop = LoopThread()
        # No fault is arranged, so the id of the broker does not matter.
        self._door = KafkaDoor(0, lambda: [(host, port)], FaultTable(), is_between_brokers=True)
        self.port = self._loop.call(self._door.open(), _PATIENCE_S)

    def cut_off(self, *broker_ids: int) -> None:
        """These brokers do not come through from now on; no other is cut off."""

        async def cut() -> None:
            self._door.cut_off(dict.fromkeys(broker_ids, False))

        self._loop.call(cut(), _PATIENCE_S)

    def close(self) -> None:
        """Ends it all."""
        self._loop.call(self._door.close(), _PATIENCE_S)
        self._loop.close()
