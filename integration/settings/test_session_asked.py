"""What a session is asked in one question is what MySQL tells of each variable alone, whatever the session has set."""

from __future__ import annotations

import random

from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.support.raw_client import RawClient
from proxy.mysql.session.questions_to_mysql import text_row
from proxy.mysql.state.session_variables import (
    ALWAYS,
    ASK,
    ASK_COLUMNS,
    ASKED,
    IDENTITY,
    OTHERS,
    SOMETIMES,
    TIMESTAMP,
    asked_values,
    question,
)

SETTINGS = (
    "SET NAMES latin1",
    "SET NAMES gbk",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET NAMES binary",
    "SET NAMES cp932",
    "SET character_set_connection = utf16",
    "SET character_set_connection = ucs2",
    "SET character_set_results = NULL",
    "SET collation_connection = utf32_general_ci",
    "SET character_set_results = ucs2",
    "SET character_set_client = sjis",
    "SET sql_mode = ''",
    "SET sql_mode = 'ANSI,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,IGNORE_SPACE'",
    "SET sql_mode = 'TRADITIONAL,ONLY_FULL_GROUP_BY,PAD_CHAR_TO_FULL_LENGTH,REAL_AS_FLOAT,NO_UNSIGNED_SUBTRACTION'",
    "SET time_zone = '-03:30'",
    "SET time_zone = SYSTEM",
    "SET max_join_size = 18446744073709551615",
    "SET max_join_size = 7",
    "SET sql_select_limit = 18446744073709551615",
    "SET sql_select_limit = 0",
    "SET group_concat_max_len = 18446744073709551615",
    "SET lc_time_names = de_DE",
    "SET sql_auto_is_null = 1",
    "SET transaction_isolation = 'READ-UNCOMMITTED'",
    "SET transaction_read_only = 1",
    "SET completion_type = 'RELEASE'",
    "SET block_encryption_mode = 'aes-256-cbc'",
    "SET sql_buffer_result = 1",
    "SET max_sort_length = 4",
    "SET optimizer_switch = 'index_merge=off'",
    "SET autocommit = 0",
    "SET sql_log_bin = 0",
    "SET max_execution_time = 9",
    "SET session_track_system_variables = ''",
    "SET session_track_system_variables = '*'",
    "SET wait_timeout = 31536000",
    "SET session_track_system_variables = NULL",
    "SET session_track_gtids = ALL_GTIDS",
    "SET timestamp = 1.5",
    "SET default_week_format = 7",
    "SET div_precision_increment = 30",
    "SET windowing_use_high_precision = 0",
)
AS_THEY_ARE = [name for name in ASKED if name not in (OTHERS, TIMESTAMP)]
ELSEWHERE = ("use_secondary_engine", "optimizer_switch", "max_sort_length", "default_collation_for_utf8mb4")


def row_of(client: RawClient, sql: str) -> list[str | None]:
    found = parse(client.query(sql), binary=False)
    assert not found.errno, found.message
    return text_row(found.rows[0])


def test_what_is_asked_together_is_what_each_is(mysql: Server, database: str) -> None:
    rng = random.Random(1)
    assert {*ALWAYS, *SOMETIMES} <= set(ASKED)
    accepted = 0
    for _ in range(60):
        with RawClient(mysql.host, mysql.port, user=mysql.user, password=mysql.password, database=database) as client:
            chosen = rng.sample(SETTINGS, rng.choice((1, 2, 4, 8)))
            accepted += sum(parse(client.query(sql), binary=False).errno == 0 for sql in chosen)
            row = row_of(client, ASK)
            assert len(row) == ASK_COLUMNS and len(row[-1] or "") < 700, "MySQL joins at most max_allowed_packet"
            told = dict(zip(ASKED, asked_values(row)[1 + len(IDENTITY) :], strict=True))
            for name in AS_THEY_ARE:
                if name not in ELSEWHERE:
                    assert [told[name]] == row_of(client, question(f"@@session.{name}")), (name, chosen)
            assert len(told[OTHERS] or "") == 64 and told[TIMESTAMP] in ("", "own"), chosen
            assert (told[TIMESTAMP] == "own") == ("SET timestamp = 1.5" in chosen), chosen
    assert accepted > 150
