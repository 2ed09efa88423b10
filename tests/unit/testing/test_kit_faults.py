"""Which requests a fault is for."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import ConfigInvalid
from kafka_common.protocol.api_versions import ApiKey
from zkcontroller_testing.faults import Action, Fault, api_named, error_named

PRODUCE = int(ApiKey.PRODUCE)


def test_a_fault_without_conditions_is_for_every_request_of_its_api() -> None:
    fault = Fault(Action.DELAY, ApiKey.PRODUCE)

    assert fault.applies(1, "clients", PRODUCE, None, b"")
    assert fault.applies(2, 3, PRODUCE, "me", b"orders")
    assert not fault.applies(1, "clients", int(ApiKey.FETCH), None, b"")
    assert fault.count == 2


@pytest.mark.parametrize(
    ("fault", "broker", "sender", "client_id", "frame"),
    [
        (Fault(Action.ERROR, ApiKey.PRODUCE, broker=2), 1, "clients", None, b""),
        (Fault(Action.ERROR, ApiKey.PRODUCE, sender=2), 1, "clients", None, b""),
        (Fault(Action.ERROR, ApiKey.PRODUCE, client_id="me"), 1, "clients", "you", b""),
        (Fault(Action.ERROR, ApiKey.PRODUCE, needles=(b"orders",)), 1, "clients", None, b"other"),
        (Fault(Action.ERROR, ApiKey.PRODUCE, times=0), 1, "clients", None, b""),
    ],
)
def test_a_request_that_lacks_a_condition_is_left_alone(
    fault: Fault, broker: int, sender: int | str, client_id: str | None, frame: bytes
) -> None:
    assert not fault.applies(broker, sender, PRODUCE, client_id, frame)
    assert fault.count == 0


def test_a_fault_happens_as_often_as_it_says() -> None:
    fault = Fault(Action.DROP_REQUEST, ApiKey.PRODUCE, times=2)

    assert [fault.applies(1, "clients", PRODUCE, None, b"") for _ in range(3)] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("name", ["LeaderAndIsr", "LEADER_AND_ISR", "leaderandisr", 4])
def test_an_api_has_kafkas_name_or_its_number(name: str | int) -> None:
    assert api_named(name) is ApiKey.LEADER_AND_ISR


def test_an_error_has_kafkas_name_or_its_number() -> None:
    assert error_named("NOT_CONTROLLER") is error_named(41) is ErrorCode.not_controller
    with pytest.raises(ConfigInvalid, match="is none of UNKNOWN_SERVER_ERROR, NONE"):
        error_named("NO_SUCH")
    with pytest.raises(ConfigInvalid, match="is none of"):
        api_named(999)
