"""Every table of zkctl in a terminal of 80 columns: no title is cut in a word."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

render = import_module("zkcontroller_cli.console.render")
tables = import_module("zkcontroller_cli.console.tables")

WIDTH = 80
NEEDS_AN_EXTRA = {"screen.screen", "histories.answers"}


def layouts() -> Iterator[tuple[str, Any]]:
    """Every layout of a module, by its name there; new modules are found by themselves."""
    package = import_module("zkcontroller_cli")
    for found in pkgutil.walk_packages(package.__path__, "zkcontroller_cli."):
        short = found.name.removeprefix("zkcontroller_cli.")
        if short.startswith("__") or short in NEEDS_AN_EXTRA:
            continue
        module = import_module(found.name)
        for name, value in vars(module).items():
            if isinstance(value, render.Layout) and (value.columns or value.keys):
                yield f"{short}.{name}", value


LAYOUTS = dict(layouts())
every_layout = pytest.mark.parametrize("name", LAYOUTS)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-1, max_value=2**40),
    st.text(max_size=60),
    st.lists(st.integers(min_value=0, max_value=99), max_size=12),
)


def shown(columns: tuple[str, ...], row: dict[str, Any]) -> list[str]:
    """The lines of a table with that row, as a terminal of 80 columns has them."""
    titles = [tables.title_of(column) for column in columns]
    cells = [render._cell(row.get(column), column) for column in columns]
    text: str = tables.table_text(titles, [tables.Line(cells)], width=WIDTH, is_coloured=False)
    return text.splitlines()


def test_the_layouts_of_all_groups_are_found() -> None:
    assert {"topic._LIST", "partition.LAYOUT", "context._LAYOUT"} <= set(LAYOUTS)
    assert len(LAYOUTS) >= 20


@every_layout
@pytest.mark.parametrize("output_format", [render.Format.TABLE, render.Format.WIDE])
@settings(max_examples=15)
@given(data=st.data())
def test_no_title_is_cut_in_a_word(name: str, output_format: Any, data: st.DataObject) -> None:
    layout = LAYOUTS[name]
    columns = render.columns_of(output_format, layout, {})
    row = {column: data.draw(VALUES, column) for column in columns}

    lines = shown(columns, row)

    words = [word for column in columns for word in tables.title_of(column).split("_")]
    printed = " ".join(lines).replace("_", " ").split()
    assert [word for word in words if word and word not in printed] == []


@every_layout
def test_a_table_fits_80_columns_if_its_values_are_short(name: str) -> None:
    layout = LAYOUTS[name]
    columns = render.columns_of(render.Format.TABLE, layout, {})

    assert max(map(len, shown(columns, dict.fromkeys(columns, 1)))) <= WIDTH
