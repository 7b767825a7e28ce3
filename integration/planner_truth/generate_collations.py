"""Writes `sqltypes/data/<collation>.zlib` from a MySQL's own WEIGHT_STRING over all code points.

    python integration/planner_truth/generate_collations.py mysql://root@127.0.0.1:3306 [allkeys.txt]

`allkeys.txt` (the Unicode collation algorithm's table, of any version from 9.0 on) only names sequences that may be
contractions: those whose weight in MySQL is not the sum of their characters' are written. The format is described in
`sqltypes/collation_tables.py`.
"""

from __future__ import annotations

import re
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql

from sqltypes.collation_tables import DATA, implicit

COLLATIONS = ("utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "latin1_swedish_ci", "ascii_general_ci")
BATCH = 4000
Weight = tuple[int, ...]


def weights_of(cursor: Any, collation: str, texts: Iterable[str]) -> Iterator[tuple[str, Weight]]:
    """Each text with its weights in MySQL: of 16 bits in Unicode collations, else of 8 bits."""
    charset = collation.partition("_")[0]
    waiting = list(texts)
    while waiting:
        batch, waiting = waiting[:BATCH], waiting[BATCH:]
        introduced = (f"_utf8mb4 x'{text.encode().hex()}'" for text in batch)
        cursor.execute(
            "SELECT "
            + ", ".join(f"WEIGHT_STRING(CONVERT({text} USING {charset}) COLLATE {collation})" for text in introduced)
        )
        for text, raw in zip(batch, cursor.fetchone(), strict=True):
            if charset == "utf8mb4":
                yield text, struct.unpack(f">{len(raw) // 2}H", raw)
            else:
                yield text, tuple(raw)


def characters(collation: str) -> list[str]:
    """All characters of the collation's character set."""
    charset = collation.partition("_")[0]
    if charset == "utf8mb4":
        return [chr(point) for point in range(0x110000) if not 0xD800 <= point <= 0xDFFF]
    if charset == "ascii":
        return [chr(point) for point in range(128)]
    return [bytes([byte]).decode("cp1252") for byte in range(256) if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)]


def sequences(path: str) -> list[str]:
    """The entries of allkeys.txt with several characters."""
    found = re.findall(r"^([0-9A-F]+(?: [0-9A-F]+)+) *;", Path(path).read_text(), re.MULTILINE)
    return ["".join(chr(int(point, 16)) for point in entry.split()) for entry in found]


def write(collation: str, table: dict[str, Weight]) -> None:
    """Characters in order of their code points, then contractions; characters with implicit weights are left out."""
    entries = [
        (text, weight) for text, weight in table.items() if len(text) > 1 or weight != implicit(ord(text), collation)
    ]
    parts = [struct.pack("<I", len(entries))]
    for text, weight in sorted(entries, key=lambda entry: (len(entry[0]), entry[0])):
        points = [ord(character) for character in text]
        parts.append(struct.pack(f"<BB{len(points)}I{len(weight)}H", len(points), len(weight), *points, *weight))
    DATA.mkdir(exist_ok=True)
    data = zlib.compress(b"".join(parts), 9)
    (DATA / f"{collation}.zlib").write_bytes(data)
    print(f"{collation}: {len(entries)} entries, {len(data)} bytes")


def main(url: str, allkeys: str | None) -> None:
    """Writes all files."""
    parts = urlsplit(url)
    connection = pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=parts.username or "root",
        password=parts.password or "",
        charset="utf8mb4",
    )
    with connection, connection.cursor() as cursor:
        for collation in COLLATIONS:
            table = dict(weights_of(cursor, collation, characters(collation)))
            if allkeys and collation.startswith("utf8mb4"):
                for text, weight in weights_of(cursor, collation, sequences(allkeys)):
                    if weight != sum((table[character] for character in text), ()):
                        table[text] = weight
            write(collation, table)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
