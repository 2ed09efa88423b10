"""The documentation's site: its pages made of the code, and what its own pages claim."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Final

import click
import pytest

from kafka_common.observability.meanings import MEANING_OF
from kafka_common.protocol.api_versions import APIS
from replica_manager.configuration.broker_keys import BROKER_KEYS, INTERNAL_KEYS
from replica_manager.configuration.topic_keys import TOPIC_KEYS
from replica_manager.server.context import versions_of
from replica_manager.server.zookeeper_handlers import HANDLERS
from scripts.site_pages import cell, pages
from scripts.write_man_pages import members

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
COMPATIBILITY: Final = (DOCS / "compatibility.md").read_text(encoding="utf-8")


def test_every_document_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    decisions = {path for path in there if path.startswith("decisions/")}

    assert listed == there - decisions | {"decisions/README.md"} | set(pages())


def test_the_reference_has_every_command() -> None:
    page = pages()["reference/zkctl.md"]
    root: click.Group = import_module("zkcontroller_cli.main").zkctl
    names = [
        f"### {name} {verb}\n"
        for name, group in members(root)
        if isinstance(group, click.Group)
        for verb, _ in members(group)
    ]

    assert len(names) > 60
    assert [name for name in names if name not in page] == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("broker-configuration", set(BROKER_KEYS) - INTERNAL_KEYS),
        ("topic-configuration", set(TOPIC_KEYS)),
        ("metrics", set(MEANING_OF)),
    ],
)
def test_the_reference_has_every_key_and_every_metric(page: str, names: set[str]) -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", pages()[f"reference/{page}.md"], re.MULTILINE)

    assert sorted(rows) == sorted(names)


def test_the_reference_has_every_api_that_a_broker_answers_with_its_versions() -> None:
    rows = re.findall(
        r"^\| (\w+) \| (\d+) \| (\d+) to (\d+) \|",
        pages()["reference/broker-apis.md"],
        re.MULTILINE,
    )

    assert {(int(key), (int(least), int(most))) for _, key, least, most in rows} == {
        *versions_of(HANDLERS).items()
    }
    assert [name for name, key, *_ in rows if name != APIS[int(key)].name] == []


def test_what_markdown_would_read_as_its_own_is_escaped() -> None:
    assert cell("a|b *c*  <d>\n[e]") == r"a\|b \*c\* \<d\> \[e\]"


def test_the_page_of_the_scope_lists_every_api_that_a_broker_answers() -> None:
    wire = (DOCS / "scope.md").read_text(encoding="utf-8").partition("\n## Wire\n")[2]
    words = set(re.findall(r"\w+", wire.partition("\n## ")[0]))
    listed = {api.name for api in APIS.values() if api.name in words}

    assert listed == {APIS[key].name for key in HANDLERS}


def test_the_tests_that_compatibility_names_are_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", COMPATIBILITY)

    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_versions_of_clients_are_those_that_are_installed_for_the_tests() -> None:
    locked = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([\w-]+)[^|]*\| (\d+\.\d+\.\d+) \|", COMPATIBILITY, re.MULTILINE))
    packages = ("confluent-kafka", "aiokafka", "kafka-python")
    kafkajs = (ROOT / "tests" / "clients" / "kafkajs" / "package.json").read_text(encoding="utf-8")

    assert [name for name in packages if f"\n{name}=={rows[name]} " not in locked] == []
    assert f'"kafkajs": "{rows["kafkajs"]}"' in kafkajs
