"""Hypothesis strategies for bodies of the API: what its schema allows, and what it does not."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

Schema: TypeAlias = dict[str, Any]

MOST_WAIT_S: Final = 0.02
_STRANGE: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


def bodies(schema: Schema, names: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Bodies of a schema, half of them valid; ``names`` has values for fields, by name."""
    properties = schema["properties"]
    needed = set(schema["required"])
    fields = {name: _field(name, each, names) for name, each in properties.items()}
    whole = st.fixed_dictionaries(
        {name: each for name, each in fields.items() if name in needed},
        optional={name: each for name, each in fields.items() if name not in needed},
    )
    spoilt = whole.flatmap(
        lambda body: st.dictionaries(
            st.sampled_from([*properties, "nonsense"]), _STRANGE, min_size=1, max_size=2
        ).map(lambda changes: {**body, **changes})
    )
    found = st.one_of(whole, whole, spoilt, _STRANGE)
    return found.map(_impatient) if "timeout_s" in properties else found


def _impatient(body: Any) -> Any:
    """The body without a wait that would last as long as it says, or as the default does."""
    if not isinstance(body, dict):
        return body
    timeout = body.get("timeout_s", MOST_WAIT_S)
    is_long = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    return {**body, "timeout_s": min(timeout, MOST_WAIT_S)} if is_long else body


def _field(name: str, schema: Schema, names: dict[str, Any]) -> st.SearchStrategy[Any]:
    if name == "timeout_s":
        return st.just(MOST_WAIT_S)
    return st.sampled_from(names[name]) if name in names else values(schema)


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Values that a schema allows; the largest ones are left out."""
    match schema:
        case {"enum": options}:
            return st.sampled_from(options)
        case {"anyOf": options}:
            return st.one_of(*map(values, options))
        case {"type": "null"}:
            return st.none()
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "integer"}:
            least = int(schema.get("minimum", -(2**31)))
            most = int(schema.get("maximum", 2**31))
            # Small ones do something, the last ones are at the edge.
            return st.one_of(
                st.integers(least, min(most, least + 4)), st.sampled_from([least, most])
            )
        case {"type": "number"}:
            return st.floats(0.001, MOST_WAIT_S)
        case {"type": "string"}:
            least = schema.get("minLength", 0)
            return st.text(min_size=least, max_size=min(schema.get("maxLength", 20), least + 20))
        case {"type": "array", "items": items}:
            least = schema.get("minItems", 0)
            return st.lists(values(items), min_size=least, max_size=least + 2)
        case {"type": "object"}:
            return st.dictionaries(
                st.sampled_from(["retention.ms", "nonsense", "cleanup.policy"]),
                st.text(max_size=10),
                max_size=2,
            )
        case _:
            raise AssertionError(schema)
