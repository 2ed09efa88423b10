"""``zkctl`` whose local clusters have brokers of a real Kafka; all else about it is as installed.

What ``zkctl cluster start`` and ``broker start`` write, start, note and wait for stays theirs: only
the program that they start is another one.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from benchmarks.kafka_peer import KafkaBroker

_ZKCTL: Final = """\
#!{python}
import sys

sys.executable = "{broker}"

from zkcontroller_cli.main import main

sys.exit(main())
"""
# zkctl calls it as: -P -m replica_manager FILE --override=KEY=VALUE...
_BROKER: Final = """\
#!/bin/bash
[ "$3" = replica_manager ] || exec {python} "$@"
file=$4
overrides=()
for each in "${{@:5}}"; do
    case $each in
        --override=*) overrides+=(--override "${{each#--override=}}") ;;
        *) echo "Kafka has no option like $each" >&2; exit 2 ;;
    esac
done
exec {command} "$file" "${{overrides[@]}}"
"""


def write_zkctl(folder: Path, libs: Path) -> None:
    """Makes the folder, with a command ``zkctl`` in it; ``libs`` has the jars of the Kafka."""
    folder.mkdir()
    # Of this broker only the command is taken: zkctl writes the properties of each that it starts.
    java = KafkaBroker(0, "", folder, heap="512M", libs=libs, is_brief=True)
    command = shlex.join(java.start_command())
    broker = folder / "broker"
    broker.write_text(_BROKER.format(python=sys.executable, command=command))
    zkctl = folder / "zkctl"
    zkctl.write_text(_ZKCTL.format(python=sys.executable, broker=broker))
    for script in (broker, zkctl):
        script.chmod(0o755)
