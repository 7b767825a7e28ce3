"""Generates the committed stubs from the files below protos/, each beside the package that it is for: `make proto`.

Messages by protoc as grpcio-tools carries it, their types by mypy-protobuf. The output depends on the locked versions
only, so a run on a clean tree gives no diff. No gRPC service stubs: client and server name the methods themselves
(`upwell/wire.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def generate(folder: Path) -> int:
    """Runs protoc with its output below `folder`; its exit status."""
    sources = sorted(str(path.relative_to(ROOT / "protos")) for path in (ROOT / "protos").rglob("*.proto"))
    outputs = [f"--python_out={folder}", f"--mypy_out=quiet:{folder}"]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-Iprotos", *outputs, *sources]
    # protoc looks for its plugins (protoc-gen-mypy) on PATH: the environment's own come first.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path}, check=False).returncode


if __name__ == "__main__":
    sys.exit(generate(ROOT))
