"""What a server or a file may ask of one that logs in or reads keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_common.errors import ConfigInvalid, SaslRefused
from kafka_common.protocol.sasl_client import ScramClient
from kafka_common.protocol.scram import MAX_CLIENT_ITERATIONS, MECHANISMS, ServerFirst
from replica_manager.security.key_material import (
    MAX_STORE_BYTES,
    TrustStoreSettings,
    load_trust_store,
)


@pytest.mark.parametrize("iterations", [MAX_CLIENT_ITERATIONS + 1, 999_999_999])
def test_a_server_that_asks_for_too_many_iterations_is_refused(iterations: int) -> None:
    client = ScramClient(MECHANISMS["SCRAM-SHA-256"], "alice", "secret", "nonce")
    client.first()

    with pytest.raises(SaslRefused, match="iterations"):
        client.step(ServerFirst("nonce-more", b"salt", iterations).encode().encode())


def test_a_key_store_that_is_far_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "trusted.pem"
    with file.open("wb") as made:
        made.truncate(MAX_STORE_BYTES + 1)

    with pytest.raises(ConfigInvalid, match=f"at most {MAX_STORE_BYTES} bytes"):
        load_trust_store(TrustStoreSettings(store_type="PEM", location=str(file)))
