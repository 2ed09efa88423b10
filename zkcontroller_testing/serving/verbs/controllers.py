"""Elections of the controller, and steps at which it is held."""

from __future__ import annotations

from zkcontroller_testing.serving import bodies
from zkcontroller_testing.serving.served_request import ServedRequest, check_brokers


def wait_controller(request: ServedRequest[bodies.ControllerFields]) -> bodies.ControllerBody:
    """Waits for a controller, with ``after_epoch`` for one of a higher controller epoch."""
    kafka = request.cluster.kafka
    found = kafka.wait_controller(
        after_epoch=request.body.after_epoch, timeout_s=request.body.timeout_s
    )
    return bodies.ControllerBody(controller_id=found, controller_epoch=kafka.controller_epoch)


def delete_controller(request: ServedRequest[bodies.NoFields]) -> None:
    """Deletes /controller: the controller resigns, and the brokers elect another one."""
    request.cluster.kafka.delete_controller()


def elect_controller(request: ServedRequest[bodies.WaitFields]) -> bodies.ControllerBody:
    """Deletes /controller, waits for the election, and returns the elected controller."""
    kafka = request.cluster.kafka
    found = kafka.elect_controller(request.body.timeout_s)
    return bodies.ControllerBody(controller_id=found, controller_epoch=kafka.controller_epoch)


def hold(request: ServedRequest[bodies.NewHoldFields]) -> bodies.HoldBody:
    """From now on, holds every controller that reaches this hold point."""
    body = request.body
    check_brokers(request, "broker", body.broker)
    with request.cluster.lock:
        request.cluster.holds.check_room()
        point = request.cluster.kafka.at(body.name, broker=body.broker)
        return bodies.HoldBody(hold=request.cluster.holds.add(point.hold()))


def wait_reached(request: ServedRequest[bodies.WaitFields]) -> bodies.ReachedBody:
    """Waits until a controller is held at the hold point; returns the first one."""
    point = request.cluster.holds.get(request.number("hold"))
    reached = point.wait_reached(request.body.timeout_s)
    return bodies.ReachedBody(broker_id=reached.broker_id, name=reached.name, detail=reached.detail)


def release(request: ServedRequest[bodies.NoFields]) -> None:
    """Releases the held controllers, and ends the hold."""
    with request.cluster.lock:
        request.cluster.holds.pop(request.number("hold")).release()
