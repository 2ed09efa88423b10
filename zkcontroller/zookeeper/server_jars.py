"""Where the jars of a ZooKeeper server come from: 10 MB of Maven Central, or pyspark.

The folder that ``ZKCONTROLLER_ZOOKEEPER_JARS`` names is used if it is set.  Otherwise the user's
cache, which ``zkctl cluster fetch`` fills, and then an installed pyspark, which includes
ZooKeeper's jars.  pyspark is not imported; only its folder is looked up.

Only the jars of :data:`ARTEFACTS` are fetched, and each must have the SHA-256 given there.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafka_common.errors import NotInstalled

JARS_VARIABLE: Final = "ZKCONTROLLER_ZOOKEEPER_JARS"
REPOSITORY_VARIABLE: Final = "ZKCONTROLLER_MAVEN_REPOSITORY"
VERSION: Final = "3.9.5"
_DOWNLOAD_TIMEOUT_S: Final = 60
_MOST_JAR_BYTES: Final = 20 * 1024 * 1024

PATTERNS: Final = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "netty-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
)
"""The jars of a folder that go on the class path; a short class path starts faster."""
NEEDED: Final = PATTERNS[:2]


class Artefact(NamedTuple):
    """A jar of a Maven repository."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"

    @property
    def path(self) -> str:
        """The path below the base address of a Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.file}"


_NETTY: Final = "4.1.130.Final"
_LOG4J: Final = "org.apache.logging.log4j"
ARTEFACTS: Final = (
    Artefact(
        "org.apache.zookeeper", "zookeeper", VERSION,
        "936d025db1a85f085edea25048c3f5b3de5fc29329c371a10925e3b78b0b38a0",
    ),
    Artefact(
        "org.apache.zookeeper", "zookeeper-jute", VERSION,
        "abcbc7f9d6c493daa118da6fa3061a201e2c521217526e8535adfb56b629e52a",
    ),
    Artefact(
        "org.slf4j", "slf4j-api", "2.0.13",
        "e7c2a48e8515ba1f49fa637d57b4e2f590b3f5bd97407ac699c3aa5efb1204a9",
    ),
    Artefact(
        _LOG4J, "log4j-api", "2.24.3",
        "5b4a0a0cd0e751ded431c162442bdbdd53328d1f8bb2bae5fc1bbeee0f66d80f",
    ),
    Artefact(
        _LOG4J, "log4j-core", "2.24.3",
        "7eb4084596ae25bd3c61698e48e8d0ab65a9260758884ed5cbb9c6e55c44a56a",
    ),
    Artefact(
        _LOG4J, "log4j-slf4j2-impl", "2.24.3",
        "cdaac22e40ec30c4096e1ebe8c454c8826c0d1c378d7db5d7b3ad166354b0bd3",
    ),
    # The server's metrics; and snappy, which it loads even if snapshots are not compressed.
    Artefact(
        "io.dropwizard.metrics", "metrics-core", "4.1.12.1",
        "cec34936faa625039f4e46123eccaa10a9eb9d9a40c6075830cd81330e259cf9",
    ),
    Artefact(
        "org.xerial.snappy", "snappy-java", "1.1.10.5",
        "0f3f1857ed33116583f480b4df5c0218836c47bfbc9c6221c0d73f356decf37b",
    ),
    # For a TLS port.
    Artefact(
        "io.netty", "netty-buffer", _NETTY,
        "00a522b67ea35cb7b4dd9cf27f85c6c58f5e306785aa045302e5f6b2d4944a87",
    ),
    Artefact(
        "io.netty", "netty-codec", _NETTY,
        "52636bc29bd62120b97bbe5d1d21eab9b1cb2bef8efbb54d2221c5f3fa08d8cd",
    ),
    Artefact(
        "io.netty", "netty-common", _NETTY,
        "53921f28dd5a352b1bed0e1cbcc54d013dc60ffebeae9b2b1e53eabef317e581",
    ),
    Artefact(
        "io.netty", "netty-handler", _NETTY,
        "98c78ec187ca30a4b9775bf6f632f5c9929db6bf06a60e6971f945813880ca0f",
    ),
    Artefact(
        "io.netty", "netty-resolver", _NETTY,
        "48c5b218a89d184e1b601d46433957f515fcefdb4464182b1348bce4f5a18f35",
    ),
    Artefact(
        "io.netty", "netty-transport", _NETTY,
        "1bf573266d271f856705a9984d25449c56a1d73c02a16af12033ceccfe555dbb",
    ),
    Artefact(
        "io.netty", "netty-transport-classes-epoll", _NETTY,
        "1c352508d70aca1ccc3068daac907ad1e9d8dc68b07148d57426730bf0d0c8b6",
    ),
    Artefact(
        "io.netty", "netty-transport-native-unix-common", _NETTY,
        "cf5efc4168597d7cd14695b469418cac2a1134533f9a0c82ef0538d796fd39e1",
    ),
)  # fmt: skip
"""The jars that a server needs."""


def cache_folder() -> Path:
    """The user's folder for fetched jars."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "zkcontroller" / f"zookeeper-{VERSION}"


def find_jars() -> list[Path]:
    """The jars of the server's class path; NotInstalled, which says how to get them, if missing."""
    for folder in _folders():
        if all(any(folder.glob(pattern)) for pattern in NEEDED):
            return [jar for pattern in PATTERNS for jar in sorted(folder.glob(pattern))]
    raise NotInstalled(
        "the jars of a ZooKeeper server, which the embedded ZooKeeper needs, are not here: "
        "zkctl cluster fetch brings them (10 MB, of Maven Central), pip install "
        "'zkcontroller[history]' brings pyspark, which has them (400 MB), "
        f"{JARS_VARIABLE} names a folder that has them; or name a ZooKeeper that runs, host:port"
    )


def _folders() -> Iterator[Path]:
    named = os.environ.get(JARS_VARIABLE)
    if named:
        # No other folder is tried: the user would not know which server runs.
        yield Path(named)
        return
    yield cache_folder()
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "jars"


def fetch_jars(folder: Path, note: Callable[[str], None]) -> list[Path]:
    """Downloads missing jars from Maven Central or ``ZKCONTROLLER_MAVEN_REPOSITORY``.

    Raises NotInstalled if a download fails or a jar has another checksum than expected; the folder
    is then unchanged.
    """
    missing = [each for each in ARTEFACTS if not _is_right(folder / each.file, each)]
    repository = os.environ.get(REPOSITORY_VARIABLE)
    if missing:
        note(f"fetching {len(missing)} jars")
    else:
        note(f"all {len(ARTEFACTS)} jars are in {folder}")
    with tempfile.TemporaryDirectory() as work:
        beside = Path(work)
        if repository:
            for each in missing:
                _download(f"{repository.rstrip('/')}/{each.path}", beside / each.file)
        elif missing:
            _download_from_maven_central(missing, beside)
        for each in missing:
            if not _is_right(beside / each.file, each):
                raise NotInstalled(f"{each.file} is not the one that is expected: not installed")
        folder.mkdir(parents=True, exist_ok=True)
        for each in missing:
            # A rename is atomic: another process sees the whole file or none.
            draft = folder / f".{each.file}.{os.getpid()}"
            shutil.copyfile(beside / each.file, draft)
            draft.replace(folder / each.file)
    return [folder / each.file for each in ARTEFACTS]


def _is_right(path: Path, artefact: Artefact) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == artefact.sha256
    except FileNotFoundError:
        return False


def _download(address: str, target: Path) -> None:
    try:
        with urllib.request.urlopen(address, timeout=_DOWNLOAD_TIMEOUT_S) as source:
            target.write_bytes(source.read(_MOST_JAR_BYTES))
    except (OSError, ValueError) as error:
        raise NotInstalled(f"{address} cannot be fetched: {error}") from error


def _download_from_maven_central(artefacts: Sequence[Artefact], target: Path) -> None:
    # jgo downloads with requests, which trusts only certifi's authorities.  The machine's own store
    # may have more, such as those of a company's network.
    authorities = ssl.get_default_verify_paths().cafile
    if authorities is not None:
        os.environ.setdefault("REQUESTS_CA_BUNDLE", authorities)
    try:
        from jgo.maven import MavenContext
    except ImportError as error:
        raise NotInstalled(
            "fetching from Maven Central needs jgo: pip install 'zkcontroller[zookeeper]'; or let "
            f"{REPOSITORY_VARIABLE} be the address of a Maven repository, and run this again"
        ) from error
    # A temporary repository: after an interrupt jgo would keep a truncated jar in the user's.
    context = MavenContext(repo_cache=target / "repository", timeout=_DOWNLOAD_TIMEOUT_S)
    for each in artefacts:
        component = context.project(each.group, each.name).at_version(each.version)
        try:
            component.artifact().resolve().rename(target / each.file)
        except (OSError, RuntimeError) as error:
            raise NotInstalled(f"{each.file} cannot be fetched: {error}") from error
