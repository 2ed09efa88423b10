"""Rates of clients and how long they have to wait: the numbers are worked out by hand.

With eleven windows of a second a rate is over ten seconds and what has passed of the eleventh, from
the first value on; after a whole second the window is ten seconds again.
"""

from __future__ import annotations

import math

import pytest

from kafka_common.observability.metrics import Metrics
from replica_manager.quotas import client_quotas
from replica_manager.quotas.client_quotas import INACTIVE_MS, LONGEST_THROTTLE_MS
from replica_manager.quotas.loop_time import LoopTime
from replica_manager.quotas.mutation_quotas import MutationQuotas
from replica_manager.quotas.quota_managers import QuotaManagers, RequestUsage
from replica_manager.quotas.rate_quotas import FETCH, PRODUCE, REQUEST, QuotaWindows, RateQuotas
from tests.support.exposition import exposition_of

START_MS = 1_000_000
MS = 1_000_000
"""Nanoseconds."""


class World:
    """A clock, metrics, and the quotas that a test asks for."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.now_ns = 0
        self.metrics = Metrics()

    def produce(self, rate: str = "100", windows: QuotaWindows = QuotaWindows()) -> RateQuotas:  # noqa: B008 - a constant
        quotas = RateQuotas(PRODUCE, windows, lambda: self.now_ms, self.metrics)
        quotas.configure("clients/app", {"producer_byte_rate": rate})
        return quotas

    def managers(self, *configurations: tuple[str, dict[str, str]]) -> QuotaManagers:
        quotas = QuotaManagers(
            MutationQuotas(11, lambda: self.now_ms),
            QuotaWindows(),
            self.metrics,
            lambda: self.now_ms,
            lambda: self.now_ns,
        )
        for path, config in configurations:
            quotas.configure(path, config)
        return quotas

    def begin(self, quotas: QuotaManagers, size: int, took_ms: int = 0) -> RequestUsage:
        """A request of client ``app`` that has held the loop for so long."""
        usage = quotas.begin("alice", "app", size)
        assert usage is not None
        self.work(usage.loop_time, took_ms)
        return usage

    def work(self, loop_time: LoopTime, took_ms: int) -> None:
        loop_time.begin()
        self.now_ns += took_ms * MS
        loop_time.end()

    def attributes(self, mbean: str) -> dict[str, object]:
        return dict(self.metrics.snapshot()[mbean])


@pytest.fixture
def world() -> World:
    return World()


# ---------------------------------------------------------------------- rates


def test_who_stays_within_the_quota_does_not_wait(world: World) -> None:
    quotas = world.produce()

    assert quotas.record("alice", "app", 500) == 0
    assert quotas.record("alice", "app", 500) == 0  # 1,000 bytes in ten seconds: 100 a second


def test_who_is_over_it_waits_until_the_average_is_down_again(world: World) -> None:
    quotas = world.produce()
    quotas.record("alice", "app", 500)

    assert quotas.record("alice", "app", 600) == 1_000  # 110 a second: (110 - 100) / 100 * 10 s


@pytest.mark.parametrize(
    ("later_ms", "throttle_ms"),
    [
        (500, 500),  # 1,100 in 10.5 s: 104.76 a second, and 0.0476 * 10.5 s
        (999, 1),  # 1,100 in 10.999 s
        (1_000, 1_000),  # the first window is full: 1,100 in ten seconds
        (9_500, 500),
        (10_500, 500),  # more than ten windows have passed: 1,100 in 10.5 s
        (10_900, 100),
        (11_000, 0),  # forgotten
    ],
)
def test_time_that_has_passed_counts_by_windows(
    world: World, later_ms: int, throttle_ms: int
) -> None:
    quotas = world.produce()
    quotas.record("alice", "app", 1_100)

    world.now_ms += later_ms

    assert quotas.record("alice", "app", 0) == throttle_ms


def test_windows_are_as_many_and_as_long_as_configured(world: World) -> None:
    quotas = world.produce(windows=QuotaWindows(3, 2_000))

    # Two full windows of two seconds: 500 in 4 s are 125 a second.
    assert quotas.record("alice", "app", 500) == 1_000
    assert quotas.most_at_once("alice", "app") == 400


def test_a_throttle_is_rounded_to_the_nearest_millisecond(world: World) -> None:
    quotas = world.produce("3")

    # 31 in 10 s: 3.1 a second, a thirtieth too much: 333.33 ms.
    assert quotas.record("alice", "app", 31) == 333
    # 35 in 10 s: 3.5 a second: 1,666.67 ms.
    assert quotas.record("alice", "app", 4) == 1_667


def test_what_no_answer_can_tell_is_the_longest_wait(world: World) -> None:
    assert world.produce("1").record("alice", "app", 10**8) == LONGEST_THROTTLE_MS
    assert world.produce("0").record("alice", "app", 1) == LONGEST_THROTTLE_MS
    assert world.produce("0").record("alice", "app", 0) == 0


def test_the_time_of_requests_never_costs_more_than_one_window(world: World) -> None:
    quotas = RateQuotas(REQUEST, QuotaWindows(), lambda: world.now_ms, world.metrics)
    quotas.configure("users/alice", {"request_percentage": "10.0"})

    assert quotas.record("alice", "app", 105) == 500  # 10.5 %: a twentieth too much
    assert quotas.record("alice", "app", 95) == 1_000  # 20 %: ten seconds by the formula


def test_a_change_holds_for_who_is_known_already(world: World) -> None:
    quotas = world.produce()
    quotas.record("alice", "app", 1_100)

    quotas.configure("clients/app", {"producer_byte_rate": "55"})
    assert quotas.record("alice", "app", 0) == 10_000
    quotas.configure("clients/app", {})
    assert quotas.record("alice", "app", 10**9) == 0
    assert quotas.most_at_once("alice", "app") == math.inf


def test_a_default_that_changes_holds_for_every_client_without_a_quota(world: World) -> None:
    quotas = world.produce()
    quotas.record("alice", "other", 1_100)

    quotas.configure("clients/<default>", {"producer_byte_rate": "10"})

    assert quotas.record("alice", "other", 0) == 100_000
    assert quotas.record("alice", "app", 1_000) == 0


def test_clients_of_a_user_share_the_users_quota(world: World) -> None:
    quotas = RateQuotas(PRODUCE, QuotaWindows(), lambda: world.now_ms, world.metrics)
    quotas.configure("users/alice", {"producer_byte_rate": "100"})

    assert quotas.record("alice", "one", 600) == 0
    assert quotas.record("bob", "two", 10_000) == 0
    assert quotas.record("alice", "two", 500) == 1_000


@pytest.mark.parametrize("text", ["1.5", "many", "-1", "nan", "", "1_000", "9" * 400])
def test_bytes_a_second_are_a_whole_number(
    world: World, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    quotas = world.produce("100")

    quotas.configure("clients/app", {"producer_byte_rate": text})

    assert quotas.most_at_once("alice", "app") == 1_000
    assert "The quota of clients/app stays as it was" in caplog.text


def test_clients_that_were_not_seen_for_long_are_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_quotas, "MOST_CLIENTS", 3)
    quotas = world.produce()
    for name in "abcd":
        quotas.record("alice", name, 1)

    assert len(quotas) == 3
    assert "kafka.server:type=Produce,client-id=a" not in world.metrics.snapshot()
    assert "kafka.server:type=Produce,client-id=b" in world.metrics.snapshot()

    world.now_ms += INACTIVE_MS + 1
    quotas.record("alice", "e", 1)
    assert len(quotas) == 1
    assert "kafka.server:type=Produce,client-id=e" in world.metrics.snapshot()
    assert "kafka.server:type=Produce,client-id=d" not in world.metrics.snapshot()


def test_each_change_is_a_line_of_kafkas(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kafka.server")
    quotas = world.managers()

    def lines(path: str, **config: str) -> list[str]:
        caplog.clear()
        quotas.configure(path, config)
        return [f"{each.name.rpartition('.')[2]} {each.message}" for each in caplog.records]

    assert lines("users/a%20b", producer_byte_rate="10000000") == [
        "ClientQuotaManager Changing PRODUCE quota for user a%20b to 1.0E7",
        "ClientQuotaManager Removing FETCH quota for user a%20b",
        "ClientRequestQuotaManager Removing REQUEST quota for user a%20b",
        "ControllerMutationQuotaManager Removing CONTROLLER_MUTATION quota for user a%20b",
    ]
    assert "Removing FETCH quota for default client-id" in lines("clients/<default>")[1]
    pair = lines("users/<default>/clients/my%20app", request_percentage="50.5")
    assert pair[2].endswith("Changing REQUEST quota for default user client-id my app to 50.5")


def test_a_change_for_who_is_known_already_is_a_line_too(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    quotas = world.produce("100")
    quotas.record("alice", "app", 1)
    quotas.record("alice", "other", 1)
    caplog.set_level("INFO", "kafka.server")

    quotas.configure("clients/app", {"producer_byte_rate": "200"})
    quotas.configure("clients/<default>", {"producer_byte_rate": "300"})
    quotas.configure("clients/<default>", {})

    sensors = [each.message for each in caplog.records if each.message.startswith("Sensor")]
    other = "Sensor for quota-id {user=, client-id=other} already exists. Setting quota to"
    assert sensors == [
        "Sensor for client-id app already exists. Changing quota to 200.0 in MetricConfig",
        f"{other} 300.0 in MetricConfig",
        f"{other} 9.223372036854776E18 in MetricConfig",
    ]


# ---------------------------------------------------------------------- metrics


def test_each_client_shows_its_rate_and_how_long_it_had_to_wait(world: World) -> None:
    quotas = RateQuotas(FETCH, QuotaWindows(), lambda: world.now_ms, world.metrics)
    quotas.configure("users/al%20ice/clients/app", {"consumer_byte_rate": "100"})
    quotas.record("al ice", 'a,"p\\p', 500)
    quotas.record("al ice", "app", 1_200)
    for throttle_ms in (1_000, 2_000):
        quotas.record_throttle("al ice", "app", throttle_ms)

    # The user is written as in a znode's name, the client id as it is.
    assert world.attributes("kafka.server:type=Fetch,user=al%20ice,client-id=app") == {
        "byte-rate": 120.0,
        "throttle-time": 1_500.0,
    }
    [odd] = [name for name in world.metrics.snapshot() if name.endswith('"')]
    assert odd == r'kafka.server:type=Fetch,user=al%20ice,client-id="a,\"p\\p"'
    text = exposition_of(world.metrics).decode()
    assert 'kafka_server_fetch_byte_rate{client_id="app",user="al%20ice"} 120.0' in text
    assert r'kafka_server_fetch_byte_rate{client_id="a,\"p\\p",user="al%20ice"} 50.0' in text


def test_what_is_not_known_of_a_client_is_no_tag(world: World) -> None:
    quotas = RateQuotas(PRODUCE, QuotaWindows(), lambda: world.now_ms, world.metrics)
    quotas.configure("users/alice", {"producer_byte_rate": "100"})
    quotas.record("alice", "app", 100)

    [name] = (name for name in world.metrics.snapshot() if "user" in name)

    assert name == "kafka.server:type=Produce,user=alice"
    assert math.isnan(float(str(world.attributes(name)["throttle-time"])))


def test_who_waits_is_counted(world: World) -> None:
    both = {"producer_byte_rate": "100", "request_percentage": "1"}
    quotas = world.managers(("clients/app", both))
    for_bytes = world.begin(quotas, 2_000)
    for_bytes.produced(is_answered=True)
    for_time = world.begin(quotas, 0, took_ms=150)
    for_time.requested()

    def queue_sizes() -> list[object]:
        return [
            world.attributes(f"kafka.server:type={name}")["queue-size"]
            for name in ("Produce", "Fetch", "Request")
        ]

    with for_bytes.waiting():
        assert queue_sizes() == [1, 0, 0]
        with for_time.waiting():
            assert queue_sizes() == [1, 0, 1]
    assert queue_sizes() == [0, 0, 0]


# ---------------------------------------------------------------------- requests


def test_without_quotas_nothing_is_recorded(world: World) -> None:
    quotas = world.managers()

    assert quotas.begin("alice", "app", 100) is None

    quotas.configure("users/bob", {})
    assert quotas.begin("alice", "app", 100) is not None


def test_of_two_quotas_that_are_exceeded_the_longer_wait_counts(world: World) -> None:
    both = {"producer_byte_rate": "100", "request_percentage": "1"}
    quotas = world.managers(("clients/app", both))

    # 1,020 bytes: 102 a second, 200 ms. 105 ms are 10.5 % of a second: 1.05 % of ten, 500 ms.
    usage = world.begin(quotas, 1_020, took_ms=105)

    assert usage.produced(is_answered=True) == 500
    assert usage.throttle_ms == 500
    request = world.attributes("kafka.server:type=Request,client-id=app")
    assert request == {"request-time": pytest.approx(1.05), "throttle-time": 500.0}
    produce = world.attributes("kafka.server:type=Produce,client-id=app")
    assert produce["byte-rate"] == 102.0
    assert math.isnan(float(str(produce["throttle-time"])))


def test_without_an_answer_only_the_bytes_count(world: World) -> None:
    both = {"producer_byte_rate": "100", "request_percentage": "1"}
    quotas = world.managers(("clients/app", both))

    usage = world.begin(quotas, 1_020, took_ms=600)

    assert usage.produced(is_answered=False) == 200
    # Two windows of thirty seconds, one of them to come: 60 % of a second in thirty.
    exempt = world.attributes("kafka.server:type=Request")
    assert exempt == {"exempt-request-time": pytest.approx(2.0), "queue-size": 0}


def test_a_throttled_fetch_has_fetched_nothing(world: World) -> None:
    quotas = world.managers(("clients/app", {"consumer_byte_rate": "100"}))
    assert world.begin(quotas, 50).fetched(900) == 0

    assert world.begin(quotas, 50).fetched(200) == 1_000

    assert world.begin(quotas, 50).fetched(100) == 0


def test_a_fetch_throttled_for_its_time_has_fetched_nothing_either(world: World) -> None:
    both = {"consumer_byte_rate": "100", "request_percentage": "1"}
    quotas = world.managers(("clients/app", both))

    assert world.begin(quotas, 50, took_ms=110).fetched(1_000) == 1_000

    fetch = world.attributes("kafka.server:type=Fetch,client-id=app")
    assert fetch["byte-rate"] == 0.0


def test_what_comes_after_the_answer_counts_for_the_next_request(world: World) -> None:
    quotas = world.managers(("users/alice", {"request_percentage": "1"}))
    usage = world.begin(quotas, 50, took_ms=60)
    assert usage.requested() == 0

    world.work(usage.loop_time, 50)
    usage.finish()

    # 110 ms in ten seconds: 1.1 %.
    assert world.begin(quotas, 50).requested() == 1_000


def test_the_turn_that_is_not_over_counts(world: World) -> None:
    quotas = world.managers(("users/alice", {"request_percentage": "1"}))
    usage = world.begin(quotas, 50)

    usage.loop_time.begin()
    world.now_ns += 105 * MS

    assert usage.requested() == 500


def test_what_brokers_ask_is_nobodys_time(world: World) -> None:
    quotas = world.managers(("users/alice", {"request_percentage": "1"}))
    usage = world.begin(quotas, 50, took_ms=300)

    usage.exempt()
    world.work(usage.loop_time, 300)
    usage.finish()

    assert usage.throttle_ms == 0
    exempt = world.attributes("kafka.server:type=Request")
    assert exempt == {"exempt-request-time": pytest.approx(2.0), "queue-size": 0}
    assert world.begin(quotas, 50).requested() == 0


def test_a_path_that_is_no_clients_is_reported_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    quotas = world.managers(("users/a/groups/b", {"request_percentage": "1"}))

    assert caplog.messages == ["Invalid quota entity path: users/a/groups/b"]
    assert not quotas.is_enabled
