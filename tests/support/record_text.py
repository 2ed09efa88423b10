"""Records of the metadata log on one line each, as ``kafka-dump-log`` prints them.

Source: Kafka 3.9 ``DumpLogSegments.ClusterMetadataLogMessageParser``; the text is that of Jackson's
``ObjectNode.toString``.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, assert_never

from kafka_common.protocol.uuid_text import uuid_text
from kraft.metadata.record_json import record_json
from kraft.metadata.records import ZERO_UUID, VersionedRecord
from kraft.raft.control_records import (
    LEADER_CHANGE,
    ControlRecord,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
)

_ESCAPES: Final = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord(plain): f"\\{letter}"
    for plain, letter in zip('\b\t\n\f\r"\\', 'btnfr"\\', strict=True)
}  # fmt: skip


def record_text(versioned: VersionedRecord) -> str:
    """As :func:`record_json`, on one line without spaces."""
    return _text(record_json(versioned))


def control_record_text(record: ControlRecord) -> str:
    """A control record as the same tool prints it: type and fields.

    Of a LeaderChange that tool prints no more than the kind.
    """
    match record:
        case LeaderChange():
            return f"controlType: LEADER_CHANGE({LEADER_CHANGE})"
        case SnapshotHeader(at_ms):
            return f"SnapshotHeader {_text({'version': 0, 'lastContainedLogTimestamp': at_ms})}"
        case SnapshotFooter():
            return f"SnapshotFooter {_text({'version': 0})}"
        case KRaftVersion(version):
            return f"KRaftVersion {_text({'version': 0, 'kRaftVersion': version})}"
        case KRaftVoters(voters):
            named = [_voter_json(voter) for voter in voters]
            return f"KRaftVoters {_text({'version': 0, 'voters': named})}"
        case _:
            assert_never(record)


def _voter_json(voter: Voter) -> dict[str, Any]:
    return {
        "voterId": voter.voter_id,
        "voterDirectoryId": uuid_text(voter.voter_directory_id or ZERO_UUID),
        "endpoints": [
            {"name": endpoint.name, "host": endpoint.host, "port": endpoint.port}
            for endpoint in voter.endpoints
        ],
        "kRaftVersionFeature": {
            "minSupportedVersion": voter.min_supported_version,
            "maxSupportedVersion": voter.max_supported_version,
        },
    }


def _text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return _double(value)
        case str():
            return f'"{value.translate(_ESCAPES)}"'
        case list():
            return f"[{','.join(map(_text, value))}]"
        case dict():
            return f"{{{','.join(f'{_text(name)}:{_text(item)}' for name, item in value.items())}}}"
        case _:
            return str(value)


def _double(value: float) -> str:
    """A double as Java prints it, exponents included; NaN and infinities are quoted."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    if value - value != 0:
        return f'"{repr(value).replace("inf", "Infinity").replace("nan", "NaN")}"'
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
