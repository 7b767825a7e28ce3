"""Parts of a restart that need no MySQL."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gtid_tracker.gtid import GtidSet, MutableGtidSet
from proxy.fills.restart import Restart
from proxy.system.source_gate import Gate

SERVER, OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"


def gate_at(position: str) -> tuple[Gate, Any, Any]:
    """A gate, what it keeps back, and the stream."""
    ring = SimpleNamespace(position=MutableGtidSet(GtidSet.parse(position)))
    host: Any = SimpleNamespace(closed="", engine=SimpleNamespace(state=SimpleNamespace(ring=ring)))
    stream: Any = SimpleNamespace(connected=True, recognised=True, unfit="", drained=5, lag=lambda: 0.0)
    return Gate(host, stream, 60.0, lambda reason: None), host, stream


def looked(gate: Gate, stream: Any) -> None:
    stream.drained += 1
    gate.look()
    gate.tick()


def test_a_file_of_each_server_is_forgotten(tmp_path: Path) -> None:
    """Another may be followed by now than at the start."""
    for name in ("a", "b"):
        (tmp_path / f"held-{name}.snapshot").write_bytes(b"of a position")
    (tmp_path / "caches-a.json").write_text("{}")

    async def scenario() -> None:
        Restart(tmp_path, lambda history: f"mysql:{history}", 300.0).forget()
        assert not list(tmp_path.glob("held-*.snapshot"))

    asyncio.run(scenario())
    assert [path.name for path in tmp_path.iterdir()] == ["caches-a.json"]


def test_no_hit_until_the_position_has_what_was_executed_and_is_recognised() -> None:
    gate, host, stream = gate_at(f"{SERVER}:1-5")
    gate.begins()
    looked(gate, stream)
    assert host.closed, "it is not known yet"
    gate.begins(GtidSet.parse(f"{SERVER}:1-6"))
    looked(gate, stream)
    assert host.closed
    host.engine.state.ring.position = MutableGtidSet(GtidSet.parse(f"{SERVER}:1-6"))
    stream.recognised = False
    looked(gate, stream)
    assert host.closed
    stream.recognised = True
    looked(gate, stream)
    assert not host.closed


def test_hits_are_served_again_after_history_is_lost_while_it_catches_up() -> None:
    """What the source had executed at the start is lost with it: the position never has it."""
    gate, host, stream = gate_at(f"{SERVER}:1-5")
    gate.begins(GtidSet.parse(f"{SERVER}:1-10"))
    host.engine.state.ring.position = MutableGtidSet(GtidSet.parse(f"{SERVER}:1-8,{OTHER}:1-9"))
    looked(gate, stream)
    assert host.closed
    gate.empty()
    looked(gate, stream)
    assert not host.closed
