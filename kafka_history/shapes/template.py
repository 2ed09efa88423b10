"""The notation for the format of a shape's line, and the regular expression made from it.

``<C>ISR for partition <TP> updated to <LAI>.`` is a template.  In it

- text stands for itself;
- ``<name:type>`` is a field of one of :data:`TYPES`; without a type it is as short as possible;
- ``<name:one|other>`` is a field that holds one of the listed words;
- ``<_:type>`` is a field that is not kept;
- ``⟨one|other⟩`` is a choice, ``⟨text⟩?`` may be missing;
- ``<NAME>`` in capitals is a part that many lines share: :data:`PARTS`.

A field may be in several branches of a choice, but no line may fill it twice.  The expression is
anchored at both ends.  Its groups have numbers instead of names, because a regular expression may
use a name only once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

TYPES: Final[dict[str, str]] = {
    "": r".*?",
    "id": r"\d+",
    "int": r"-?\d+",
    "number": r"[\d.E-]+|NaN",
    "bool": r"true|false",
    "hex": r"0x[0-9a-f]+",
    "word": r"\w+",
    "uuid": r"[\w-]+",
    "topic": r"[a-zA-Z0-9._-]+",
    "topics": r"[\w.,-]*",
    "tp": r"[a-zA-Z0-9._-]+-\d+",
    "ints": r"[\d, ]*",
    "map": r"[\d>, -]*",
    "stat": r"[\d,-]*\s*",
    "token": r"\S+?",
    "quoted": r"[^']*",
    "bracket": r"[^\]]*",
    "paren": r"[^)]*",
    "rest": r".*",
    "block": r"[\s\S]*",
}
"""The regular expression for each type of field."""

WRAPPED_TYPES: Final[dict[str, str]] = {
    "option": r"(?:None|Some\(([\w-]+)\))",
    "collection": r"(?:\w+\(|\[)([\d, ]*)[)\]]",
    "brokers": r"\w+\(((?:BrokerState\(brokerId=\d+, brokerEpoch=-?\d+\)(?:, )?)*)\)",
}
"""Types whose value has text around it: ``Some(3)``, ``HashSet(1, 2)``, ``[1, 2]``."""

_LEADER_AND_ISR: Final = (
    "controllerEpoch=<state_controller_epoch:int>, leader=<leader:int>, "
    "leaderEpoch=<leader_epoch:int>, "
)

PARTS: Final[dict[str, str]] = {
    # The writer of the line.  The second form is that of 0.11.
    "C": "[Controller ⟨id=⟩?<broker_id:id>]⟨:⟩? ",
    "SC": "[Controller id=<broker_id:id>⟨ epoch=<controller_epoch:id>⟩?] ",
    "S0": "Controller <broker_id:id> epoch <controller_epoch:id> ",
    "B": "[Broker id=<broker_id:id>] ",
    "B0": "Broker <broker_id:id> ",
    "CE": (
        "⟨[Controller ⟨id=⟩?<broker_id:id>]⟨:⟩? |[ControllerEventThread controllerId=<broker_id:id>"
        "] |[controller-event-thread]: ⟩"
    ),
    "CC": "[Channel manager on controller <broker_id:id>]: ",
    "RT": (
        "⟨[RequestSendThread controllerId=<broker_id:id>] |[⟨<_:bracket>:⟩?Controller-"
        "<broker_id:id>-to-broker-<peer:id>-send-thread]: ⟩"
    ),
    "PSM": (
        "⟨[PartitionStateMachine controllerId=<broker_id:id>] |[Partition state machine on "
        "Controller <broker_id:id>]: ⟩"
    ),
    "RSM": (
        "⟨[ReplicaStateMachine controllerId=<broker_id:id>] |[Replica state machine on "
        "controller <broker_id:id>]: ⟩"
    ),
    "RT_": (
        "⟨[RequestSendThread controllerId=<broker_id:id>] |[⟨<_:bracket>:⟩?Controller-"
        "<broker_id:id>-to-broker-<_:id>-send-thread]: ⟩"
    ),
    "TD": "[Topic Deletion Manager <broker_id:id>]⟨,⟩? ",
    "P": (
        "⟨[Partition <topic:topic>-<partition:id> broker=<broker_id:id>] |Partition "
        "[<topic:topic>,<partition:id>] on broker <broker_id:id>: ⟩"
    ),
    # A part whose name ends with _ keeps no fields: such lines name the partition twice.
    "P_": (
        "⟨[Partition <_:tp> broker=<broker_id:id>] |Partition [<_:topic>,<_:id>] on broker "
        "<broker_id:id>: ⟩"
    ),
    "RM": "⟨[ReplicaManager broker=<broker_id:id>] |[Replica Manager on Broker <broker_id:id>]: ⟩",
    "RF": (
        "⟨[ReplicaFetcher replicaId=<broker_id:id>, leaderId=<leader:id>, fetcherId="
        "<fetcher_id:id>] |[ReplicaFetcherThread-<fetcher_id:id>-<leader:id>]⟨:|,⟩ "
        "|[ReplicaAlterLogDirs<_:bracket>]⟨:⟩? ⟩"
    ),
    "LG": (
        "[⟨Log|UnifiedLog|LogLoader|LocalLog|MergedLog⟩ partition=<topic:topic>-<partition:id>, "
        "dir=<log_dir:bracket>] "
    ),
    "XP": "[<prefix:bracket>]⟨:|,⟩? ",
    # The subject of the line.
    "TP": "<topic:topic>-<partition:id>",
    "TP0": "[<topic:topic>,<partition:id>]",
    "TPA": "⟨[<topic:topic>,<partition:id>]|<topic:topic>-<partition:id>⟩",
    "NODE": "<host:token>:<port:id> (id: <peer:int> rack: <rack:paren>)",
    # States in all their forms (LeaderAndIsr.toString and similar methods).
    "LAI": (
        "⟨LeaderAndIsr(leader=<leader:int>, leaderEpoch=<leader_epoch:int>, "
        "⟨isr=<isr:collection>|isrWithBrokerEpoch=<isr:brokers>⟩"
        "⟨, leaderRecoveryState=<leader_recovery_state:word>⟩?, "
        "⟨zkVersion|partitionEpoch⟩=<zk_version:int>)"
        '|{"leader":<leader:int>,"leader_epoch":<leader_epoch:int>,"isr":[<isr:ints>]}⟩'
    ),
    "LICE": (
        "(Leader:<leader:int>,ISR:<isr:ints>⟨,LeaderRecoveryState:<leader_recovery_state:word>⟩?,"
        "LeaderEpoch:<leader_epoch:int>⟨,ZkVersion:<zk_version:int>⟩?,"
        "ControllerEpoch:<state_controller_epoch:int>)"
    ),
    "LISR": (
        f"⟨LeaderAndIsrPartitionState(topicName='<_:quoted>', partitionIndex=<_:id>, "
        f"{_LEADER_AND_ISR}isr=[<isr:ints>], ⟨zkVersion|partitionEpoch⟩=<zk_version:int>, "
        "replicas=[<replicas:ints>], addingReplicas=[<adding_replicas:ints>], "
        "removingReplicas=[<removing_replicas:ints>], isNew=<is_new:word>"
        "⟨, leaderRecoveryState=<leader_recovery_state:id>⟩?)"
        f"|PartitionState({_LEADER_AND_ISR}isr=<isr:ints>, zkVersion=<zk_version:int>, "
        "replicas=<replicas:ints>⟨, isNew=<is_new:word>⟩?)⟩"
    ),
    # As LISR, but topic and partition are kept.
    "LISRT": (
        "LeaderAndIsrPartitionState(topicName='<topic:quoted>', partitionIndex=<partition:int>, "
        f"{_LEADER_AND_ISR}isr=[<isr:ints>], ⟨zkVersion|partitionEpoch⟩=<zk_version:int>, "
        "replicas=[<replicas:ints>], addingReplicas=[<adding_replicas:ints>], "
        "removingReplicas=[<removing_replicas:ints>], isNew=<is_new:word>"
        "⟨, leaderRecoveryState=<leader_recovery_state:id>⟩?)"
    ),
    "UMP": (
        "⟨UpdateMetadataPartitionState(topicName='<_:quoted>', partitionIndex=<_:id>, |"
        f"PartitionState(⟩{_LEADER_AND_ISR}isr=[<isr:ints>], zkVersion=<zk_version:int>, "
        "replicas=[<replicas:ints>], offlineReplicas=[<offline_replicas:ints>])"
    ),
    "SRP": (
        "StopReplicaPartitionState(partitionIndex=<_:id>, leaderEpoch=<leader_epoch:int>, "
        "deletePartition=<delete_partition:bool>)"
    ),
    "RA": (
        "ReplicaAssignment(replicas=<replicas:ints>, addingReplicas=<adding_replicas:ints>, "
        "removingReplicas=<removing_replicas:ints>)"
    ),
}
"""Templates of parts that many lines share, by name."""

_TOKEN: Final = re.compile(r"<([A-Z][A-Z0-9_]*)>|<([a-z_][a-z0-9_]*)(?::([^>]*))?>|⟨|\||⟩\??")


class Expression(NamedTuple):
    """A template, compiled."""

    pattern: str
    """The regular expression, with ``^`` at its start and ``$`` at its end."""
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    """Each field with the numbers of its groups; in one match at most one of them holds text."""
    stems: tuple[str, ...]
    """The literal texts with which a matching line may begin, after the bracket with its writer.

    If that is the whole line, the text ends with a blank.
    """


def compile_template(template: str) -> Expression:
    """Compiles a template.

    Raises:
        ValueError: an unknown type or part, an unclosed choice, or a field twice in one line.
    """
    compiler = _Compiler(_expand(template, PARTS))
    whole = compiler.sequence(top=True)
    begins = _Compiler(_expand(template, {**PARTS, **_OLD_SPEAKERS})).sequence(top=True)
    groups: dict[str, list[int]] = {}
    for number, name in enumerate(compiler.names, start=1):
        groups.setdefault(name, []).append(number)
    return Expression(
        f"^{whole.pattern}$",
        tuple((name, tuple(numbers)) for name, numbers in groups.items()),
        tuple(dict.fromkeys(map(_stem, begins.stems))),
    )


def without_speaker(text: str) -> str:
    """The text after a leading ``[writer] ``, which may end with a colon or a comma."""
    bracket = text.find("]")
    return text[bracket + 1 :].lstrip(" :,") if text.startswith("[") and bracket > 0 else text


SPEAKER: Final = (
    r"^(?:\[[^\]]*\][:,]* ?|(?:Controller \d+ epoch \d+|Broker \d+|Partition \[[^\]]*\] on broker "
    r"\d+:) )"
)
"""The writer of a line, in all versions: the text before the :attr:`Expression.stems`."""

# Kafka 0.11 writes no bracket around the writer of a line; the stems have one in all versions.
_OLD_SPEAKERS: Final = dict.fromkeys(("S0", "B0", "P", "P_"), "[x] ")


def _stem(beginning: str) -> str:
    return without_speaker(beginning[:-1] if beginning.endswith(_OPEN) else f"{beginning} ")


def _expand(template: str, parts: Mapping[str, str]) -> str:
    def part(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0]
        if name not in parts:
            raise ValueError(f"no part <{name}>")
        return _expand(parts[name], parts)

    return _TOKEN.sub(part, template)


# Last character of a stem after which a field follows.
_OPEN: Final = "\0"


class _Sequence(NamedTuple):
    pattern: str
    fields: frozenset[str]
    stems: list[str]
    """Literal beginnings; after one that ends with _OPEN a field follows."""


class _Compiler:
    """One pass over a template without parts, from left to right."""

    def __init__(self, text: str) -> None:
        self.names: list[str] = []
        self._text = text
        self._position = 0

    def sequence(self, *, top: bool = False) -> _Sequence:
        """Compiles the text up to the next ``|`` or ``⟩`` of this level."""
        pattern = ""
        fields: frozenset[str] = frozenset()
        stems = [""]
        while self._position < len(self._text):
            match = _TOKEN.search(self._text, self._position)
            while match is not None and top and match[0] == "|":
                match = _TOKEN.search(self._text, match.end())
            literal = self._text[self._position : match.start() if match else None]
            pattern += _escape(literal)
            stems = [_grow(stem, literal) for stem in stems]
            if match is None:
                self._position = len(self._text)
            elif match[0][0] in "|⟩":
                self._position = match.start()
                return _Sequence(pattern, fields, stems)
            else:
                self._position = match.end()
                item = self._choice() if match[0] == "⟨" else self._field(match[2], match[3] or "")
                if twice := fields & item.fields:
                    raise ValueError(f"{sorted(twice)} twice in one line of {self._text}")
                pattern += item.pattern
                fields |= item.fields
                stems = [_grow(stem, more) for stem in stems for more in item.stems]
        if not top:
            raise ValueError(f"unclosed choice in {self._text}")
        return _Sequence(pattern, fields, stems)

    def _choice(self) -> _Sequence:
        branches = [self.sequence()]
        while self._text[self._position] == "|":
            self._position += 1
            branches.append(self.sequence())
        self._position += 1
        mark = "?" if self._text.startswith("?", self._position) else ""
        self._position += len(mark)
        return _Sequence(
            f"(?:{'|'.join(branch.pattern for branch in branches)}){mark}",
            frozenset().union(*(branch.fields for branch in branches)),
            [stem for branch in branches for stem in branch.stems] + [""] * len(mark),
        )

    def _field(self, name: str, kind: str) -> _Sequence:
        pattern = WRAPPED_TYPES.get(kind)
        if pattern is None:
            inner = TYPES.get(kind, "|".join(map(_escape, kind.split("|"))))
            if kind not in TYPES and "|" not in kind:
                raise ValueError(f"no type {kind!r} in {self._text}")
            pattern = f"(?:{inner})" if name == "_" else f"({inner})"
        # In stems, ``#`` stands for any number.
        number = "#" if kind in ("id", "int") else ""
        stems = [number + _OPEN] if kind in TYPES or kind in WRAPPED_TYPES else kind.split("|")
        if name == "_":
            return _Sequence(pattern, frozenset(), stems)
        self.names.append(name)
        return _Sequence(pattern, frozenset([name]), stems)


def _grow(stem: str, more: str) -> str:
    if not stem.endswith(_OPEN):
        return stem + more
    # A field inside the first bracket belongs to the writer, which is cut off later.
    speaks = stem.startswith("[") and "]" not in stem
    return stem[:-1] + more if speaks else stem


def _escape(text: str) -> str:
    return re.sub(r"([\\.^$*+?{}\[\]()|])", r"\\\1", text)
