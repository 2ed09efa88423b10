"""Programs that are forked: what each has of its own, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.support.suspension import suspend
from zkcontroller_testing import fork_server
from zkcontroller_testing.fork_server import ForkedProcess, ForkServer

pytestmark = pytest.mark.skipif(not fork_server.is_available(), reason="needs Linux")

PROGRAM: Final = """
import os, sys, time

def main(arguments):
    match arguments[0]:
        case "show":
            print(sys.argv[1:], os.environ["COLOUR"], os.getcwd(), os.getpgrp() == os.getpid())
            print(sorted(os.listdir("/proc/self/fd"))[:3], sys.stdin.read() == "", file=sys.stderr)
            return 3
        case "wait":
            print("waiting", flush=True)
            time.sleep(60)
        case "fail":
            raise OSError("no such thing")
        case "files":
            return len(os.listdir("/proc/self/fd"))
"""
WAIT_S: Final = 30.0


class Programs:
    """Starts them and keeps what they print."""

    def __init__(self, directory: Path) -> None:
        self.server = ForkServer("program", options=("-W", "error"))
        self.directory = directory
        self.printed = directory / "printed"

    def start(self, *arguments: str, **environment: str) -> ForkedProcess:
        with self.printed.open("ab") as output:
            return self.server.start(
                "program",
                arguments,
                stdout=output.fileno(),
                stderr=output.fileno(),
                environment=environment,
                directory=self.directory,
            )

    def wait_printed(self, text: str) -> None:
        while text not in self.printed.read_text():
            os.sched_yield()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    """A package of its own, found by PYTHONPATH when the server starts."""
    package = tmp_path / "packages" / "program"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    programs = Programs(tmp_path)
    yield programs
    programs.server.close()


def test_a_program_has_its_own_arguments_environment_folder_and_group(programs: Programs) -> None:
    # Larger than a message of a socket, and no UTF-8, as an environment may be.
    code = programs.start("show", "all", COLOUR="red", LONG="\udc80" * 1_000_000).wait(WAIT_S)

    assert code == 3
    assert set(programs.printed.read_text().splitlines()) == {
        f"['show', 'all'] red {programs.directory} True",
        "['0', '1', '2'] True",
    }


def test_it_ends_as_a_program_of_its_own_would(programs: Programs) -> None:
    failing = programs.start("fail")
    assert failing.wait(WAIT_S) == 1
    assert programs.printed.read_text().endswith("OSError: no such thing\n")

    waiting = programs.start("wait")
    programs.wait_printed("waiting")
    assert waiting.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.01)
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(WAIT_S) == -signal.SIGINT
    assert "KeyboardInterrupt" in programs.printed.read_text()
    waiting.kill()  # nothing: its pid may be another's

    killed = programs.start("wait")
    killed.kill()
    assert (killed.wait(WAIT_S), killed.poll()) == (-signal.SIGKILL, -signal.SIGKILL)


def test_none_holds_files_of_another_or_of_the_server(programs: Programs) -> None:
    alone = programs.start("files")
    files = alone.wait(WAIT_S)
    others = [programs.start("wait") for _ in range(5)]

    assert programs.start("files").wait(WAIT_S) == files

    for each in others:
        each.kill()
        each.wait(WAIT_S)


def test_another_server_follows_one_that_was_killed(programs: Programs) -> None:
    orphan = programs.start("wait")
    [server] = (each for each in fork_server.servers.values() if orphan.pid in _children(each))
    os.kill(server, signal.SIGKILL)
    with pytest.raises(ChildProcessError, match="the fork server has ended"):
        orphan.wait(WAIT_S)
    os.kill(orphan.pid, signal.SIGKILL)

    assert programs.start("files").wait(WAIT_S) > 0


def test_another_server_does_what_one_had_not_begun_that_was_killed(programs: Programs) -> None:
    waiting = programs.start("wait")
    [server] = (each for each in fork_server.servers.values() if waiting.pid in _children(each))
    waiting.kill()
    assert waiting.wait(WAIT_S) == -signal.SIGKILL
    suspend(server)
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(programs.start, "files")
        time.sleep(0.1)  # for the request to be sent; a later one finds the server gone
        os.kill(server, signal.SIGKILL)

        assert started.result(WAIT_S).wait(WAIT_S) > 0


def test_the_server_ends_with_the_process_that_uses_it(programs: Programs) -> None:
    user = programs.directory / "user.py"
    user.write_text(
        "import os, time\n"
        "from zkcontroller_testing.fork_server import ForkServer\n"
        "server = ForkServer('program')\n"
        "server.start('program', ['wait'], stdout=1, stderr=2, environment={})\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, str(user)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        [server] = _children(process.pid)
        [program] = _children(server)
        process.kill()
    while Path(f"/proc/{server}").exists():
        os.sched_yield()
    os.kill(program, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
