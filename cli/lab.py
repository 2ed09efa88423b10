"""``zkctl lab``: the command that runs :mod:`zkcontroller_lab`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkcontroller_cli.console.errors import BadUsage
from zkcontroller_cli.console.options import shared_options, without_contexts

if TYPE_CHECKING:
    from zkcontroller_lab.interventions import Intervention
    from zkcontroller_lab.recording import Recording


@shared_options
@click.command("lab")
@without_contexts
@click.option("--seed", type=click.IntRange(0, 2**53 - 1), help="A run of the simulator.")
@click.option("--lesson", "lesson", metavar="NAME", help="A scripted run; 'list' names them.")
@click.option(
    "--state-changes",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The state-changes.jsonl of a broker; one option for each broker.",
)
@click.option(
    "--act",
    "acts",
    multiple=True,
    metavar="'ACT BROKER@TURN'",
    help="An intervention, as the page shows it: 'kill 2@120', 'delete-controller@300'.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: a free one.")
@click.option("--export", "export", type=click.Path(path_type=Path), help="Write one HTML file.")
@click.option("--save-test", type=click.Path(path_type=Path), help="Write a pytest file.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the recording.")
def command(
    seed: int | None,
    lesson: str | None,
    files: tuple[Path, ...],
    acts: tuple[str, ...],
    port: int,
    export: Path | None,
    save_test: Path | None,
    json_file: Path | None,
) -> None:
    """Watch the controller decide, step by step, on a page of this machine.

    The page plays a run: brokers, controllers, partitions, znodes, requests; and for each step the
    event, the question, the answer, the effects, and the line of code that decided. A seed runs
    the simulator with the controller of production; buttons on the page kill, pause and cut
    brokers at the moment that it shows. Without an option it shows the first lesson. With --export,
    --save-test or --json it writes that file and ends.

    Examples:
      zkctl lab
      zkctl lab --seed 7 --port 8080
      zkctl lab --lesson failover --export failover.html
      zkctl lab --seed 7 --act 'kill 2@120' --save-test test_killed.py
      zkctl lab --state-changes broker-1/logs/state-changes.jsonl
    """
    from zkcontroller_lab.interventions import Intervention, InterventionRefused
    from zkcontroller_lab.lessons import LESSONS
    from zkcontroller_lab.state_change_files import CorruptStateChanges

    if sum((seed is not None, lesson is not None, bool(files))) > 1:
        raise BadUsage("only one of --seed, --lesson and --state-changes")
    if acts and files:
        raise BadUsage("--act goes with a run of the simulator, not with --state-changes")
    if lesson is None and seed is None and not files:
        lesson = next(iter(LESSONS))
    if lesson == "list":
        for name, each in LESSONS.items():
            click.echo(f"{name}: {each.summary}")
        return
    if lesson is not None and lesson not in LESSONS:
        raise BadUsage(f"there is no lesson {lesson!r}, only {', '.join(LESSONS)}")
    # Simulated brokers log as real ones do: on stderr that would seem to be about a real cluster.
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    try:
        interventions = [Intervention.parse(each) for each in acts]
        recording = _recording(seed, lesson, files, interventions)
    except (InterventionRefused, CorruptStateChanges) as refused:
        raise BadUsage(str(refused)) from refused
    written = [export is not None, save_test is not None, json_file is not None]
    if any(written):
        try:
            _write(recording, export, save_test, json_file)
        except OSError as error:
            raise BadUsage(f"{error.filename}: {error.strerror}") from error
    else:
        _serve(recording, files, port)


def _recording(
    seed: int | None,
    lesson: str | None,
    files: tuple[Path, ...],
    interventions: list[Intervention],
) -> Recording:
    from zkcontroller_lab.experiment import run_seed
    from zkcontroller_lab.lessons import run_lesson
    from zkcontroller_lab.state_change_files import read_files

    if seed is not None:
        return run_seed(seed, interventions)
    if lesson is not None:
        return run_lesson(lesson, interventions)
    return read_files(files)


def _write(
    recording: Recording, export: Path | None, save_test: Path | None, json_file: Path | None
) -> None:
    from zkcontroller_lab.page import one_file
    from zkcontroller_lab.saved_test import saved_test

    if export is not None:
        export.write_text(one_file(recording), encoding="utf-8")
        click.echo(f"wrote {export}: {len(recording.steps)} steps", err=True)
    if save_test is not None:
        if recording.source["kind"] == "state-changes":
            raise BadUsage("only a run of the simulator can become a test")
        save_test.write_text(saved_test(recording)[1], encoding="utf-8")
        click.echo(f"wrote {save_test}", err=True)
    if json_file is not None:
        json_file.write_bytes(recording.to_json())
        click.echo(f"wrote {json_file}: {len(recording.steps)} steps", err=True)


def _serve(recording: Recording, files: tuple[Path, ...], port: int) -> None:
    from zkcontroller_lab.server import LOOPBACK, Lab, LabServer

    try:
        listening = LabServer(Lab(recording.source, files), port)
    except OSError as error:
        raise BadUsage(f"port {port} cannot be listened to: {error.strerror}") from error
    with listening as server:
        click.echo(f"http://{LOOPBACK}:{server.server_port}/")
        click.echo("Ctrl-C ends it.", err=True)
        server.serve_forever()
