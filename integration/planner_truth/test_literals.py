"""Literals in a query's text mean what MySQL reads in them."""

from __future__ import annotations

import random
from contextlib import closing
from decimal import Decimal

import pymysql

from integration.servers.mysql_server import Server
from planner.text.fingerprint import literal_of
from planner.text.scan import scan_all

PIECES = (
    "\\",
    "\\",
    "'",
    "''",
    '"',
    '""',
    "\\'",
    '\\"',
    "%",
    "_",
    "a",
    "n",
    "0",
    "b",
    "r",
    "t",
    "Z",
    "é",
    "\n",
    "/*",
    "\0",
)


def random_literal(rng: random.Random) -> str:
    if rng.random() < 0.7:
        quote = rng.choice("'\"")
        return quote + "".join(rng.choice(PIECES) for _ in range(rng.randrange(7))) + quote
    digits = "".join(rng.choice("0123456789") for _ in range(rng.choice((1, 3, 20, 30))))
    return rng.choice(
        (digits, f"{digits}.", f".{digits}", f"{digits}.50", f"0x{digits}", f"x'{digits}'", "0b101", "b'1'")
    )


def test_random_literals_have_mysqls_values(mysql: Server) -> None:
    rng = random.Random(7)
    compared = 0
    with closing(mysql.connect(charset="utf8mb4")) as connection, connection.cursor() as cursor:
        for _ in range(3000):
            text = random_literal(rng)
            try:
                cursor.execute(f"SELECT HEX({text}), {text}")
            except pymysql.err.MySQLError:
                continue
            tokens = scan_all(text)
            if len(tokens) != 1:
                continue  # two strings side by side, or a comment
            value = literal_of(tokens[0]).value
            ((as_hex, itself),) = cursor.fetchall()
            compared += 1
            if isinstance(value, int | Decimal):
                assert Decimal(value) == Decimal(itself), text
            else:
                assert isinstance(value, str | bytes)
                written = value.encode() if isinstance(value, str) else value
                assert written.hex().upper() == as_hex, text
    assert compared > 1000
