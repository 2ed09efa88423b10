"""Recordings of the simulator: repeatable, and true to the world that they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_common.model import TopicPartition
from zkcontroller.zookeeper.znodes import PartitionStateZnode
from zkcontroller_lab.experiment import Experiment, record, run_seed
from zkcontroller_lab.interventions import Act, Intervention, InterventionRefused
from zkcontroller_lab.recording import Recording, State
from zkcontroller_simulation.world import World

ROOT = Path(__file__).parents[3]
SEED = 3


@pytest.fixture(scope="module")
def recording() -> Recording:
    return run_seed(SEED)


def znodes_of(world: World) -> dict[str, tuple[int, str]]:
    """Every znode that ZooKeeper holds, read off its tree and not by the recorder's code."""
    found, waiting = {}, ["/"]
    while waiting:
        path = waiting.pop()
        names = world.zookeeper.peek_children(path)
        waiting += [f"{path.rstrip('/')}/{name}" for name in names]
        znode = world.zookeeper.peek(path)
        assert znode is not None
        if path != "/":
            found[path] = (znode.zk_version, znode.data.decode())
    return found


def recorded_znodes(frame: State) -> dict[str, tuple[int, str]]:
    prefix = "znode"
    return {
        key.removeprefix(prefix): (value["version"], value["data"])
        for key, value in frame.items()
        if key.startswith(prefix)
    }


def script_of_a_failover(world: Experiment) -> None:
    world.start_brokers(1, 2, 3)
    world.create_topic("orders", replicas=[[1, 2, 3], [2, 3, 1]])
    world.run_until_quiet()
    world.kill(1)
    world.run_until_quiet()
    world.start(1)
    world.run_until_quiet()
    world.catch_up(TopicPartition("orders", 0))


def test_equal_seeds_give_equal_recordings(recording: Recording) -> None:
    assert run_seed(SEED).to_json() == recording.to_json()
    assert run_seed(SEED + 1).to_json() != recording.to_json()


def test_an_observed_world_has_the_history_of_one_that_is_not_observed() -> None:
    observed = Experiment(Recording("observed", {}), SEED)
    script_of_a_failover(observed)
    alone = Experiment(Recording("alone", {}), SEED)
    alone.observer, alone.new_outbox = None, list
    script_of_a_failover(alone)

    assert observed.timeline.history == alone.timeline.history


def test_every_frame_holds_the_znodes_that_zookeeper_held() -> None:
    held: list[tuple[int, dict[str, tuple[int, str]]]] = []
    recording = Recording("failover", {})

    def script(world: Experiment) -> None:
        def note() -> None:
            count = len(recording.steps)
            if held and held[-1][0] == count:
                return
            held.append((count, znodes_of(world)))

        world.on_turn = note
        script_of_a_failover(world)

    record(recording, SEED, (), script)

    checked = [(count, znodes) for count, znodes in held if count > 0]
    assert len(checked) > 200
    for count, znodes in checked:
        assert recorded_znodes(recording.frame(count - 1)) == znodes, f"step {count - 1}"


def test_the_partitions_of_a_frame_are_those_of_its_state_znodes(recording: Recording) -> None:
    compared = 0
    for index in range(0, len(recording.steps), 20):
        frame = recording.frame(index)
        for key, value in frame.items():
            if not key.startswith("partition/"):
                continue
            topic, _, number = key.removeprefix("partition/").rpartition("-")
            path = PartitionStateZnode.path(topic, int(number))
            znode = frame.get(f"znode{path}")
            if znode is None:
                assert value["leader"] is None
                continue
            state = PartitionStateZnode.decode(path, znode["data"].encode())
            shown = (value["leader"], value["leader_epoch"], tuple(value["isr"]))
            assert shown == (state.leader, state.leader_epoch, state.in_sync_replicas)
            assert value["zk_version"] == znode["version"]
            compared += 1
    assert compared > 50


def test_a_question_leads_to_the_function_that_asked_it(recording: Recording) -> None:
    asked = [
        (line, recording.code[line.place[0]], line.place[1])
        for step in recording.steps
        for line in step.lines
        if line.kind == "question" and line.place is not None
    ]

    (register,) = {code for line, code, _ in asked if "create ephemeral /controller =" in line.text}
    assert (register.file, register.function) == (
        "zkcontroller/core/failover.py",
        "Failover._register",
    )
    for _, code, number in asked:
        source = (ROOT / code.file).read_text().splitlines()
        shown = code.text.splitlines()
        assert source[code.first_line - 1 : code.first_line - 1 + len(shown)] == shown
        assert code.first_line <= number <= code.first_line + len(shown), code.function
        assert "yield" in "\n".join(source[number - 1 : number + 6]), f"{code.file}:{number}"


def test_an_effect_leads_to_the_function_that_decided_it(recording: Recording) -> None:
    deciders = {
        recording.code[line.place[0]].function
        for step in recording.steps
        for line in step.lines
        if line.kind == "effect" and line.text.startswith("sends LeaderAndIsr") and line.place
    }

    assert deciders
    assert not [name for name in deciders if name.startswith(("RequestBatch", "ControllerTools"))]


def test_every_cause_comes_before_its_step(recording: Recording) -> None:
    causes = [(step.cause, at) for at, step in enumerate(recording.steps) if step.cause is not None]

    assert len(causes) > len(recording.steps) // 2
    assert all(cause < at for cause, at in causes)


def test_an_answer_is_caused_by_its_question(recording: Recording) -> None:
    responses = [step for step in recording.steps if step.lines[0].kind == "answer"]

    assert responses
    for step in responses:
        assert step.cause is not None
        questions = [
            line
            for line in recording.steps[step.cause].lines
            if line.kind == "question" and line.broker_id == step.lines[0].broker_id
        ]
        assert questions, step.lines[0].text


def turn_of(recording: Recording, text: str) -> int:
    return next(
        step.turn for step in recording.steps if any(text in line.text for line in step.lines)
    )


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
def test_the_run_up_to_an_intervention_is_the_run_without_it(
    recording: Recording, share: float
) -> None:
    turn = recording.steps[int(share * len(recording.steps))].turn

    changed = run_seed(SEED, [Intervention(turn, Act.DELETE_CONTROLLER)])

    before = [step.as_json() for step in recording.steps if step.turn <= turn]
    shared = [step.as_json() for step in changed.steps[: len(before)]]
    assert [step["lines"] for step in shared] == [step["lines"] for step in before]
    (intervened,) = [
        at
        for at, step in enumerate(changed.steps)
        if any(line.kind == "intervention" for line in step.lines)
    ]
    assert intervened == len(before)
    assert changed.steps[intervened].changes["znode/controller"] is None


@pytest.mark.parametrize(
    ("act", "key", "value"),
    [
        (Act.KILL, "process", "dead"),
        (Act.PAUSE, "process", "paused"),
        (Act.CUT, "is_cut_off", True),
        (Act.EXPIRE, "session", "over"),
    ],
)
def test_an_intervention_is_seen_in_the_frame_of_its_step(act: Act, key: str, value: Any) -> None:
    turn = run_seed(SEED).steps[250].turn

    changed = run_seed(SEED, [Intervention(turn, act, 2)])

    at = next(
        at
        for at, step in enumerate(changed.steps)
        if any(line.kind == "intervention" for line in step.lines)
    )
    assert changed.frame(at - 1)["broker/2"][key] != value
    assert changed.frame(at)["broker/2"][key] == value


def test_a_lost_reply_is_asked_again_and_its_write_is_there() -> None:
    recording = run_seed(SEED)
    turn = turn_of(recording, "create ephemeral /controller =")

    changed = run_seed(SEED, [Intervention(turn, Act.LOSE_REPLY, 1)])

    (lost,) = [
        at
        for at, step in enumerate(changed.steps)
        if any(line.text == "broker 1: ZooKeeper's reply is lost" for line in step.lines)
    ]
    assert changed.frame(lost)["znode/controller"]["owner"] == 1
    assert not changed.frame(lost)["broker/1"]["is_controller"], "it does not know yet"
    assert any(f["broker/1"]["is_controller"] for f in map(changed.frame, range(lost, lost + 40)))


@pytest.mark.parametrize(
    ("intervention", "reason"),
    [
        (Intervention(0, Act.KILL, 9), "there is no broker 9"),
        (Intervention(500, Act.RESUME, 2), "it is not paused"),
        (Intervention(500, Act.START, 2), "broker 2 is not dead"),
        (Intervention(500, Act.CONNECT, 2), "it is not cut off"),
        (Intervention(0, Act.DELETE_CONTROLLER), "there is no /controller"),
        (Intervention(999_999, Act.KILL, 2), "the run ends at turn"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    intervention: Intervention, reason: str
) -> None:
    with pytest.raises(InterventionRefused, match=reason):
        run_seed(SEED, [intervention])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kill", "is not an intervention"),
        ("kill 2", "is not an intervention"),
        ("kill@7", "takes a broker"),
        ("dance 2@7", "is none of"),
        ("delete-controller 2@7", "takes no broker"),
        ("kill 2@9999999", "is not between"),
        ("kill 2@" + "9" * 5_000, "is not an intervention"),
    ],
)
def test_a_malformed_intervention_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InterventionRefused, match=reason):
        Intervention.parse(text)


def test_an_intervention_is_read_back_as_it_is_written() -> None:
    for intervention in (
        Intervention(7, Act.LOSE_REPLY, 2),
        Intervention(0, Act.DELETE_CONTROLLER),
    ):
        assert Intervention.parse(intervention.as_text()) == intervention
        assert Intervention.from_json(intervention.as_json()) == intervention


def test_no_more_interventions_than_the_bound_are_taken() -> None:
    with pytest.raises(InterventionRefused, match="more than 50"):
        run_seed(SEED, [Intervention(9, Act.DELETE_CONTROLLER)] * 51)


def test_a_run_with_too_many_steps_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zkcontroller_lab.experiment.MOST_STEPS", 100)

    recording = run_seed(SEED)

    assert len(recording.steps) == 100
    assert recording.ended == "the run was cut after 100 steps"


def test_a_broken_world_is_the_last_step_of_its_recording() -> None:
    def script(world: Experiment) -> None:
        world.start_brokers(1)
        world.run_until(lambda: False, within_ms=1_000)

    recording = record(Recording("broken", {}), SEED, (), script)

    assert recording.ended.startswith("broken: not within 1000 ms")
    assert recording.steps[-1].lines[-1].kind == "broken"
