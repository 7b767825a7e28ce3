"""Random tables that lists are asked of: keys of several types and collations, primary keys of one column or more, and
secondary indexes of each kind."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta

from integration.oracle.trees import DATE, NULL, Spelled, blob, decimal, double, integer, moment, string

SIZES = (12, 60, 400, 2500)
LARGE = 1000  # rows: of so many MySQL looks a few values up in an index
FIRST = date(2024, 1, 1)
MEMBERS = ("pear", "Fig", "apple", "kiwi", "plum", "date", "nut", "lime")
WORDS = ("ant", "Bee", "cöw", "dog", "straße", "eel", "Fox", "gnü", "a b", "ab")
AT_ONCE = 500  # rows of an INSERT
Draw = Callable[[random.Random, int], Spelled]


@dataclass(frozen=True, slots=True)
class Domain:
    """What stands in a column. `value`: the n-th value, in some spelling; `odd`: the same, or nearly, in a foreign
    type. `most`: how many values there are, 0 for any number. `folds`: several spellings are one value."""

    ddl: str
    value: Draw
    odd: Draw
    most: int = 0
    folds: bool = False
    text: bool = False


def _int(rng: random.Random, n: int) -> Spelled:
    return integer(n * 3 - 7)


def _odd_int(rng: random.Random, n: int) -> Spelled:
    number = n * 3 - 7
    return rng.choice((string(str(number)), decimal(f"{number}.0"), double(float(number)), decimal(f"{number}.5")))


def _long(rng: random.Random, n: int) -> Spelled:
    return integer(2**63 + n if n % 5 == 4 else n)


def _odd_long(rng: random.Random, n: int) -> Spelled:
    return rng.choice((string(_long(rng, n).text), decimal(_long(rng, n).text), integer(-n - 1), double(float(n))))


def _word(rng: random.Random, n: int) -> Spelled:
    word = f"{WORDS[n % len(WORDS)]}{n // len(WORDS) or ''}"
    return string(rng.choice((word, word, word.upper(), word.lower(), word.replace("ö", "o"), word + " ")))


def _plain_word(rng: random.Random, n: int) -> Spelled:
    return string(f"{WORDS[n % len(WORDS)]}{n // len(WORDS) or ''}" + " " * (rng.random() < 0.1))


def _odd_word(rng: random.Random, n: int) -> Spelled:
    return rng.choice((integer(0), blob(_plain_word(rng, n).text.strip("'").encode()), integer(n), double(1.5)))


def _day(rng: random.Random, n: int) -> Spelled:
    text = str(FIRST + timedelta(days=n))
    return rng.choice((string(text), moment(text, DATE)))


def _odd_day(rng: random.Random, n: int) -> Spelled:
    day = FIRST + timedelta(days=n)
    return rng.choice(
        (
            integer(int(f"{day:%Y%m%d}")),
            string(f"{day.year}-{day.month}-{day.day}"),
            moment(f"{day} 00:00:00"),
            moment(f"{day} 12:30:00"),
            string(f"{day} 00:00:00"),
        )
    )


def _moment(rng: random.Random, n: int) -> Spelled:
    text = f"{FIRST + timedelta(days=n // 3)} {n % 3 * 7:02}:30:00"
    return rng.choice((string(text), moment(text)))


def _member(rng: random.Random, n: int) -> Spelled:
    return string(MEMBERS[n])


def _odd_member(rng: random.Random, n: int) -> Spelled:
    return rng.choice((integer(n + 1), string(MEMBERS[n].upper()), integer(0), string("no member")))


def _decimal(rng: random.Random, n: int) -> Spelled:
    return decimal(f"{n / 4 - 2:.2f}")


def _odd_decimal(rng: random.Random, n: int) -> Spelled:
    return rng.choice((string(f"{n / 4 - 2:.2f}"), double(n / 4 - 2), integer(n), decimal(f"{n / 4 - 2:.3f}")))


def _bytes(rng: random.Random, n: int) -> Spelled:
    return blob(bytes((n % 251, 255 - n // 251)))


def _text(collation: str, value: Draw, *, folds: bool = True, ddl: str = "VARCHAR(14)") -> Domain:
    return Domain(f"{ddl} COLLATE {collation}", value, _odd_word, folds=folds, text=True)


DOMAINS = (
    *[Domain("INT", _int, _odd_int)] * 3,
    Domain("BIGINT UNSIGNED", _long, _odd_long),
    _text("utf8mb4_0900_ai_ci", _word),
    _text("utf8mb4_general_ci", _word),
    _text("utf8mb4_bin", _plain_word, folds=False),
    _text("utf8mb4_0900_as_cs", _plain_word, folds=False),
    Domain("VARCHAR(14) CHARACTER SET latin1", _word, _odd_word, folds=True, text=True),
    _text("utf8mb4_unicode_ci", _word, ddl="CHAR(14)"),
    Domain("DATE", _day, _odd_day),
    Domain("DATETIME", _moment, _odd_day),
    Domain(f"ENUM{MEMBERS}", _member, _odd_member, most=len(MEMBERS)),
    Domain("DECIMAL(8,2)", _decimal, _odd_decimal),
    Domain("VARBINARY(4)", _bytes, _odd_word),
)
NUMBER = Domain("INT", _int, _odd_int)


@dataclass(frozen=True, slots=True)
class Column:
    """`spread`: so many values it has."""

    name: str
    domain: Domain
    spread: int
    nullable: bool
    expression: str = ""

    def value(self, rng: random.Random) -> Spelled:
        if self.nullable and rng.random() < 0.08:
            return NULL
        return self.domain.value(rng, rng.randrange(self.spread))

    @property
    def ddl(self) -> str:
        if self.expression:
            return f"{self.name} {self.domain.ddl} AS ({self.expression}) VIRTUAL"
        return f"{self.name} {self.domain.ddl}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True, slots=True)
class IndexPart:
    column: str
    falling: bool
    prefix: int = 0

    def __str__(self) -> str:
        return self.column + (f"({self.prefix})" if self.prefix else "") + (" DESC" if self.falling else "")


@dataclass(frozen=True, slots=True)
class Index:
    name: str
    parts: tuple[IndexPart, ...]
    unique: bool = False

    @property
    def ddl(self) -> str:
        parts = ", ".join(map(str, self.parts))
        if self.name == "PRIMARY":
            return f"PRIMARY KEY ({parts})"
        return f"{'UNIQUE ' if self.unique else ''}KEY {self.name} ({parts})"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(part.column for part in self.parts)


@dataclass(slots=True)
class ListTable:
    """`keys`: columns that lists are of; the others are shown and computed with."""

    name: str
    size: int
    keys: list[Column]
    others: list[Column]
    indexes: list[Index] = field(default_factory=list)  # the primary key first, where there is one
    partitioned: bool = False

    @property
    def columns(self) -> list[Column]:
        return [ID, *self.keys, *self.others]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    @property
    def primary(self) -> tuple[str, ...]:
        return next((index.columns for index in self.indexes if index.name == "PRIMARY"), ())

    @property
    def create(self) -> str:
        lines = [column.ddl for column in self.columns] + [index.ddl for index in self.indexes]
        parts = " PARTITION BY HASH (id) PARTITIONS 3" if self.partitioned else ""
        return f"CREATE TABLE {self.name} ({', '.join(lines)}) STATS_AUTO_RECALC = 0{parts}"

    def row(self, rng: random.Random, number: int) -> str:
        stored = [column.value(rng).text for column in self.columns[1:] if not column.expression]
        return f"({', '.join([str(number), *stored])})"

    @property
    def stored(self) -> str:
        return ", ".join(column.name for column in self.columns if not column.expression)

    def filled(self, rng: random.Random) -> Iterator[str]:
        """What puts its rows there."""
        numbers = rng.sample(range(-self.size, 2 * self.size), self.size)
        for at in range(0, self.size, AT_ONCE):
            rows = ", ".join(self.row(rng, number) for number in numbers[at : at + AT_ONCE])
            yield f"INSERT IGNORE INTO {self.name} ({self.stored}) VALUES {rows}"


ID = Column("id", Domain("INT", lambda rng, n: integer(n), _odd_int), 0, False)


def random_table(rng: random.Random, name: str) -> ListTable:
    size = rng.choice(SIZES)
    keys = [_key(rng, f"k{at}", size) for at in range(3)]
    if rng.random() < 0.2:
        number = next((column.name for column in keys if column.domain.ddl == "INT"), "id")
        keys.append(Column("v", NUMBER, 12, True, f"{number} % 12 * 3 - 7"))
    others = [Column("p", NUMBER, 9, rng.random() < 0.5), Column("d", DOMAINS[-2], 40, False)]
    others += [Column("w", rng.choice([one for one in DOMAINS if one.text]), 8, True)]
    table = ListTable(name, size, keys, others)
    table.indexes = list(_indexes(rng, table))
    fits = not any(index.unique and index.name != "PRIMARY" for index in table.indexes)
    table.partitioned = bool(table.primary) and fits and rng.random() < 0.08
    return table


def _key(rng: random.Random, name: str, size: int) -> Column:
    domain = rng.choice(DOMAINS)
    spread = rng.choice((5, 12, size // 8 + 2, size // 3 + 2))
    return Column(name, domain, min(spread, domain.most or spread), rng.random() < 0.4)


def _indexes(rng: random.Random, table: ListTable) -> Iterator[Index]:
    names = [column.name for column in table.keys if not column.expression]
    whole = [name for name in names if not table.column(name).nullable]
    primary = ["id"]
    if whole and rng.random() < 0.35:
        primary.insert(rng.choice((0, 0, 1)), rng.choice(whole))
    if rng.random() > 0.06:
        yield Index("PRIMARY", tuple(IndexPart(one, rng.random() < 0.12) for one in primary), True)
    for at in range(rng.choice((0, 1, 1, 1, 2, 3))):
        yield random_index(rng, table, f"i{at}")


def random_index(rng: random.Random, table: ListTable, name: str) -> Index:
    columns = rng.sample([column.name for column in table.keys] + ["p", "d"], rng.choice((1, 1, 1, 2, 2, 3)))
    columns.sort(key=lambda one: not one.startswith("k") if rng.random() < 0.8 else 0)
    unique = rng.random() < 0.15 and not table.partitioned
    if unique:
        columns.append("id")
    return Index(name, tuple(_part(rng, table.column(one)) for one in columns), unique)


def _part(rng: random.Random, column: Column) -> IndexPart:
    prefix = rng.choice((2, 3)) if column.domain.text and rng.random() < 0.2 else 0
    return IndexPart(column.name, rng.random() < 0.15, prefix)
