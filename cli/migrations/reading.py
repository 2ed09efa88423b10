"""Asks every registered broker for what :mod:`.obstacles` needs."""

from __future__ import annotations

import asyncio
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.net.client_security import ClientSecurity
from zkcontroller_cli.console.errors import CommandFailed
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.migrations.obstacles import MigratingBroker
from zkcontroller_cli.values.config_entities import BROKER, ConfigEntity
from zkcontroller_cli.wire.configs import describe_configs
from zkcontroller_cli.wire.log_dirs import described_log_dirs
from zkcontroller_cli.wire.requests import BrokerAddress, Deadline, connected
from zkcontroller_cli.znodes.registrations import LiveBroker

ANSWER_S: Final = 5.0
"""Seconds that a broker may take for its responses; ``--timeout`` may shorten them."""


async def read_brokers(
    registered: list[LiveBroker], security: ClientSecurity, answer_s: float
) -> list[MigratingBroker]:
    """Each broker's configuration and failed log directories, or why they are not known."""
    return list(await asyncio.gather(*(_read(each, security, answer_s) for each in registered)))


async def _read(broker: LiveBroker, security: ClientSecurity, answer_s: float) -> MigratingBroker:
    broker_id = broker.broker.broker_id
    address = broker.address_by(security.protocol)
    if address is None:
        return MigratingBroker(broker_id, {}, error=f"it has no {security.protocol} listener")
    where = BrokerAddress(*address)
    entity = ConfigEntity(BROKER, str(broker_id))
    deadline = Deadline(answer_s)
    try:
        found = await describe_configs(Bootstrap(str(where), security), deadline, [entity])
        async with connected([where], deadline, security) as connection:
            results = await described_log_dirs(connection)
    except CommandFailed as error:
        return MigratingBroker(broker_id, {}, error=str(error))
    return MigratingBroker(
        broker_id,
        {name: setting.value for name, setting in found[entity].items()},
        [each.log_dir for each in results if each.error_code is not ErrorCode.none],
    )
