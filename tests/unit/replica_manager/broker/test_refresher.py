"""When a refresher looks at ZooKeeper again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from replica_manager.broker.refresher import Refresher
from zkcontroller.zookeeper.requests import WatchFired, WatchKind
from zkcontroller.zookeeper.session import SessionState
from zkcontroller.zookeeper.session_router import SessionRouter


async def test_a_refresher_looks_after_a_watch_of_its_path_and_in_a_new_session(
    executor: ThreadPoolExecutor,
) -> None:
    router, looks = SessionRouter(), list[str]()
    reports: list[Callable[[], None]] = [
        lambda: router.fired(WatchFired(WatchKind.NODE_CHILDREN_CHANGED, "/config/changes")),
        lambda: router.entered(SessionState.CONNECTED),
    ]
    irrelevant: list[Callable[[], None]] = [
        lambda: router.fired(WatchFired(WatchKind.NODE_DATA_CHANGED, "/feature")),
        lambda: router.entered(SessionState.SUSPENDED),
    ]

    loop = asyncio.get_running_loop()
    refresher = Refresher("a test", lambda: looks.append("look"), loop, executor)
    refresher.follow(router, "/config/changes")
    refresher.start()
    for number, report in enumerate([*reports, *reports], start=1):
        async with asyncio.timeout(30):
            while len(looks) < number:
                await asyncio.sleep(0.001)
        for other in irrelevant:
            other()
        report()
    async with asyncio.timeout(30):
        while len(looks) < 5:
            await asyncio.sleep(0.001)
    await refresher.stop()

    assert len(looks) == 5
