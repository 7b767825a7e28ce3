"""Removes one statement or condition of a module at a time and runs tests: a rule whose removal none of them notices
has no test.

    python -m tests.support.removals proxy/mysql/reads/grants.py tests/proxy/mysql/reads/test_grants.py

prints each removal that the tests do not notice, and exits with 1 if there is one. Nothing is written: the tests'
process loads the module without the rule (this file is its plugin).
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

ROOT = Path(__file__).parents[2]
REMOVED = "UPWELL_REMOVED"  # `module:number` in the environment of the tests' process
LONGEST = 300.0  # seconds of one run; a rule without which nothing ends is noticed


class Removal(ast.NodeTransformer):
    """Leaves out the rule of that number; `what` says which it was, "" where there is none."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.what = ""

    def _is_it(self, node: ast.stmt | ast.expr, what: str) -> bool:
        self._left -= 1
        if self._left == -1:
            self.what = f"{node.lineno}: {what}"
        return self._left == -1

    def visit_If(self, node: ast.If) -> ast.AST:
        if self._is_it(node, f"if {ast.unparse(node.test)}"):
            return ast.copy_location(ast.If(ast.Constant(False), node.body, node.orelse), node)
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        for value in node.values:
            if self._is_it(value, f"{'and' if isinstance(node.op, ast.And) else 'or'} {ast.unparse(value)}"):
                rest = [other for other in node.values if other is not value]
                left = ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0]
                return ast.copy_location(left, node)
        return self.generic_visit(node)

    def _simple(self, node: ast.stmt) -> ast.AST:
        if self._is_it(node, ast.unparse(node)):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self._simple(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return self._simple(node) if self._in_function else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return self._simple(node)

    _in_function = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        before, self._in_function = self._in_function, True
        found = self.generic_visit(node)
        self._in_function = before
        return found


def without(text: str, number: int) -> tuple[ast.Module, str]:
    removal = Removal(number)
    tree = cast(ast.Module, removal.visit(ast.parse(text)))
    return ast.fix_missing_locations(tree), removal.what


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, module: str, number: int) -> None:
        self._module = module
        self._number = number

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != self._module:
            return None
        return importlib.util.spec_from_loader(name, self, origin=str(_path_of(name)))

    def exec_module(self, module: ModuleType) -> None:
        path = _path_of(module.__name__)
        module.__file__ = str(path)
        tree, _ = without(path.read_text(), self._number)
        exec(compile(tree, str(path), "exec"), vars(module))


def _path_of(module: str) -> Path:
    return ROOT / (module.replace(".", "/") + ".py")


if REMOVED in os.environ:
    _module, _, _number = os.environ[REMOVED].partition(":")
    sys.meta_path.insert(0, _Loader(_module, int(_number)))


def unnoticed(path: str, tests: Sequence[str], first: int, last: int) -> Iterator[str]:
    """The removals that the tests do not notice."""
    text, module = (ROOT / path).read_text(), path.removesuffix(".py").replace("/", ".")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "tests.support.removals", "-p", "no:cacheprovider"]
    for number in range(first, last):
        what = without(text, number)[1]
        if not what:
            return
        environment = {**os.environ, REMOVED: f"{module}:{number}"}
        try:
            ran = subprocess.run(
                [*command, *tests], cwd=ROOT, env=environment, capture_output=True, check=False, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            continue
        if ran.returncode == 0:
            yield f"{path}:{what}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Removes one rule at a time; the tests must notice.")
    parser.add_argument("path", help="of the module, from the top of the tree")
    parser.add_argument("tests", nargs="+", help="what to run, as pytest takes it")
    parser.add_argument("--first", type=int, default=0, help="the number of the first removal")
    parser.add_argument("--last", type=int, default=10_000)
    options = parser.parse_args()
    found = 0
    for what in unnoticed(options.path, options.tests, options.first, options.last):
        print(what, flush=True)
        found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
