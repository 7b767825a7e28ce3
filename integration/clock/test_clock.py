"""Queries by the clock: MySQL is asked what its functions are, and what it answers to the same texts meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import monotonic

import pytest

from integration.clock.paced import breathe
from integration.oracle.answers import parse
from integration.oracle.trees import integer, moment, payload, string
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit
from planner.text.clock import finds
from planner.text.clock_literals import read
from planner.text.scan import scan
from proxy.grpc.rows import FORMAT
from proxy.mysql.wire.packets import COM_RESET_CONNECTION
from proxy.port.api import Served
from proxy.port.reasons import Reason
from sqltypes.parameters import Moment

DATABASE = "by_the_clock"
TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, at DATETIME, fine DATETIME(3), da DATE,"
    " ts TIMESTAMP NULL, u INT, y INT, KEY (k))",
)
ROW = "({k}, NOW() + INTERVAL {s} SECOND, NOW(3) + INTERVAL {s}.25 SECOND, CURDATE() + INTERVAL {s} DAY,"
ROW += " NOW() + INTERVAL {s} SECOND, UNIX_TIMESTAMP() + {s}, YEAR(NOW()))"
FUNCTIONS = (
    "NOW()", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP()", "LOCALTIME", "LOCALTIMESTAMP()", "UTC_TIMESTAMP()",
    "UTC_TIMESTAMP", "CURDATE()", "CURRENT_DATE", "CURRENT_DATE()", "UTC_DATE", "UTC_DATE()", "DATE(NOW())",
    "NOW(0)", "UTC_TIMESTAMP(0)", "LOCALTIME(0)", "CAST(NOW() AS DATE)", "CAST(CURDATE() AS DATETIME)",
    "LAST_DAY(NOW())", "TIMESTAMP(CURDATE())", "TIMESTAMP(UTC_TIMESTAMP())", "LAST_DAY(CURDATE() - INTERVAL 1 MONTH)",
)  # fmt: skip
FORMATS = ("%Y-%m-01", "%Y%m%d%H%i%s", "%y-%m-%d %T", "%Y-01-01 00:00:00", "%d.%m.%Y", "%H:%i:%S", "%Y")
UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
MOMENTS = (
    "2024-02-29 00:00:00", "2024-12-31 23:59:59", "2023-03-31 12:34:56", "2025-01-30 01:02:03", "2026-05-31 23:00:00",
    "2001-09-09 01:46:40",
)  # fmt: skip
QUERIES = (
    "SELECT id FROM p WHERE k = 1 AND at <= NOW() ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND at > NOW() - INTERVAL 2 SECOND AND at < NOW() + INTERVAL 2 SECOND ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND fine < CURRENT_TIMESTAMP ORDER BY id",
    "SELECT COUNT(*), MAX(at) FROM p WHERE k = 1 AND at BETWEEN CURDATE() AND NOW()",
    "SELECT id FROM p WHERE k = 1 AND ts >= UTC_TIMESTAMP() ORDER BY id DESC LIMIT 3",
    "SELECT id FROM p WHERE k = 1 AND u > UNIX_TIMESTAMP() - 1 ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND da >= CURDATE() ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND da > NOW() ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND DATE(at) = CURDATE() ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND y = YEAR(CURDATE()) AND YEAR(at) = YEAR(NOW()) ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND DATEDIFF(NOW(), at) < 1 AND TIMESTAMPDIFF(SECOND, at, NOW()) > 0 ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND UNIX_TIMESTAMP(at) > UNIX_TIMESTAMP(NOW()) - 2*1 ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND u < (UNIX_TIMESTAMP()) ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND at > DATE_FORMAT(NOW(0), '%Y-%m-%d %H:%i:%s') ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND TIME(at) > CURTIME() ORDER BY id",
    "SELECT id, at <= NOW() AS due, CASE WHEN fine < NOW() THEN 'old' END AS s FROM p WHERE k = 1 ORDER BY id",
    "SELECT SUM(at > NOW() - INTERVAL 1 SECOND) AS n, COUNT(IF(ts < NOW(), 1, NULL)) AS m FROM p WHERE k = 1",
    "SELECT y, SUM(CASE WHEN da >= CURDATE() THEN u END) AS `s` FROM p WHERE YEAR(at) > 1 AND at < NOW() GROUP BY y",
    "SELECT id, TIMESTAMPDIFF(SECOND, at, NOW()) AS age, DATEDIFF(CURDATE(), da) AS d FROM p WHERE k = 1 ORDER BY id",
    "SELECT IF(TIMESTAMPDIFF(SECOND, fine, NOW()) > 1, 'old', id) AS s FROM p WHERE k = 1 AND at < NOW() ORDER BY 1",
    "SELECT id FROM p WHERE at <= NOW() ORDER BY at DESC, id LIMIT 4",
    "SELECT id, at <= DATE_ADD('2024-01-01', INTERVAL 5 DAY) AS old FROM p WHERE (at, id) < (NOW(), 5) ORDER BY id",
    "SELECT id, NOW() > '2024-01-01' AS later FROM p WHERE k = 1 AND at < NOW() ORDER BY id",
)
SECONDS = 2.2  # for which each query is asked: its answer changes in each of them


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with beside_database(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), *TABLES) as found:
        yield found


@pytest.fixture(autouse=True)
def rows(beside: Beside, mysql: Server) -> None:
    rows = ", ".join(ROW.format(k=k, s=s) for k in (1, 2) for s in (-2, -1, 0, 1, 2, 3, 4))
    columns = "(k, at, fine, da, ts, u, y)"
    mysql.execute(f"USE {DATABASE}", "DELETE FROM p", f"INSERT INTO p {columns} VALUES {rows}")
    beside.caught_up()
    beside.until(lambda: beside.proxy.app.clock.utc() is not None)  # MySQL has told what time it is


def expressions(rng: random.Random) -> Iterator[str]:
    for function in FUNCTIONS:
        yield function
        for part in ("YEAR", "MONTH", "DAY", "DAYOFMONTH", "HOUR", "MINUTE"):
            yield f"{part}({function})"
        for unit in UNITS:
            some = rng.choice((1, 7, 13, 31, 400))
            yield f"{function} {rng.choice('+-')} INTERVAL {some} {unit}"
            yield f"{rng.choice(('DATE_ADD', 'ADDDATE', 'DATE_SUB', 'SUBDATE'))}({function}, INTERVAL {some} {unit})"
            yield f"DATE({function} - INTERVAL {some} {unit}) + INTERVAL {rng.choice((1, 2, 40))} {rng.choice(UNITS)}"
            yield f"YEAR({function} + INTERVAL {some} {unit})"
            signed = rng.choice((f"-{some}", f"'{some}'", f"'-{some}'")) if unit != "SECOND" else f"-{some}"
            yield f"{function} {rng.choice('+-')} INTERVAL {signed} {unit}"
            yield f"TIMESTAMPADD({unit}, {rng.choice(('', '-'))}{some}, {function})"
            yield f"LAST_DAY({function} - INTERVAL {some} {unit})"
            if unit not in ("QUARTER", "YEAR"):  # of which MySQL's servers differ
                yield f"UNIX_TIMESTAMP({function} - INTERVAL {rng.choice((1, 7, 13, 31))} {unit})"
        yield f"{rng.choice(('ADDDATE', 'SUBDATE'))}({function}, {rng.choice((1, 7, 31, 400))})"
        yield f"UNIX_TIMESTAMP({function}) - 60*60"
        for form in FORMATS:
            yield f"DATE_FORMAT({function}, '{form}')"
    yield from (
        "UNIX_TIMESTAMP()",
        "UNIX_TIMESTAMP() - 3600",
        "UNIX_TIMESTAMP() + 60 - 1",
        "UNIX_TIMESTAMP() - 24*60*60",
    )
    yield from ("CURTIME()", "CURRENT_TIME", "CURRENT_TIME()", "CURTIME(0)", "UTC_TIME()", "UTC_TIME", "TIME(NOW())")


def test_each_function_is_what_mysql_says(beside: Beside) -> None:
    """Under a clock that stands still, in three time zones; the literal has the type, too."""
    rng, wrong = random.Random(1), []
    with beside.direct() as direct:
        for moment, (zone, ahead) in zip(MOMENTS, (("+00:00", 0), ("+05:30", 330), ("-08:00", -480)) * 2, strict=True):
            utc = datetime.fromisoformat(moment)
            direct.query(f"SET timestamp = {int(utc.replace(tzinfo=UTC).timestamp())}, time_zone = '{zone}'")
            texts = list(expressions(rng))
            for some in (texts[at : at + 40] for at in range(0, len(texts), 40)):
                asked = [f"x > {text}" for text in some]
                literals = []
                for condition in asked:
                    tokens = scan(f"SELECT x FROM t WHERE {condition}")
                    found = (finds(tokens) or [])[-1]
                    assert found.end == len(tokens), condition
                    given = [tokens[place].text for place in found.texts]
                    literals.append(read(found, given, utc + timedelta(minutes=ahead), utc))
                pairs = [f"{text}, {literal}" for text, literal in zip(some, literals, strict=True)]
                answer = parse(direct.query(f"SELECT {', '.join(pairs)}"), binary=False)
                assert not answer.errno, (answer.message, pairs)
                (row,) = map(answer.cells, answer.rows)
                for at, text in enumerate(some):
                    types = [answer.columns[number].type for number in (2 * at, 2 * at + 1)]
                    if row[2 * at] != row[2 * at + 1] or types[0] != types[1]:
                        wrong.append(f"{moment} {zone}: {text}: {row[2 * at]!r}, ours {literals[at]}, types {types}")
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:10])


def test_each_function_with_a_fraction_is_what_mysql_says(beside: Beside) -> None:
    forms = (
        "{}", "{} - INTERVAL 1 DAY", "DATE_ADD({}, INTERVAL 1 MONTH)", "{} + INTERVAL '-3' HOUR", "TIMESTAMP({})",
        "DATE({})", "YEAR({})", "HOUR({})", "DATE_FORMAT({}, '%Y-%m-%d %T')", "LAST_DAY({})", "CAST({} AS DATE)",
        "TIMESTAMPADD(SECOND, -1, {})", "{} - INTERVAL 1 SECOND + INTERVAL 2 MINUTE",
    )  # fmt: skip
    names = ("NOW", "UTC_TIMESTAMP", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")
    utc, wrong = datetime.fromisoformat(MOMENTS[1]), []
    with beside.direct() as direct:
        for micros in (0, 1, 999_999, 500_000, 123_456):
            seconds = int(utc.replace(tzinfo=UTC).timestamp())
            direct.query(f"SET timestamp = {seconds}.{micros:06}, time_zone = '+05:30'")
            for text in (form.format(f"{name}({digits})") for form in forms for name in names for digits in range(7)):
                tokens = scan(f"SELECT x FROM t WHERE x > {text}")
                (found,) = finds(tokens) or []
                assert found.end == len(tokens), text
                given = [tokens[place].text for place in found.texts]
                literal = read(found, given, utc + timedelta(minutes=330), utc, micros=micros)
                told = parse(direct.query(f"SELECT {text}, {literal}"), binary=False)
                (row,) = map(told.cells, told.rows)
                if row[0] != row[1] or told.columns[0].type != told.columns[1].type:
                    wrong.append(f"{micros}: {text}: {row}, ours {literal}")
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:10])


def answer(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else (found.columns, found.rows)


def executed(client: RawClient, sql: str, bound: bytes) -> Callable[[], object]:
    """Executes a prepared statement each time that it is called."""
    statement = client.prepare(sql)

    def execute() -> object:
        client.transcript.clear()
        found = parse(client.execute(statement.id, bound), binary=True)
        return (found.errno, found.message) if found.errno else (found.columns, found.rows)

    return execute


def asked_for_a_while(beside: Beside, through: RawClient, direct: RawClient, sql: str) -> Counter[str]:
    return compared_for_a_while(beside, through, partial(answer, through, sql), partial(answer, direct, sql), sql)


def compared_for_a_while(
    beside: Beside, through: RawClient, cached: Callable[[], object], own: Callable[[], object], sql: str
) -> Counter[str]:
    """Each answer is one that MySQL gives just before or just after it."""
    served: Counter[str] = Counter()
    end = monotonic() + SECONDS
    answers = []
    while monotonic() < end:
        answers.append(own())
        ours = cached()
        answers.append(own())
        assert ours in answers[-2:], f"{sql}\n{ours}\n{answers[-2:]}"
        served[last_served(beside, through)] += 1
        breathe()
    assert len([1 for one, other in pairwise(answers) if one != other]) < 40
    return served


@pytest.mark.parametrize("sql", QUERIES)
def test_an_answer_changes_when_mysqls_clock_says_so(beside: Beside, sql: str) -> None:
    with beside.client() as through, beside.direct() as direct:
        made = parse(through.query(f"CREATE CACHE clock FROM {sql}"), binary=False)
        assert not made.errno, made.message
        served = asked_for_a_while(beside, through, direct, sql)
        kinds = Counter({reason.split(" ")[0]: count for reason, count in served.items()})
        with_string = "NOW() >" in sql  # which MySQL reads as a date-time, and the cache's parameter is a string
        assert not kinds["hit"] if with_string else kinds["hit"] > 0.6 * served.total(), served
        through.query("DROP CACHE clock")


@pytest.mark.parametrize("sql", QUERIES[:-1])
def test_what_is_prepared_changes_when_mysqls_clock_says_so(beside: Beside, sql: str) -> None:
    text = sql.replace("k = 1", "k = ?")
    bound = payload([integer(1)]) if "?" in text else b""
    with beside.client() as through, beside.direct() as direct:
        made = parse(through.query(f"CREATE CACHE clock FROM {text}"), binary=False)
        assert not made.errno, made.message
        cached, own = executed(through, text, bound), executed(direct, text, bound)
        served = compared_for_a_while(beside, through, cached, own, sql)
        kinds = Counter({reason.split(" ")[0]: count for reason, count in served.items()})
        assert kinds["hit"] > 0.6 * served.total(), served
        through.query("DROP CACHE clock")
        before = own()
        assert cached() in (before, own()) and not last_served(beside, through).startswith("hit")


def test_a_prepared_statement_has_the_clock_of_its_session(beside: Beside) -> None:
    text = "SELECT id FROM p WHERE k = ? AND at <= NOW() ORDER BY id"
    bound = payload([integer(1)])
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE clock FROM {text}")
        cached, own = executed(through, text, bound), executed(direct, text, bound)
        for setting in ("time_zone = '+05:00'", "timestamp = 981158400", "timestamp = DEFAULT", "time_zone = '-03:00'"):
            for client in (through, direct):
                client.query(f"SET {setting}")
            for _ in range(5):
                assert cached() in (own(), own()), setting
        for client in (through, direct):
            client.query("SET autocommit = 0")
        end = monotonic() + 1.5
        while monotonic() < end:  # in one transaction
            before = own()
            assert cached() in (before, own())
            breathe()
        through.query("DROP CACHE clock")


TOLERANCE = 2


def test_an_answer_may_be_as_old_as_is_allowed(mysql: Server, tmp_path: Path) -> None:
    sql = "SELECT id FROM p WHERE k = 1 AND at <= NOW() ORDER BY id"
    rows = ", ".join(ROW.format(k=1, s=s) for s in range(-3, 9))
    filled = f"INSERT INTO p (k, at, fine, da, ts, u, y) VALUES {rows}"
    with (
        beside_database(mysql, "by_a_late_clock", tmp_path, *TABLES, filled, clock_tolerance=f"{TOLERANCE}s") as beside,
        beside.client() as through,
        beside.direct() as direct,
    ):
        through.query(f"CREATE CACHE clock FROM {sql}")
        seen: list[tuple[float, object]] = []
        kinds: Counter[str] = Counter()
        differ = 0
        end = monotonic() + 3 * TOLERANCE
        seen.append((monotonic(), answer(direct, sql)))
        while monotonic() < end:
            before = monotonic()
            ours = answer(through, sql)
            seen.append((monotonic(), answer(direct, sql)))
            first = max(at for at, (when, _) in enumerate(seen) if when <= max(seen[0][0], before - TOLERANCE - 0.1))
            assert ours in [theirs for _, theirs in seen[first:]] or before - seen[0][0] < TOLERANCE, ours
            differ += ours != seen[-1][1]
            kinds[last_served(beside, through).split(" ")[0]] += 1
        assert kinds["hit"] > 0.6 * kinds.total() and differ, (kinds, differ)


def test_who_says_the_moment_himself_is_answered(beside: Beside) -> None:
    """Over gRPC each function of the clock is a parameter of the cache, also where MySQL is asked with the text."""
    sql = "SELECT id FROM p WHERE k = ? AND at > NOW() - INTERVAL 1 DAY AND DATE(at) <> CURDATE() ORDER BY id"
    router, moments = beside.proxy.app.router, ("2001-01-01 00:00:00", Moment("2001-01-01"), Moment("2001-01-02"))

    async def answers() -> list[tuple[Served, bytes]]:
        await router.caches.create("said", sql, DATABASE)
        opened = router.caches.open("said", FORMAT)
        assert [item.name for item in opened.info.parameters] == ["k", "at", ""]
        given = [(1, moments[0], one) for one in moments[1:]] * 3
        found = [await opened.read(one) for one in given]
        passed = await router.reads.passing.read_cache(
            opened.named, given[0], router.pump.formats.number(FORMAT), Reason.ASKED.why("asked for")
        )
        return [(one.served, one.body) for one in (*found, passed)]

    served = asyncio.run_coroutine_threadsafe(answers(), beside.loop).result(60)
    assert Served.HIT in {one for one, _ in served} and len({body for _, body in served}) == 1, served
    assert not beside.call(lambda: beside.proxy.app.engine.memory.counters.get("faults", 0))


BY_NOW = "SELECT id FROM p WHERE k = 1 AND at <= NOW() ORDER BY id"


@pytest.fixture
def cached(beside: Beside) -> Iterator[None]:
    with beside.client() as client:
        client.query(f"CREATE CACHE clock FROM {BY_NOW}")
        yield
        client.query("DROP CACHE clock")


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("zone", ["+00:00", "+05:30", "-08:00"])
def test_a_sessions_time_zone_is_its_own(beside: Beside, zone: str) -> None:
    with beside.client() as through, beside.direct() as direct:
        for client in (through, direct):
            client.query(f"SET time_zone = '{zone}'")
        read_until_hit(beside, through, lambda: through.query(BY_NOW))
        assert answer(through, BY_NOW) == answer(direct, BY_NOW)


@pytest.mark.usefixtures("cached")
def test_a_session_with_a_clock_of_its_own_is_mysqls(beside: Beside, mysql: Server) -> None:
    mysql.execute(
        f"USE {DATABASE}",
        "DROP PROCEDURE IF EXISTS back",
        "CREATE PROCEDURE back() SET SESSION timestamp = 1000000000",
    )
    with beside.client() as through:
        for back in ("SET timestamp = 1000000000", "SET @@session.timestamp = 1", "CALL back()", "EXECUTE back"):
            through.command(COM_RESET_CONNECTION)
            read_until_hit(beside, through, lambda: through.query(BY_NOW))
            through.query("PREPARE back FROM 'SET timestamp = 1000000000'")
            through.query(back)
            assert not parse(through.query(BY_NOW), binary=False).rows, back
            assert last_served(beside, through).startswith("passed"), back
            through.query("SET time_zone = '+00:00'")
            assert not parse(through.query(BY_NOW), binary=False).rows, back
        # Also where nobody had asked anything since the session was begun anew.
        through.command(COM_RESET_CONNECTION)
        through.query("CALL back()")
        for _ in range(3):
            assert not parse(through.query(BY_NOW), binary=False).rows
        through.command(COM_RESET_CONNECTION)
        read_until_hit(beside, through, lambda: through.query(BY_NOW))


@pytest.mark.usefixtures("cached")
def test_a_write_that_fails_may_have_set_the_clock(beside: Beside, mysql: Server) -> None:
    """By its trigger; MySQL tells nothing of a session with an error."""
    mysql.execute(
        f"USE {DATABASE}",
        "DROP TABLE IF EXISTS triggered",
        "CREATE TABLE triggered (id INT PRIMARY KEY)",
        "CREATE TRIGGER back BEFORE INSERT ON triggered FOR EACH ROW SET @@session.timestamp = 1000000000",
    )
    with beside.client() as through:
        for write in ("INSERT INTO triggered VALUES (NULL)", "INSERT INTO triggered VALUES (7), (7)"):
            through.command(COM_RESET_CONNECTION)
            read_until_hit(beside, through, lambda: through.query(BY_NOW))
            assert parse(through.query(write), binary=False).errno
            assert not parse(through.query(BY_NOW), binary=False).rows, write
        through.command(COM_RESET_CONNECTION)
        read_until_hit(beside, through, lambda: through.query(BY_NOW))
        prepared = through.prepare("INSERT INTO triggered VALUES (NULL)")
        assert parse(through.execute(prepared.id, b""), binary=True).errno
        assert not parse(through.query(BY_NOW), binary=False).rows, "executed"
    mysql.execute(f"DROP TABLE {DATABASE}.triggered")


@pytest.mark.usefixtures("cached")
def test_the_server_may_have_set_the_clock_of_a_session_that_begins(beside: Beside, mysql: Server) -> None:
    mysql.execute(
        "DROP USER IF EXISTS plain_client",
        "CREATE USER plain_client",
        f"GRANT SELECT ON {DATABASE}.* TO plain_client",
        "SET GLOBAL init_connect = 'SET timestamp = 1000000000'",
    )
    try:
        with beside.client(user="plain_client") as through:
            for _ in range(5):
                assert not parse(through.query(BY_NOW), binary=False).rows
    finally:
        mysql.execute("SET GLOBAL init_connect = DEFAULT", "DROP USER plain_client")


CACHED_TEXTS = (
    "SELECT id FROM p WHERE k > u DIV 1 ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND at <= TIMESTAMP '2024-01-01 00:00:00' ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND da >= DATE '2024-01-01' ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND at > DATE_SUB('2024-01-01 00:00:00', INTERVAL 2 DAY) ORDER BY id",
    "SELECT id FROM p WHERE k = 1 ORDER BY id LIMIT 11",
    "SELECT id, k, at, 4, 5, 6, 7, 8, 9, 10, -id FROM p WHERE k = 1 ORDER BY 11",
    "SELECT k, COUNT(*) FROM p WHERE u > 5 GROUP BY 1 ORDER BY 1",
)
NOT_ONE_LITERAL = (
    "SELECT id FROM p WHERE k > u DIV UNIX_TIMESTAMP() - 1 ORDER BY id",
    "SELECT id FROM p WHERE k > 5 DIV NOW() - INTERVAL 1 DAY ORDER BY id",
    "SELECT id FROM p WHERE (!NOW() - INTERVAL 1 DAY) IS NULL AND k = 1 ORDER BY id",
    "SELECT id FROM p WHERE COALESCE(!NOW() - INTERVAL 1 DAY, k) = 1 ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND ! UNIX_TIMESTAMP() - 9 < 0 ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND at <= NOW () ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND at <= NOW -- x\n() ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND da >= CURDATE () ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND at > DATE_SUB (NOW(), INTERVAL 2 DAY) ORDER BY id",
    "SELECT id FROM p WHERE k = 1 ORDER BY id LIMIT MONTH(NOW())",
    "SELECT id FROM p WHERE k = 1 ORDER BY id LIMIT UNIX_TIMESTAMP()",
    "SELECT id, k, at, 4, 5, 6, 7, 8, 9, 10, -id FROM p WHERE k = 1 ORDER BY MONTH(NOW() - INTERVAL {last} MONTH)",
    "SELECT k, COUNT(*) FROM p WHERE u > 5 GROUP BY MONTH(NOW() - INTERVAL {first} MONTH) ORDER BY 1",
    "SELECT id FROM p WHERE k = 1 AND at LIKE NOW() - INTERVAL 1 DAY ORDER BY id",
)


def test_what_reads_like_one_literal_and_is_none(beside: Beside) -> None:
    """Caches made by the very texts, and by texts with a literal there, do not answer what MySQL reads otherwise."""
    month = datetime.now(UTC).month
    with beside.client() as through, beside.direct() as direct:
        for number, sql in enumerate(CACHED_TEXTS):
            through.query(f"CREATE CACHE literal{number} FROM {sql}")
            for _ in range(3):
                assert answer(through, sql) == answer(direct, sql)
        for number, text in enumerate(NOT_ONE_LITERAL):
            sql = text.format(last=(month - 11) % 12, first=(month - 1) % 12)
            through.query(f"CREATE CACHE clocked{number} FROM {sql}")
            for _ in range(4):
                assert answer(through, sql) == answer(direct, sql), sql
        for kind, texts in (("literal", CACHED_TEXTS), ("clocked", NOT_ONE_LITERAL)):
            for number in range(len(texts)):
                through.query(f"DROP CACHE {kind}{number}")


def test_a_time_that_is_shown_may_be_up_to_any_literal(beside: Beside) -> None:
    """Those that MySQL announces otherwise, or reads otherwise, are its own."""
    sql = "SELECT id, TIMESTAMPDIFF(SECOND, at, {0}) AS s, DATEDIFF({0}, da) AS d FROM p WHERE k = 1 ORDER BY id"
    literals = (
        *("TIMESTAMP '2024-01-01 10:00:00'", "TIMESTAMP '2024-01-01 10:00:00.5'", "DATE '2024-01-01'", "'2024-01-01'"),
        *(
            "'2024-01-01 10:00:00.25'",
            "20240101",
            "20240101101112.5",
            "NULL",
            "'a'",
            "0",
            "NOW()",
            "NOW(3)",
            "at",
            "1e3",
        ),
    )
    kinds: Counter[str] = Counter()
    with beside.client() as through, beside.direct() as direct:
        made = parse(through.query(f"CREATE CACHE spans FROM {sql.format('NOW()')}"), binary=False)
        assert not made.errno, made.message
        for _ in range(4):
            for literal in literals:
                text = sql.format(literal)
                before, ours, after = (answer(client, text) for client in (direct, through, direct))
                assert ours in (before, after), text
                kinds[last_served(beside, through).split(" ")[0]] += 1
        prepared = sql.replace("k = 1", "k = ?").format("?")
        for bound in (string("2024-01-01"), moment("2024-01-01 00:00:01"), string("a"), integer(20240101)):
            values = payload([bound, bound, integer(1)])
            cached, own = executed(through, prepared, values), executed(direct, prepared, values)
            for _ in range(3):
                assert cached() == own(), bound
        through.query("DROP CACHE spans")
    assert kinds["hit"], kinds


@pytest.mark.usefixtures("cached")
def test_in_a_transaction_the_clock_goes_on(beside: Beside) -> None:
    """One state of the rows, and another moment for each statement."""
    with beside.client() as through, beside.direct() as direct:
        for client in (through, direct):
            client.query("SET SESSION transaction_isolation = 'REPEATABLE-READ'")
        hits, tries = 0, 3  # one that begins as a second does has MySQL's snapshot before its first hit
        while hits <= 10 and tries:
            read_until_hit(beside, through, lambda: through.query(BY_NOW))
            for client in (through, direct):
                client.query("BEGIN")
            served = asked_for_a_while(beside, through, direct, BY_NOW)
            hits = sum(count for reason, count in served.items() if reason.startswith("hit"))
            for client in (through, direct):
                client.query("ROLLBACK")
            tries -= 1
        assert hits > 10, served
