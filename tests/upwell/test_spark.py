"""What a session of Spark's imports, without Spark."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark import cloudpickle

from upwell.spark import BinlogPiece, register

ROOT = Path(__file__).resolve().parent.parent.parent
LOAD = """
import sys
import upwell.spark
path = list(sys.path)
found = upwell.spark._application()
assert sys.path == path, "it is not left there"
print(found.__file__)
"""


def registered(*arguments: Any) -> type[Any]:
    """The class that a session is given, as it arrives elsewhere."""
    given: list[type[Any]] = []
    session: Any = SimpleNamespace(dataSource=SimpleNamespace(register=given.append))
    register(session, *arguments)
    source: type[Any] = pickle.loads(cloudpickle.dumps(given[0]))  # type: ignore[no-untyped-call]
    return source


def test_the_installed_package_finds_the_application_and_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "upwell").mkdir()
    for name in ("__init__.py", "spark.py"):
        (tmp_path / "upwell" / name).write_text((ROOT / "upwell" / name).read_text())
    (tmp_path / "upwell" / "app").mkdir()
    for name in ("bulk", "external_upquery", "vstream", "dataflow", "gtid_tracker", "sqltypes"):
        (tmp_path / "upwell" / "app" / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [sys.executable, "-c", LOAD], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "upwell" / "app" / "bulk" / "binlog_source.py")


def test_the_address_travels_with_the_class(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("UPWELL_UPSTREAM", raising=False)
    monkeypatch.delenv("UPWELL_UPSTREAM_FILE", raising=False)
    with pytest.raises(ValueError, match="UPWELL_UPSTREAM"):
        registered()
    address = tmp_path / "address"
    address.write_text("mysql://a:hidden@127.0.0.1:1\n")
    monkeypatch.setenv("UPWELL_UPSTREAM_FILE", str(address))
    for source in (registered(), registered("mysql://a:hidden@127.0.0.1:1", "other")):
        assert source.name() in ("upwell_binlog", "other")
        with pytest.raises(Exception, match=r"no connection to mysql://a@127\.0\.0\.1:1") as error:
            source({"table": "d.t"}).schema()
        assert "hidden" not in str(error.value)


def test_a_task_shows_nothing_of_what_it_reads() -> None:
    assert "secret" not in repr(BinlogPiece(b"secret"))
