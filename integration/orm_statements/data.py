"""The rows that the programs and the scripts meet: the same each time, from one seed.

Times and numbers that reads are ordered by are each there once: MySQL has no choice among rows.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

SEED = 7
NOW = datetime(2026, 5, 10, 12, 0)  # what the programs say is now
USERS, CATEGORIES, POSTS, TAGS, COMMENTS, PRODUCTS, ORDERS = 20, 9, 60, 8, 150, 30, 80
# Each comes behind those that its foreign keys name.
TABLES = (
    "users", "categories", "posts", "tags", "posts_tags", "comments", "products", "orders", "order_lines",
    "sessions", "tokens",
)  # fmt: skip
WORDS = (
    "river", "stone", "paper", "lamp", "garden", "winter", "signal", "copper", "harbour", "letter", "morning", "engine",
    "window", "valley",
)  # fmt: skip

Row = tuple[object, ...]


def rows() -> Iterator[tuple[str, Row]]:
    """Every row with its table, in an order that foreign keys allow."""
    chance = random.Random(SEED)
    for number in range(1, USERS + 1):
        at = moment(40 + number)
        role = ("reader", "reader", "editor", "admin")[number % 4]
        settings = json.dumps({"theme": ("dark", "light")[number % 2], "page": {"size": 10 + number}})
        gone = moment(5) if number % 9 == 0 else None
        name = f"{WORDS[number % 14].title()} {WORDS[number * 5 % 14].title()} {number}"
        yield "users", (
            number, f"user{number}@example.com", name, role, int(number % 5 != 0), f"{number * 37 % 500}.{number:02}",
            settings, uuid("user", number), f"{1960 + number}-03-{number:02}", moment(number), at, at, gone,
        )  # fmt: skip
    for number in range(1, CATEGORIES + 1):
        yield "categories", (number, (number - 1) // 3 or None, f"{WORDS[number]}s", number)
    for number in range(1, POSTS + 1):
        at = moment(100 - number, number)
        status = ("draft", "published", "published", "archived")[number % 4]
        title = f"{WORDS[number % 14].title()} and {WORDS[(number * 3 + 1) % 14]} {number}"
        body = " ".join(chance.choices(WORDS, k=30))
        meta = json.dumps({"lang": ("en", "de")[number % 2], "reading": {"minutes": number % 7}, "tags": [number % 3]})
        yield "posts", (
            number, number % USERS + 1, number % CATEGORIES + 1, title, f"post-{number}", body, status, number * 7 % 61,
            number / 8, meta, at if status == "published" else None, at, at, moment(1) if number % 11 == 0 else None,
        )  # fmt: skip
    for number in range(1, TAGS + 1):
        yield "tags", (number, WORDS[number])
    for number in range(1, POSTS + 1):
        for tag in sorted(chance.sample(range(1, TAGS + 1), 1 + number % 3)):
            yield "posts_tags", (number, tag)
    for number in range(1, COMMENTS + 1):
        at = moment(80, number)
        what, which = ("Post", number % POSTS + 1) if number % 3 else ("Product", number % PRODUCTS + 1)
        yield "comments", (
            number, what, which, number % USERS + 1, " ".join(chance.choices(WORDS, k=8)), int(number % 7 != 0), at, at,
        )  # fmt: skip
    yield from _shop(chance)
    for number in range(1, USERS + 1):
        ends = moment(0, -60 * number) if number % 3 else moment(3)
        yield "sessions", (digest("session", number), number, f"cart={number}", ends)
        yield "tokens", (
            number, number, digest("token", number), '["read", "write"]', None, None if number % 4 else ends,
        )  # fmt: skip


def _shop(chance: random.Random) -> Iterator[tuple[str, Row]]:
    for number in range(1, PRODUCTS + 1):
        at = moment(200 - number)
        attributes = json.dumps({"color": ("red", "blue", "green")[number % 3], "weight": number * 10})
        yield "products", (
            number, number % CATEGORIES + 1, bytes.fromhex(uuid("product", number).replace("-", "")),
            f"SKU-{number:04}", f"{WORDS[number % 14].title()} {number}", f"{number * 3}.{number:02}", number * 7 % 40,
            attributes, at, at, moment(2) if number % 13 == 0 else None,
        )  # fmt: skip
    line = 0
    for number in range(1, ORDERS + 1):
        at = moment(90 - number, number)
        status = ("open", "paid", "sent", "cancelled")[number % 4]
        products = chance.sample(range(1, PRODUCTS + 1), 1 + number % 3)
        total = sum(product * 3 + product / 100 for product in products)
        paid = at + timedelta(hours=1) if status in ("paid", "sent") else None
        yield "orders", (number, number % USERS + 1, f"N-{number:05}", status, f"{total:.2f}", at, paid, at, at)
        for product in products:
            line += 1
            yield "order_lines", (line, number, product, 1 + line % 4, f"{product * 3}.{product:02}")


def moment(days: int, minutes: int = 0) -> datetime:
    """So long before `NOW`."""
    return NOW - timedelta(days=days, minutes=minutes)


def digest(kind: str, number: int) -> str:
    return hashlib.sha256(f"{kind} {number}".encode()).hexdigest()


def uuid(kind: str, number: int) -> str:
    found = digest(kind, number)
    return f"{found[:8]}-{found[8:12]}-4{found[13:16]}-8{found[17:20]}-{found[20:32]}"


def inserts() -> Iterator[str]:
    """A statement for each table."""
    found: dict[str, list[str]] = {table: [] for table in TABLES}
    for table, row in rows():
        found[table].append(f"({', '.join(map(literal, row))})")
    for table, values in found.items():
        yield f"INSERT INTO {table} VALUES {', '.join(values)}"


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, int | float):
        return repr(value)
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def restored(origin: str, tables: Sequence[str] = TABLES) -> Iterator[str]:
    """Statements after which the tables have the rows of the database `origin` again."""
    for table in reversed(tables):
        yield f"DELETE FROM {table}" + (" ORDER BY id DESC" if table == "categories" else "")
    for table in tables:
        yield f"INSERT INTO {table} SELECT * FROM {origin}.{table}"
