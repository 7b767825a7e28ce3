"""Random queries about whose answers sessions may differ: strings that collations see differently, made in many ways;
dates, zones and formats; each compared, grouped, ordered, united.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from planner.tree.reasons import DETERMINISTIC

CREATE = """CREATE TABLE w (
    id INT NOT NULL PRIMARY KEY, n INT NOT NULL, f DECIMAL(8,3) NOT NULL, g DOUBLE NULL,
    s VARCHAR(20) COLLATE utf8mb4_0900_ai_ci NULL, t VARCHAR(20) COLLATE utf8mb4_bin NOT NULL,
    l VARCHAR(20) CHARACTER SET latin1 NOT NULL, u VARCHAR(20) CHARACTER SET utf8mb3 NOT NULL,
    x TEXT COLLATE utf8mb4_unicode_ci NOT NULL, e ENUM('a', 'B', 'may') NOT NULL, b VARBINARY(20) NOT NULL,
    d DATE NOT NULL, m DATETIME(3) NOT NULL, z TIMESTAMP NOT NULL, c TIME NOT NULL, o VARCHAR(40) NOT NULL,
    j JSON NOT NULL, FULLTEXT KEY (s), FULLTEXT KEY (x))"""
STRINGS = (
    "a",
    "A",
    "b",
    "é",
    "E",
    "ß",
    "ss",
    "i",
    "I",
    "\u0131",
    "İ",
    "May",
    "may",
    "MAY",
    "a ",
    "",
    "z",
    "Z",
    "ä",
    "10",
    "9",
)
DATES = ("2024-01-01", "2024-05-05", "2024-12-31", "2023-01-02", "2024-05-06")
ENUM = ("a", "B", "may")
DOCUMENTS = ('"a"', '"A"', '{"may": 5}', "[1]")
CLOCKS = ("00:00:00", "12:30:00", "23:59:59")
TEXTS_OF_DATES = ("2024-01-01 00:00:00", "2024-05-05 12:00:00+02:00", "2024-05-05", "may", "2024-05-05 12:00:00")


def rows(rng: random.Random, count: int) -> list[tuple[object, ...]]:
    made: list[tuple[object, ...]] = []
    narrow = [text for text in STRINGS if text not in ("\u0131", "İ")]
    for number in range(count):
        day, clock = rng.choice(DATES), rng.choice(CLOCKS)
        numbers = (number, rng.randrange(4), f"{rng.randrange(9)}.{rng.randrange(9)}25", rng.choice((None, 1e10, 0.5)))
        strings = [rng.choice(pool) for pool in ((None, *STRINGS), STRINGS, narrow, STRINGS, STRINGS, ENUM)]
        dates = (day, f"{day} {clock}.5", f"{day} {clock}", clock, rng.choice(TEXTS_OF_DATES))
        made.append((*numbers, *strings, rng.choice(STRINGS).encode(), *dates, rng.choice(DOCUMENTS)))
    return made


FUNCTIONS = sorted(DETERMINISTIC - {"weight_string", "get_format", "repeat", "space", "lpad", "rpad"})
INSERT = f"INSERT INTO w VALUES ({', '.join(['%s'] * 17)})"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Writer:
    """Writes one query over `w`. Every method gives SQL."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def of(self, *choices: Callable[[], str] | str) -> str:
        chosen = self.rng.choice(choices)
        return chosen if isinstance(chosen, str) else chosen()

    def literal(self) -> str:
        return quoted(self.rng.choice(STRINGS))

    def column(self) -> str:
        return self.rng.choice("ssttluxeb")

    def string(self, depth: int = 0) -> str:
        if depth > 2 or self.rng.random() < 0.45:
            return self.of(self.column, self.column, self.literal)

        def inner() -> str:
            return self.string(depth + 1)

        return self.of(
            lambda: f"CONCAT({inner()}, {self.of(inner, lambda: self.number(depth + 1))})",
            lambda: f"CONCAT_WS('-', {inner()}, {inner()})",
            lambda: f"COALESCE({inner()}, {inner()})",
            lambda: f"{self.of('LOWER', 'UPPER', 'TRIM', 'REVERSE', 'HEX', 'SOUNDEX', 'MD5')}({inner()})",
            lambda: f"{self.of('LEFT', 'RIGHT', 'SUBSTRING')}({inner()}, {self.of('1', '2')})",
            lambda: f"IF({self.condition(depth + 1)}, {inner()}, {inner()})",
            lambda: f"CASE WHEN {self.condition(depth + 1)} THEN {inner()} ELSE {inner()} END",
            lambda: f"CASE {inner()} WHEN {inner()} THEN {inner()} END",
            lambda: f"CAST({self.of(inner, lambda: self.number(depth + 1), lambda: self.date(depth + 1))} AS CHAR)",
            lambda: f"HEX({self.number(depth + 1)})",
            lambda: f"{self.of('TO_BASE64', 'SHA1', 'CRC32')}({self.of(inner, lambda: self.date(depth + 1))})",
            lambda: self.unquoted(depth + 1),
            lambda: f"FORMAT({self.number(depth + 1)}, 2)",
            lambda: f"DATE_FORMAT({self.date(depth + 1)}, {self.of(*map(quoted, ('%M', '%a', '%Y-%u', '%H:%i')))})",
            lambda: f"{self.of('MONTHNAME', 'DAYNAME')}({self.date(depth + 1)})",
            lambda: f"REPLACE({inner()}, {self.literal()}, {self.literal()})",
            lambda: f"TRIM({self.literal()} FROM {inner()})",
            lambda: f"NULLIF({inner()}, {inner()})",
            lambda: f"{self.of('GREATEST', 'LEAST')}({inner()}, {inner()})",
            lambda: f"{self.of('GREATEST', 'LEAST')}({self.literal()}, {self.literal()}, n)",
            lambda: f"(SELECT {self.of('MIN', 'MAX')}({inner()}) FROM w)",
            lambda: f"{self.column()} COLLATE utf8mb4_bin",
            lambda: f"CONVERT({inner()} USING utf8mb4)",
        )

    def number(self, depth: int = 0) -> str:
        if depth > 2 or self.rng.random() < 0.4:
            return self.of("id", "n", "f", "g", "2", "0.5", "3")

        def inner() -> str:
            return self.number(depth + 1)

        return self.of(
            lambda: f"({inner()} {self.of('+', '-', '*', '/', '%', 'DIV')} {inner()})",
            lambda: f"{self.of('LENGTH', 'CHAR_LENGTH', 'ASCII')}({self.string(depth + 1)})",
            lambda: f"{self.of('YEAR', 'MONTH', 'WEEK', 'YEARWEEK', 'DAYOFWEEK', 'TO_DAYS')}({self.date(depth + 1)})",
            lambda: f"UNIX_TIMESTAMP({self.date(depth + 1)})",
            lambda: f"{self.of('HOUR', 'MINUTE', 'SECOND')}({self.of('c', lambda: self.date(depth + 1))})",
            lambda: f"EXTRACT({self.of('WEEK', 'YEAR', 'HOUR')} FROM {self.date(depth + 1)})",
            lambda: f"DATEDIFF({self.date(depth + 1)}, {self.date(depth + 1)})",
            lambda: f"TIMESTAMPDIFF(HOUR, {self.date(depth + 1)}, {self.date(depth + 1)})",
            lambda: f"CAST({self.of(lambda: self.string(depth + 1), inner)} AS {self.of('SIGNED', 'DECIMAL(9, 2)')})",
            lambda: (
                f"{self.of('LOCATE', 'INSTR', 'STRCMP', 'FIELD')}({self.string(depth + 1)}, {self.string(depth + 1)})"
            ),
            lambda: f"FIELD({self.literal()}, {self.column()}, {self.of(self.literal, 'NULL', 's')})",
            lambda: f"FIELD({self.of('s', 't', 'n', 'd', inner)}, {self.literal()}, {self.of(self.literal, '2')})",
            lambda: f"{self.of('JSON_LENGTH', 'JSON_DEPTH', 'JSON_VALID')}({self.of('j', 'j', 'o')})",
            lambda: f"IF({self.condition(depth + 1)}, {inner()}, {inner()})",
            lambda: f"COALESCE({inner()}, {inner()})",
            lambda: f"{self.of('ROUND', 'ABS', 'FLOOR', 'SIGN')}({inner()})",
            lambda: f"(SELECT {self.of('AVG', 'SUM', 'MAX', 'COUNT')}({inner()}) FROM w)",
        )

    def date(self, depth: int = 0) -> str:
        if depth > 2 or self.rng.random() < 0.5:
            return self.of("d", "d", "m", "m", "z", lambda: quoted(self.rng.choice(DATES)))

        def inner() -> str:
            return self.date(depth + 1)

        return self.of(
            lambda: f"{self.of('DATE', 'TIMESTAMP', 'LAST_DAY')}({self.of(inner, inner, 'o', 'c')})",
            lambda: f"DATE_ADD({inner()}, INTERVAL {self.of('1', 'n')} {self.of('DAY', 'HOUR', 'WEEK')})",
            lambda: f"({inner()} - INTERVAL 1 MONTH)",
            lambda: f"CAST({self.of(inner, 'o', 'c')} AS {self.of('DATETIME', 'DATE')})",
            lambda: f"COALESCE({inner()}, {inner()})",
            lambda: f"STR_TO_DATE({self.of('o', inner)}, '%Y-%m-%d')",
            lambda: f"TIMESTAMP'{self.rng.choice(DATES)} 00:00:00{self.of('', '+03:00')}'",
            lambda: f"FROM_UNIXTIME({self.number(depth + 1)})",
        )

    def condition(self, depth: int = 0) -> str:
        def string() -> str:
            return self.string(depth + 1)

        def date() -> str:
            return self.date(depth + 1)

        compare = self.of("=", "<", ">", "<>", "<=>", "<=")
        return self.of(
            lambda: f"{self.column()} {compare} {self.literal()}",
            lambda: f"{string()} {compare} {string()}",
            lambda: f"{string()} {compare} {string()}",
            lambda: f"{string()} {compare} {self.number(depth + 1)}",
            lambda: f"{self.number(depth + 1)} {compare} {self.number(depth + 1)}",
            lambda: f"{date()} {compare} {self.of(date, date, 'o', 'c', string)}",
            lambda: f"c {compare} {self.of(quoted('12:30'), quoted('noon'), self.literal, 'c')}",
            lambda: f"{self.of(string, string, 'n', 'f', 'd', 'g')} {self.of('', 'NOT ')}LIKE {string()}",
            lambda: f"{string()} {self.of('', 'NOT ')}IN ({string()}, {self.of(string, '5')})",
            lambda: f"{string()} IN (SELECT {string()} FROM w)",
            lambda: f"{self.of(self.literal, string)} IN ({self.literal()}, {self.number(depth + 1)})",
            lambda: f"({self.literal()}, id) IN (({self.literal()}, 1), ({self.column()}, id))",
            lambda: f"({self.of('n', 'id')}, s) IN ((1, {self.literal()}), (2, {self.of(self.literal, string)}))",
            lambda: f"CASE {self.literal()} WHEN {self.literal()} THEN 1 WHEN {self.of('n', 't')} THEN 2 ELSE 0 END",
            lambda: f"{string()} BETWEEN {string()} AND {string()}",
            lambda: f"{string()} REGEXP '^[a-i]'",
            lambda: f"{self.of(self.column, string)} LIKE CONCAT({self.of(self.literal, string)}, '%')",
            lambda: f"MATCH ({self.of('s', 'x')}) AGAINST ({self.literal()}{self.of('', ' IN BOOLEAN MODE')})",
            lambda: self.rows_compared(compare, depth + 1),
            lambda: f"{self.document(depth + 1)} {compare} {self.of(string, self.literal, lambda: self.document(2))}",
            lambda: f"{self.unquoted(depth + 1)} {self.of(compare, 'LIKE')} {self.of(self.literal, string)}",
            lambda: f"{self.unquoted(depth + 1)} {compare} {self.of(self.literal, '5')}",
            lambda: f"JSON_CONTAINS({self.document(depth + 1)}, {self.of(*map(quoted, DOCUMENTS))})",
            lambda: f"{self.literal()} MEMBER OF (j)",
            lambda: f"{string()} IS NULL",
            lambda: f"{self.of(self.called, 'j')} {compare} {self.of(string, self.called)}",
            lambda: f"({self.condition(depth + 1)} OR {self.condition(depth + 1)})" if depth < 2 else "n = 1",
            lambda: f"NOT ({self.condition(depth + 1)})" if depth < 2 else "n = 2",
            lambda: f"EXISTS (SELECT {self.of('1', '*')} FROM w v WHERE v.{self.of('s', 'm', 'n')} = {string()})",
        )

    def rows_compared(self, compare: str, depth: int) -> str:
        columns = [self.of(self.column, "n", "f", "d", "m") for _ in range(2)]

        def beside(column: str) -> str:
            if column in "dm":
                return quoted(self.rng.choice(DATES))
            return self.of(self.literal, lambda: self.number(depth)) if column in "nf" else self.of(self.literal, "t")

        def row() -> str:
            return f"({', '.join(map(beside, columns))})"

        return f"({', '.join(columns)}) {self.of(f'{compare} {row()}', f'IN ({row()}, {row()})', f'IN ({row()})')}"

    def document(self, depth: int = 0) -> str:
        """JSON, by its type."""
        if depth > 2:
            return self.of("j", "j", f"CAST({quoted(self.rng.choice(DOCUMENTS))} AS JSON)")

        def value() -> str:
            return self.of(self.string, lambda: self.number(depth + 1), lambda: self.date(depth + 1), "c", "j")

        return self.of(
            "j",
            "j->'$.may'",
            lambda: f"JSON_EXTRACT(j, '$.may', {self.of(quoted('$.MAY'), quoted('$[0]'))})",
            lambda: f"JSON_OBJECT({self.literal()}, {value()}, {self.of(self.literal, 't')}, {value()})",
            lambda: f"JSON_ARRAY({value()}, {value()})",
            lambda: f"COALESCE({self.document(depth + 1)}, CONVERT('[]', JSON))",
            lambda: f"(SELECT {self.of('MIN', 'MAX')}(j) FROM w)",
            lambda: f"(SELECT JSON_ARRAYAGG({value()}) FROM w v WHERE v.id = w.id)",
            lambda: f"(SELECT JSON_OBJECTAGG({self.of('t', self.string)}, {value()}) FROM w v WHERE v.id = w.id)",
            lambda: f"JSON_SET(j, '$.may', {value()})",
            lambda: f"JSON_MERGE_PATCH(j, {self.of('j', quoted(self.rng.choice(DOCUMENTS)))})",
        )

    def unquoted(self, depth: int = 0) -> str:
        """A string that is made of JSON."""
        inner = self.document(depth)
        return self.of(
            "j->>'$.may'",
            f"JSON_UNQUOTE({self.of(inner, self.column())})",
            f"JSON_TYPE({inner})",
            f"JSON_QUOTE({self.string(depth + 1)})",
        )

    def called(self) -> str:
        """Any function of MySQL's with any arguments; often refused."""
        known = (
            "x'41'",
            "_utf8mb4'a'",
            "N'May'",
            "5 MEMBER OF ('[5]')",
            "(n, s) = (1, 'may')",
            "s = ANY (SELECT t FROM w)",
        )
        arguments = [self.of(self.string, self.string, self.number, self.date, "c", "j", *known) for _ in range(3)]
        return f"{self.rng.choice(FUNCTIONS)}({', '.join(arguments[: self.rng.choice((1, 1, 2, 2, 3))])})"

    def value(self) -> str:
        return self.of(
            self.string,
            self.string,
            self.string,
            self.number,
            self.date,
            "c",
            self.document,
            self.unquoted,
            self.called,
            self.called,
        )

    def where(self) -> str:
        return f" WHERE {self.condition()}" if self.rng.random() < 0.6 else ""

    # -- shapes ------------------------------------------------------------------------------------------------------

    def listed(self) -> str:
        return f"SELECT id, {self.value()}, {self.value()} AS v FROM w{self.where()}"

    def ordered(self) -> str:
        by = self.of(self.value, "v", "2")
        return f"SELECT id, {self.value()} AS v FROM w{self.where()} ORDER BY {by}, id LIMIT {self.of('5', '11')}"

    def grouped(self) -> str:
        key = self.value()
        by, having = (
            self.of(key, "k", "1"),
            self.of("", f" HAVING k = {self.value()}", f" HAVING COUNT(*) > {self.number(2)}"),
        )
        return f"SELECT {key} AS k, COUNT(*) FROM w{self.where()} GROUP BY {by}{having}"

    def aggregated(self) -> str:
        functions = ("MIN", "MAX", "COUNT", "AVG", "SUM", "GROUP_CONCAT", "COUNT(DISTINCT", "JSON_ARRAYAGG")
        made = [self.rng.choice(functions) for _ in range(3)]
        items = [f"{name}{' ' if '(' in name else '('}{self.value()}{'))' if '(' in name else ')'}" for name in made]
        inner = self.value()
        items.append(f"GROUP_CONCAT({self.of('', 'DISTINCT ')}{inner} ORDER BY {inner} SEPARATOR '|')")
        return f"SELECT {', '.join(items)} FROM w{self.where()}"

    def distinct(self) -> str:
        return f"SELECT DISTINCT {self.value()}, {self.of(self.value, '1')} FROM w{self.where()}"

    def united(self) -> str:
        one, two = self.value(), self.value()
        union = f"SELECT {one} AS v FROM w {self.of('UNION', 'UNION ALL', 'EXCEPT')} SELECT {two} FROM w"
        return self.of(union, f"{union} ORDER BY v LIMIT 7", f"SELECT v, COUNT(*) FROM ({union}) q GROUP BY v")

    def derived(self) -> str:
        inner = f"SELECT id, {self.value()} AS v, {self.value()} AS s FROM w{self.where()}"
        outer = self.of(f"v = {self.value()}", f"s {self.of('=', '<')} {self.literal()}", "v = s", "v IS NULL")
        source = self.of(f"FROM ({inner}) q", f"FROM ({inner}) q (id, v, s)", f"FROM ({inner}) q JOIN w USING (id, s)")
        return self.of(
            f"SELECT q.id, v, q.s {source} WHERE {outer.replace('s ', 'q.s ') if 'JOIN' in source else outer}",
            f"WITH q AS ({inner}) SELECT id, v FROM q WHERE {outer} ORDER BY s, v, id LIMIT 9",
            f"SELECT v, MIN(id) FROM ({inner}) q WHERE {outer} GROUP BY v",
        )

    def joined(self) -> str:
        """Of tables whose columns of one name are of other kinds."""
        names = self.rng.choices(("y.n", "y.s", "y.d", "y.j", "w.n", "w.s", "w.d", "w.j"), k=3)
        compare = self.of("=", "<", "<=>", "IN (5,", "LIKE")
        end = ")" if "IN" in compare else ""
        conditions = [f"{name} {compare} {self.of(self.literal, '5', *names)}{end}" for name in names[:2]]
        source = f"FROM w {self.of('JOIN', 'LEFT JOIN')} y ON y.id = w.id AND {self.rng.choice(conditions)}"
        return self.of(
            f"SELECT w.id, {', '.join(names)} {source} WHERE {self.of(' AND ', ' OR ').join(conditions)}",
            f"SELECT {names[0]}, MIN({names[1]}), COUNT(*) {source} GROUP BY {names[0]}",
            f"SELECT DISTINCT {names[0]} FROM w, y WHERE {conditions[0]}",
            f"SELECT id, n, s FROM y WHERE y.{self.of('s', 'n')} {compare} {self.of(self.literal, '5')}{end}",
            f"SELECT y.n, y.s FROM (SELECT id, n, s FROM w) y WHERE y.{self.of('s', 'n')} = {self.literal()}",
        )

    def windowed(self) -> str:
        name = self.of("ROW_NUMBER()", "RANK()", lambda: f"LAG({self.value()}) ", lambda: f"SUM({self.number()})")
        over = f"PARTITION BY {self.of(self.value, '1')} ORDER BY {self.value()}, id"
        return f"SELECT id, {name} OVER ({over}) AS v FROM w{self.where()}"

    def of_view(self) -> str:
        return self.of(
            f"SELECT id, k FROM wv WHERE k {self.of('=', '<')} {self.literal()}",
            f"SELECT k, COUNT(*) FROM wv{self.of('', ' WHERE y > 2')} GROUP BY k",
            "SELECT * FROM wv",
            f"SELECT id, {self.of('a', 'y', 'p')} FROM wv WHERE id > {self.number(2)}",
        )

    def query(self) -> str:
        shapes: Sequence[Callable[[], str]] = (
            *(self.listed, self.ordered, self.grouped, self.aggregated, self.distinct),
            *(self.united, self.derived, self.windowed, self.of_view, self.joined),
        )
        return self.rng.choice(shapes)()


OTHER_KINDS = """CREATE TABLE y (
    id INT NOT NULL PRIMARY KEY, n VARCHAR(20) NOT NULL, s INT NOT NULL, d VARCHAR(40) NULL, j DATETIME NOT NULL)"""
FILLED = "INSERT INTO y SELECT id, t, n, o, m FROM w"
VIEW = """CREATE VIEW wv AS
    SELECT id, CONCAT(n, '-', l) AS k, f / 3 AS a, WEEK(d) AS y, s = 'MAY' AS p, u AS q, d FROM w"""
