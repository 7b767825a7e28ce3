"""One round: a world, some queries with caches, each asked and asked again, before and after changes."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace

from integration.oracle.answers import Announced, Answer, difference, explained, same_bytes, same_spellings
from integration.oracle.asker import LOST, Asker
from integration.oracle.grammar import ANYTHING, Focus, Query, make_query
from integration.oracle.nested import make_nested_query, make_nested_world
from integration.oracle.settings import USUALLY, Settings, make_settings
from integration.oracle.trees import (
    Given,
    Mark,
    Spelled,
    bound_values,
    cache_text,
    literal_text,
    marks,
    prepared_text,
    walk,
)
from integration.oracle.world import TWINS, World, Write, make_world
from integration.oracle.writer import EVERY, ODD
from planner.text.fingerprint import fingerprint
from sqltypes.errors import ParseError

QUERIES = 14  # texts of a round; each has a cache
STAGES = 3  # states of the tables in which all is asked
CHANGES = 8  # statements between two states
NESTED_STAGES, NESTED_CHANGES = 8, 2  # of rounds of nested queries: a change alone shows whether it is seen
SLOW = 5.0  # seconds that MySQL may take for a query: some have so many joins that it plans for a minute
ASKS = 3  # sets of parameters of a query
# Errors that a value of a row makes: no period, out of range, no JSON, no character of the set, another geometry.
OF_VALUES = frozenset({1210, 1292, 1411, 1690, 3140, 3141, 3143, 3144, 3146, 3157, 3158, 3854, 3995})
OF_VALUES |= {3033, 3037, 3055, 3064, 3516, 3616, 3617, 3618}
PLAINLY = (  # an index is read for its key alone, no other condition is looked at there; and no range of it is read
    "SET_VAR(optimizer_switch = 'index_condition_pushdown=off')",
    "SET_VAR(optimizer_switch = 'index_condition_pushdown=off') SET_VAR(range_optimizer_max_mem_size = 1)",
)
OTHERWISE = (  # in another order rows come to their groups, of which MySQL shows the first
    *(f"/*+ JOIN_PREFIX({alias}){more} */" for alias in "abc" for more in ("", " NO_BNL()")),
    "SQL_BIG_RESULT",
)
BY_FIRST = re.compile(r"GROUP_CONCAT\(DISTINCT .* ORDER BY")  # each value stands where its first row is
WHOLE_NUMBER = re.compile(r"((?:=|IN \(|,) )'?(-?\d+)(?:\.0+)?(?:e0)?'?(?![\w.':-])")  # 2.0e0 and '2' are asked as 2
WRONG_STRING = re.compile(rb".Incorrect string value: '.*?(?=' for column)", re.DOTALL)  # behind its length
FROM_TABLE = re.compile(r" (\(?)([xp]\d)(?: AS)? (?=[a-z]\w*\b)")  # in memory none of its rows is looked at early
SHAPED = 0.25  # of the texts with literals: cached as the shape that automatic caching would make of them
ROWS, LARGE_ROWS = 14, 70  # of a table: more of them than the rows that are held of a top-k
LARGE = 0.06  # of the rounds
RARELY = 0.2  # of the rounds: columns of rare types
UNUSUALLY = 0.5  # of the rounds: columns of unusual types
READS = 3  # of each text, before automatic caching looks for what is read often
DUE_EVERY = 2  # queries: one has the template whose turn it is
FAILED = "the planner has failed"
WARNINGS_SHOWN = 0.2  # of hits whose query has warnings: SHOW WARNINGS follows
MIXED = 0.2  # of lists: of several types
LITERALS = 0.3  # of texts with odd values: those that no parameter has


def in_order(text: str) -> str:
    """The text with the hint to read in the order that it asks for: so MySQL ends before it sees all rows."""
    by = re.search(r" ORDER BY a\.(\w+)", text)
    return text if by is None else re.sub(r"( x\d(?: AS)? a)\b", rf"\1 FORCE INDEX ({by[1]})", text, count=1)


def by_index(text: str, column: str, tables: Collection[int]) -> str:
    """The text with the hint to read these tables by their index of that column: no row that it leaves out is looked
    at."""
    return re.sub(
        r" (x(\d)(?: AS)? [a-z]\w*)\b",
        lambda found: f" {found[1]} FORCE INDEX ({column})" if int(found[2]) in tables else found[0],
        text,
    )


def without_values(answer: Answer) -> Counter[bytes]:
    """The rows of SHOW WARNINGS, without the strings that could not be read."""
    return Counter(WRONG_STRING.sub(b"", row) for row in answer.rows)


@dataclass
class Ask:
    """One set of parameters. `prepared`: bound to a statement, else written as literals. `answers`: MySQL's."""

    given: dict[Mark, Given]
    prepared: bool
    answers: list[Answer] = field(default_factory=list)


@dataclass
class Cached:
    name: str
    query: Query
    twin: str
    mode: str
    asks: list[Ask]
    _announced: dict[object, Announced] = field(default_factory=dict)

    def announced(self, ask: Ask) -> Announced:
        """Of what is asked with the same literals where they may be shown, and in the same way."""
        shown = [value.text for mark, given in ask.given.items() if mark.shown for value in given]
        return self._announced.setdefault((ask.prepared, *shown) if shown else (), Announced())


@dataclass
class Finding:
    """What differed, and all that it takes to see it again. `batches`: the statements before each further asking."""

    seed: int
    kind: str
    cached: Cached
    ask: Ask
    served: str
    world: World
    batches: list[list[Write]]
    what: str
    text: str
    settings: Settings = USUALLY

    @property
    def rough(self) -> tuple[str, ...]:
        """What findings of one cause often have in common."""
        return (self.kind, self.served.split(" ")[0], self.cached.query.shape, self.cached.mode)

    def __str__(self) -> str:
        cached = self.cached
        return (
            f"seed {self.seed}: {self.kind}, {self.served}, {cached.mode}, {cached.query.shape}, "
            f"{'prepared' if self.ask.prepared else 'text'}, after {len(self.batches)} changes\n  "
            f"{cache_text(cached.query.tree, cached.twin)}\n  {self.text}\n  " + self.what.replace("\n", "\n  ")
        )


@dataclass
class Tally:
    counts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    used: dict[str, Counter[str]] = field(default_factory=dict)  # by what was used: how it was answered
    texts: list[str] = field(default_factory=list)  # of caches, for what the parser makes of them

    def note(self, cached: Cached, served: str) -> None:
        for name in (*cached.query.used, *(f"column {kind}" for kind in cached.query.kinds)):
            self.used.setdefault(name, Counter())[served] += 1


def choose(rng: random.Random, query: Query, prepared: bool) -> Ask:
    """Mostly what is found; in a list mostly of one type, as programs send it."""
    given: dict[Mark, Given] = {}
    apart = random.Random()
    apart.setstate(rng.getstate())  # so that all else of a seed stays as it is
    for mark in marks(query.tree):
        values = mark.odd if mark.odd and rng.random() < ODD else mark.values
        bindable = [value for value in values if value.bindable]
        usable = bindable if prepared or rng.random() > LITERALS else list(values)
        first = rng.choice(usable or list(mark.values))
        if mark.many:
            alike = [value for value in usable if value.type == first.type or rng.random() < 0.02]
            others = [rng.choice(alike) for _ in range(rng.choice((0, 1, 2, 4)))]
            if apart.random() < MIXED:
                others = [apart.choice(usable or list(mark.values)) for _ in others]
            given[mark] = (first, *others)
        else:
            given[mark] = (first,)
    return Ask(given, prepared)


class Round:
    """`findings`: what differed. Everything but the time comes from the seed."""

    def __init__(self, asker: Asker, seed: int, tally: Tally, focus: Focus = ANYTHING) -> None:
        self.asker = asker
        self.focus = focus
        self.seed = seed
        self.rng = random.Random(seed)
        self.rng_of_warnings = random.Random(f"{seed} warnings")
        self.tally = tally
        # The size and the dates are from numbers of their own, so that other choices stay.
        large = focus.large or random.Random(f"{seed} size").random() < LARGE
        partial = focus.partial_dates and random.Random(f"{seed} dates").random() < 0.5
        other = random.Random(f"{seed} rare")
        rare = other if focus.everything and other.random() < RARELY else None
        third = random.Random(f"{seed} unusual")
        unusual = third if focus.everything and third.random() < UNUSUALLY else None
        rows = LARGE_ROWS if large else ROWS
        fourth = random.Random(f"{seed} nested")
        self.nested = fourth if fourth.random() < focus.nested else None
        self.stages, self.changes = (NESTED_STAGES, NESTED_CHANGES) if self.nested else (STAGES, CHANGES)
        if self.nested:
            self.world = make_nested_world(self.nested)
        else:
            fifth = random.Random(f"{seed} computed")
            computed = fifth if fifth.random() < focus.computed else None
            self.world = make_world(
                self.rng, rows, partial_dates=partial, rare=rare, unusual=unusual, computed=computed
            )
        sixth = random.Random(f"{seed} settings")
        self.settings = make_settings(sixth) if sixth.random() < focus.set else USUALLY
        self.batches: list[list[Write]] = []
        self.findings: list[Finding] = []
        self.caches: list[Cached] = []

    def play(self) -> None:
        self.asker.new_database(self.settings)
        refused = self.asker.run(self.world.setup())
        assert all(statement.startswith("CREATE VIEW ") for statement in refused), refused
        self.world.views = [view for view in self.world.views if not view.is_one_of(refused)]
        self.asker.wait()
        for cached, text, answer in self.create([self.made(number) for number in range(QUERIES)]):
            self.keep(cached, text, answer)
        for stage in range(self.stages):
            if stage:
                batch = self.world.changes(self.rng, self.changes)
                self.asker.run([write.text(self.world) for write in batch])
                self.batches.append(batch)
                self.asker.wait()
            asked = [(cached, ask) for cached in self.caches for ask in cached.asks]
            wanted = self.asker.ask_all("direct", [self.spelled(cached, ask) for cached, ask in asked])
            slow = [cached for (cached, _), took in zip(asked, self.asker.took, strict=False) if took > SLOW]
            self.caches = [cached for cached in self.caches if cached not in slow]
            self.tally.counts["too slow to be compared"] += len(slow)
            for (cached, ask), answer in zip(asked, wanted, strict=True):
                if cached not in slow:
                    self.compare(cached, ask, stage, answer)
        distrusted = self.asker.distrusted()
        for cached in self.caches:
            if why := distrusted.get(cached.name):
                text, _ = self.spelled(cached, cached.asks[0])
                self.found("trust", cached, cached.asks[0], why, Answer(False), Answer(False), text)
        self.asker.drop_caches()
        self.asker.close_statements()

    def made(self, number: int) -> tuple[Cached, str]:
        """A query, and the text that its cache is made from."""
        due = None
        if self.focus.everything and number % DUE_EVERY == 0:
            due = EVERY[(self.seed * QUERIES + number) // DUE_EVERY % len(EVERY)]
        if self.nested:
            query = make_nested_query(self.nested, self.world)
        else:
            query = make_query(self.rng, self.world, self.focus, due)
        twin = self.rng.choice(TWINS)
        asks = [choose(self.rng, query, self.rng.random() < 0.4) for _ in range(ASKS if marks(query.tree) else 2)]
        text = cache_text(query.tree, twin)
        if self.rng.random() < SHAPED and not asks[0].prepared and not self.nested:
            text = self.shape(literal_text(query.tree, twin, asks[0].given)) or text
        self.tally.counts["texts"] += 1
        return Cached(f"c{number}", query, twin, "", asks), text

    def create(self, made: list[tuple[Cached, str]]) -> list[tuple[Cached, str, Answer]]:
        if self.asker.automatic:
            asked = [self.spelled(cached, ask) for cached, _ in made for ask in cached.asks]
            for _ in range(READS):
                self.asker.ask_all("through", asked)
            self.tally.counts["cached by themselves"] += self.asker.cache_by_itself()
            return [(cached, text, Answer(False)) for cached, text in made]
        answers = self.asker.create_caches({cached.name: text for cached, text in made})
        return [(cached, text, answers[cached.name]) for cached, text in made]

    def keep(self, cached: Cached, text: str, answer: Answer) -> None:
        """The cache is there, or it is noted why it is not."""
        if answer.errno == LOST or FAILED in answer.message:
            self.found("error", cached, cached.asks[0], "CREATE CACHE", Answer(False), answer, text)
        if answer.errno:
            self.tally.counts["refused" if answer.errno == 1235 else "MySQL's own error"] += 1
            reason = answer.message[:60] if answer.errno == 1235 else f"{answer.errno} {answer.message[:40]}"
            (self.tally.refused if answer.errno == 1235 else self.tally.errors)[reason] += 1
            return
        cached.mode = self.asker.mode(cached.name)
        if not self.asker.automatic:
            self.tally.counts[cached.mode or "cached already"] += 1
        self.tally.texts.append(text)
        self.caches.append(cached)

    def shape(self, text: str) -> str:
        """What automatic caching would cache for this text; "" where it is no text to the scanner."""
        try:
            found = fingerprint(text, self.asker.database)
        except ParseError:
            return ""
        self.tally.counts["as automatic caching would"] += 1
        return found.shape if not found.placeholders else ""

    def spelled(self, cached: Cached, ask: Ask) -> tuple[str, list[Spelled] | None]:
        tree = cached.query.tree
        if ask.prepared:
            return prepared_text(tree, cached.twin, ask.given), bound_values(tree, ask.given)
        return literal_text(tree, cached.twin, ask.given), None

    def compare(self, cached: Cached, ask: Ask, stage: int, wanted: Answer) -> None:
        """MySQL's answer, and what the proxy says to the same, at first and again."""
        text, values = self.spelled(cached, ask)
        cached.announced(ask).note(wanted)
        ask.answers.append(wanted)
        for again in (False, True):
            found = self.asker.ask("through", text, values)
            served, reason = self.asker.served()
            self.count(cached, served, reason, stage, again, wanted)
            if self.asker.beside.unhandled:
                complaint = repr(self.asker.beside.unhandled.pop())
                self.found("error", cached, ask, f"{served} {reason}", wanted, Answer(False, LOST, complaint), text)
                return
            if served == "passed":
                cached.announced(ask).note(found)
                ask.answers.append(found)
            kind = self.kind(cached, ask, wanted, found, passed=served == "passed")
            if kind:
                self.found(kind, cached, ask, f"{served} {reason}".strip(), wanted, found, text)
                return
            self.compare_warnings(cached, ask, served, wanted, found)

    def kind(self, cached: Cached, ask: Ask, wanted: Answer, found: Answer, *, passed: bool) -> str:
        """What differs, "" where it is nothing, or MySQL's choice."""
        query, counts = cached.query, self.tally.counts

        def differs(from_: Answer) -> str:
            return difference(from_, found, ordered=query.ordered, free=query.free, announced=cached.announced(ask))

        same = same_bytes if cached.mode == "evict" else same_spellings
        kind = differs(wanted)
        if not kind and not wanted.errno and not same_bytes(wanted, found, ordered=query.ordered):
            counts[f"alike, not the same: {cached.mode} {query.shape}"] += 1
            # Held as MySQL gave it, so MySQL has given it; of what is maintained only the rounding of floats is free.
            if not any(same(before, found, ordered=query.ordered) for before in ask.answers):
                kind = "spelling"
        if not kind:
            return ""
        if kind == "error" and self.is_mysqls_choice(cached, ask, wanted, found):
            counts["errors by the order of evaluation"] += 1
            return ""
        text, values = self.spelled(cached, ask)
        # By an index or without: which, its statistics decide, and they change.
        ways = [("MySQL said something else when asked again", text)]
        if ask.prepared:
            ways.append(("MySQL said something else when prepared anew", self.asker.anew(text)))
        if kind == "spelling" or (kind == "rows" and BY_FIRST.search(text)):
            hinted = [text.replace("SELECT ", f"SELECT {way} ", 1) for way in OTHERWISE]
            ways += [("MySQL chose so by another plan", way) for way in hinted]
        for name, way in ways:
            other = self.asker.ask("direct", way, values)
            cached.announced(ask).note(other)
            if not differs(other) and (kind != "spelling" or same(other, found, ordered=query.ordered)):
                counts[name] += 1
                return ""
        why = self.by_the_tables(cached, ask, found, passed=passed) if kind == "rows" else ""
        counts[why] += bool(why)
        return "" if why else kind

    def by_the_tables(self, cached: Cached, ask: Ask, found: Answer, *, passed: bool) -> str:
        """Why these rows are MySQL's, asked of others or opened by another; "" where they are not."""
        query = cached.query

        def differs(one: Answer, other: Answer) -> str:
            return difference(one, other, ordered=query.ordered, free=query.free, announced=cached.announced(ask))

        if differs(self.of_twin(cached, ask), found) in ("", "columns"):
            return "MySQL says so of the same rows with other indexes"
        opened = passed and self.world.computes
        if opened and not differs(*self.asker.with_own_tables(*self.spelled(cached, ask))):
            return "MySQL keeps a setting with the opened table"
        return ""

    def of_twin(self, cached: Cached, ask: Ask) -> Answer:
        """What MySQL says to the same, asked of the same rows with other indexes. Its columns have other flags."""
        (twin,) = set(TWINS) - {cached.twin}
        tree = cached.query.tree
        if ask.prepared:
            return self.asker.ask("direct", prepared_text(tree, twin, ask.given), bound_values(tree, ask.given))
        return self.asker.ask("direct", literal_text(tree, twin, ask.given), None)

    def compare_warnings(self, cached: Cached, ask: Ask, served: str, wanted: Answer, found: Answer) -> None:
        """A passed answer counts MySQL's, any other none; a client that asks for them is shown MySQL's."""
        if not (wanted.warnings or found.warnings):
            return
        text, values = self.spelled(cached, ask)
        counts = self.tally.counts
        if served == "passed":
            counts["warnings passed"] += 1
            told = found.warnings
        else:
            counts["warnings that a hit or miss does not tell of"] += 1
            if found.warnings:
                self.found("warnings", cached, ask, served, wanted, found, text)
                return
            told = -1
            if self.rng_of_warnings.random() > WARNINGS_SHOWN:
                return
        direct: set[frozenset[bytes]] = set()
        for _ in range(2):  # which rows MySQL looks at is its plan's choice, which may change
            shown = self.asker.ask("through", "SHOW WARNINGS", None)
            for way in (text, self.asker.anew(text)):  # how it reads a string depends on the executions before
                again = self.asker.ask("direct", way, values)
                asked = self.asker.ask("direct", "SHOW WARNINGS", None)
                direct.add(frozenset(asked.rows))
                if told in (-1, again.warnings) and Counter(shown.rows) == Counter(asked.rows):
                    counts["warnings shown alike"] += 1
                    return
            found = self.asker.ask("through", text, values)
            told = found.warnings if self.asker.served()[0] == "passed" else -1
        if len(direct) > 1 and without_values(shown) == without_values(asked):
            counts["warnings in which MySQL shows what its memory held"] += 1  # another time another value
            return
        self.found("warnings", cached, ask, served, asked, shown, text)

    def is_mysqls_choice(self, cached: Cached, ask: Ask, wanted: Answer, found: Answer) -> bool:
        """Whether an error comes and goes with the order in which MySQL looks at the conditions: what was found is what
        it says to another way to write the same. It may look at rows of other keys before it sees that these are not
        meant."""
        if not {wanted.errno, found.errno} & OF_VALUES:
            return False
        if self.asker.automatic:
            return True  # 2.0 may be asked as 2, by which MySQL finds fewer rows to look at
        turned, given = deepcopy((cached.query.tree, ask.given))
        for node in walk(turned):
            if node.lead in (" WHERE ", " ON "):
                node.parts.reverse()
        ways: list[tuple[str, list[Spelled] | None]] = []
        for tree, values in ((cached.query.tree, ask.given), (turned, given)):
            texts = [literal_text(tree, twin, values) for twin in TWINS]
            ways += [(way, None) for way in self.other_ways(texts, fewer_errors=not found.errno)]
            if ask.prepared:  # its rows have another form than a text's
                bound = bound_values(tree, values)
                texts = [prepared_text(tree, twin, values) for twin in TWINS]
                ways += [(way, bound) for way in self.other_ways(texts, fewer_errors=not found.errno)]
        query = cached.query
        differences = [
            difference(other, found, ordered=query.ordered, free=query.free)
            for other in self.asker.ask_all("direct", ways)
        ]
        return not {"", "columns"}.isdisjoint(differences)

    def other_ways(self, texts: list[str], *, fewer_errors: bool) -> list[str]:
        """These texts, and the same with hints by which MySQL looks at other rows, or at fewer."""
        ways = [*texts, *(text.replace("SELECT ", f"SELECT /*+ {hint} */ ", 1) for hint in PLAINLY for text in texts)]
        ways += [WHOLE_NUMBER.sub(r"\1\2", way) for way in ways]
        if fewer_errors:
            ways += [FROM_TABLE.sub(r" \1(SELECT * FROM \2 LIMIT 1000) AS ", text) for text in texts]
            ways += [in_order(text) for text in texts]
            ways += [forced for text in texts for forced in self.by_each_index(text)]
        return ways

    def by_each_index(self, text: str) -> Iterator[str]:
        """The text with the hint to use one index, for each column that has one in a table of the text."""
        indexed: dict[str, set[int]] = {}
        for table in self.world.tables:
            for column in table.columns[1:]:
                if column.kind.index == "":
                    indexed.setdefault(column.name, set()).add(table.number)
        for name, tables in indexed.items():
            if (forced := by_index(text, name, tables)) != text:
                yield forced

    def count(self, cached: Cached, served: str, reason: str, stage: int, again: bool, wanted: Answer) -> None:
        counts = self.tally.counts
        counts["asked"] += 1
        counts[served] += 1
        if wanted.errno:
            counts["errors compared"] += 1
        if served == "passed":
            self.tally.passed[reason[:70]] += 1
        if served == "hit":
            counts[f"hits of {cached.mode}"] += 1
            if stage and not again:
                counts["hits after a change"] += 1
        self.tally.note(cached, "error" if wanted.errno else served)

    def found(self, kind: str, cached: Cached, ask: Ask, served: str, wanted: Answer, found: Answer, text: str) -> None:
        tree, given = deepcopy((cached.query.tree, ask.given))  # a finding's own, to be made smaller
        cached = replace(cached, query=replace(cached.query, tree=tree))
        what, batches = explained(wanted, found), [list(batch) for batch in self.batches]
        ask = Ask(given, ask.prepared)
        seen = self.world, batches, what, text, self.settings
        self.findings.append(Finding(self.seed, kind, cached, ask, served, *seen))
