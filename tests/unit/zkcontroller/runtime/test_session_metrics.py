"""What the ZooKeeper session shows of itself."""

from __future__ import annotations

import pytest

from kafka_common.observability.metrics import Metrics
from zkcontroller.runtime.session_metrics import SessionMetrics
from zkcontroller.zookeeper.session import SessionState, ZooKeeperConfig, ZooKeeperSession

START = "kafka.server:type=SessionExpireListener,name="


@pytest.mark.parametrize(("logs_in_by_sasl", "logins"), [(True, 2), (False, 0)])
def test_each_connection_with_a_login_by_sasl_counts_it(logs_in_by_sasl: bool, logins: int) -> None:
    metrics = Metrics()
    session = SessionMetrics(metrics, logs_in_by_sasl=logs_in_by_sasl)

    session.entered(SessionState.SUSPENDED)
    session.entered(SessionState.CONNECTED)

    shown = metrics.snapshot()
    counts = {
        name: shown[f"{START}ZooKeeper{name}PerSec"]["Count"]
        for name in ("SyncConnects", "Disconnects", "SaslAuthentications", "ReadOnlyConnects")
    }
    assert counts == {
        "SyncConnects": 2, "Disconnects": 1, "SaslAuthentications": logins, "ReadOnlyConnects": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("auth", "expected"),
    [((("sasl", "u:p"),), True), ((("digest", "u:p"),), False), ((), False)],
)
def test_a_session_knows_whether_it_logs_in_by_sasl(
    auth: tuple[tuple[str, str], ...], expected: bool
) -> None:
    session = ZooKeeperSession(ZooKeeperConfig(connect="127.0.0.1:1", auth=auth))

    assert session.logs_in_by_sasl is expected
