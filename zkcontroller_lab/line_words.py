"""Describes results and effects in plain words, for the lines of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zkcontroller.core.effects import (
    AddChannel,
    CancelPuts,
    Effect,
    LogLine,
    MarkMeter,
    Put,
    RemoveAllChannels,
    RemoveChannel,
    RequestResponse,
    SendControlRequest,
    StateChanges,
)
from zkcontroller.core.events import (
    Event,
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
    event_text,
)
from zkcontroller.state_changes.kafka_lines import kafka_line
from zkcontroller.state_changes.record import StateChange
from zkcontroller.zookeeper.requests import (
    Committed,
    RolledBack,
    Stat,
    Written,
    ZkCode,
    Znode,
)
from zkcontroller_simulation.channel import NAMES
from zkcontroller_simulation.control_requests import ControlRequest, decode

SHOWN: Final = 4
"""The number of items that are shown; the rest is counted."""
SHOWN_BYTES: Final = 160
"""The most bytes of a znode's data that are shown."""


def answer_in_words(answer: object) -> str:
    """The result of a question, or its error, in plain words."""
    match answer:
        case None:
            return "the pause is over"
        case int():
            return f"registered with broker epoch {answer}"
        case Exception():
            return f"{type(answer).__name__}: {answer}"
        case Committed(results):
            return f"committed: {_some([_item(each) for each in results])}"
        case RolledBack(code, index):
            return f"refused as a whole: {code.name} at operation {index + 1}"
        case list():
            return _some([_item(each) for each in answer]) or "nothing to answer"
        case _:
            return repr(answer)


def _item(answer: object) -> str:
    match answer:
        case ZkCode():
            return answer.name
        case Znode(data, zk_version):
            text = data.decode(errors="replace")
            cut = text if len(text) <= SHOWN_BYTES else f"{text[:SHOWN_BYTES]}…"
            return f"{cut or 'no data'} at version {zk_version}"
        case Written(path, zk_version):
            return f"{path} is at version {zk_version}"
        case Stat(zk_version=zk_version):
            return f"exists at version {zk_version}"
        case list():
            return f"[{', '.join(map(str, answer))}]"
        case None:
            return "checked"
        case _:
            return repr(answer)


def request_of(send: SendControlRequest) -> ControlRequest:
    """The control request, decoded from its bytes as a broker decodes it."""
    return decode(send.api_key, send.api_version, b"".join(send.body))


def event_in_words(event: Event) -> str:
    """The event as Scala prints it; a broker's response in words, with its errors."""
    match event:
        case LeaderAndIsrResponseReceived() | TopicDeletionStopReplicaResponseReceived():
            errors = ", ".join(
                f"{topic}-{each} {code}" for topic, each, code in event.partition_errors
            )
            named = f", partitions {errors}" if errors else ""
            return f"{_response_of(event.broker_id, event)}, error {event.request_error}{named}"
        case UpdateMetadataResponseReceived():
            return f"{_response_of(event.broker_id, event)}, error {event.request_error}"
        case _:
            return event_text(event)


def _response_of(broker_id: int, event: Event) -> str:
    return f"{type(event).__name__} from broker {broker_id}"


def effect_in_words(effect: Effect) -> str:
    """The effect in plain words; empty for an effect that the page does not show."""
    match effect:
        case AddChannel(broker):
            return f"opens a channel to broker {broker.broker_id}"
        case RemoveChannel(broker_id):
            return f"closes the channel to broker {broker_id}"
        case RemoveAllChannels():
            return "closes every channel"
        case SendControlRequest():
            names = _some(list(map(str, request_of(effect).partitions))) or "no partitions"
            return (
                f"sends {NAMES[effect.api_key]} to broker {effect.broker_id} "
                f"in controller epoch {effect.controller_epoch}: {names}"
            )
        case RequestResponse(request_id, result):
            return f"answers request {request_id}: {result!r}"
        case Put(event, 0):
            return f"queues {event_in_words(event)}"
        case Put(event, delay_ms):
            return f"queues {event_in_words(event)} in {delay_ms} ms"
        case CancelPuts():
            return "drops every delayed event"
        case LogLine(level):
            return f"{level} {effect.text}"
        case StateChanges(records):
            return _some([change_in_words(record) for record in records])
        case MarkMeter():
            return ""


def change_in_words(record: StateChange) -> str:
    """The line that Kafka logs for the change, or the kind of change if it logs none."""
    line = kafka_line(record)
    return record.kind.replace("_", " ") if line is None else line.message


def _some(texts: Sequence[str]) -> str:
    rest = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
