"""The page of ``zkctl lab`` in a real browser: Debian's chromium, without a screen.

Run by ``make browser``, which needs chromium and playwright.  No browser is downloaded.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zkcontroller.state_changes.export import json_line
from zkcontroller.state_changes.record import Kind, StateChange
from zkcontroller_lab.experiment import run_seed
from zkcontroller_lab.lessons import LESSONS, run_lesson
from zkcontroller_lab.page import one_file
from zkcontroller_lab.recording import RecordedLine, RecordedStep, Recording
from zkcontroller_lab.server import Lab, LabServer

pytestmark = pytest.mark.browser

sync_api = pytest.importorskip("playwright.sync_api", reason="pip install zkcontroller[browser]")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
STEP = "document.documentElement.dataset.step"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails its test when a script fails, or when it asks for anything outside."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    page.on(
        "request",
        lambda request: (
            problems.append(request.url)
            if not request.url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:"))
            else None
        ),
    )
    yield page
    context.close()
    assert problems == []


@pytest.fixture(scope="module")
def server() -> Iterator[LabServer]:
    first = {"kind": "seed", "seed": 3, "interventions": []}
    with LabServer(Lab(first, ()), 0) as lab:
        thread = threading.Thread(target=lab.serve_forever)
        thread.start()
        yield lab
        lab.shutdown()
        thread.join()


def opened(page: Any, folder: Path, recording: Recording, step: int | None = None) -> None:
    """The one file of a recording, opened from the disk."""
    path = folder / "run.html"
    path.write_text(one_file(recording), encoding="utf-8")
    page.goto(path.as_uri() + ("" if step is None else f"#step-{step}"))
    page.locator("html[data-step]").wait_for()


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_is_played_from_start_to_end(page: Any, tmp_path: Path, lesson: str) -> None:
    recording = run_lesson(lesson)
    opened(page, tmp_path, recording)
    last = len(recording.steps) - 1
    page.keyboard.press("Home")

    seen = []
    for at, step in enumerate(recording.steps):
        assert page.evaluate(STEP) == str(at)
        if step.caption:
            seen.append(page.locator("#why .caption").inner_text())
        page.keyboard.press("ArrowRight")

    assert page.evaluate(STEP) == str(last), "there is nothing behind the end"
    assert seen == [step.caption for step in recording.steps if step.caption]
    assert recording.ended in page.locator("#position").inner_text()


def test_play_goes_on_by_itself_to_the_end(page: Any, tmp_path: Path) -> None:
    recording = run_lesson("zombie")
    last = len(recording.steps) - 1
    opened(page, tmp_path, recording, step=last - 20)

    page.select_option("#speed", "30")
    page.locator("#position").click()
    page.keyboard.press(" ")

    page.locator(f"html[data-step='{last}']").wait_for()
    page.locator("#play", has_text="Play").wait_for()
    assert page.evaluate(STEP) == str(last)


def test_what_the_page_shows_is_the_frame(page: Any, tmp_path: Path) -> None:
    recording = run_seed(3)
    index = len(recording.steps) // 2
    opened(page, tmp_path, recording, step=index)

    rows = page.locator("#partitions tbody tr")
    shown = {
        rows.nth(at).locator("th button").inner_text(): rows.nth(at).locator("td").all_inner_texts()
        for at in range(rows.count())
    }

    frame = recording.frame(index)
    partitions = {
        key.removeprefix("partition/"): value
        for key, value in frame.items()
        if key.startswith("partition/")
    }
    assert set(shown) == set(partitions)
    for name, value in partitions.items():
        leader = "none (-1)" if value["leader"] == -1 else str(value["leader"])
        isr = ", ".join(map(str, value["isr"]))
        expected = [leader, str(value["leader_epoch"]), isr, str(value["zk_version"])]
        assert shown[name][:4] == expected
    is_whole = "element => element.scrollHeight <= element.clientHeight + 1"
    assert page.locator("#partitions").evaluate(is_whole), "a part of it cannot be seen"
    words = page.locator("#stage").text_content()
    assert f"/controller_epoch = {frame['znode/controller_epoch']['data']} " in words


def test_one_partition_alone_is_shown_and_stepped_through(page: Any, tmp_path: Path) -> None:
    recording = run_seed(3)
    opened(page, tmp_path, recording, step=0)

    page.select_option("#filter", "orders-1")
    page.locator("#position").click()
    page.keyboard.press("ArrowRight")
    at = int(page.evaluate(STEP))

    step = recording.steps[at]
    assert at > 50
    assert "partition/orders-1" in step.changes or any(
        "orders-1" in line.partitions for line in step.lines
    )
    page.keyboard.press("End")
    assert page.locator("#partitions tbody tr").count() == 1


def test_two_moments_are_compared(page: Any, tmp_path: Path) -> None:
    recording = run_lesson("failover")
    captioned = [at for at, step in enumerate(recording.steps) if step.caption]
    opened(page, tmp_path, recording)

    page.keyboard.press("m")
    for _ in captioned[1:6]:
        page.keyboard.press("]")

    compared = page.locator("#compare").inner_text()
    assert f"From step {captioned[0]} to step {captioned[5]}".lower() in compared.lower()
    assert "partition/orders-0 leader: 1 2" in compared
    page.keyboard.press("x")
    assert page.locator("#compare").is_hidden()


def test_a_line_leads_to_the_code_that_decided(page: Any, tmp_path: Path) -> None:
    opened(page, tmp_path, run_lesson("zombie"))

    page.locator("#why .link", has_text="zkcontroller/core/").first.click()

    assert page.locator("#code").is_visible()
    assert "yield" in page.locator("#code .decided").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#code").is_hidden()


def test_no_text_of_a_recording_becomes_markup(page: Any, tmp_path: Path) -> None:
    take = "document.title = 'taken'"
    hostile = f'<img src=x onerror="{take}"></script><script>{take}</script>'
    recording = Recording(hostile, {"kind": "seed", "seed": 1, "interventions": []})
    changes = {
        "broker/1": {"process": hostile, "is_controller": False, "task": hostile},
        f"partition/{hostile}-0": {"leader": None, "replicas": [1], "brokers": {}},
        f"znode/{hostile}": {"version": 0, "data": hostile},
    }
    lines = [RecordedLine("event", hostile, 1, None, (f"{hostile}-0",))]
    recording.steps.append(RecordedStep(0, 0, lines, changes, None, hostile))
    opened(page, tmp_path, recording)

    page.wait_for_timeout(200)
    assert page.locator("main img, main script").count() == 0
    assert page.title() != "taken"
    assert hostile in page.locator("#why .caption").inner_text()


def test_a_reader_intervenes_and_takes_it_back(page: Any, server: LabServer) -> None:
    page.goto(f"http://127.0.0.1:{server.server_port}/#step-300")
    page.locator("html[data-step='300']").wait_for()
    turn = run_seed(3).steps[300].turn

    page.get_by_label("Broker", exact=True).select_option("2")
    page.get_by_role("button", name="kill", exact=True).click()
    page.locator("#acts .done", has_text=f"kill 2 after turn {turn}").wait_for()
    assert page.locator("#why .kind.intervention").count() == 1
    assert page.locator("#stage .dead").count() == 1

    with page.expect_download() as saving:
        page.get_by_role("button", name="Save as test").click()
    text = Path(saving.value.path()).read_text()
    assert saving.value.suggested_filename.startswith("test_seed_3_kill_2")
    assert f'"kill 2@{turn}"' in text

    page.get_by_role("button", name="Take it back").click()
    page.locator("#acts .done").wait_for(state="detached")


def test_a_lesson_is_chosen_on_the_page(page: Any, server: LabServer) -> None:
    page.goto(f"http://127.0.0.1:{server.server_port}/")
    page.locator("html[data-step]").wait_for()

    page.select_option("#source", "lesson:reassignment")

    page.locator("#title", has_text="Reassignment").wait_for()
    assert page.locator("#why .caption").inner_text().startswith("orders-0 is on brokers 1 and 2.")


def test_a_file_that_grows_is_followed(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "state-changes.jsonl"
    elected = StateChange(Kind.CONTROLLER_ELECTED, "controller", 1, controller_epoch=1)
    path.write_bytes(json_line(elected, time_ms=1_000, host="h"))
    with LabServer(Lab({"kind": "state-changes"}, (path,)), 0) as lab:
        thread = threading.Thread(target=lab.serve_forever)
        thread.start()
        page.goto(f"http://127.0.0.1:{lab.server_port}/")
        page.locator("html[data-step='0']").wait_for()

        page.get_by_label("Follow").check()
        resigned = elected._replace(kind=Kind.CONTROLLER_RESIGNED)
        with path.open("ab") as file:
            file.write(json_line(resigned, time_ms=2_500, host="h"))

        page.locator("html[data-step='1']").wait_for()
        assert "controller resigned" in page.locator("#why").inner_text()
        lab.shutdown()
        thread.join()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_colour_schemes(page: Any, tmp_path: Path, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    opened(page, tmp_path, run_lesson("zombie"))
    for _ in range(3):
        page.keyboard.press("]")

    weakest = page.evaluate(WEAKEST_CONTRAST)

    assert weakest["ratio"] >= 4.5, weakest


WEAKEST_CONTRAST = """() => {
  const part = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const weights = [0.2126, 0.7152, 0.0722];
  const light = (rgb) => weights.reduce((sum, w, at) => sum + w * part(rgb[at] / 255), 0);
  const numbers = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = numbers(getComputedStyle(each).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  let weakest = { ratio: 99 };
  const all = "header *, main :not(svg, svg *), footer *";
  for (const element of document.querySelectorAll(all)) {
    const texts = [...element.childNodes].filter((node) => node.nodeType === 3);
    if (!texts.some((node) => node.textContent.trim()) || !element.offsetParent) continue;
    if (element.closest(":disabled, dialog")) continue;
    const one = light(numbers(getComputedStyle(element).color));
    const other = light(ground(element));
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < weakest.ratio) weakest = { ratio, text: element.textContent.slice(0, 40) };
  }
  return weakest;
}"""
