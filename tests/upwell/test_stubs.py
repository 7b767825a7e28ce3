"""The committed stubs are those of the committed .proto."""

from __future__ import annotations

from pathlib import Path

from protos.generate import ROOT, generate


def test_generating_the_stubs_anew_gives_no_difference(tmp_path: Path) -> None:
    assert generate(tmp_path) == 0
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {str(path) for path in made} == {"upwell/v1/upwell_pb2.py", "upwell/v1/upwell_pb2.pyi"}
    assert all((ROOT / path).read_bytes() == content for path, content in made.items())
