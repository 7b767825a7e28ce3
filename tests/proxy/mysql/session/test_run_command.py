"""What each command answers, and to whom."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from proxy.auto.passed_reads import ProxiedQueries
from proxy.mysql.reads.rights import is_admin
from proxy.mysql.session.run_command import run
from proxy.mysql.text.own_sql_syntax import Cell, Done, LastStatement, ResultTable, recognise
from proxy.mysql.wire.result_set import result
from proxy.port.made_by import BY_FILE, MadeBy, Origin
from sqltypes.errors import (
    CacheExists,
    NotPermitted,
    ParseError,
    SourceDown,
    SourceError,
    UnknownCache,
    UnknownName,
    UnsupportedQuery,
    UpwellError,
)
from tests.support.fake_system import SERVER, FakeSystem

BY_ID = "SELECT id FROM stories WHERE id = ?"
SECRET = "SELECT pay FROM salaries WHERE id = ?"
DENIED = SourceError(1142, "42000", "SELECT command denied to user 'app'@'localhost' for table 'salaries'")


@dataclass
class Session:
    """An account that may not read `salaries`."""

    account: str = "app@%"
    is_admin: bool = False
    database: str = "shop"
    last_statement: LastStatement | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)

    speaks = "vtgate"
    proxied: ProxiedQueries = field(init=False)

    async def may_read(self, sql: str, database: str) -> None:
        self.asked.append((sql, database))
        if "salaries" in sql:
            raise DENIED


ADMIN = Session("ops@%", is_admin=True)


def answer(text: str, system: FakeSystem, session: Session) -> ResultTable | Done:
    command = recognise(text)
    assert command is not None
    session.proxied = system.proxied
    return asyncio.run(run(command, system, session))


def rows(text: str, system: FakeSystem, session: Session) -> list[dict[str, Cell]]:
    """The rows of an answer, by column, each checked to be of its column's kind, and to be what can be sent."""
    table = answer(text, system, session)
    assert isinstance(table, ResultTable)
    assert asyncio.run(result(table.columns, table.rows, eof=False, status=2))
    kinds: dict[str, type] = {"string": str, "bigint": int, "double": float}
    for row in table.rows:
        for (name, kind), cell in zip(table.columns, row, strict=True):
            assert cell is None or type(cell) is kinds[kind], name
    names = [name for name, _ in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


# -- creating and dropping ---------------------------------------------------------------------------------------------


def test_who_may_read_the_tables_makes_a_cache_and_its_maker_is_kept() -> None:
    system, session = FakeSystem(), Session()
    assert answer(f"CREATE CACHE story FROM {BY_ID}", system, session) == Done("cache 'story' (maintain)")
    assert session.asked == [(BY_ID, "shop")]
    assert system.caches["story"].info.made_by == MadeBy(Origin.SQL, "app@%")
    assert system.caches["story"].info.database == "shop"


def test_who_may_not_read_the_tables_gets_mysqls_own_error_and_no_cache() -> None:
    system = FakeSystem()
    for text in (f"CREATE CACHE FROM {SECRET}", f"EXPLAIN CREATE CACHE FROM {SECRET}"):
        with pytest.raises(SourceError) as failed:
            answer(text, system, Session())
        assert failed.value is DENIED
    assert system.caches == {}


def test_a_list_parameter_of_our_own_is_a_placeholder_where_mysql_is_asked() -> None:
    session, text = Session(), "SELECT '?...' FROM t WHERE a IN ({0}) AND b IN (?) AND c IN ({0})"
    answer("CREATE CACHE FROM " + text.format("?..."), FakeSystem(), session)
    assert session.asked == [(text.format("?"), "shop")]


def test_a_query_that_was_passed_is_cached_by_its_id_with_the_rights_of_who_asks() -> None:
    system, known = with_proxied(), Session(database="shop")
    listed = rows("SHOW PROXIED QUERIES", system, ADMIN)
    ids = {str(row["query"]): row["id"] for row in listed}
    assert len(ids) == len(set(ids.values())) == 2
    by_id, random = ids["SELECT a FROM t WHERE id = ?"], ids["SELECT RAND() FROM t"]
    assert answer(f"CREATE CACHE mine FROM QUERY '{by_id}'", system, known) == Done("cache 'mine' (maintain)")
    assert known.asked == [("SELECT a FROM t WHERE id = ?", "shop")], "MySQL has judged"
    assert system.caches["mine"].info.sql == "SELECT a FROM t WHERE id = ?"
    assert rows(f"EXPLAIN CREATE CACHE FROM QUERY {by_id}", system, known)[0]["explanation"]
    for asked, session in (
        (random, known),
        ("q_0000000000", known),
        ("q_0000000000", ADMIN),
        (by_id, Session("eve@%")),
    ):
        with pytest.raises(UnknownName, match=f"no query has the id '{asked}': SHOW PROXIED QUERIES has them"):
            answer(f"CREATE CACHE FROM QUERY '{asked}'", system, session)
    with pytest.raises(UnknownName, match="is of another database than the session's: USE shop first"):
        answer(f"CREATE CACHE FROM QUERY '{by_id}'", system, Session(database="other"))


def test_its_maker_and_an_administrator_empty_a_cache_which_stays() -> None:
    system = FakeSystem()
    answer(f"CREATE CACHE story FROM {BY_ID}", system, Session())
    for session in (Session(), ADMIN):
        system.caches["story"].held[(1,)] = b""
        assert answer("FLUSH CACHE story", system, session) == Done("cache 'story' is empty: it held 1 keys")
    for text in ("FLUSH CACHE story", "FLUSH CACHE nothing"):
        with pytest.raises(NotPermitted, match="may not empty cache"):
            answer(text, system, Session("bob@%"))
    with pytest.raises(UnknownCache):
        answer("FLUSH CACHE nothing", system, ADMIN)


def test_administrators_alone_see_and_change_settings() -> None:
    system = FakeSystem()
    (shown,) = rows("SHOW UPWELL SETTINGS LIKE 'max-stale%'", system, ADMIN)
    assert [shown[name] for name in ("name", "value", "origin", "live")] == ["max-staleness", "30s", "default", "yes"]
    said = answer("SET UPWELL max_staleness = 5s", system, ADMIN)
    assert said == Done("max-staleness is 5s until the next start")
    assert rows("SHOW UPWELL SETTINGS LIKE 'max-stale%'", system, ADMIN)[0]["origin"] == "SET"
    assert answer("SET UPWELL max-staleness = DEFAULT", system, ADMIN) == Done("max-staleness is 30s (default)")
    for text in ("SHOW UPWELL SETTINGS", "SET UPWELL max-staleness = 1s"):
        with pytest.raises(NotPermitted, match="the accounts of --admin-users may"):
            answer(text, system, Session())


def test_a_query_that_is_cached_already_is_no_error_and_its_cache_is_named() -> None:
    system = FakeSystem()
    answer(f"CREATE CACHE story FROM {BY_ID}", system, Session())
    unnamed = answer(f"CREATE CACHE FROM {BY_ID}", system, Session())
    assert unnamed == Done("the query is cached already, as 'story' (maintain)")
    for name in ("story", "other"):
        assert answer(f"CREATE CACHE {name} FROM {BY_ID}", system, Session()) == Done(f"cache {name!r} (maintain)")


def test_a_name_that_is_taken_is_an_error_unless_if_not_exists_is_said() -> None:
    system = FakeSystem()
    answer(f"CREATE CACHE story FROM {BY_ID}", system, Session())
    with pytest.raises(CacheExists) as failed:
        answer("CREATE CACHE story FROM SELECT 1 FROM t", system, Session())
    assert (failed.value.errno, failed.value.sqlstate) == (1050, "42S01")
    taken = answer("CREATE CACHE IF NOT EXISTS story FROM SELECT 1 FROM t", system, Session())
    assert taken == Done("cache 'story' exists already")


def test_a_refused_query_is_an_error_with_the_reason() -> None:
    with pytest.raises(UnsupportedQuery) as failed:
        answer("CREATE CACHE FROM SELECT RAND() FROM t", FakeSystem(), Session())
    assert (failed.value.errno, failed.value.sqlstate) == (1235, "42000")
    assert failed.value.message == "a function whose value differs between calls: RAND()"


def test_its_maker_and_an_administrator_drop_a_cache() -> None:
    system = FakeSystem()
    answer(f"CREATE CACHE story FROM {BY_ID}", system, Session())
    for text in ("DROP CACHE story", "DROP CACHE IF EXISTS nothing"):  # who asks does not learn what there is
        with pytest.raises(NotPermitted) as failed:
            answer(text, system, Session("bob@%"))
        assert (failed.value.errno, failed.value.sqlstate) == (1227, "42000")
        assert "its maker and the accounts of --admin-users may" in failed.value.message
    assert answer("DROP CACHE story", system, Session()) == Done("cache 'story' is dropped")
    answer(f"CREATE CACHE story FROM {BY_ID}", system, Session())
    assert answer("DROP CACHE story", system, ADMIN) == Done("cache 'story' is dropped")
    assert system.caches == {}


def test_what_is_not_there_is_dropped_with_if_exists_only() -> None:
    with pytest.raises(UnknownCache) as failed:
        answer("DROP CACHE nothing", FakeSystem(), ADMIN)
    assert (failed.value.errno, failed.value.sqlstate) == (1051, "42S02")
    assert answer("DROP CACHE IF EXISTS nothing", FakeSystem(), ADMIN) == Done("cache 'nothing' does not exist")


@pytest.mark.parametrize(
    ("account", "admin"),
    [("ops@%", True), ("ops@10.1.2.3", True), ("app@10.0.0.%", True), ("app@%", False), ("@%", False), ("", False)],
)
def test_administrators_are_named_with_or_without_their_host(account: str, admin: bool) -> None:
    assert is_admin(account, ["ops", "app@10.0.0.%", ""]) is admin


# -- what there is -----------------------------------------------------------------------------------------------------


def with_caches() -> FakeSystem:
    system = FakeSystem()
    for name, made_by in {
        "mine": MadeBy(Origin.SQL, "app@%"),
        "theirs": MadeBy(Origin.SQL, "bob@%"),
        "filed": BY_FILE,
        "auto1": MadeBy(Origin.AUTOMATIC, reason="500 reads a minute"),
    }.items():
        system.caches.add(name, {}, sql=f"SELECT '{name}'").made_by = made_by
    system.caches["theirs"].why = "unknown_function: SELECT 'theirs'"
    return system


EMPTIED = "lobsters.votes 1204 (31% needlessly), memory 3, lobsters.votes (large change) 2 (31% needlessly)"


def test_the_columns_of_caches_and_their_row() -> None:
    row = rows("SHOW CACHES LIKE 'THEIRS'", with_caches(), ADMIN)[0]
    assert list(row.items()) == [
        ("name", "theirs"), ("query", "SELECT 'theirs'"), ("mode", "maintain"), ("keys", 0), ("bytes", 0), ("hits", 7),
        ("misses", 0), ("passed", 5), ("passed_reason", "a list of 'bob'"), ("hit_p50_us", 3.5), ("miss_p50_us", 0.0),
        ("emptied", 1209), ("emptied_by", EMPTIED), ("state", "ready"), ("database", "lobsters"),
        ("origin", "SQL"), ("creator", "bob@%"),
        ("reason", "unknown_function: SELECT 'theirs'"),
    ]  # fmt: skip


def test_why_reads_were_passed_is_told_to_others_in_a_word() -> None:
    """The whole reason may name values of somebody else's read."""
    system = with_caches()
    system.caches["auto1"].relations = frozenset({("shop", "stories")})
    (row,) = rows("SHOW CACHES LIKE 'auto1'", system, Session())
    assert (row["passed"], row["passed_reason"]) == (5, "parameters")


def test_others_see_their_own_caches_and_those_whose_tables_they_may_read() -> None:
    system, session = with_caches(), Session()
    system.caches["theirs"].relations = frozenset({("shop", "stories"), ("shop", "salaries")})
    system.caches["filed"].relations = frozenset({("shop", "stories")})
    system.caches["auto1"].relations = frozenset({("shop", "stories")})
    found = rows("SHOW CACHES", system, session)
    shown = {row["name"]: (row["query"], row["reason"], row["hits"]) for row in found}
    assert shown == {"mine": ("SELECT 'mine'", None, 7), "filed": (None, None, 7), "auto1": (None, None, 7)}
    system.caches["filed"].made_by = MadeBy(Origin.GRPC, "upwell@%")
    makers = {row["name"]: row["creator"] for row in rows("SHOW CACHES", system, session)}
    assert makers == {"mine": "app@%", "filed": None, "auto1": None}, "that of others, or Upwell's, is none of theirs"
    session.asked.clear()
    rows("SHOW CACHES", system, session)
    assert len(session.asked) == 2, "MySQL is asked once for a table"
    assert None not in [row["query"] for row in rows("SHOW CACHES", system, ADMIN)]


def test_an_account_without_a_name_has_made_no_cache() -> None:
    assert rows("SHOW CACHES LIKE 'filed'", with_caches(), Session("")) == []


def test_the_account_that_upwell_logs_in_with_is_for_administrators() -> None:
    asked = "SHOW UPWELL STATUS LIKE 'source'"
    assert rows(asked, FakeSystem(), Session())[0]["value"] == "mysql://127.0.0.1:3306"
    assert rows(asked, FakeSystem(), ADMIN)[0]["value"] == "mysql://app@127.0.0.1:3306"


def test_the_reason_of_an_automatic_cache_is_shown_while_nothing_worse_is_to_be_told() -> None:
    system = with_caches()
    assert rows("SHOW CACHES LIKE 'auto%'", system, ADMIN)[0]["reason"] == "500 reads a minute"
    system.caches["auto1"].why = "the schema of its tables has changed"
    assert rows("SHOW CACHES LIKE 'auto%'", system, ADMIN)[0]["reason"] == "the schema of its tables has changed"


def with_proxied() -> FakeSystem:
    system = FakeSystem()
    for literal, us, account in ((1, 100.0, "app@%"), (2, 300.0, "app@%"), (3, 200.0, "bob@%")):
        system.proxied.entry(f"SELECT a FROM t WHERE id = {literal}", "shop").note(us, account)
    system.proxied.entry("SELECT RAND() FROM t", "shop").note(5000.0, "bob@%")
    system.judge.refused["SELECT RAND() FROM t"] = "nondeterministic: RAND()"
    return system


def test_what_was_passed_through_with_the_costliest_first() -> None:
    found = rows("SHOW PROXIED QUERIES", with_proxied(), ADMIN)
    assert [list(row.items()) for row in found] == [
        [("query", "SELECT RAND() FROM t"), ("database", "shop"), ("count", 1), ("p50_us", 5000.0), ("total_ms", 5.0),
         ("cacheable", "no"), ("reason", "nondeterministic: RAND()"), ("last_seen", "2023-11-14 22:13:20"),
         ("id", found[0]["id"])],
        [("query", "SELECT a FROM t WHERE id = ?"), ("database", "shop"), ("count", 3), ("p50_us", 200.0),
         ("total_ms", 0.6), ("cacheable", "yes"), ("reason", "maintain"), ("last_seen", "2023-11-14 22:13:20"),
         ("id", found[1]["id"])],
    ]  # fmt: skip


def test_others_see_what_they_have_asked_themselves() -> None:
    assert [row["query"] for row in rows("SHOW PROXIED QUERIES", with_proxied(), Session())] == [
        "SELECT a FROM t WHERE id = ?"
    ]
    assert rows("SHOW PROXIED QUERIES", with_proxied(), Session("eve@%")) == []


def test_only_what_is_shown_is_planned() -> None:
    system = with_proxied()
    assert len(rows("SHOW PROXIED QUERIES LIMIT 1", system, ADMIN)) == 1
    assert rows("SHOW PROXIED QUERIES LIKE '%nothing%'", system, ADMIN) == []
    assert system.judge.asked == ["SELECT RAND() FROM t"]
    assert len(rows("SHOW PROXIED QUERIES LIKE 'select a %' LIMIT 5", system, ADMIN)) == 1
    assert rows("SHOW PROXIED QUERIES LIMIT 0", system, ADMIN) == []


def test_what_cannot_be_told_while_the_source_is_away_is_unknown() -> None:
    system = with_proxied()
    system.judge.failing = SourceDown("the source cannot be reached")
    found = {(row["cacheable"], row["reason"]) for row in rows("SHOW PROXIED QUERIES", system, ADMIN)}
    assert found == {("unknown", "not found out yet: the source cannot be reached")}


def test_the_status_by_name() -> None:
    values = {row["name"]: row["value"] for row in rows("SHOW UPWELL STATUS", FakeSystem(), Session())}
    assert values["position"] == SERVER + ":1-5" and values["ready"] == "yes" and values["lag_seconds"] == "0.250"
    assert (values["hits"], values["hit_rate"], values["upqueries_in_flight"]) == ("7", "0.7000", "0")
    assert (values["memory_bytes"], values["memory_limit"], values["transactions"]) == ("1000", "2000", "12")
    assert rows("SHOW UPWELL STATUS LIKE 'mem%limit'", FakeSystem(), Session()) == [
        {"name": "memory_limit", "value": "2000"}
    ]


def test_the_status_says_why_nothing_is_served() -> None:
    system = FakeSystem(why_not_ready="the source has not been reached for 31 s")
    (row,) = rows("SHOW UPWELL STATUS LIKE 'ready'", system, Session())
    assert row["value"] == "the source has not been reached for 31 s"


# -- explanations ------------------------------------------------------------------------------------------------------


def test_a_plan_is_explained_line_by_line_and_a_refusal_with_its_reason() -> None:
    assert rows(f"EXPLAIN CREATE CACHE FROM {BY_ID}", FakeSystem(), Session()) == [{"explanation": f"plan of {BY_ID}"}]
    refused = rows("EXPLAIN CREATE CACHE FROM SELECT RAND() FROM t", FakeSystem(), Session())
    assert [row["explanation"] for row in refused] == [
        "refused: a function whose value differs between calls: RAND()",
        "reason: nondeterministic",
    ]


def test_the_last_statement_is_told_as_the_session_has_it() -> None:
    last = LastStatement("passed", "", "in a transaction after a write", "")
    assert rows("EXPLAIN LAST STATEMENT", FakeSystem(), Session(last_statement=last)) == [
        {"served": "passed", "cache": None, "reason": "in a transaction after a write", "position": None}
    ]
    hit = LastStatement("hit", "story", "", SERVER + ":1-5")
    of_two = LastStatement("hit", "story", "", f"{SERVER}:1-5,\n{SERVER[:-1]}0:1")
    (row,) = rows("EXPLAIN LAST STATEMENT", FakeSystem(), Session(last_statement=of_two))
    assert row["position"] == f"{SERVER}:1-5,{SERVER[:-1]}0:1"
    assert rows("EXPLAIN LAST STATEMENT", FakeSystem(), Session(last_statement=hit)) == [
        {"served": "hit", "cache": "story", "reason": None, "position": SERVER + ":1-5"}
    ]


def test_before_the_first_statement_there_is_nothing_to_explain() -> None:
    (row,) = rows("EXPLAIN LAST STATEMENT", FakeSystem(), Session())
    assert row == {"served": None, "cache": None, "reason": "the session has asked nothing yet", "position": None}


@pytest.mark.parametrize("error", [UnknownCache, CacheExists, NotPermitted, ParseError, UnsupportedQuery])
def test_each_error_of_a_command_has_a_number_and_state_of_its_own(error: type[UpwellError]) -> None:
    all_of_them: set[type[UpwellError]] = {UnknownCache, CacheExists, NotPermitted, ParseError, UnsupportedQuery}
    others = all_of_them - {error}
    assert error.errno not in {other.errno for other in others} | {UpwellError.errno}
    assert error.sqlstate != UpwellError.sqlstate
