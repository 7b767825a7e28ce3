"""Random queries by the clock, over two tables and a view. Most are of no shape that is maintained."""

from __future__ import annotations

from random import Random

TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, at DATETIME, till DATETIME(3),"
    " ts TIMESTAMP NULL, u INT UNSIGNED, s VARCHAR(9), KEY (k), KEY (at))",
    "CREATE TABLE q (id INT PRIMARY KEY AUTO_INCREMENT, p INT, at DATETIME(6) NOT NULL, KEY (p))",
    "CREATE VIEW v AS SELECT p.id, p.k, p.s, p.at, p.till, p.ts, p.u FROM p LEFT JOIN q ON q.p = p.id WHERE p.k < 9",
)
_ROW = "({k}, NOW() + INTERVAL {s} SECOND, NOW(3) + INTERVAL {s} + 1.25 SECOND, NOW() + INTERVAL {s} SECOND,"
_ROW += " UNIX_TIMESTAMP() + {s}, '{t}')"


def inserted(rows: list[tuple[int, int, str]]) -> tuple[str, ...]:
    """Statements that leave these rows in the tables: of the key `k`, so many seconds from now, with the text `s`."""
    texts = ", ".join(_ROW.format(k=k, s=s, t=t) for k, s, t in rows)
    return (
        "DELETE FROM q",
        "DELETE FROM p",
        f"INSERT INTO p (k, at, till, ts, u, s) VALUES {texts}",
        "INSERT INTO q (p, at) SELECT id, at + INTERVAL 0.5 SECOND FROM p WHERE id % 3",
    )


class ClockTexts:
    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def _of(self, *choices: str) -> str:
        return self._rng.choice(choices)

    def _moment(self) -> str:
        shifts = ("", "", " + INTERVAL 1 SECOND", " - INTERVAL 3 SECOND", " - INTERVAL 1 MONTH + INTERVAL 1 MONTH")
        return f"NOW(){self._of(*shifts)}"

    def _by_clock(self, alias: str) -> str:
        columns = ("at",) if alias == "q" else ("at", "at", "till", "ts")
        column, moment = f"{alias}.{self._of(*columns)}", self._moment()
        if alias != "q" and self._rng.random() < 0.2:
            column, moment = f"{alias}.u", f"UNIX_TIMESTAMP(){self._of('', ' - 2')}"
        elif self._rng.random() < 0.2:
            return f"{column} {self._of('', 'NOT ')}BETWEEN {moment} AND {self._moment()}"
        operator = self._of("<", "<=", ">", ">=")
        compared = self._of(f"{column} {operator} {moment}", f"{moment} {operator} {column}")
        return self._of(compared, compared, compared, f"NOT {compared}", f"({compared}) IS NOT NULL")

    def _other(self, alias: str) -> str:
        if alias == "q":
            return self._of("YEAR(q.at) > 1", "q.p % 2 = 0", "q.p IS NOT NULL", "q.p IN (1, 2, 3, 4, 5, 6, 7)")
        return self._of(
            *(f"YEAR({alias}.at) > 2000", f"{alias}.k = 1", f"{alias}.s = 'a'", f"LENGTH({alias}.s) > 0"),
            *(f"{alias}.s <> 'b'", f"{alias}.k IN (1, 2)", f"{alias}.id % 3 < 2", f"{alias}.k + 0 = 1"),
        )

    def condition(self, alias: str, depth: int = 0) -> str:
        kind = self._rng.random()
        if depth < 2 and kind < 0.35:
            parts = [self.condition(alias, depth + 1) for _ in range(2)]
            return f"({self._of(' AND ', ' OR ', ' XOR ').join(parts)})"
        if depth < 2 and kind < 0.45:
            return f"NOT ({self.condition(alias, depth + 1)})"
        if depth < 2 and kind < 0.55:
            return self._nested(alias)
        if kind < 0.6:
            return f"CASE WHEN {self._by_clock(alias)} THEN {self._other(alias)} ELSE {self._by_clock(alias)} END"
        return self._by_clock(alias) if kind < 0.85 else self._other(alias)

    def _nested(self, alias: str) -> str:
        inner = "x" if alias != "x" else "y"
        key, rows = f"{alias}.p" if alias == "q" else f"{alias}.id", f"FROM p {inner} WHERE {self.condition(inner, 2)}"
        return self._of(
            f"{self._of('', 'NOT ')}EXISTS (SELECT 1 {rows} AND {inner}.id = {key})",
            f"{key} {self._of('', 'NOT ')}IN (SELECT {inner}.id {rows})",
            f"{key} > (SELECT COUNT(*) {rows} AND {self._by_clock(inner)})",
            f"(SELECT MAX({inner}.id) {rows}) > {key}",
        )

    def query(self) -> str:
        p, q, pq = (f"{self.condition(alias)} AND {self._other(other)}" for alias, other in ("pp", "qq", "pq"))
        joined = f"FROM p {self._of('JOIN', 'LEFT JOIN', 'RIGHT JOIN')} q ON q.p = p.id AND"
        return self._of(
            f"SELECT p.id, p.s FROM p WHERE {p} ORDER BY p.id",
            f"SELECT COUNT(*), SUM(p.id), MIN(p.at) FROM p WHERE {p}",
            f"SELECT p.s, COUNT(*) n FROM p WHERE {p} GROUP BY p.s HAVING n > 1 ORDER BY p.s",
            f"SELECT DISTINCT p.s, p.k FROM p WHERE {p} ORDER BY p.s, p.k LIMIT 2",
            f"SELECT p.id, q.id {joined} {q} WHERE {self._of(p, pq, self._other('p'))} ORDER BY p.id, q.id",
            f"SELECT p.id, q.id {joined} {p} ORDER BY p.id, q.id",
            f"SELECT p.id, x.id FROM p, p x WHERE x.k = p.k AND {p} AND {self._by_clock('x')} ORDER BY 1, 2",
            f"SELECT d.id FROM (SELECT p.id, p.at, p.k FROM p WHERE {p}) d WHERE d.k = 1 AND d.at < NOW() ORDER BY 1",
            f"WITH c AS (SELECT p.* FROM p WHERE {p}) SELECT c.id, e.id FROM c JOIN c e ON e.k = c.k ORDER BY 1, 2",
            f"SELECT v.id FROM v WHERE {self.condition('v')} ORDER BY v.id",
            f"SELECT p.id FROM p WHERE {p} UNION SELECT q.p FROM q WHERE {q} ORDER BY 1",
            f"SELECT p.id FROM p WHERE {p} GROUP BY p.id HAVING p.id > 2 AND MAX(p.k) > 0 ORDER BY 1",
            f"SELECT p.id, ROW_NUMBER() OVER (ORDER BY p.at, p.id) FROM p WHERE {p} ORDER BY p.id",
        )
