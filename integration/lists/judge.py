"""Plays worlds of random lists at MySQL and through the proxy, cold, half held and as hits, with writes between.

The rows must always be MySQL's, as a bag; behind ORDER BY the values of its terms come as MySQL has them. Where LIMIT
chooses among rows that no ORDER BY tells apart, their number counts, and that each is a row of the answer without it;
that they are others than MySQL's is counted, and so is each other order of rows. Where one index alone is there to find
the rows of a large table, and MySQL says that it reads by it, another order is wrong.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from integration.lists.queries import Query, Values, Writer
from integration.lists.tables import LARGE, ListTable, random_index, random_table
from integration.oracle.answers import Answer, explained, loosely, same_rows
from integration.oracle.asker import Asker
from integration.oracle.trees import Spelled

QUERIES = 14  # of a world
READS = 3  # of the same values, until there is a hit
WRITES = 2
ROUNDS = 3  # of writes for a query
NOT_READ_IN_ORDER = ("filesort", "temporary", "MRR", "sort_union", "union")
Class = tuple[str, str, str]


@dataclass(slots=True)
class Finding:
    """`story`: what led there, in statements."""

    seed: int
    kind: str
    how: str
    story: list[str]
    text: str
    what: str

    def __str__(self) -> str:
        lines = [f"-- {self.kind}, seed {self.seed}: {self.how}", *self.story, self.text]
        return "\n".join([*(line[:600] for line in lines), self.what])


@dataclass(slots=True)
class Tally:
    """`orders`: by class and how a read was answered, how many reads of more than one row without ORDER BY there were,
    and how many had another order than MySQL's; `rows`: likewise of reads with LIMIT, how many had other rows."""

    counts: Counter[str] = field(default_factory=Counter)
    orders: Counter[tuple[Class, bool]] = field(default_factory=Counter)
    rows: Counter[tuple[Class, bool]] = field(default_factory=Counter)

    def note(self, table: Counter[tuple[Class, bool]], class_: Class, differs: bool) -> None:
        table[class_, differs] += 1

    def table(self) -> str:
        lines = []
        for title, counted in (("other order", self.orders), ("other rows", self.rows)):
            lines.append(f"{'hits':>8} {title:>12}         of")
            for class_ in sorted({class_ for class_, _ in counted}):
                hits, other = sum(counted[class_, differs] for differs in (False, True)), counted[class_, True]
                lines.append(f"{hits:>8,} {other:>12,} {other / hits:>6.0%}  {', '.join(class_)}")
        lines += [f"{count:>9,}  {name}" for name, count in self.counts.most_common()]
        return "\n".join(lines)


def wrong(query: Query, wanted: Answer, found: Answer, whole: Callable[[], Answer]) -> str:
    """What is wrong with an answer, "" for nothing; "others" where it has other rows than MySQL's and may. `whole`:
    MySQL's answer without LIMIT."""
    if wanted.errno or found.errno:
        return "" if wanted.errno == found.errno else "error"
    if len(wanted.rows) != len(found.rows):
        return "rows"
    if _keys(query, wanted) != _keys(query, found):
        return "order of keys"
    if same_rows(wanted, found, ordered=False, free=query.free):
        return ""
    if not query.limited:
        return "rows"
    all_ = whole()
    return "others" if all_.errno or _bag(found, query.free) <= _bag(all_, query.free) else "rows"


def _bag(answer: Answer, free: bool) -> Counter[tuple[object, ...]]:
    return Counter(loosely(answer, row, free) for row in answer.rows)


def _keys(query: Query, answer: Answer) -> list[list[object]]:
    """The values by which the rows are ordered."""
    found = []
    for row in answer.rows:
        cells, folded = loosely(answer, row, False), loosely(answer, row, True)
        found.append([folded[at] if domain.folds else _trimmed(cells[at]) for at, domain in query.order])
    return found


def _trimmed(cell: object) -> object:
    return cell.rstrip(b" ") if isinstance(cell, bytes) else cell


class World:
    """Some tables, and queries of them."""

    def __init__(self, asker: Asker, seed: int, tally: Tally) -> None:
        self.asker = asker
        self.seed = seed
        self.tally = tally
        self.rng = random.Random(seed)
        self.findings: list[Finding] = []
        self.story: list[str] = []
        self.number = 0

    def play(self) -> None:
        self.asker.drop_caches()
        self.asker.new_database()
        tables = [random_table(self.rng, "t0"), random_table(self.rng, "t1")]
        for table in tables:
            self.number = max(self.number, 3 * table.size)
            self.write([table.create, *table.filled(self.rng)], known=True)
        self.asker.run([f"ANALYZE TABLE {', '.join(table.name for table in tables)}"])
        self.asker.wait()
        writer = Writer(self.rng, tables)
        for number in range(QUERIES):
            if self.findings:
                return
            self.query(writer.query(), f"c{number}")

    def write(self, statements: Sequence[str], *, known: bool = False) -> None:
        """`known`: they must succeed."""
        refused = self.asker.run(statements)
        assert not refused or not known, refused
        self.story += statements

    def query(self, query: Query, name: str) -> None:
        made = self.asker.create_cache(name, query.text)
        self.story.append(f"CREATE CACHE {name} FROM {query.text}")
        if made.errno:
            self.tally.counts["no cache"] += 1
            return
        self.tally.counts[f"caches of mode {self.asker.mode(name)}"] += 1
        values = query.values(self.rng)
        for round_ in range(ROUNDS):
            mode = self.asker.mode(name)
            for given in (values, query.permuted(self.rng, values), query.half(self.rng, values)):
                self.reads(query, given, mode)
            if round_ + 1 < ROUNDS:
                for table in query.tables:
                    self.write(self.changes(table))
                if self.rng.random() < 0.1:
                    self.write([self.other_index(query.table)], known=True)
                if self.rng.random() < 0.1:
                    self.asker.beside.call(self.evict)
                self.asker.wait()
                self.asker.settled()
                values = query.half(self.rng, values) if self.rng.random() < 0.4 else values

    def changes(self, table: ListTable) -> list[str]:
        rng, name = self.rng, table.name
        made = []
        for _ in range(WRITES):
            self.number += 1
            column = rng.choice([one for one in table.columns[1:] if not one.expression])
            value, limit = column.value(rng).text, rng.choice((1, 2, 8))
            where = f"p = {table.column('p').value(rng).text}" if rng.random() < 0.5 else f"id > {rng.randrange(40)}"
            made.append(
                rng.choice(
                    (
                        f"UPDATE IGNORE {name} SET {column.name} = {value} WHERE {where} ORDER BY id LIMIT {limit}",
                        f"UPDATE IGNORE {name} SET p = p + 3 WHERE {where} ORDER BY id LIMIT {limit}",
                        f"UPDATE IGNORE {name} SET id = id - {rng.randrange(99)} WHERE {where} ORDER BY id LIMIT 2",
                        f"DELETE FROM {name} WHERE {where} ORDER BY id DESC LIMIT {limit}",
                        f"REPLACE INTO {name} ({table.stored}) VALUES {table.row(rng, self.number)},"
                        f" {table.row(rng, rng.randrange(60))}",
                    )
                )
            )
        return made

    def other_index(self, table: ListTable) -> str:
        """What takes the last index away, or makes one."""
        if self.rng.random() < 0.5 and table.indexes and table.indexes[-1].name != "PRIMARY":
            return f"ALTER TABLE {table.name} DROP KEY {table.indexes.pop().name}"
        self.number += 1
        table.indexes.append(random_index(self.rng, table, f"x{self.number}"))
        return f"ALTER TABLE {table.name} ADD {table.indexes[-1].ddl}"

    def evict(self) -> None:
        engine = self.asker.beside.proxy.app.engine
        engine.sieve.evict_to(engine.memory.used // 2)

    def reads(self, query: Query, given: Values, mode: str) -> None:
        """The same read until it was a hit, a few times at most."""
        for prepared in self.rng.choice(((False,), (True,), (False, True))):
            text, bound = query.prepared(given) if prepared else (query.literal(given), None)
            wanted = self.asker.ask("direct", text, bound)
            for _ in range(READS):
                found = self.asker.ask("through", text, bound)
                served, _ = self.asker.served()
                self.tally.counts["reads"] += 1
                self.tally.counts[f"reads: {served}"] += 1
                if self.judge(query, given, wanted, found, (text, bound), f"{mode}, {served}"):
                    return
                if served == "hit":
                    self.count(query, given, mode, wanted, found)
                    break

    def judge(
        self, query: Query, given: Values, wanted: Answer, found: Answer,
        asked: tuple[str, Sequence[Spelled] | None], how: str,
    ) -> bool:  # fmt: skip
        def whole() -> Answer:
            all_ = query.without_limit()
            text, bound = (all_.literal(given), None) if asked[1] is None else all_.prepared(given)
            return self.asker.ask("direct", text, bound)

        kind = wrong(query, wanted, found, whole)
        if kind == "others" and how == "maintain, hit" and not query.order:
            kind = "rows"  # those that MySQL reads first, whatever its plan
        if kind in ("", "others") and how.endswith("hit") and self.is_misplaced(query, wanted, found, given):
            kind = "order"
        if kind in ("", "others"):
            return False
        again = self.asker.ask("direct", *asked)
        if wrong(query, again, found, whole) == "" and kind != "order":
            self.tally.counts["MySQL says another thing when it is asked again"] += 1
            return False
        self.tally.counts[f"wrong: {kind}"] += 1
        told = asked[0] if asked[1] is None else f"{asked[0]}  -- {', '.join(value.text for value in asked[1])}"
        self.findings.append(Finding(self.seed, kind, how, self.story, told, explained(wanted, found)))
        return True

    def is_misplaced(self, query: Query, wanted: Answer, found: Answer, given: Values) -> bool:
        """Whether the rows are in another order than MySQL's where hits have that."""
        if wanted.errno or query.limited or not query.reading or same_rows(wanted, found, ordered=True, free=False):
            return False
        _, key, extra = self.plan(query, given)
        return key == query.reading and not any(word in extra for word in NOT_READ_IN_ORDER)

    def plan(self, query: Query, given: Values) -> tuple[str, str, str]:
        """How MySQL reads the first table: how it looks rows up, by which index, and what else it does."""
        plan = self.asker.ask("direct", f"EXPLAIN FORMAT=TRADITIONAL {query.literal(given)}", None)
        assert not plan.errno, plan
        cells = plan.cells(plan.rows[0])
        kind, key, extra = ((cells[at] or b"").decode() for at in (4, 6, -1))
        return kind, key, extra

    def count(self, query: Query, given: Values, mode: str, wanted: Answer, found: Answer) -> None:
        if wanted.errno or query.order or len(wanted.rows) < 2:
            return
        size = "known" if query.reading else "large" if query.table.size >= LARGE else "small"
        held = mode == "evict"
        class_ = (mode, "all", "") if held else (mode, query.form, f"{query.situation} ({size})")
        if query.limited:
            other = not same_rows(wanted, found, ordered=False, free=query.free)
            self.tally.note(self.tally.rows, class_, other)
        else:
            other = not same_rows(wanted, found, ordered=True, free=query.free)
            self.tally.note(self.tally.orders, class_, other)
            if other:
                kind, _, extra = self.plan(query, given)
                told = ", ".join([kind, *(word for word in NOT_READ_IN_ORDER if word in extra)])
                self.tally.counts[f"another order of {query.form}, MySQL reads by: {told}"] += 1


def judged(
    asker: Asker, seed: int, *, seconds: float = 0.0, worlds: int = 0, first: bool = False, show: bool = True
) -> tuple[list[Finding], Tally]:
    """Worlds from this seed on, until the time is over or so many are done. `first`: ends with the first finding."""
    tally, findings, begun, number = Tally(), list[Finding](), monotonic(), 0
    while (monotonic() - begun < seconds) if not worlds else (number < worlds):
        world = World(asker, seed + number, tally)
        world.play()
        for finding in world.findings if show else ():
            print(f"{finding}\n", flush=True)
        findings += world.findings
        number += 1
        if findings and first:
            break
    tally.counts["worlds"] = number
    return findings, tally
