"""JSON_TABLE with columns of dates, times and CHAR, and defaults: cached, and what MySQL would tell each session,
whatever its time zone and its modes are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.protocol.test_hits_same_bytes import comparable
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.served import last_served
from proxy.mysql.wire.packets import ERR

DOCUMENTS = (
    '[{"d": "2020-01-02", "c": "ab"}, {"d": "2020-1-2", "c": "ab  "}, {"d": "2020-01-01 23:30:00+05:00"}]',
    '[{"d": "2020-00-00"}, {"d": "2021-02-31", "c": 7}, {"d": "no date", "c": "long as it is"}, {"c": null}]',
    '[{"d": "10:11:12", "c": ""}, {"d": 20200102}, {"d": "2020-01-02 23:59:59.9995", "c": "\\u00e4"}, {"d": [1]}]',
    '[{"d": "10:11:12.345678"}, {"d": "-838:59:59"}, {"d": "25:61:00"}, {"d": 101112.5}, {"d": "1970-01-01"}]',
    '[{"d": "2038-01-19 03:14:08"}, {"d": 2020}, {"d": "70"}, {"d": 20}, {"d": 0}, {"d": "0"}, {"d": 2156}]',
    "[]",
)
OPAQUE = (  # what MySQL stores with its type
    "JSON_ARRAY(JSON_OBJECT('d', CAST('10:11:12.345678' AS TIME(6))), JSON_OBJECT('d', CAST('2020-01-02' AS DATE)))",
    "JSON_ARRAY(JSON_OBJECT('d', TIMESTAMP('2020-01-02 10:11:12.5555')), JSON_OBJECT('d', CAST(2021 AS YEAR)))",
)
COLUMNS = {
    "date": "d DATE PATH '$.d'",
    "date, defaults": "d DATE PATH '$.d' DEFAULT '\"2001-02-03\"' ON EMPTY DEFAULT '\"2004-05-06\"' ON ERROR",
    "datetime": "d DATETIME PATH '$.d'",
    "datetime, defaults": "d DATETIME PATH '$.d' DEFAULT '\"2001-02-03 04:05:06.789+01:00\"' ON EMPTY",
    "datetime(3)": "d DATETIME(3) PATH '$.d'",
    "datetime(3), defaults": "d DATETIME(3) PATH '$.d' DEFAULT '\"2001-02-03 04:05:06.7899+01:00\"' ON EMPTY",
    "time": "d TIME PATH '$.d'",
    "time, defaults": "d TIME(2) PATH '$.d' DEFAULT '\"1:2:3.456\"' ON EMPTY DEFAULT '\"4:5:6\"' ON ERROR",
    "time(2)": "d TIME(2) PATH '$.d'",
    "timestamp": "d TIMESTAMP PATH '$.d'",
    "timestamp(6)": "d TIMESTAMP(6) PATH '$.d'",
    "timestamp, defaults": "d TIMESTAMP(6) PATH '$.d' DEFAULT '\"1970-01-01 00:00:01-05:00\"' ON EMPTY",
    "year": "d YEAR PATH '$.d'",
    "year, defaults": "d YEAR(4) PATH '$.d' DEFAULT '2001' ON EMPTY DEFAULT '1999' ON ERROR",
    "datetime, exists": "d DATETIME EXISTS PATH '$.d'",
    "char": "d CHAR(4) PATH '$.c'",
    "char, defaults": "d CHAR(4) PATH '$.c' DEFAULT '\"x \"' ON EMPTY DEFAULT '\"y\"' ON ERROR",
    "char(1)": "d CHAR PATH '$.c'",
}
QUERIES = (
    "SELECT j.id, k.d FROM j, JSON_TABLE(j.doc, '$[*]' COLUMNS (n FOR ORDINALITY, {column})) k WHERE j.id = {key}"
    " ORDER BY k.n",
    "SELECT k.d, COUNT(*) AS c FROM j, JSON_TABLE(j.doc, '$[*]' COLUMNS ({column})) k WHERE j.id >= {key}"
    " GROUP BY k.d ORDER BY k.d",
    "SELECT j.id FROM j, JSON_TABLE(j.doc, '$[*]' COLUMNS ({column})) k WHERE j.id >= {key} AND k.d = j.`{other}`"
    " ORDER BY j.id",
)
SETTINGS = (
    *("SET time_zone = '+00:00'", "SET time_zone = '+03:00'", "SET time_zone = '-11:30'", "SET sql_mode = DEFAULT"),
    *(
        "SET sql_mode = ''",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        "SET sql_mode = 'NO_ZERO_IN_DATE,STRICT_ALL_TABLES'",
    ),
    *("SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'", "SET sql_mode = 'TIME_TRUNCATE_FRACTIONAL'", "SET NAMES latin1"),
    *("SET NAMES utf8mb4", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci"),
)
CHANGES = (
    "UPDATE j SET doc = {document} WHERE id = {key}",
    "REPLACE INTO j VALUES ({key}, {document}, '2020-01-02', '2020-01-02', '05:11:12', '2020-01-02', 2020, 'ab')",
    "UPDATE j SET date = '2020-01-01', datetime = '2020-01-01 18:30:00', time = '10:11:12.34',"
    " timestamp = '2020-01-02 10:11:13', year = 1970, `char` = 'x' WHERE id = {key}",
    "DELETE FROM j WHERE id = {key}",
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    state = Path(tmp_path_factory.mktemp("state"))
    table = (
        "CREATE TABLE j (id INT PRIMARY KEY, doc JSON, date DATE, datetime DATETIME(3), time TIME(2),"
        " timestamp TIMESTAMP(6) NULL, year YEAR, `char` CHAR(4))"
    )
    with beside_database(mysql, "json_table_dates", state, table) as found:
        yield found


@pytest.mark.parametrize("kind", list(COLUMNS))
def test_as_each_session_has_it(beside: Beside, kind: str) -> None:
    rng = random.Random(kind)
    column, other = COLUMNS[kind], kind.split(",")[0].split("(")[0]
    with beside.client() as client:
        for number, query in enumerate(QUERIES):
            client.query(f"DROP CACHE dates{number}")
            answer = client.query(
                f"CREATE CACHE dates{number} FROM {query.format(column=column, other=other, key='?')}"
            )
            assert answer[4] != ERR, (query, answer)
    hits = 0
    written = ["'" + document.replace("\\", "\\\\") + "'" for document in DOCUMENTS]
    with beside.direct() as direct, beside.client() as through:
        for step in range(360):
            if step % 12 == 0:
                document = rng.choice((*written, *OPAQUE))
                beside.mysql.execute(
                    f"USE {beside.proxy.database}",
                    rng.choice(CHANGES[:2] if step < 24 else CHANGES).format(document=document, key=1 + step // 12 % 2),
                )
                beside.caught_up()
            if step % 6 in (0, 3):
                changed = ("SET time_zone = '+00:00', sql_mode = DEFAULT", "SET NAMES utf8mb4")
                for setting in (*changed, rng.choice(SETTINGS))[: 2 + (step % 6) // 3]:
                    assert direct.query(setting)[4] == through.query(setting)[4]
            read = rng.choice(QUERIES).format(column=column, other=other, key=rng.choice((1, 1, 2)))
            wanted, found = (without_warnings(comparable(client, client.query(read))) for client in (direct, through))
            served = last_served(beside, through)
            assert wanted == found, (step, read, served)
            hits += served.startswith("hit")
    assert hits > 20, "hardly an answer of a cache was compared"


def without_warnings(answer: object) -> object:
    """MySQL counts those of the rows that it has looked at; a hit has none."""
    if not isinstance(answer, tuple):
        return answer
    head, rows, end = answer
    return head, rows, end[:9]
