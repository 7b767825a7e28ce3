"""The sample in a keyspace of Vitess: the tables through vtgate, the VSchema (`vschema.json`), the rows.

What a page asks of a story (its comments, votes, taggings) is distributed by the story, what it asks of a user by the
user: most queries go to one shard. Rows are given their ids here: MySQL's own, where a table has any, repeat on each
shard.

Nothing is replaced: where one of the tables is there already, vtgate says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pymysql
from rich.progress import Progress

from examples.lobsters.data import SEED, Dataset, Shape
from examples.lobsters.load import Chunk, Connection, Loading, chunks, connect, load_rows, statements
from integration.servers.existing_vitess import ExistingVitess
from integration.servers.mysql_server import CannotStart

VSCHEMA = Path(__file__).with_name("vschema.json")
WITHOUT_ID = "keystores"
# By its bytes a row's shard is found: what the collation takes for equal must be the same bytes.
BY_BYTES = "ALTER TABLE keystores MODIFY `key` VARCHAR(50) COLLATE utf8mb4_0900_bin NOT NULL DEFAULT ''"


def vschema_statements() -> list[str]:
    """What makes the VSchema of a keyspace that of `vschema.json`, for its tables."""
    wanted = json.loads(VSCHEMA.read_text())
    return [
        *(f"ALTER VSCHEMA CREATE VINDEX `{name}` USING `{kind['type']}`" for name, kind in wanted["vindexes"].items()),
        *(
            f"ALTER VSCHEMA ON `{table}` ADD VINDEX `{vindex['name']}` (`{vindex['column']}`)"
            for table, entry in wanted["tables"].items()
            for vindex in entry["column_vindexes"]
        ),
    ]


def with_ids(loaded: Iterator[Chunk]) -> Iterator[Chunk]:
    rows_of: Counter[str] = Counter()
    for chunk in loaded:
        if chunk.table == WITHOUT_ID or "id" in chunk.columns:
            yield chunk
            continue
        first = rows_of[chunk.table] + 1
        rows_of[chunk.table] += len(chunk.rows)
        rows = [(id, *row) for id, row in enumerate(chunk.rows, first)]
        yield replace(chunk, columns=("id", *chunk.columns), rows=rows)


def load_keyspace(server: ExistingVitess, shape: Shape, *, seed: int = SEED, progress: Progress | None = None) -> int:
    """Adds the sample to the keyspace and returns the number of rows. Raises pymysql.Error, and CannotStart where the
    keyspace is sharded and its VSchema is neither the sample's nor may be changed from here."""
    create, keys = statements()
    connection = connect(server, server.database)
    with connection, connection.cursor() as cursor:
        if len(server.shards) > 1:
            _apply_vschema(connection, server.database or "")
        for statement in (*create, BY_BYTES):
            cursor.execute(statement)
    shown: AbstractContextManager[Progress | None] = progress if progress is not None else nullcontext()
    with shown:
        loading = Loading(server, server.database or "", by_file=False)  # vtgate takes no files for sharded tables
        return load_rows(loading, with_ids(chunks(Dataset(shape, seed))), keys, shape, progress)


def _apply_vschema(connection: Connection, keyspace: str) -> None:
    """Statement by statement; not where all tables are in it already, by whatever vindexes."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW VSCHEMA TABLES")
        known = {str(row[0]) for row in cursor.fetchall()}
        if known >= json.loads(VSCHEMA.read_text())["tables"].keys():
            return
        try:
            for statement in vschema_statements():
                cursor.execute(statement)
        except pymysql.err.MySQLError as error:
            said = error.args[1] if len(error.args) > 1 else error
            raise CannotStart(
                f"vtgate does not take the sample's VSchema ({said}): start it with --vschema-ddl-authorized-users=%, "
                f"or put what {VSCHEMA} has into that of {keyspace} (vtctldclient ApplyVSchema replaces the whole)"
            ) from None
