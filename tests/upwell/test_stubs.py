"""The committed stubs are those of the committed .proto."""

from __future__ import annotations

from pathlib import Path

from protos.generate import ROOT, generate


def test_generating_the_stubs_anew_gives_no_difference(tmp_path: Path) -> None:
    assert generate(tmp_path) == 0
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    stubs = ("upwell/v1/upwell", "vstream/vitess")
    assert {str(path) for path in made} == {f"{name}_pb2.{end}" for name in stubs for end in ("py", "pyi")}
    assert all((ROOT / path).read_bytes() == content for path, content in made.items())
