"""Every request and response of Kafka 3.9, in every version: written, looked over, read.

The guard in front of kio's reader is made from the same schemas; here it must let pass, to the last
byte, whatever kio's writer writes.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest
from kio.schema.index import api_key_map, schema_name_map

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.messages import read, request_type, response_type, write
from kafka_common.protocol.wire_guard import checked
from tests.support.messages import random_message

MESSAGES_EACH: Final = 4


@pytest.mark.parametrize("api_key", sorted(api_key_map))
def test_the_guard_lets_pass_what_kio_writes_and_nothing_shorter(api_key: int) -> None:
    random = Random(api_key)
    for version in schema_name_map[api_key_map[api_key]]:
        for schema in (request_type(api_key, version), response_type(api_key, version)):
            for _ in range(MESSAGES_EACH):
                message = random_message(random, schema)
                data = write(message)

                assert checked(schema, data, 0) == (data, 0)
                assert read(schema, b"##" + data + b"behind", 2) == message
                if data:
                    with pytest.raises(InvalidFrame):
                        checked(schema, data[: random.randrange(len(data))], 0)
