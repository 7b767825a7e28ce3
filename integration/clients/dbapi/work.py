"""The common work of a synchronous Python driver. `python -m integration.clients.dbapi.work DRIVER`."""

from __future__ import annotations

from integration.clients.canonical import run_steps
from integration.clients.dbapi import results, sessions, values

if __name__ == "__main__":
    run_steps([*values.STEPS, *results.STEPS, *sessions.STEPS])  # the first logins are in the first
