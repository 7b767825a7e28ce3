"""One read, asked of MySQL and of the cache until it is a hit; what differs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pymysql

from gtid_tracker.gtid import GtidSet
from integration.mysql_suite.choice import choice
from integration.mysql_suite.statements import names_session_variable, without_end
from integration.mysql_suite.tally import Finding, Tally
from integration.oracle.answers import Announced, Answer, difference, explained, parse, same_rows
from integration.support.proxy_thread import Beside

SKIP = b"/* upwell: skip */ "
TIMES = 5  # a read is asked until it is a hit
AGAIN = 3  # the same, after a change
VARIABLES = 4  # times more, for session variables that are given their defaults one by one
WIDE = 80  # letters of a reason
SLOW = 3.0  # seconds that MySQL takes for a read that is not asked through the proxy
LARGE = 1 << 19  # bytes of an answer that is not asked for again
LIMITS = ("sql_select_limit", "max_join_size", "max_execution_time")  # without them an answer may be endless
LONGEST = 1600  # letters of what is shown of two answers

Ask = Callable[[], bytes]


@dataclass(frozen=True)
class Read:
    """`direct`: has MySQL answer it, `through`: the proxy, both in the session of the script. `other`: the answer to
    another text in the same way. `statement`: the number of a prepared one, 0 of a text; `anew` prepares it again."""

    text: bytes
    direct: Ask
    through: Ask
    other: Callable[[bytes], bytes]
    statement: int = 0
    anew: Callable[[], Read] | None = None

    @property
    def binary(self) -> bool:
        return self.statement != 0


@dataclass
class Judge:
    """`run`: a text, in the session of the script; its answer. `number`: the session's number at the proxy."""

    beside: Beside
    tally: Tally
    test: str
    run: Callable[[bytes], bytes]
    number: int
    writer: pymysql.Connection[pymysql.cursors.Cursor] | None = None

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()

    def cached(self, text: bytes, name: str) -> bool:
        """Whether the proxy has a cache of it now."""
        made = parse(self.run(f"CREATE CACHE {name} FROM ".encode() + without_end(text)), binary=False)
        if made.errno:
            self.tally.counts["refused" if made.errno == 1235 else "MySQL's own error"] += 1
            self.tally.refused[made.message[:WIDE] if made.errno == 1235 else f"error {made.errno}"] += 1
        return not made.errno

    def caught_up(self) -> None:
        """Returns when the proxy has applied all that MySQL has committed, and has no cache to plan again for it."""
        if self.writer is None:
            self.writer = self.beside.mysql.connect()
        with self.writer.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.gtid_executed")
            wanted = GtidSet.parse(cursor.fetchall()[0][0])
        engine = self.beside.proxy.app.engine
        self.beside.until(lambda: wanted.issubset(engine.state.ring.position.freeze()) and not engine.inserting.waiting)
        caches = self.beside.proxy.app.catalog.caches
        self.beside.until(lambda: all(cache.state != "rebuilding" for cache in caches.values()))

    def served(self) -> tuple[str, str]:
        """How the proxy has answered the session's last statement, and why."""
        for session in list(self.beside.shared.sessions):
            if getattr(session, "connection_id", None) == self.number:
                last = session.context.last_statement
                return (last.served, last.reason) if last is not None else ("", "")
        return "", ""

    def judge(self, read: Read, after: str = "") -> tuple[bytes, bool]:
        """What the script is to be told, and whether to ask again after a change. `after`: the change before it."""
        self.caught_up()
        began = time.monotonic()
        told = read.direct()
        if time.monotonic() - began > SLOW:
            self.tally.counts["slow"] += 1
            return told, False
        wanted = parse(told, binary=read.binary)
        announced = Announced()
        announced.note(wanted)
        changed: list[str] = []
        last, hit = "", False
        for _ in range((AGAIN if after else TIMES) + VARIABLES):
            answer = read.through()
            served, reason = self.served()
            found = parse(answer, binary=read.binary)
            self.tally.counts["compared"] += 1
            self.tally.counts[served or "not served"] += 1
            if self.differs(read, wanted, found, announced, f"{served} {reason}".strip(), after):
                break
            hit = served == "hit"
            if hit:
                break
            if served == "passed":
                name = names_session_variable(reason)
                if name and name not in (*changed, *LIMITS):
                    changed.append(name)
                    self.run(f"SET @tap_{name} = @@{name}, {name} = DEFAULT".encode())
                    read = read.anew() if read.anew is not None else read
                    wanted = parse(read.direct(), binary=read.binary)
                elif reason == last:
                    break
                last = reason
        if not hit and last:
            self.tally.passed[last[:WIDE]] += 1
        for name in changed:
            self.run(f"SET {name} = @tap_{name}".encode())
        return (told if changed else answer), hit and len(answer) < LARGE

    def differs(self, read: Read, wanted: Answer, found: Answer, announced: Announced, served: str, after: str) -> bool:
        """Whether it differs and is no choice of MySQL's; then it is a finding."""
        text = without_end(read.text).decode("utf-8", "replace")
        ordered = "order by" in text.lower()
        if served.startswith("passed"):
            announced.note(found)
        if not difference(wanted, found, ordered=ordered, free=False, announced=announced):
            return False
        again = parse(read.direct(), binary=read.binary)
        announced.note(again)
        kind = difference(again, found, ordered=ordered, free=False, announced=announced)
        if not kind:
            self.tally.chose("MySQL said something else when asked again", text)
            return False
        if kind == "rows" and same_rows(again, found, ordered=False, free=False):
            kind = "order"

        def other(way: str) -> Answer:
            answer = parse(read.other(SKIP + way.encode("utf-8", "surrogateescape")), binary=read.binary)
            announced.note(answer)
            return answer

        if why := choice(text, again, found, other):
            self.tally.chose(f"{kind}: {why}", text)
            return False
        if kind == "columns" and announced.has(found):
            self.tally.chose("columns: by another plan", text)
            return False
        what = explained(again, found)[:LONGEST]
        before = tuple(self.tally.history)
        self.tally.found(Finding(self.test, kind, served, text, what, after, before))
        return True
