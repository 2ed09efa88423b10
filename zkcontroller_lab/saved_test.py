"""A pytest file that repeats a run: its seed or lesson, its interventions, and how it ended."""

from __future__ import annotations

import re
from typing import Any, Final

from zkcontroller_lab.interventions import Intervention
from zkcontroller_lab.recording import Recording

_NOT_OF_A_NAME: Final = re.compile(r"\W+")
LONGEST_NAME: Final = 80

_INTERVENTION: Final = "from zkcontroller_lab.interventions import Intervention"
_IMPORTS: Final = {
    True: ("from zkcontroller_lab.experiment import run_seed", _INTERVENTION),
    False: (_INTERVENTION, "from zkcontroller_lab.lessons import run_lesson"),
}
"""The imports, in order, of a seed's test and of a lesson's test."""

_TEMPLATE: Final = '''"""{title}, written by zkctl lab.

Run it with pytest, where zkcontroller is installed.
"""

from __future__ import annotations

{imports}

INTERVENTIONS = {interventions}


def test_{name}() -> None:
    recording = {function}({argument}, [Intervention.parse(each) for each in INTERVENTIONS])
    end = recording.frame(len(recording.steps) - 1)

{assertions}
'''


def saved_test(recording: Recording) -> tuple[str, str]:
    """The file's name and its text.

    The test passes with the code that made the recording.  But if the run broke an invariant, the
    test fails until the defect is repaired.
    """
    source = recording.source
    is_seed = source["kind"] == "seed"
    argument: object = source["seed"] if is_seed else source["lesson"]
    acts = [Intervention.from_json(each).as_text() for each in source["interventions"]]
    words = [f"{'seed' if is_seed else 'lesson'} {argument}", *acts]
    name = _NOT_OF_A_NAME.sub("_", "_".join(words)).strip("_")[:LONGEST_NAME].rstrip("_")
    text = _TEMPLATE.format(
        title=_title(is_seed=is_seed, argument=argument, acts=len(acts)),
        imports="\n".join(_IMPORTS[is_seed]),
        function="run_seed" if is_seed else "run_lesson",
        interventions=_listed(acts),
        name=name,
        argument=str(argument) if is_seed else f'"{argument}"',
        assertions=_assertions(recording),
    )
    return f"test_{name}.py", text


def _title(*, is_seed: bool, argument: object, acts: int) -> str:
    what = f"Seed {argument}" if is_seed else f"Lesson {argument}"
    return f"{what} with {acts} intervention{'' if acts == 1 else 's'}"


def _listed(acts: list[str]) -> str:
    if not acts:
        return "()"
    return "".join(["(\n", *(f"    {act!r},\n" for act in acts), ")"]).replace("'", '"')


def _assertions(recording: Recording) -> str:
    if recording.ended.startswith("broken"):
        return '    assert not recording.ended.startswith("broken"), recording.ended'
    end = recording.frame(len(recording.steps) - 1)
    lines = [f'    assert recording.ended == "{recording.ended}"']
    epoch = end.get("znode/controller_epoch")
    if epoch is not None:
        lines.append(f'    assert end["znode/controller_epoch"]["data"] == "{epoch["data"]}"')
    for key, value in end.items():
        if key.startswith("partition/"):
            lines.append(f'    assert end["{key}"]["leader"] == {_number(value.get("leader"))}')
            lines.append(f'    assert end["{key}"].get("isr") == {value.get("isr")}')
    return "\n".join(lines)


def _number(leader: Any) -> str:
    return "None" if leader is None else str(int(leader))
