"""Overviews as a proxy gives them (docs/http.md)."""

from __future__ import annotations

from typing import Any


def cache(name: str, hits: int = 0, misses: int = 0, passed: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "database": "d", "mode": "maintain", "state": "ready", "origin": "SQL", "tables": ["d.t"],
        "keys": 12, "bytes": 2048, "hits": hits, "misses": misses, "passed": passed, "passed_by_reason": {},
        "hit_p50_us": 20.0, "hit_p99_us": 40.0, "miss_p50_us": 900.0, "miss_p99_us": 3000.0, "saved_seconds": 1.5,
        "emptied": 14, "emptied_by": {"change": {"d.t": 10}, "memory": {"": 3}, "large change": {"d.t": 1}},
        "compared": {"d.t": 8}, "needless": {"d.t": 2},
        "trust": "trusted", "checked": 3, **more,
    }  # fmt: skip


def overview(at: float, *caches: dict[str, Any], hits: float = 0.0, **more: Any) -> dict[str, Any]:
    return {
        "at": at, "version": "1.2.3", "ready": "",
        "source": {"address": "mysql://h:1", "up": True, "position": "u:1-5", "lag_seconds": 0.002},
        "rates": {"reads": hits, "hits": hits, "misses": 0.0, "passed": 0.0, "hit_rate": 1.0, "miss_seconds": 0.0012},
        "memory": {"used": 3 << 20, "limit": 1 << 30}, "upqueries": {"in_flight": 2, "waiting": 1},
        "connections": {"sessions": 7}, "fills": [], "caches": {one["name"]: one for one in caches},
        "history": {"every": 5.0, "columns": ["at", "hits"], "rows": [[1.0, 2.0]]}, **more,
    }  # fmt: skip
