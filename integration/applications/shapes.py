"""Which of an application's queries MySQL answered, and why: the shapes, as Upwell's own SQL commands list them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pymysql

from integration.servers.mysql_server import Server


@dataclass(slots=True)
class Shapes:
    """So far. `passed`: by query, how often MySQL answered it in the client's session. `missed`: by query, how often a
    cache had to be filled for it. `reasons`: by query, what is known of it."""

    passed: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)

    def since(self, before: Shapes) -> Iterator[str]:
        """A line a query, the most frequent first."""
        passed, missed = self.passed - before.passed, self.missed - before.missed
        for query, _ in (passed + missed).most_common():
            yield f"{passed[query]:5} passed {missed[query]:5} missed  {self.reasons[query]}: {query}"


def shapes(server: Server, port: int) -> Shapes:
    """`port`: the proxy's; `server`: of whose administrator it is asked."""
    found = Shapes()
    with pymysql.connect(host="127.0.0.1", port=port, user=server.user, password=server.password) as connection:
        cursor = connection.cursor(pymysql.cursors.DictCursor)
        cursor.execute("SHOW CACHES")
        for row in cursor.fetchall():
            found.missed[row["query"]] += int(row["misses"])
            found.reasons[row["query"]] = f"cached ({row['mode']})"
        cursor.execute("SHOW PROXIED QUERIES")
        for row in cursor.fetchall():
            found.passed[row["query"]] += int(row["count"])
            if row["cacheable"] == "unknown":  # behind the first hundred
                cursor.execute("SHOW PROXIED QUERIES LIKE %s", [re.sub(r"([\\%_])", r"\\\1", row["query"])])
                row = next(iter(cursor.fetchall()), row)
            found.reasons[row["query"]] = f"cacheable: {row['cacheable']} ({row['reason']})"
    return found


BUSIEST = 30


@dataclass(frozen=True, slots=True)
class Busy:
    """What MySQL has answered so far, Upwell's own questions among it. `statements`: of each text, and of each kind of
    an account's, how often and seconds of the processor."""

    statements: dict[str, tuple[int, float]]

    def since(self, before: Busy) -> Iterator[str]:
        """A line each, those that took most first."""
        took = {
            statement: (times - earlier[0], seconds - earlier[1])
            for statement, (times, seconds) in self.statements.items()
            if times > (earlier := before.statements.get(statement, (0, 0.0)))[0]
        }
        for statement, (times, seconds) in sorted(took.items(), key=lambda each: -each[1][1])[:BUSIEST]:
            yield f"{seconds * 1000:8.1f} ms for {times:5}: {statement[:300]}"


def busy(server: Server) -> Busy:
    """Requires: its administrator may see, and set, what the performance schema counts."""
    rows = server.execute(
        "UPDATE performance_schema.setup_consumers SET enabled = 'YES' WHERE name = 'events_statements_cpu'",
        "SELECT COALESCE(digest_text, ''), SUM(count_star), SUM(sum_cpu_time) FROM"
        " performance_schema.events_statements_summary_by_digest GROUP BY digest_text"
        " UNION ALL SELECT CONCAT('all ', event_name, ' of ', user), count_star, sum_cpu_time FROM"
        " performance_schema.events_statements_summary_by_user_by_event_name WHERE count_star > 0 AND user IS NOT NULL",
    )
    return Busy({str(statement): (int(times), float(picoseconds) / 1e12) for statement, times, picoseconds in rows})
