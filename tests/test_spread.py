"""How the tests are spread over processes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace

from integration.bulk.filler import SHARERS

ROOT = Path(__file__).parents[1]


def spread() -> ModuleType:
    """The conftest.py of the project."""
    spec = importlib.util.spec_from_file_location("spread", ROOT / "conftest.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_that_is_named_exists() -> None:
    tables = spread()
    named = tables.SPREAD.union(*tables.TOGETHER.values(), tables.SECONDS.keys() - tables.TOGETHER.keys())
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_a_file_is_one_piece_but_where_its_tests_are_spread_and_loads_are_one() -> None:
    tables = spread()
    assert tables.piece_of("tests/a.py::test_x[1]") == tables.piece_of("tests/a.py::test_y") == "tests/a.py"
    for file in tables.SPREAD:
        assert tables.piece_of(f"{file}::test_x") != tables.piece_of(f"{file}::test_y")
    for piece, files in tables.TOGETHER.items():
        assert {tables.piece_of(f"{file}::test_x") for file in files} == {piece}
        assert not tables.SPREAD & files


def test_files_that_share_a_proxy_are_one_piece() -> None:
    assert {f"integration/bulk/{name}" for name in SHARERS} == spread().FILLS


def test_what_is_long_is_a_piece() -> None:
    tables = spread()
    assert all(tables.piece_of(f"{name}::test_x") == name for name in tables.SECONDS)


def test_the_tests_that_wait_for_mysql_have_a_process_more_than_processors() -> None:
    tables = spread()

    def processes(*arguments: str) -> int:
        return int(tables.pytest_xdist_auto_num_workers(SimpleNamespace(args=arguments)))

    few = processes("tests", f"{ROOT}/tests/test_spread.py::test_x[a/b]")
    assert few >= 1
    assert processes("tests", "integration") == processes(f"{ROOT}/integration/oracle/test_oracle.py") == few + 1
