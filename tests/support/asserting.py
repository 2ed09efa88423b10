"""Finds the tests that cannot fail: those without any assertion, their helpers' included.

A function *asserts* when it says ``assert``, calls ``pytest.raises``, ``warns`` or ``fail``, raises
an ``AssertionError`` of any kind, or names a function or class of these folders that does so.  A
method is known by its name alone: ``world.check()`` asserts when every class that the module can
reach by its imports asserts in its method ``check``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from tests.support.sources import parsed

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
EXPECTATIONS: Final = {"raises", "warns", "fail"}
ENTERED: Final = {"__init__", "__post_init__", "__enter__", "__exit__", "__aenter__", "__aexit__"}
"""The methods that run where only the name of a class stands."""


@dataclass(eq=False)
class Module:
    """One file, and what a name in it can mean."""

    path: Path
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The module and the name in it, by the name here."""

    def __post_init__(self) -> None:
        for node in parsed(self.path).body:
            if isinstance(node, FUNCTION):
                self.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = (node.module, alias.name)

    def methods(self) -> Iterator[Function]:
        """Those of every class."""
        for each in self.classes.values():
            yield from (node for node in each.body if isinstance(node, FUNCTION))

    def tests(self) -> Iterator[Function]:
        """What pytest would run of this file."""
        for function in (*self.functions.values(), *self.methods()):
            if function.name.startswith("test"):
                yield function


class Suite:
    """Every module of some folders below a root."""

    def __init__(self, root: Path, folders: Iterable[str]) -> None:
        self._root = root
        self._modules = {
            ".".join(path.relative_to(root).with_suffix("").parts): Module(path)
            for folder in folders
            for path in sorted((root / folder).rglob("*.py"))
        }
        self._asserts: dict[Function, bool] = {}
        self._methods: dict[Module, dict[str, list[tuple[Module, Function]]]] = {}

    def without_assertion(self) -> list[str]:
        """``file::test`` of each test that nothing can make fail."""
        return [
            f"{module.path.relative_to(self._root)}::{test.name}"
            for module in self._modules.values()
            if module.path.name.startswith("test_")
            for test in module.tests()
            if not self._does_assert(module, test)
        ]

    def _does_assert(self, module: Module, function: Function) -> bool:
        if function not in self._asserts:
            self._asserts[function] = False  # should it call itself
            nodes = [node for statement in function.body for node in ast.walk(statement)]
            self._asserts[function] = any(
                self._is_assertion(module, node) for node in nodes
            ) or any(
                not _is_argument(function, node) and self._names_one_that_does(module, node)
                for node in nodes
            )
        return self._asserts[function]

    def _is_assertion(self, module: Module, node: ast.AST) -> bool:
        match node:
            case ast.Assert():
                return True
            case ast.Attribute(value=ast.Name(id="pytest"), attr=name):
                return name in EXPECTATIONS
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name)) | ast.Name(id=name)):
                return self._is_assertion_error(module, name)
            case _:
                return False

    def _is_assertion_error(self, module: Module, name: str) -> bool:
        if name == "AssertionError":
            return True
        found = self._class(module, name)
        return found is not None and any(
            isinstance(base, ast.Name) and self._is_assertion_error(found[0], base.id)
            for base in found[1].bases
        )

    def _names_one_that_does(self, module: Module, node: ast.AST) -> bool:
        match node:
            case ast.Name(id=name):
                return any(self._does_assert(*named) for named in self._named(module, name))
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                source = self._modules.get(".".join(module.imported.get(name, ())))
                if source is not None:
                    return any(self._does_assert(*each) for each in self._named(source, attribute))
                methods = self._reachable_methods(module).get(attribute, [])
                return bool(methods) and all(self._does_assert(*each) for each in methods)
            case _:
                return False

    def _named(self, module: Module, name: str) -> Iterator[tuple[Module, Function]]:
        if name in module.functions:
            yield module, module.functions[name]
        elif (found := self._class(module, name)) is not None:
            source, definition = found
            for node in definition.body:
                if isinstance(node, FUNCTION) and node.name in ENTERED:
                    yield source, node
        elif (imported := self._imported(module, name)) is not None:
            yield from self._named(*imported)

    def _class(self, module: Module, name: str) -> tuple[Module, ast.ClassDef] | None:
        if name in module.classes:
            return module, module.classes[name]
        imported = self._imported(module, name)
        return None if imported is None else self._class(*imported)

    def _imported(self, module: Module, name: str) -> tuple[Module, str] | None:
        source, original = module.imported.get(name, ("", ""))
        return (self._modules[source], original) if source in self._modules else None

    def _reachable_methods(self, module: Module) -> dict[str, list[tuple[Module, Function]]]:
        if module not in self._methods:
            methods = self._methods[module] = {}
            for each in self._reachable(module):
                for method in each.methods():
                    methods.setdefault(method.name, []).append((each, method))
        return self._methods[module]

    def _reachable(self, module: Module) -> set[Module]:
        """The module, and what it imports of these folders, and so on."""
        found, waiting = {module}, [module]
        while waiting:
            for source, name in waiting.pop().imported.values():
                for candidate in (source, f"{source}.{name}"):
                    imported = self._modules.get(candidate)
                    if imported is not None and imported not in found:
                        found.add(imported)
                        waiting.append(imported)
        return found


def _is_argument(function: Function, node: ast.AST) -> bool:
    """Whether a name means an argument; a fixture has the name of the function that makes it."""
    return isinstance(node, ast.Name) and any(
        argument.arg == node.id for argument in (*function.args.args, *function.args.kwonlyargs)
    )
