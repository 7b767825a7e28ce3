"""What sessions set before they ask: the same at MySQL and through the proxy."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

PLAIN = "SET time_zone = '+00:00'"  # like the sessions of upqueries, and of most applications
MODES = (
    "ALLOW_INVALID_DATES", "ANSI_QUOTES", "ERROR_FOR_DIVISION_BY_ZERO", "HIGH_NOT_PRECEDENCE", "IGNORE_SPACE",
    "NO_BACKSLASH_ESCAPES", "NO_UNSIGNED_SUBTRACTION", "NO_ZERO_DATE", "NO_ZERO_IN_DATE", "ONLY_FULL_GROUP_BY",
    "PAD_CHAR_TO_FULL_LENGTH", "PIPES_AS_CONCAT", "REAL_AS_FLOAT", "STRICT_ALL_TABLES", "STRICT_TRANS_TABLES",
    "TIME_TRUNCATE_FRACTIONAL",
)  # fmt: skip
USUAL = frozenset(
    ("ONLY_FULL_GROUP_BY", "STRICT_TRANS_TABLES", "NO_ZERO_IN_DATE", "NO_ZERO_DATE", "ERROR_FOR_DIVISION_BY_ZERO")
)
VALUES: Mapping[str, tuple[str, ...]] = {
    "time_zone": ("'+02:00'", "'-11:30'", "'+05:45'", "'SYSTEM'"),
    "lc_time_names": ("'de_DE'", "'ja_JP'"),
    "collation_connection": ("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_tr_0900_ai_ci", "latin1_swedish_ci"),
    "character_set_results": ("latin1", "NULL", "binary", "utf8mb3"),
    "default_collation_for_utf8mb4": ("utf8mb4_general_ci",),
    "default_week_format": ("3", "6"),
    "div_precision_increment": ("8", "0"),
    "group_concat_max_len": ("8", "5000"),
    "block_encryption_mode": ("'aes-256-ecb'",),
    "sql_select_limit": ("2", "0"),
    "sql_auto_is_null": ("1",),
    "max_sort_length": ("4",),
    "windowing_use_high_precision": ("0",),
    "optimizer_switch": ("'index_merge=off,mrr=on,mrr_cost_based=off'", "'semijoin=off,materialization=off'"),
}
OFTEN = ("time_zone", "lc_time_names", "default_week_format", "div_precision_increment")
"""What many functions are computed by, and few queries refuse."""
MODES_SET = 0.25  # of the sessions that set anything
PACKETS = (16384, 131072)  # bytes; texts are shorter
SMALL_PACKET = 0.1  # of the sessions that set anything


@dataclass(frozen=True, slots=True)
class Settings:
    """`text`: the SET statement. `packet`: max_allowed_packet in bytes, which a session has from its login on; 0: the
    server's."""

    text: str = PLAIN
    packet: int = 0

    @property
    def plain(self) -> bool:
        return self == Settings()

    def __str__(self) -> str:
        """As `read_settings` reads it."""
        return f"{self.packet} {self.text}"


USUALLY = Settings()


def read_settings(line: str) -> Settings:
    packet, _, text = line.strip().partition(" ")
    return Settings(text, int(packet))


def make_settings(rng: random.Random) -> Settings:
    """One to three variables of other values, the sql_mode among them now and then."""
    often = [name for name in VALUES if name in OFTEN for _ in range(4)]
    names = [rng.choice((*VALUES, *often)) for _ in range(rng.choice((1, 1, 2, 3)))]
    values = {"time_zone": "'+00:00'"} | {name: rng.choice(VALUES[name]) for name in names}
    if rng.random() < MODES_SET:
        modes = USUAL ^ frozenset(rng.sample(MODES, rng.choice((1, 2, 3))))
        values["sql_mode"] = f"'{','.join(sorted(modes))}'"
    packet = rng.choice(PACKETS) if rng.random() < SMALL_PACKET else 0
    return Settings("SET " + ", ".join(f"{name} = {value}" for name, value in values.items()), packet)
