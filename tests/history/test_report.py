"""The report's page, text and verdict, made from the stored findings of a real incident."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from kafka_history.analyses.rules import RULES, worst_first
from kafka_history.report.html import html
from kafka_history.report.markdown import markdown
from kafka_history.report.moments import counted, duration, moment
from kafka_history.report.rules_hit import rules_hit
from kafka_history.report.verdict import verdict

from .stored import REPORT_KEYS, stored_report

Findings = dict[str, Any]


@pytest.fixture(scope="module")
def found() -> Findings:
    return stored_report()


@pytest.fixture(scope="module")
def page(found: Findings) -> str:
    return html(found)


@pytest.fixture
def quiet(found: Findings) -> Findings:
    """The findings of logs in which nothing happened."""
    calm = deepcopy(found)
    for key, value in calm.items():
        if isinstance(value, list) and key not in {"brokers", "kafka_versions", "cluster_ids"}:
            calm[key] = []
    calm["isr_changes"] |= {"by_broker": [], "storms": [], "heat": [], "total": 0}
    calm["leaderless_summary"] = dict.fromkeys(found["leaderless_summary"], 0)
    calm["rules"] = rules_hit(calm)
    calm["verdict"] = verdict(calm)
    return calm


def test_the_keys_that_others_rely_on_are_there(found: Findings) -> None:
    assert set(found) >= REPORT_KEYS
    assert set(found["tenures"][0]) >= {
        "broker",
        "controller_epoch",
        "from_ms",
        "to_ms",
        "ended_by",
    }
    assert set(found["broker_lives"][0]) >= {"broker", "from_ms", "to_ms", "ended_by"}
    assert set(found["leaderless"][0]) >= {"topic", "partition", "from_ms", "to_ms", "cause"}
    assert set(found["rules"][0]) >= {"id", "severity", "title", "evidence"}
    assert set(found["rules"][0]["evidence"][0]) == {"file", "line"}


def test_the_verdict_comes_first_and_names_the_worst(found: Findings, page: str) -> None:
    assert page.index('id="verdict"') < page.index("<svg") < page.index('id="rules"')
    assert found["verdict"]["headline"].startswith("Broker 3 was a zombie controller for 11.3 s")
    assert found["verdict"]["headline"] in page


def test_the_page_asks_the_network_for_nothing(page: str) -> None:
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)[^"']*""", page)
    assert "<script" not in page
    assert "@import" not in page
    assert "url(http" not in page


def test_whatever_a_log_says_stays_text(found: Findings) -> None:
    evil = deepcopy(found)
    evil["leaderless"][0]["topic"] = "<script>alert(1)</script>"
    evil["failed_transitions"][0]["sample"] = "<img src=x onerror=alert(1)>"
    evil["blast_radius"][0]["how"] = "was hit by a | and <b>"
    evil["verdict"] = verdict(evil)

    page, text = html(evil, "<b>title"), markdown(evil)

    assert "<script" not in page
    assert "<img" not in page
    assert "<b>title" not in page
    assert "hit by a \\| and &lt;b>" in text


def test_logs_in_which_nothing_happened_say_so(quiet: Findings) -> None:
    page = html(quiet)

    assert quiet["rules"] == []
    assert "Nothing went wrong in these logs." in page
    assert "verdict calm" in page
    assert "Nothing went wrong in these logs." in markdown(quiet)


def test_empty_logs_make_a_page_as_well(quiet: Findings) -> None:
    quiet |= {"records": 0, "typed": 0, "unknown": 0, "brokers": [], "from_ms": None, "to_ms": None}

    assert "0 records" in html(quiet)
    assert "0 records" in markdown(quiet)


@pytest.fixture
def plots() -> Any:
    """The module.  Imported late, as Matplotlib takes each process that collects tests a second."""
    return importlib.import_module("kafka_history.report.plots")


@pytest.mark.parametrize(
    "figure", ["timeline", "leaderless_over_time", "isr_heat_map", "top_partitions"]
)
def test_every_figure_is_well_formed_and_has_a_name_to_be_read_aloud(
    figure: str, plots: Any, found: Findings, quiet: Findings
) -> None:
    draw = getattr(plots, figure)

    svg = draw(found)

    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"]
    assert draw(found) == svg
    if figure != "timeline":
        assert draw(quiet) == ""


def test_a_cluster_of_a_thousand_brokers_shows_those_that_have_to_do_with_it(
    found: Findings, plots: Any
) -> None:
    many = {**found, "brokers": list(range(1, 1001))}

    svg = plots.timeline(many)

    assert svg.count("broker 1</text>") == 1
    assert svg.count(">broker ") <= plots.BROKERS_MAX + 1


def test_chromium_shows_the_page_without_complaint(page: str, tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    file = tmp_path / "report.html"
    file.write_text(page)

    shown = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=2000",
         f"--screenshot={tmp_path / 'page.png'}", "--window-size=1000,1600", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip

    assert "CONSOLE" not in shown.stderr
    # A page that is not drawn is a few kilobytes of white.
    assert (tmp_path / "page.png").stat().st_size > 60_000


def test_rules_stand_worst_first_and_each_has_one_meaning() -> None:
    ids = [rule.id for rule in RULES]

    assert len(set(ids)) == len(ids)
    assert worst_first(["B07", "P01", "P11", "C07"]) == ["C07", "P11", "P01", "B07"]


def test_times_and_numbers_are_written_for_eyes() -> None:
    assert moment(1_795_198_111_404) == "2026-11-20 18:08:31.404"
    assert [duration(ms) for ms in (14, 3_240, 250_000, 7_500_000, 273_600_000, None)] == [
        "14 ms", "3.2 s", "4 min 10 s", "2 h 5 min", "3 d 4 h", "-",
    ]  # fmt: skip
    assert counted(1, "partition") == "1 partition"
    assert counted(12_000, "partition") == "12,000 partitions"


HOSTILE = '<script>alert("x&y\'")</script>{0}'


def hostile(value: Any) -> Any:
    """The findings, every text of them hostile."""
    match value:
        case dict():
            # A severity is one of four words of our own.
            return {k: v if k == "severity" else hostile(v) for k, v in value.items()}
        case list():
            return [hostile(entry) for entry in value]
        case str():
            return value + HOSTILE
        case _:
            return value


def test_no_text_of_the_findings_becomes_html(found: Findings) -> None:
    page = html(hostile(found), HOSTILE)

    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 500
    tags = re.compile(r"<(/?[a-z0-9]+)[^>]*>")
    without_pictures = re.compile(r"<svg.*?</svg>", re.S)
    of_hostile, of_plain = (
        tags.findall(without_pictures.sub("", text)) for text in (page, html(found))
    )
    assert of_hostile == of_plain
