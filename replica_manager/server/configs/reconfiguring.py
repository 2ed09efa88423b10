"""Passwords and key stores in changes of a broker's configuration.

Both are slow (keys must be derived, files must be read), so the work runs in an executor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TypeVar

from kio.schema.errors import ErrorCode

from kafka_common.errors import ConfigInvalid
from replica_manager.configuration.config import BrokerConfig, usable_dynamic
from replica_manager.request_errors import RequestRefused
from replica_manager.security.dynamic_passwords import DynamicPasswords, NoPasswordSecret
from replica_manager.security.dynamic_tls import ListenerSecurities

_R = TypeVar("_R")


class Reconfiguring:
    """Checks and encodes configuration changes for AlterConfigs.  For the event loop."""

    def __init__(
        self, executor: Executor, passwords: DynamicPasswords, securities: ListenerSecurities
    ) -> None:
        self._executor = executor
        self._passwords = passwords
        self._securities = securities

    async def decoded(self, stored: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
        """The valid keys of a stored configuration, with decoded passwords."""
        usable = usable_dynamic(stored, per_broker=per_broker)
        return await self._blocking(lambda: self._passwords.decoded(usable))

    async def encoded(self, config: Mapping[str, str], *, broker_name: str) -> dict[str, str]:
        """The configuration with encoded passwords, to be stored.

        RequestRefused if it has a password but the broker has no secret to encode it.
        """
        try:
            return await self._blocking(lambda: self._passwords.encoded(config))
        except NoPasswordSecret as refused:
            raise RequestRefused(
                ErrorCode.invalid_config,
                "Invalid config value for resource "
                f"ConfigResource(type=BROKER, name='{broker_name}'): {refused}",
            ) from None

    async def check(self, after: BrokerConfig) -> None:
        """RequestRefused unless every listener can load its new key stores."""
        try:
            await self._blocking(lambda: self._securities.check(after))
        except ConfigInvalid as invalid:
            raise RequestRefused(ErrorCode.invalid_request, str(invalid)) from invalid

    async def reload(self, after: BrokerConfig) -> None:
        """Reloads key stores whose files changed while their configuration did not."""
        try:
            await self._blocking(lambda: self._securities.reload(after))
        except ConfigInvalid as invalid:
            raise RequestRefused(
                ErrorCode.invalid_config,
                f"Invalid config value for resource ConfigResource(type=BROKER): {invalid}",
            ) from invalid

    async def _blocking(self, call: Callable[[], _R]) -> _R:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)
