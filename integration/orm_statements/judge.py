"""Plays a script in lock step at MySQL and through Upwell, on two databases alike, and judges each answer.

A SELECT is asked through Upwell again until it is a hit, or it is plain that it will be none. Each answer must be
MySQL's: rows, columns, and the number of an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import pymysql

from integration.mysql_suite.choice import choice
from integration.oracle.answers import Announced, Answer, difference, explained, parse, same_rows
from integration.orm_statements.kinds import Written, is_select, why_not_deterministic
from integration.orm_statements.script import DATABASE, Header, Script, Step, as_text, packed
from integration.support.raw_client import Prepared, RawClient
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, ERR

READS = 6  # of one SELECT, until it is a hit
OWN_WRITES = "what its transaction has written"
NO_CACHE = "no cache matches"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a script is played."""

    host: str
    port: int
    database: str
    user: str = "root"
    password: str = ""

    def text(self, step: Step) -> str:
        """The statement, with the name of this database in the place of the script's."""
        return step.sql.replace(f"`{DATABASE}`", f"`{self.database}`")


@dataclass
class Session:
    """One connection of a script. `kept`: prepared statements are."""

    place: Place
    client: RawClient
    kept: bool
    prepared: dict[str, Prepared] = field(default_factory=dict)
    written: Written = field(default_factory=Written)

    def ask(self, step: Step) -> Answer:
        sql = self.place.text(step)
        if step.bound is None:
            return self.text(sql)
        statement = self.prepared.get(sql) or self.client.prepare(sql)
        if statement.error:
            return parse(self.client.transcript.pop()[1], binary=False)
        answer = parse(self.client.execute(statement.id, packed(step.bound)), binary=True)
        self.client.transcript.clear()
        if self.kept:
            self.prepared[sql] = statement
        else:
            self.client.close_statement(statement.id)
        return answer

    def text(self, sql: str) -> Answer:
        found = self.client.query(sql.encode("utf-8", "surrogateescape"))
        self.client.transcript.clear()
        return parse(found, binary=False)

    def served(self) -> tuple[str, str]:
        """How the last statement was answered, and why. Through Upwell."""
        (row,) = (answer := self.text("EXPLAIN LAST STATEMENT")).rows
        names = [column.name for column in answer.columns]
        cells = dict(zip(names, answer.cells(row), strict=True))
        return (cells["served"] or b"").decode(), (cells["reason"] or b"").decode()


def session(place: Place, header: Header) -> Session:
    client = RawClient(
        place.host,
        place.port,
        capabilities=CLIENT_DEPRECATE_EOF | header.flags,
        user=place.user,
        password=place.password,
        database=place.database,
        collation=header.collation,
    )
    if client.login_answer[4] == ERR:
        raise ConnectionRefusedError(client.login_answer)
    return Session(place, client, header.kept)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one SELECT of a script, by its number there. `served`: `hit`, or how it was answered at last, and why."""

    number: int
    sql: str
    excused: str
    served: str
    reason: str

    @property
    def hit(self) -> bool:
        return self.served == "hit"

    @property
    def deterministic(self) -> bool:
        return not self.excused


@dataclass
class Round:
    """`wrong`: what differs, as it is to be told. `choices`: differences in which MySQL is free."""

    verdicts: list[Verdict] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    asked: int = 0


def play(script: Script, direct: Place, through: Place, restored: Sequence[str]) -> Round:
    """`restored`: statements by which both databases have their first rows again."""
    found = Round()
    with ExitStack() as opened:
        pairs: dict[int, tuple[Session, Session]] = {}

        def pair(number: int) -> tuple[Session, Session]:
            if number not in pairs:
                one, other = (session(place, script.header) for place in (direct, through))
                opened.callback(one.client.close)
                opened.callback(other.client.close)
                pairs[number] = one, other
            return pairs[number]

        for one in pair(0):
            for sql in restored:
                answer = one.text(sql)
                assert not answer.errno, (sql, answer.message)
        for number, step in enumerate(script.steps):
            _step(found, number, step, *pair(step.session))
    return found


def _step(found: Round, number: int, step: Step, direct: Session, through: Session) -> None:
    wanted = direct.ask(step)
    direct.written.note(step.sql)
    if not is_select(step.sql):
        _compare(found, step, wanted, through.ask(step), direct, Announced(), "")
        return
    excused = why_not_deterministic(step.sql)
    if not excused and direct.written.are_read_by(step.sql):
        excused = OWN_WRITES
    announced = Announced()
    announced.note(wanted)
    last = ""
    for _ in range(READS):
        answer = through.ask(step)
        served, reason = through.served()
        if excused in ("", "locks", OWN_WRITES):
            _compare(found, step, wanted, answer, direct, announced, served)
        if served == "hit" or (served == "passed" and reason == last):
            break
        last = reason
    found.verdicts.append(Verdict(number, step.sql, excused, served, reason))


def _compare(
    found: Round, step: Step, wanted: Answer, answer: Answer, direct: Session, announced: Announced, served: str
) -> None:
    found.asked += 1
    if served != "hit":
        announced.note(answer)
    ordered = "order by" in step.sql.lower()
    kind = difference(wanted, answer, ordered=ordered, free=False, announced=announced)
    if not kind:
        return
    again = direct.ask(step) if is_select(step.sql) else wanted
    announced.note(again)
    kind = difference(again, answer, ordered=ordered, free=False, announced=announced)
    if kind == "rows" and ordered and same_rows(again, answer, ordered=False, free=False):
        kind = "order"
    shown = f"{step.sql} {[each.value for each in step.bound or ()]}"
    written = replace(step, sql=direct.place.text(step))
    if not kind or choice(as_text(written), again, answer, lambda text: other_way(direct, step, text)):
        found.choices.append(shown)
        return
    found.wrong.append(f"{kind} ({served}): {shown}\n  {explained(again, answer)[:1500]}")


def other_way(direct: Session, step: Step, text: str) -> Answer:
    """MySQL's answer to a text, in the protocol of the step."""
    return direct.text(text) if step.bound is None else direct.ask(Step(text, ()))


def refusals(connection: pymysql.Connection[pymysql.cursors.Cursor], shapes: Iterable[str]) -> dict[str, str]:
    """Why shapes cannot be cached, of those that cannot: the reason's code and its words."""
    found = {}
    with connection.cursor() as cursor:
        for shape in shapes:
            try:
                cursor.execute(f"EXPLAIN CREATE CACHE FROM {shape}")
            except pymysql.MySQLError as error:
                found[shape] = f"error: {error.args[1]}"
                continue
            lines = [str(row[0]) for row in cursor.fetchall()]
            if lines[0].startswith("refused: "):
                code = next(line for line in lines if line.startswith("reason: "))
                found[shape] = f"{code.removeprefix('reason: ')}: {lines[0].removeprefix('refused: ')}"
    return found


def make_caches(connection: pymysql.Connection[pymysql.cursors.Cursor], shapes: Iterable[str]) -> None:
    with connection.cursor() as cursor:
        for shape in dict.fromkeys(shapes):
            cursor.execute(f"CREATE CACHE FROM {shape}")


def open_ones(verdicts: Iterable[Verdict], refused: dict[str, str], shapes: dict[str, str]) -> Iterator[Verdict]:
    """Those that may still become hits: the others are hits, refused, or MySQL's for their session's sake."""
    for verdict in verdicts:
        if not verdict.hit and verdict.reason.startswith(NO_CACHE) and shapes[verdict.sql] not in refused:
            yield verdict
