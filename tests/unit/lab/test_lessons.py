"""What a caption says is so in the frame of its step: nothing false is taught."""

from __future__ import annotations

from typing import Any

import pytest

from zkcontroller_lab.interventions import Act, Intervention, InterventionRefused
from zkcontroller_lab.lessons import LESSONS, run_lesson
from zkcontroller_lab.recording import RecordedStep, Recording, State

ORDERS = "partition/orders-0"


class Taught:
    """A lesson and its captions; each is asked for once, in order."""

    def __init__(self, name: str) -> None:
        self.recording = run_lesson(name)
        self.index = -1
        self.left = [at for at, step in enumerate(self.recording.steps) if step.caption]

    def next(self, beginning: str) -> State:
        """The frame of the next caption, which begins so."""
        self.index = self.left.pop(0)
        assert self.step.caption.startswith(beginning), self.step.caption
        return self.recording.frame(self.index)

    @property
    def step(self) -> RecordedStep:
        return self.recording.steps[self.index]

    @property
    def before(self) -> State:
        return self.recording.frame(self.index - 1)

    def texts(self, kind: str) -> list[str]:
        return [line.text for line in self.step.lines if line.kind == kind]

    def end(self) -> None:
        assert self.left == [], "a caption without a proof"
        assert self.recording.ended == "nothing is left to happen"


def controllers(frame: State) -> list[int]:
    return [
        int(key.removeprefix("broker/"))
        for key, value in frame.items()
        if key.startswith("broker/") and value["is_controller"]
    ]


def leaders(frame: State) -> dict[str, int]:
    return {key: value["leader"] for key, value in frame.items() if key.startswith("partition/")}


def beliefs(frame: State, key: str = ORDERS) -> dict[str, int]:
    return {broker: belief["leader"] for broker, belief in frame[key]["brokers"].items()}


def test_election() -> None:
    taught = Taught("election")

    frame = taught.next("Three brokers start at the same time. There is no controller yet.")
    assert [frame[f"broker/{each}"]["process"] for each in (1, 2, 3)] == ["running"] * 3
    assert "znode/controller" not in frame

    frame = taught.next("Broker 1 is the controller: one transaction created /controller and")
    assert frame["znode/controller"]["owner"] == 1
    assert frame["znode/controller_epoch"]["data"] == "1"
    assert {"znode/controller", "znode/controller_epoch"} <= set(taught.step.changes)
    assert "znode/controller" not in taught.before

    frame = taught.next("The other two lost the race. They watch /controller, and wait")
    assert controllers(frame) == [1]
    looked = [
        line.broker_id
        for step in taught.recording.steps[: taught.index + 1]
        for line in step.lines
        if line.kind == "question" and line.text == "looks and watches for /controller"
    ]
    assert {2, 3} <= set(looked)

    frame = taught.next("A topic was created. The controller chose leaders: for each partition")
    assert leaders(frame) == {f"partition/orders-{each}": each + 1 for each in range(3)}
    assert all(
        value["leader"] == value["replicas"][0]
        for key, value in frame.items()
        if key.startswith("partition/")
    )
    assert all(frame[key]["brokers"] == {} for key in leaders(frame)), "no broker knows"

    frame = taught.next("LeaderAndIsr has reached all three brokers: each leads one partition.")
    for key, leader in leaders(frame).items():
        assert beliefs(frame, key) == dict.fromkeys(("1", "2", "3"), leader)
    as_before = leaders(frame)

    frame = taught.next("An operator deleted /controller. Broker 2 won the new race, and")
    assert frame["znode/controller"]["owner"] == 2
    assert frame["znode/controller_epoch"]["data"] == "2"

    frame = taught.next("The leaders are the same as before. Only the controller is another one.")
    assert leaders(frame) == as_before
    assert controllers(frame) == [2]
    taught.end()


def test_failover() -> None:
    taught = Taught("failover")

    frame = taught.next("Broker 1 is the controller. It also leads orders-0.")
    assert controllers(frame) == [1]
    assert frame[ORDERS]["leader"] == 1
    first_epoch = frame["broker/1"]["broker_epoch"]

    frame = taught.next("Broker 1 is killed. ZooKeeper cannot know that: it waits until")
    assert (frame["broker/1"]["process"], frame["broker/1"]["session"]) == ("dead", "alive")
    assert frame["znode/controller"]["owner"] == 1
    assert frame[ORDERS]["leader"] == 1

    frame = taught.next("The session is over. ZooKeeper deletes its ephemeral znodes,")
    assert frame["broker/1"]["session"] == "over"
    assert taught.step.changes["znode/controller"] is None
    assert taught.step.changes["znode/brokers/ids/1"] is None
    notified = [step for step in taught.recording.steps if step.cause == taught.index]
    assert {step.lines[0].kind for step in notified} == {"notification"}

    frame = taught.next("Broker 2 is the controller, in epoch 2. It knows nothing yet: it reads")
    assert controllers(frame) == [2]
    assert frame["broker/2"]["controller_epoch"] == 2
    read = [
        line.text
        for step in taught.recording.steps[taught.index : taught.left[0]]
        for line in step.lines
        if line.kind == "question"
    ]
    for path in ("/brokers/ids", "/brokers/topics/orders", "/partitions/0/state"):
        assert any(path in text for text in read), path

    frame = taught.next("Broker 1 is dead, so the new controller took it out of every ISR.")
    assert all(1 not in frame[key]["isr"] for key in leaders(frame))
    assert (frame[ORDERS]["leader"], frame[ORDERS]["leader_epoch"]) == (-1, 1)

    frame = taught.next(
        "It elected broker 2: the first replica in the ISR that is alive. The leader"
    )
    assert (frame[ORDERS]["leader"], frame[ORDERS]["leader_epoch"]) == (2, 2)
    assert next(each for each in frame[ORDERS]["replicas"] if each in frame[ORDERS]["isr"]) == 2

    frame = taught.next("The two brokers that live know the new leader. The ISR of orders-0 is")
    assert beliefs(frame) == {"2": 2, "3": 2}
    assert frame[ORDERS]["isr"] == [2, 3]

    frame = taught.next("Broker 1 is back with another broker epoch. It is a follower everywhere,")
    assert frame["broker/1"]["broker_epoch"] > first_epoch
    assert frame["broker/1"]["incarnation"] == 2
    for key, leader in leaders(frame).items():
        assert beliefs(frame, key)["1"] == leader != 1
        assert 1 not in frame[key]["isr"]

    frame = taught.next("The leaders let broker 1 into each ISR again (AlterPartition). It leads")
    assert all(1 in frame[key]["isr"] for key in leaders(frame))
    assert 1 not in leaders(frame).values()
    taught.end()


def test_unclean_loss() -> None:
    taught = Taught("unclean")

    frame = taught.next("orders-0 has two replicas. Broker 2 leads, and both are in sync.")
    assert (frame[ORDERS]["leader"], frame[ORDERS]["isr"]) == (2, [2, 3])
    assert frame[ORDERS]["replicas"] == [2, 3]

    frame = taught.next("Broker 3 fell behind. The leader asked the controller to take it out")
    assert frame[ORDERS]["isr"] == [2]
    assert frame["broker/3"]["process"] == "running"

    frame = taught.next(
        "Broker 2 died, and its session is over. Broker 3 is alive but not in sync,"
    )
    assert frame["broker/2"]["process"] == "dead"
    assert frame["broker/2"]["session"] == "over"
    assert (frame[ORDERS]["leader"], frame[ORDERS]["isr"]) == (-1, [2])

    frame = taught.next("An operator set unclean.leader.election.enable. Broker 3 leads, alone in")
    assert "unclean.leader.election.enable" in frame["znode/config/topics/orders"]["data"]
    assert (frame[ORDERS]["leader"], frame[ORDERS]["isr"]) == (3, [3])

    frame = taught.next("Broker 2 is back, as a follower of leader epoch 2. It must cut its log")
    assert frame[ORDERS]["brokers"]["2"]["leader"] == 3
    assert frame[ORDERS]["brokers"]["2"]["leader_epoch"] == frame[ORDERS]["leader_epoch"] == 2
    taught.end()


def test_zombie_controller() -> None:
    taught = Taught("zombie")

    frame = taught.next("Broker 1 is the controller of epoch 1 and has decided to write. It is")
    assert controllers(frame) == [1]
    assert frame["broker/1"]["process"] == "paused"
    (question,) = taught.texts("question")
    assert question.startswith("writes, fenced by version 1")

    frame = taught.next("/controller was deleted. Broker 2 is the controller of epoch 2. Broker 1")
    assert frame["znode/controller"]["owner"] == 2
    assert controllers(frame) == [1, 2]
    assert frame["broker/1"]["controller_epoch"] == 1
    assert frame["broker/2"]["controller_epoch"] == 2

    frame = taught.next(
        "The new controller did the work: orders-0 has a leader, chosen in epoch 2."
    )
    assert frame[ORDERS]["leader"] == 1
    assert frame[ORDERS]["controller_epoch"] == 2
    znodes = znodes_of(frame)

    frame = taught.next("Broker 1 goes on where it was, and asks. ZooKeeper refuses: the write is")
    (error,) = taught.texts("error")
    assert "fenced by version 1" in error
    assert "ControllerMoved" in error
    assert frame["znode/controller_epoch"]["version"] == 2
    assert znodes_of(frame) == znodes, "nothing was written"

    frame = taught.next("Broker 1 resigned. There is one controller, and the znodes are the new")
    assert controllers(frame) == [2]
    assert frame["broker/1"]["process"] == "running"
    assert znodes_of(frame) == znodes
    taught.end()


def znodes_of(frame: State) -> dict[str, Any]:
    return {key: value for key, value in frame.items() if key.startswith("znode")}


def test_reassignment() -> None:
    taught = Taught("reassignment")

    frame = taught.next("orders-0 is on brokers 1 and 2. Broker 1 leads.")
    assert (frame[ORDERS]["replicas"], frame[ORDERS]["leader"]) == ([1, 2], 1)

    frame = taught.next("An operator asked for brokers 2 and 3. The controller first makes the")
    assert frame[ORDERS]["replicas"] == [2, 3, 1]
    assert frame[ORDERS]["adding_replicas"] == [3]
    assert frame[ORDERS]["removing_replicas"] == [1]

    frame = taught.next("Broker 3 has the new replica and fetches. Nothing else moves until it is")
    assert beliefs(frame)["3"] == 1, "it follows broker 1"
    assert frame[ORDERS]["isr"] == [1, 2]
    following = [taught.recording.frame(at) for at in range(taught.index, taught.left[0])]
    assert {each[ORDERS]["leader"] for each in following} == {1}
    assert all(each[ORDERS]["removing_replicas"] == [1] for each in following)

    frame = taught.next("Broker 3 has everything, so the leader let it into the ISR: 1, 2 and 3")
    assert sorted(frame[ORDERS]["isr"]) == [1, 2, 3]

    frame = taught.next(
        "Broker 1 is to leave, so it may not lead. The controller elected broker 2."
    )
    assert frame[ORDERS]["leader"] == 2
    assert frame[ORDERS]["removing_replicas"] == [1]

    frame = taught.next("StopReplica told broker 1 to delete its replica.")
    assert "1" in taught.before[ORDERS]["brokers"]
    assert "1" not in frame[ORDERS]["brokers"]
    assert taught.texts("request") == ["takes StopReplica of controller epoch 1"]

    frame = taught.next("orders-0 is on brokers 2 and 3. Nothing is being added or removed.")
    assert frame[ORDERS]["replicas"] == [2, 3]
    assert frame[ORDERS]["adding_replicas"] == frame[ORDERS]["removing_replicas"] == []
    taught.end()


def votes(frame: State) -> list[tuple[int, int | None]]:
    """The epoch and the vote on each node's disk."""
    nodes = [frame[f"node/{number}"] for number in (1, 2, 3)]
    return [(node["stored_epoch"], node["stored_vote"]) for node in nodes]


def test_split_vote() -> None:
    taught = Taught("split-vote")

    frame = taught.next("Three voters of a quorum start. No one leads, and the network is slow.")
    assert [frame[f"node/{number}"]["process"] for number in (1, 2, 3)] == ["running"] * 3
    assert all(frame[f"node/{number}"]["leader"] is None for number in (1, 2, 3))

    frame = taught.next("Node 2 found no leader in time. It stands in epoch 1, and has written")
    assert frame["node/2"]["state"] == "candidate"
    assert votes(frame)[1] == (1, 2)
    assert [epoch for epoch, _ in votes(frame)] == [0, 1, 0]

    frame = taught.next("The other two stood as well, before a request reached them. Each of")
    assert votes(frame) == [(1, 1), (1, 2), (1, 3)]
    arrived = [
        line.text
        for step in taught.recording.steps[: taught.index + 1]
        for line in step.lines
        if line.text.startswith("gets the request")
    ]
    assert arrived == []

    frame = taught.next("Every request was refused. Each candidate has one vote of three, and two")
    responses = [
        line.text
        for step in taught.recording.steps[: taught.index + 1]
        for line in step.lines
        if line.kind == "answer"
    ]
    assert len(responses) == 6
    assert all(text.endswith("refused the vote") for text in responses)

    frame = taught.next("Each waits for a time of its own, by chance. Node 2 was first this time:")
    assert (frame["node/2"]["state"], frame["node/2"]["epoch"]) == ("leader", 2)
    stood = [
        line.broker_id
        for step in taught.recording.steps[: taught.index + 1]
        for line in step.lines
        if line.broker_id is not None and line.text == f"persists epoch 2 vote for {line.broker_id}"
    ]
    assert stood[0] == 2
    assert [vote for epoch, vote in votes(frame) if epoch == 2].count(2) == 2
    for at in range(taught.index):
        assert all(node["leader"] is None for key, node in nodes_of(taught, at)), at

    frame = taught.next("All three have written down that node 2 leads.")
    assert votes(frame) == [(2, None)] * 3
    assert all(frame[f"node/{number}"]["leader"] == 2 for number in (1, 2, 3))
    assert taught.left == []
    assert taught.recording.ended == "the lesson is over"


def nodes_of(taught: Taught, at: int) -> list[tuple[str, dict[str, Any]]]:
    return [each for each in taught.recording.frame(at).items() if each[0].startswith("node/")]


def test_the_lesson_of_a_quorum_takes_no_interventions() -> None:
    with pytest.raises(InterventionRefused, match="takes no interventions"):
        run_lesson("split-vote", [Intervention(1, Act.KILL, 1)])


def test_every_lesson_has_a_proof() -> None:
    proven = {"election", "failover", "unclean", "zombie", "reassignment", "split-vote"}

    assert set(LESSONS) == proven


@pytest.mark.parametrize("name", ["failover", "zombie"])
def test_captions_end_where_a_reader_intervenes(name: str) -> None:
    recording = run_lesson(name)
    captioned = [at for at, step in enumerate(recording.steps) if step.caption]
    turn = recording.steps[captioned[1]].turn

    changed = run_lesson(name, [Intervention(turn, Act.DELETE_CONTROLLER)])

    assert captions(changed) == captions(recording)[:2]


def captions(recording: Recording) -> list[str]:
    return [step.caption for step in recording.steps if step.caption]
