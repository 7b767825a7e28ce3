"""Texts in character sets whose characters may end in a byte of ASCII: a backslash, a backtick. What stands behind such
a character MySQL reads otherwise than the bytes look, and nothing may hide there."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.sessions.test_mysql_sessions import BEFORE, DIALECTS, WRITTEN, Wired, wired
from integration.support.grpc_app import held_back, run
from proxy.mysql.state.session_variables import ENDS_IN_ASCII

LEADS = {"big5": b"\xa4", "cp932": b"\x95", "gb18030": b"\xbf", "gbk": b"\xbf", "sjis": b"\x83"}
UTF8 = {"big5": "中", "cp932": "ぁ", "gb18030": "ぁ", "gbk": "ぁ", "sjis": "ぁ"}  # the last byte begins a character
HIDES = b"CREATE TEMPORARY TABLE item SELECT 1 id, 777 n, CONVERT(0x6974656d2031 USING utf8mb4) name"
STRING = b"SELECT HEX('%b\\')%b -- ')"
NAME = b"SELECT 1 AS `%b``%b -- `"
SETS = pytest.mark.parametrize("character_set", sorted(LEADS))


def test_these_character_sets_have_such_characters_and_no_others(mysql: Server) -> None:
    wide: dict[str, set[int]] = {}
    for (name,) in mysql.execute("SELECT character_set_name FROM information_schema.character_sets WHERE maxlen > 1"):
        if str(name).startswith(("utf", "ucs2")):
            continue
        for last in b"'\"`;\\@#-/*!()":
            pairs = (f"CHAR_LENGTH(CONVERT(x'{lead:02x}{last:02x}' USING {name}))" for lead in range(0x81, 0xFF))
            if 1 in mysql.execute("SELECT " + ", ".join(pairs))[0]:
                wide.setdefault(str(name), set()).add(last)
    assert wide == {name: set(b"\\`@") for name in ENDS_IN_ASCII}


async def asked(client: Wired, character_set: str, *statements: bytes) -> None:
    """In this character set; behind it the session reads in UTF-8."""
    await client.ask(f"SET NAMES {character_set}")
    for statement in statements:
        await client.ask(statement)
    await client.ask("SET NAMES utf8mb4")


@SETS
@DIALECTS
def test_no_temporary_table_is_hidden_behind_such_a_character(
    mysql: Server, database: str, tmp_path: Path, eof: bool, character_set: str
) -> None:
    lead = LEADS[character_set]
    several = b"SET NAMES " + character_set.encode() + b"; " + STRING % (lead, b"; " + HIDES)

    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=eof) as (_, client):
            for text in (
                STRING % (lead, b"; " + HIDES),
                NAME % (lead, b"; " + HIDES),
                STRING % (lead, b", hidden()"),
                NAME % (lead, b", hidden()"),
                STRING % (UTF8[character_set].encode(), b"; " + HIDES),
                several,
            ):
                for known in (False, True):
                    if known:
                        await client.ask(f"SET NAMES {character_set}")
                        await client.read()
                    await asked(client, character_set, text)
                    assert (await client.read())[:2] == ([WRITTEN], "passed"), (text, known)
                    await client.reset()
                    while (await client.read())[:2] != ([BEFORE], "hit"):
                        pass

    run(scenario)


@SETS
def test_no_write_is_hidden_behind_such_a_character(
    mysql: Server, database: str, tmp_path: Path, character_set: str
) -> None:
    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=True, own_writes_wait="20ms") as (proxy, client):
            text = STRING % (LEADS[character_set], b", written()")
            with held_back(proxy):
                await asked(client, character_set, text)
                assert (await client.read())[:2] == ([WRITTEN], "passed")
            await proxy.write("UPDATE item SET n = 10 WHERE id = 1")
            await proxy.caught_up()
            await client.ask(f"SET NAMES {character_set}")
            prepared = await client.prepare(text)
            await client.ask("SET NAMES utf8mb4")
            await client.read()
            with held_back(proxy):
                await client.execute(prepared)
                assert (await client.read())[:2] == ([WRITTEN], "passed")

    run(scenario)


BEFORE_OTHERS = (
    "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
    "SET @@session.sql_mode = CONCAT('NO_BACKSLASH_', 'ESCAPES')",
    "SET character_set_client = gbk",
)


@pytest.mark.parametrize("before", BEFORE_OTHERS)
def test_what_a_text_sets_counts_for_what_follows_in_it(
    mysql: Server, database: str, tmp_path: Path, before: str
) -> None:
    async def scenario() -> None:
        async with wired(mysql, database, tmp_path, eof=True, own_writes_wait="20ms") as (proxy, client):
            lead = b"" if "sql_mode" in before else LEADS["gbk"]
            with held_back(proxy):
                await client.ask(before.encode() + b"; SELECT '%b\\', written() -- '" % lead)
                await client.ask("SET sql_mode = DEFAULT, character_set_client = utf8mb4")
                assert (await client.read())[:2] == ([WRITTEN], "passed")

    run(scenario)
