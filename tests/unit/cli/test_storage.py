"""``zkctl storage``: what it prints, writes and refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_common.protocol.scram import ScramCredential, ScramMechanism, salt_password
from kafka_common.protocol.uuid_text import parse_uuid
from kraft.metadata.bootstrap import decode_bootstrap
from kraft.metadata.records import FeatureLevelRecord, UserScramCredentialRecord
from kraft.node.node_files import load_log_dirs
from kraft.node.scram_arguments import FormatRefused, parse_scram
from replica_manager.configuration.meta_properties import MetaProperties, write_meta_properties
from tests.support.cli_world import CommandResult, Zkctl, installed_zkctl

CLUSTER = "AAECAwQFBgcICQoLDA0ODw"
TOOLS_EXAMPLE = 'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]'


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


def config_in(folder: Path, **changes: str) -> Path:
    properties = {
        "process.roles": "controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://localhost:9093",
        "log.dirs": f"{folder}/a,{folder}/b",
        "metadata.log.dir": f"{folder}/m",
    }
    properties |= {key.replace("_", "."): value for key, value in changes.items()}
    file = folder / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return file


def formatted(zkctl: Zkctl, file: Path, *options: str) -> CommandResult:
    return zkctl("storage", "format", "-t", CLUSTER, "-c", str(file), *options)


def test_every_directory_is_formatted_with_an_id_of_its_own(zkctl: Zkctl, tmp_path: Path) -> None:
    result = formatted(zkctl, config_in(tmp_path))

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"Formatting data directory {tmp_path}/a with metadata.version 3.9-IV0.",
        f"Formatting data directory {tmp_path}/b with metadata.version 3.9-IV0.",
        f"Formatting metadata directory {tmp_path}/m with metadata.version 3.9-IV0.",
    ]
    # It may hold credentials.
    modes = {(tmp_path / name / "bootstrap.checkpoint").stat().st_mode & 0o777 for name in "abm"}
    assert modes == {0o600}
    found = load_log_dirs(tmp_path / name for name in "abm")
    assert len(set(found.directory_ids)) == 3
    assert {(m.node_id, m.cluster_id, m.version) for m in found.found.values()} == {(1, CLUSTER, 1)}
    for name in "abm":
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == [
            "bootstrap.checkpoint",
            "meta.properties",
        ]
    bootstrap = decode_bootstrap((tmp_path / "m" / "bootstrap.checkpoint").read_bytes())
    assert [record for record, _ in bootstrap.records] == [
        FeatureLevelRecord("metadata.version", 21)
    ]


def test_a_formatted_directory_is_refused_unless_it_may_be_ignored(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    file = config_in(tmp_path)
    formatted(zkctl, file)
    (tmp_path / "b" / "meta.properties").unlink()
    before = (tmp_path / "a" / "meta.properties").read_bytes()

    again = formatted(zkctl, file)
    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr == (
        f"Log directory {tmp_path}/a is already formatted. Use --ignore-formatted to ignore this "
        "directory and format the others.\n"
    )
    rest = formatted(zkctl, file, "--ignore-formatted")
    assert rest.exit_code == 0
    assert rest.stdout == (
        f"Formatting data directory {tmp_path}/b with metadata.version 3.9-IV0.\n"
    )
    assert (tmp_path / "a" / "meta.properties").read_bytes() == before
    nothing = formatted(zkctl, file, "-g")
    assert nothing.stdout == "All of the log directories are already formatted.\n"


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (("-f", "metadata.version=22"), "metadata.version 4.0-IV0 is not yet stable."),
        (("-r", "4.0-IV0"), "metadata.version 4.0-IV0 is not yet stable."),
        (("-r", "2.8"), "metadata.version 2.8-IV1 is too old to be supported."),
        (("-r", "nonsense"), "Version nonsense is not a valid version"),
        (
            ("-r", "3.0"),
            "Bootstrap metadata.version before 3.3-IV0 are not supported. Can't load metadata from "
            "format command",
        ),
        (
            ("-r", "3.9", "-f", "metadata.version=20"),
            "Use --release-version instead of --feature metadata.version=X to avoid ambiguity.",
        ),
        (("-f", "metadata.version=999"), "No MetadataVersion with feature level 999"),
        (
            ("-f", "nope=1"),
            "Unsupported feature: nope. Supported features are: kraft.version, transaction.version",
        ),
        (
            ("-f", "kraft.version=1"),
            "Cannot set kraft.version to 1 unless KIP-853 configuration is present. Try removing "
            "the --feature flag for kraft.version.",
        ),
        (("-f", "transaction.version=1"), "No feature:transaction.version with feature level 1"),
        (("-f", "bad"), "Can't parse feature=level string bad: equals sign not found."),
        (("-f", "x=y"), "Can't parse feature=level string x=y: unable to parse y as a short."),
        (
            ("-r", "3.5-IV1", "-S", TOOLS_EXAMPLE),
            "SCRAM is only supported in metadata.version 3.5-IV2 or later.",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_kafkas_words_and_nothing_is_written(
    zkctl: Zkctl, tmp_path: Path, options: tuple[str, ...], refusal: str
) -> None:
    result = formatted(zkctl, config_in(tmp_path), *options)

    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"{refusal}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["server.properties"]


@pytest.mark.parametrize(
    "options", [("--standalone",), ("-N",), ("-I", "1@localhost:9093:JEXY6aqzQY-32P5TStzaFg")]
)
def test_voters_that_the_log_names_are_refused(
    zkctl: Zkctl, tmp_path: Path, options: tuple[str, ...]
) -> None:
    result = formatted(zkctl, config_in(tmp_path), *options)

    assert result.exit_code == 1
    assert "needs kraft.version 1 (KIP-853), which is not built here" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["server.properties"]


def test_a_controller_without_voters_and_a_zookeeper_broker_are_refused(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    without = config_in(
        tmp_path, controller_quorum_voters="", controller_quorum_bootstrap_servers="localhost:9093"
    )
    assert formatted(zkctl, without).stderr.startswith(
        "Because controller.quorum.voters is not set on this controller, you must specify one of"
    )

    (tmp_path / "zk.properties").write_text("zookeeper.connect=localhost:2181\nbroker.id=1\n")
    result = formatted(zkctl, tmp_path / "zk.properties")
    assert result.exit_code == 1
    assert result.stderr.startswith("The kafka configuration file appears to be for a legacy")


def test_another_nodes_or_clusters_directory_is_refused(zkctl: Zkctl, tmp_path: Path) -> None:
    file = config_in(tmp_path)
    (tmp_path / "a").mkdir()
    for meta, refusal in (
        (MetaProperties(2, CLUSTER, 1), "Stored node id 2 doesn't match previous node id 1"),
        (MetaProperties(1, "other", 1), f"Expected {CLUSTER}, but read other"),
    ):
        write_meta_properties(tmp_path / "a", meta)
        result = formatted(zkctl, file, "-g")
        assert result.exit_code == 1
        assert refusal in result.stderr
    assert not (tmp_path / "m").exists()


def test_an_older_release_is_written_as_its_level(zkctl: Zkctl, tmp_path: Path) -> None:
    file = config_in(tmp_path)

    assert "3.7-IV4" in formatted(zkctl, file, "-r", "3.7").stdout

    bootstrap = decode_bootstrap((tmp_path / "a" / "bootstrap.checkpoint").read_bytes())
    assert bootstrap.metadata_version.level == 19


def test_the_inter_broker_protocol_version_is_taken_for_the_release(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    file = config_in(tmp_path, inter_broker_protocol_version="3.6")

    assert "metadata.version 3.6-IV2." in formatted(zkctl, file).stdout


def test_scram_credentials_stand_in_the_bootstrap_file(zkctl: Zkctl, tmp_path: Path) -> None:
    options = ("-S", TOOLS_EXAMPLE, "-S", "SCRAM-SHA-256=[name=bob,password=bob-secret]")
    assert formatted(zkctl, config_in(tmp_path), *options).exit_code == 0

    bootstrap = decode_bootstrap((tmp_path / "m" / "bootstrap.checkpoint").read_bytes())
    alice, bob = (record for record, _ in bootstrap.records[1:])
    assert isinstance(alice, UserScramCredentialRecord)
    assert isinstance(bob, UserScramCredentialRecord)
    assert (alice.name, alice.mechanism, alice.salt, alice.iterations) == ("alice", 2, b"7q", 8192)
    salted = salt_password(ScramMechanism.SCRAM_SHA_256, "bob-secret", bob.salt, 4096)
    expected = ScramCredential.of_salted_password(
        ScramMechanism.SCRAM_SHA_256, bob.salt, salted, 4096
    )
    assert (bob.stored_key, bob.server_key) == (expected.stored_key, expected.server_key)


@pytest.mark.parametrize(
    ("argument", "refusal"),
    [
        ("nothing", "Failed to find equals sign in SCRAM argument 'nothing'"),
        ("SCRAM-SHA-1=[name=a,password=b]", "The add-scram mechanism SCRAM-SHA-1 is not supported"),
        ("SCRAM-SHA-256=name=a]", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[password=b]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=YCE=]", "You must supply 'salt' with"),
        ("SCRAM-SHA-256=[name=a,password=b,salt=!]", "Failed to decode given salt: !"),
        ("SCRAM-SHA-256=[name=a,password=b,x=y]", "Unknown SCRAM configurations: x"),
        ("SCRAM-SHA-256=[name=a,password=b,c]", "No equals sign found in SCRAM component: c"),
        ("SCRAM-SHA-256=[name=a,password=b,iterations=x]", "Failed to parse iterations count: x"),
        (
            "SCRAM-SHA-256=[name=a,password=b,iterations=4095]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM_SHA_256",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=b,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM_SHA_512",
        ),
    ],
)
def test_a_credential_that_is_none_is_refused(argument: str, refusal: str) -> None:
    with pytest.raises(FormatRefused, match=re.escape(refusal)):
        parse_scram(argument, bytes)


def test_info_tells_what_is_there_and_what_is_wrong(zkctl: Zkctl, tmp_path: Path) -> None:
    file = config_in(tmp_path)
    nothing = zkctl("storage", "info", "-c", str(file))
    assert nothing.exit_code == 1
    assert nothing.stdout.splitlines() == [
        "Found problems:",
        f"  {tmp_path}/a does not exist",
        f"  {tmp_path}/b does not exist",
        f"  {tmp_path}/m does not exist",
        "",
    ]

    formatted(zkctl, file)
    result = zkctl("storage", "info", "-c", str(file))
    assert result.exit_code == 0
    first = load_log_dirs([tmp_path / "a"]).directory_ids[0]
    lines = result.stdout.splitlines()
    assert lines[:5] == [
        "Found log directories:", f"  {tmp_path}/a", f"  {tmp_path}/b", f"  {tmp_path}/m", "",
    ]  # fmt: skip
    metadata = re.fullmatch(r"Found metadata: \{(.*)\}", lines[5])
    assert metadata is not None
    pairs = dict(pair.split("=") for pair in metadata[1].split(", "))
    assert list(pairs) == ["cluster.id", "directory.id", "node.id", "version"]
    assert parse_uuid(pairs["directory.id"]) == first


def test_info_compares_the_directories(zkctl: Zkctl, tmp_path: Path) -> None:
    file = config_in(tmp_path)
    formatted(zkctl, file)
    write_meta_properties(tmp_path / "b", MetaProperties(1, "other", 1))
    write_meta_properties(tmp_path / "m", MetaProperties(7, CLUSTER, 1))

    result = zkctl("storage", "info", "-c", str(file), "-o", "json")

    assert result.exit_code == 1
    assert result.json["problems"] == [
        "Mismatched cluster IDs between storage directories.",
        "Mismatched node IDs between storage directories.",
    ]
    assert result.json["metadata"]["node_id"] == "1"


def test_info_knows_the_other_mode(zkctl: Zkctl, tmp_path: Path) -> None:
    kraft = config_in(tmp_path, log_dirs=f"{tmp_path}/a", metadata_log_dir=f"{tmp_path}/a")
    legacy = tmp_path / "zk.properties"
    legacy.write_text(f"zookeeper.connect=localhost:2181\nlog.dirs={tmp_path}/a\n")
    (tmp_path / "a").mkdir()

    write_meta_properties(tmp_path / "a", MetaProperties(1, CLUSTER))
    assert (
        "directories are formatted for legacy mode."
        in zkctl("storage", "info", "-c", str(kraft)).stdout
    )
    assert zkctl("storage", "info", "-c", str(legacy)).exit_code == 0

    write_meta_properties(tmp_path / "a", MetaProperties(1, CLUSTER, 1))
    assert (
        "directories are formatted for a cluster in KRaft mode."
        in zkctl("storage", "info", "-c", str(legacy)).stdout
    )


def test_random_uuids_are_ids(zkctl: Zkctl) -> None:
    texts = [zkctl("storage", "random-uuid").stdout for _ in range(3)]

    assert len({parse_uuid(text.strip()) for text in texts}) == 3


def test_other_formats_are_obeyed(zkctl: Zkctl, tmp_path: Path) -> None:
    result = formatted(zkctl, config_in(tmp_path), "-o", "json")

    assert [row["log_dir"] for row in result.json] == [f"{tmp_path}/{name}" for name in "abm"]
    assert {row["cluster_id"] for row in result.json} == {CLUSTER}
    assert "Formatting metadata directory" in result.stderr
    assert set(zkctl("storage", "random-uuid", "-o", "json").json) == {"uuid"}
