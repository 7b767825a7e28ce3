"""Reflection of a real MySQL: what is found, what is not, and that the rest of a source costs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from external_upquery.address import Upstream, parse_upstream
from external_upquery.mysql import schema_source
from external_upquery.mysql.schema_source import SchemaSource
from integration.servers.private_mysql import Server
from sqltypes.errors import SourceDown, SourceError
from sqltypes.schema import ANY_TABLE, UNKNOWN_ORDER, IndexPart, Relation, Table, View


@pytest.fixture
def source(mysql: Server) -> Iterator[SchemaSource]:
    made = SchemaSource(parse_upstream(mysql.url))
    yield made
    made.close()


def reflected(source: SchemaSource, database: str, *names: str) -> dict[str, Relation]:
    found = asyncio.run(source.reflect([(database, name) for name in names]))
    assert all(schema == database for schema, _ in found)
    return {name: relation for (_, name), relation in found.items()}


def table(source: SchemaSource, database: str, name: str) -> Table:
    found = reflected(source, database, name)[name]
    assert isinstance(found, Table)
    return found


def test_only_named_relations_are_reflected_and_missing_ones_are_absent(
    mysql: Server, database: str, source: SchemaSource
) -> None:
    mysql.execute(f"CREATE TABLE {database}.a (id INT PRIMARY KEY)", f"CREATE TABLE {database}.b (id INT PRIMARY KEY)")
    assert set(reflected(source, database, "a", "nowhere")) == {"a"}
    assert reflected(source, "no_such_database", "a") == {}


@pytest.mark.parametrize(
    ("before", "meanwhile", "names"),
    [
        ("CREATE TABLE u (id INT)", "CREATE TABLE t (a INT)", {"t"}),
        ("CREATE TABLE t (a INT)", "ALTER TABLE t ADD b INT NOT NULL, ADD UNIQUE (b)", {"t"}),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a))", "ALTER TABLE t CHANGE a b INT", {"t"}),
        ("CREATE TABLE t (a INT)", "DROP TABLE t", set()),
    ],
)
def test_a_table_that_is_defined_anew_while_it_is_read_is_read_again(
    mysql: Server,
    database: str,
    source: SchemaSource,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    meanwhile: str,
    names: set[str],
) -> None:
    keys_of, statements = schema_source._keys, [meanwhile]
    mysql.execute(f"USE {database}", before)

    def late(*arguments: Any) -> Any:
        if statements:
            mysql.execute(f"USE {database}", statements.pop())
        return keys_of(*arguments)

    monkeypatch.setattr(schema_source, "_keys", late)
    found = reflected(source, database, "t")
    assert set(found) == names
    assert found == reflected(source, database, "t")


def test_a_table_that_is_dropped_before_its_foreign_keys_are_read_is_absent(
    mysql: Server, database: str, source: SchemaSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    cascades = schema_source._cascades
    mysql.execute(f"CREATE TABLE {database}.t (a INT)")

    def late(*arguments: Any) -> Any:
        mysql.execute(f"DROP TABLE IF EXISTS {database}.t")
        return cascades(*arguments)

    monkeypatch.setattr(schema_source, "_cascades", late)
    assert reflected(source, database, "t") == {}


def test_columns_keep_their_order_with_invisible_and_generated_ones(
    mysql: Server, database: str, source: SchemaSource
) -> None:
    mysql.execute(
        f"CREATE TABLE {database}.t (a INT NOT NULL, b INT INVISIBLE, c INT AS (a + 1) VIRTUAL,"
        " d INT AS (a * 2) STORED, e DATETIME DEFAULT CURRENT_TIMESTAMP, v VARBINARY(9) DEFAULT (UUID()),"
        " w VARCHAR(9) AS (CONCAT(v, '\\'\\\\\n')) VIRTUAL, KEY ((a + 1)), KEY ((a + 2)) INVISIBLE)"
    )
    columns = table(source, database, "t").columns
    assert [(column.name, column.position) for column in columns] == [
        (name, at) for at, name in enumerate(["a", "b", "c", "d", "e", "v", "w"])
    ]
    assert [column.name for column in columns if column.invisible] == ["b"]
    assert {column.name: column.expression for column in columns if column.expression} == {
        "c": "(`a` + 1)",
        "w": r"concat(`v`,_utf8mb4'\'\\\n')",
    }
    assert table(source, database, "t").functional == ("(`a` + 1)",)
    assert [column.name for column in columns if not column.nullable] == ["a"]


def test_primary_key_that_the_server_made_is_found(mysql: Server, database: str, source: SchemaSource) -> None:
    mysql.execute("SET sql_generate_invisible_primary_key = ON", f"CREATE TABLE {database}.t (a INT)")
    found = table(source, database, "t")
    assert found.primary_key == ("my_row_id",)
    assert found.column("my_row_id").invisible


def test_collation_that_is_the_tables_default_is_found(mysql: Server, database: str, source: SchemaSource) -> None:
    mysql.execute(
        f"CREATE TABLE {database}.t (a VARCHAR(9), b VARCHAR(9) COLLATE utf8mb4_bin) COLLATE utf8mb4_sv_0900_ai_ci"
    )
    assert [column.type.collation for column in table(source, database, "t").columns] == [
        "utf8mb4_sv_0900_ai_ci",
        "utf8mb4_bin",
    ]


def test_types_that_the_inspector_does_not_know_cost_no_warning(
    mysql: Server, database: str, source: SchemaSource
) -> None:
    vector = ", v VECTOR(3)" if mysql.version() >= "9" else ""
    mysql.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, p POINT, m MULTIPOLYGON, j JSON{vector})")
    assert table(source, database, "t").primary_key == ("id",)


def test_keys_of_expressions_are_not_taken_for_keys_of_columns(
    mysql: Server, database: str, source: SchemaSource
) -> None:
    mysql.execute(
        f"CREATE TABLE {database}.t (a INT, b VARCHAR(9), c INT NOT NULL, d TEXT, PRIMARY KEY (c, a),"
        " UNIQUE KEY u1 (b, a), UNIQUE KEY u2 (a, (LOWER(b))), UNIQUE KEY u3 ((LOWER(b)), c), KEY k1 (a) INVISIBLE,"
        " KEY k2 (d(4)), FULLTEXT KEY k3 (d))"
    )
    found = table(source, database, "t")
    assert found.primary_key == ("c", "a")
    assert found.unique_keys == (("b", "a"),)
    assert sorted(found.indexes) == [("a",), ("b", "a"), ("c", "a"), ("d",)]


def test_in_which_order_rows_are_read_by_an_index(mysql: Server, database: str, source: SchemaSource) -> None:
    columns = "A INT NOT NULL, b VARCHAR(9), c INT NOT NULL"
    mysql.execute(
        f"CREATE TABLE {database}.t ({columns}, PRIMARY KEY (A DESC, c), KEY k1 (b(4), c), KEY k2 (b DESC),"
        " KEY k3 (c, (A + 1)))",
        f"CREATE TABLE {database}.p ({columns}, PRIMARY KEY (A), KEY (b)) PARTITION BY HASH (A) PARTITIONS 2",
        f"CREATE TABLE {database}.n ({columns}, KEY (b))",
    )
    a, c = IndexPart("a", falling=True), IndexPart("c")
    found = table(source, database, "t")
    assert dict(zip(found.indexes, found.orders, strict=True)) == {
        ("A", "c"): (a, c),
        ("b", "c"): (IndexPart("b", whole=False), c, a),
        ("b",): (IndexPart("b", falling=True), a, c),
        ("c",): (c, UNKNOWN_ORDER, a),
    }
    b, a = IndexPart("b"), IndexPart("a")
    assert table(source, database, "p").orders == ((a, UNKNOWN_ORDER), (b, a, UNKNOWN_ORDER))
    assert table(source, database, "n").orders == ((IndexPart("b"), UNKNOWN_ORDER),)


def test_engine_and_fresh_estimate_of_rows(mysql: Server, database: str, source: SchemaSource) -> None:
    mysql.execute(
        f"CREATE TABLE {database}.m (id INT) ENGINE=MyISAM", f"CREATE TABLE {database}.t (id INT PRIMARY KEY)"
    )
    assert table(source, database, "t").rows_estimate == 0
    mysql.execute(
        f"INSERT INTO {database}.t SELECT a.n * 10 + b.n FROM JSON_TABLE('[0,1,2,3,4,5,6,7,8,9]', '$[*]' COLUMNS"
        " (n INT PATH '$')) a, JSON_TABLE('[0,1,2,3,4,5,6,7,8,9]', '$[*]' COLUMNS (n INT PATH '$')) b",
        f"ANALYZE TABLE {database}.t",
    )
    assert table(source, database, "t").rows_estimate == 100
    assert table(source, database, "m").engine == "MyISAM"


def test_view_comes_with_qualified_names(mysql: Server, database: str, source: SchemaSource) -> None:
    mysql.execute(f"CREATE TABLE {database}.t (id INT)", f"CREATE VIEW {database}.v (x) AS SELECT id FROM {database}.t")
    found = reflected(source, database, "v")["v"]
    assert isinstance(found, View)
    assert found.columns == ("x",)
    assert f"`{database}`.`t`" in found.definition


def test_children_of_cascades_are_marked_only_where_the_binlog_misses_them(
    mysql: Server, own_mysql: Callable[..., Server]
) -> None:
    if not mysql.execute("SHOW VARIABLES LIKE 'innodb_native_foreign_keys'"):
        flags: list[tuple[str, ...]] = [()]
    else:
        flags = [("--innodb-native-foreign-keys=OFF",), ("--innodb-native-foreign-keys=ON",)]
    for extra in flags:
        own = own_mysql(*extra)
        own.execute(
            "CREATE DATABASE d",
            "CREATE TABLE d.parent (id INT PRIMARY KEY)",
            "CREATE TABLE d.cascades (p INT, FOREIGN KEY (p) REFERENCES d.parent (id) ON DELETE CASCADE)",
            "CREATE TABLE d.nulls (p INT, FOREIGN KEY (p) REFERENCES d.parent (id) ON UPDATE SET NULL)",
            "CREATE TABLE d.plain (p INT, FOREIGN KEY (p) REFERENCES d.parent (id))",
        )
        source = SchemaSource(parse_upstream(own.url))
        marked = [name for name in ("parent", "cascades", "nulls", "plain") if table(source, "d", name).cascade_child]
        source.close()
        assert marked == ([] if "--innodb-native-foreign-keys=OFF" in extra else ["cascades", "nulls"])


@pytest.mark.parametrize("extra", [(), ("--loose-innodb-native-foreign-keys=ON",)], ids=["logged", "not logged"])
def test_whose_rows_change_by_which_foreign_keys(own_mysql: Callable[..., Server], extra: tuple[str, ...]) -> None:
    own = own_mysql(*extra)
    own.execute(
        "CREATE DATABASE d",
        "CREATE DATABASE other",
        "CREATE TABLE other.Top (id INT PRIMARY KEY)",
        "CREATE TABLE d.beside (id INT PRIMARY KEY)",
        "CREATE TABLE d.middle (id INT PRIMARY KEY, p INT, q INT, FOREIGN KEY (p) REFERENCES other.Top (id)"
        " ON DELETE CASCADE, FOREIGN KEY (q) REFERENCES beside (id))",
        "CREATE TABLE d.low (p INT, FOREIGN KEY (p) REFERENCES middle (id) ON UPDATE SET NULL)",
        "CREATE TABLE d.own (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES own (id) ON DELETE CASCADE)",
        "SET foreign_key_checks = 0",
        "CREATE TABLE d.of_none (p INT, FOREIGN KEY (p) REFERENCES none (id) ON DELETE CASCADE)",
    )
    source = SchemaSource(parse_upstream(own.url))
    found = reflected(source, "d", "middle", "low", "own", "of_none", "beside")
    source.close()
    changed = {
        name: (sorted(relation.changed_by_deletes), sorted(relation.changed_by_updates))
        for name, relation in found.items()
        if isinstance(relation, Table)
    }
    referenced = {name: sorted(relation.referenced) for name, relation in found.items() if isinstance(relation, Table)}
    assert referenced == {"middle": [], "low": [("d.middle", 0, 3)], "own": [], "of_none": [], "beside": []}
    assert changed == {
        "middle": (["other.top"], []),
        "low": (["other.top"], ["d.middle"]),
        "own": (["d.own"], []),
        "of_none": ([ANY_TABLE], [ANY_TABLE]),
        "beside": ([], []),
    }


def test_names_match_as_the_source_matches_them(own_mysql: Callable[..., Server]) -> None:
    for folds in (0, 1):
        server = own_mysql(f"--lower-case-table-names={folds}")
        server.execute("CREATE DATABASE d", "CREATE TABLE d.Mixed (id INT)")
        source = SchemaSource(parse_upstream(server.url))
        found = asyncio.run(source.snapshot([("d", "MIXED"), ("D", "Mixed"), ("d", "Mixed")]))
        source.close()
        assert found.lower_case_table_names == folds
        assert list(found.relations) == [("d", "mixed" if folds else "Mixed")]


def test_version_is_told(mysql: Server, source: SchemaSource) -> None:
    facts = asyncio.run(source.server())
    assert ".".join(map(str, facts.version)) == mysql.version().split("-")[0]


def test_the_server_is_asked_anew_by_a_connection_that_knows_its_variables(own_mysql: Callable[..., Server]) -> None:
    """One that hides the primary keys which it has made is told to show them: the binlog has them."""
    mysql = own_mysql()
    mysql.execute("CREATE DATABASE d", "USE d", "SET sql_generate_invisible_primary_key = ON", "CREATE TABLE t (a INT)")
    source = SchemaSource(parse_upstream(mysql.url))
    try:
        first = asyncio.run(source.server())
        assert asyncio.run(source.server()) == first and not first.hides_generated_keys
        mysql.execute("SET GLOBAL show_gipk_in_create_table_and_information_schema = OFF")
        assert asyncio.run(source.server()) == replace(first, hides_generated_keys=True)
        assert table(source, "d", "t").primary_key == ("my_row_id",)
    finally:
        source.close()
        mysql.execute("SET GLOBAL show_gipk_in_create_table_and_information_schema = ON", "DROP DATABASE d")


@pytest.fixture
def stranger(mysql: Server, database: str) -> Iterator[Upstream]:
    """A user who may only SELECT."""
    mysql.execute("CREATE USER stranger@'%'", f"GRANT SELECT ON {database}.* TO stranger@'%'")
    yield replace(parse_upstream(mysql.url), user="stranger", password="")
    mysql.execute("DROP USER stranger@'%'")


def test_user_who_may_only_select_sees_tables_but_no_definition_of_a_view(
    mysql: Server, database: str, stranger: Upstream
) -> None:
    mysql.execute(
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, n INT, KEY (n))", f"CREATE VIEW {database}.v AS SELECT 1 AS x"
    )
    source = SchemaSource(stranger)
    assert table(source, database, "t").indexes == (("id",), ("n",))
    with pytest.raises(SourceError, match="SHOW VIEW") as raised:
        reflected(source, database, "v")
    assert raised.value.errno == 1142
    source.close()


def test_source_that_is_down_is_told_as_such() -> None:
    source = SchemaSource(Upstream("127.0.0.1", 1, "a", "", tls="disabled"))
    with pytest.raises(SourceDown):
        asyncio.run(source.reflect([("d", "t")]))
    source.close()


def test_ten_thousand_other_tables_are_not_read(mysql: Server, database: str, source: SchemaSource) -> None:
    mysql.execute(f"CREATE TABLE {database}.wanted (id INT PRIMARY KEY)")
    plan = mysql.execute(
        "EXPLAIN FORMAT=TREE SELECT COLUMN_NAME FROM information_schema.COLUMNS"
        f" WHERE TABLE_SCHEMA IN ('{database}') AND TABLE_NAME IN ('wanted')"
    )[0][0]
    # The dictionary's list of tables is entered by a key.
    assert "on tbl using" in plan and "scan on tbl" not in plan, plan
    assert table(source, database, "wanted").primary_key == ("id",)
