"""How values are printed into controller.log."""

from __future__ import annotations

from zkcontroller.core.journal import scala_hash_set, scala_set


def test_sets_are_printed_in_the_order_of_the_record() -> None:
    assert scala_set(["b", "a"]) == "Set(b, a)"
    assert scala_set(["e", "b", "a", "d", "c"]) == "HashSet(e, b, a, d, c)"
    assert scala_hash_set([3, 1, 2]) == "HashSet(3, 1, 2)"
