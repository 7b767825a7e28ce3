"""The common work of SQLAlchemy, Core and ORM. `python -m integration.clients.sqlalchemy.work pymysql|mysqlclient`."""

from __future__ import annotations

from integration.clients.canonical import run_steps
from integration.clients.sqlalchemy import core, orm

if __name__ == "__main__":
    run_steps([*core.STEPS, *orm.STEPS])
