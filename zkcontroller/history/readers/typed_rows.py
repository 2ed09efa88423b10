"""From a record to a typed row: which shape it has, and what its fields say.

Everything is SQL for Spark's own functions.  What costs time is regular expressions, so a record
meets one or two of the 362: the logger and the first words of the message select those that can fit
(:func:`candidates`, joined to the rows).  One ``regexp_replace`` both recognises the line and takes
it apart: its replacement lists every column's groups between separators, at fixed positions, and a
group that took no part adds nothing, which is how the old and the new wording of a field end up in
the same column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from zkcontroller.history.event_schema import EVENT_COLUMNS
from zkcontroller.history.shapes.catalogue import Shape, shapes
from zkcontroller.history.shapes.template import SPEAKER

# Marks a recognised line; between columns; between pairs; between a name and its value.
_MARK: Final = "\u0002"
_NEXT: Final = "\u0001"
_PAIR: Final = "\u0004"
_IS: Final = "\u0003"

_TYPE_OF: Final = {column.name: column.type for column in EVENT_COLUMNS}
_FROM_SHAPE: Final = ("shape", "kind", "story", "component")


def _slots(known: Iterable[Shape]) -> tuple[str, ...]:
    fields = {name for shape in known for name, _ in shape.expression.groups}
    constants = {name for shape in known for name, _ in shape.sets}
    return tuple(column.name for column in EVENT_COLUMNS if column.name in fields | constants)


SLOTS: Final = _slots(shapes())
"""The columns that shapes fill, in the order of the schema."""


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


BODY: Final = (
    "regexp_replace(cast(substring(cast(message AS binary), 1, 300) AS string), "
    f"{_literal(SPEAKER)}, '')"
)
"""How ``message`` goes on behind who speaks; its beginning is enough."""

WORDS: Final = (
    "CASE WHEN left(body, 1) BETWEEN '0' AND '9' THEN '#' ELSE substring_index(body, ' ', 2) END"
)
"""The first two words of ``body``; ``#`` for a number."""


def parts() -> str:
    """``recognised`` as an array: shape, kind, `story`, component, SLOTS, ``values``' pairs.

    Null where no shape fits.
    """
    return f"CASE WHEN startswith(recognised, '{_MARK}') THEN split(recognised, '{_NEXT}') END"


def typed_columns() -> dict[str, str]:
    """The columns of the schema that come out of ``parts``, by name."""
    columns = {name: f"nullif(get(parts, {n}), '')" for n, name in enumerate(_FROM_SHAPE)}
    columns["shape"] = "substr(get(parts, 0), 2)"
    for place, name in enumerate(SLOTS, start=len(_FROM_SHAPE)):
        columns[name] = _cast(name, f"get(parts, {place})")
    pairs = f"get(parts, {len(_FROM_SHAPE) + len(SLOTS)})"
    columns["values"] = (
        f"CASE WHEN {pairs} != '' THEN map_filter("
        f"str_to_map({pairs}, '{_PAIR}', '{_IS}'), (name, value) -> value != '') END"
    )
    return columns


class Candidates(NamedTuple):
    """The shapes that a line of these loggers with these first words may have."""

    loggers: str
    """A logger's full name, or a pattern such as ``kafka.log.*``."""
    words: str
    """The first two words of the body, or the first, or none: whatever all of them begin with."""
    shapes: tuple[Shape, ...]


def candidates() -> list[Candidates]:
    """The whole table: for every kind of logger and beginning, which shapes to try, in order."""
    named = {name for shape in shapes() for name in shape.loggers}
    return [entry for loggers in sorted(named) for entry in candidates_of(loggers)]


def candidates_of(loggers: str) -> list[Candidates]:
    """The part of it for one kind of logger."""
    said = [shape for shape in shapes() if shape.is_said_by(loggers)]
    keys = {words for shape in said for words in _first_words(shape)}
    return [
        Candidates(loggers, words, tuple(fitting))
        for words in sorted(keys | {""})
        if (fitting := [s for s in said if any(_begins(words, k) for k in _first_words(s))])
    ]


def _first_words(shape: Shape) -> set[str]:
    """Of each stem two words, one or none: those that end within it."""
    return {
        "#" if stem.startswith("#") else " ".join(stem.split(" ")[:-1][:2])
        for stem in shape.expression.stems
    }


def _begins(words: str, key: str) -> bool:
    """Whether a line that begins with ``words`` can be one that begins with ``key``."""
    return not key or words == key or words.startswith(key + " ")


def logger_kind() -> str:
    """``logger`` as :attr:`Candidates.loggers` names it: itself, or the pattern that fits best."""
    named = {name for shape in shapes() for name in shape.loggers}
    exact = ", ".join(_literal(name) for name in sorted(named) if "*" not in name)
    # kafka.controller.*LeaderSelector stands before kafka.controller.* and that before kafka.*.
    patterns = sorted((name for name in named if "*" in name), key=lambda n: (-len(n), n))
    return _case(
        [
            (f"logger IN ({exact})", "logger"),
            *(
                (f"logger LIKE {_literal(name.replace('*', '%'))}", _literal(name))
                for name in patterns
            ),
        ],
        "NULL",
    )


def attempt(place: int) -> str:
    """``recognised`` after the candidate at that place was tried, if none before it did fit.

    ``ranks`` are the candidates.  The expressions come out of one constant, not out of rows, which
    would carry kilobytes of them around, and not out of branches of the plan: one that held 362
    regular expressions would take longer to prepare, for every task anew, than most logs to read.
    """
    patterns = "\u0005".join(shape.expression.pattern for shape in shapes())
    replacements = "\u0005".join(replacement(shape) for shape in shapes())
    rank = f"get(ranks, {place})"
    return (
        f"CASE WHEN {rank} IS NULL OR startswith(recognised, '{_MARK}') THEN recognised "
        f"ELSE regexp_replace(recognised, get(split({_literal(patterns)}, '\u0005'), {rank}), "
        f"get(split({_literal(replacements)}, '\u0005'), {rank})) END"
    )


def replacement(shape: Shape) -> str:
    """What a recognised line becomes, in the language of Java's ``Matcher.replaceAll``."""
    groups = {name: "".join(f"${n}" for n in ns) for name, ns in shape.expression.groups}
    filled: Mapping[str, str] = {**dict(shape.sets), **groups}
    others = [f"{name}{_IS}{text}" for name, text in groups.items() if name not in SLOTS]
    parts = [
        f"{_MARK}{shape.id}", shape.kind, shape.story, shape.component,
        *(filled.get(name, "") for name in SLOTS),
        _PAIR.join(others),
    ]  # fmt: skip
    return _NEXT.join(parts)


def _case(branches: Sequence[tuple[str, str]], otherwise: str) -> str:
    if not branches:
        return otherwise
    whens = " ".join(f"WHEN {condition} THEN {result}" for condition, result in branches)
    return f"CASE {whens} ELSE {otherwise} END"


def _cast(name: str, text: str) -> str:
    kind = _TYPE_OF[name]
    if name == "leader_recovery_state":
        return f"CASE WHEN {text} IN ('RECOVERED', '0') THEN 0 WHEN {text} != '' THEN 1 END"
    if kind == "array<int>":
        # «BrokerState(brokerId=1, brokerEpoch=-1), …» since 3.5, «1,2» or «1, 2» before.
        plain = (
            f"CASE WHEN startswith({text}, 'B') THEN regexp_replace({text}, "
            r"'BrokerState\\(brokerId=(\\d+), brokerEpoch=-?\\d+\\)', '$1') "
            f"ELSE {text} END"
        )
        return (
            f"CASE WHEN {text} != '' THEN "
            f"try_cast(split(replace({plain}, ' ', ''), ',') AS array<int>) END"
        )
    if kind == "string":
        return f"nullif({text}, '')"
    return f"try_cast(nullif({text}, '') AS {kind})"
