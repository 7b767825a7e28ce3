"""Tables from CREATE TABLE text, for tests of the planner that need a schema but no MySQL."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqltypes.schema import Column, SchemaSnapshot, SqlType, Table, View

DEFAULT_COLLATION = "utf8mb4_0900_ai_ci"
_SIGNED = {"tinyint", "smallint", "mediumint", "int", "bigint"}
_CREATE = re.compile(r"CREATE TABLE `?(\w+)`? \((.*?)\n?\);", re.DOTALL)
_ALTER = re.compile(r"ALTER TABLE `?(\w+)`? (.*?);", re.DOTALL)
_UNIQUE = re.compile(r"UNIQUE KEY\s*\w*\s*\(([^()]*)\)")
_COLUMN = re.compile(r"`?(\w+)`? (\w+)(?:\(([^)]*)\))?( UNSIGNED)?(.*)", re.DOTALL)


def snapshot_of(
    ddl: str, schema: str = "lobsters", rows: Mapping[str, int] | None = None, views: Mapping[str, str] | None = None
) -> SchemaSnapshot:
    """A snapshot of all CREATE TABLEs of the text. `rows`: estimates by table name. `views`: definitions by name."""
    ddl = re.sub(r"--[^\n]*", "", ddl)
    unique: dict[str, list[tuple[str, ...]]] = {}
    for match in _ALTER.finditer(ddl):
        unique.setdefault(match.group(1), []).extend(_keys(match.group(2)))
    tables = [
        _table(match.group(1), match.group(2), schema, unique, (rows or {}).get(match.group(1), 0))
        for match in _CREATE.finditer(ddl)
    ]
    relations: dict[tuple[str, str], Table | View] = {(schema, table.name): table for table in tables}
    for name, definition in (views or {}).items():
        relations[schema, name] = View(schema, name, definition)
    return SchemaSnapshot(dict(relations), (8, 4, 0))


def _keys(text: str) -> list[tuple[str, ...]]:
    return [tuple(name.strip(" `") for name in names.split(",")) for names in _UNIQUE.findall(text)]


def _table(name: str, body: str, schema: str, unique: Mapping[str, list[tuple[str, ...]]], rows: int) -> Table:
    items = [item.strip() for item in re.split(r",(?![^()]*\))", body)]
    primary: tuple[str, ...] = ()
    columns: list[Column] = []
    for item in items:
        if item.startswith("PRIMARY KEY"):
            primary = tuple(part.strip(" `") for part in item[item.index("(") + 1 : -1].split(","))
        elif not re.match(r"(UNIQUE |FULLTEXT )?KEY\b", item):
            columns.append(_column(item, len(columns)))
            if "PRIMARY KEY" in item:
                primary = (columns[-1].name,)
    engine = "InnoDB"
    keys = (*_keys(body), *unique.get(name, ()))
    return Table(schema, name, tuple(columns), primary, keys, (primary, *keys), engine=engine, rows_estimate=rows)


def _column(item: str, position: int) -> Column:
    match = _COLUMN.match(item)
    assert match is not None, item
    name, kind, size, unsigned, rest = match.groups()
    nullable = "NOT NULL" not in rest and "PRIMARY KEY" not in rest
    return Column(name, _type(kind.lower(), size, bool(unsigned), rest), nullable, position, "INVISIBLE" in rest)


def _type(kind: str, size: str | None, unsigned: bool, rest: str) -> SqlType:
    if kind in _SIGNED:
        return SqlType(kind, unsigned, int(size) if size else None, zerofill="ZEROFILL" in rest)
    if kind == "decimal" or (kind in ("float", "double") and size):
        precision, scale = (int(part) for part in (size or "10,0").split(","))
        return SqlType(kind, unsigned, precision=precision, scale=scale)
    if kind in ("datetime", "timestamp", "time"):
        return SqlType(kind, scale=int(size or 0))
    if kind in ("char", "varchar", "text", "mediumtext", "longtext"):
        collation = re.search(r"COLLATE (\w+)", rest)
        return SqlType(
            kind, length=int(size) if size else None, collation=collation.group(1) if collation else DEFAULT_COLLATION
        )
    if kind in ("enum", "set"):
        members = tuple(member.strip(" '") for member in (size or "").split(","))
        return SqlType(kind, collation=DEFAULT_COLLATION, members=members)
    return SqlType(kind, unsigned, int(size) if size else None)
