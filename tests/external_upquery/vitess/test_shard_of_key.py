"""On which shards the keys of an upquery are, as vtgate has said."""

from __future__ import annotations

import pytest
from pymysql.constants import FIELD_TYPE

from dataflow.fills.shards import MOST_KEYS
from dataflow.messages import Keyed, Statement, UpqueryRequest
from external_upquery.protocol import Answer, Answers, query
from external_upquery.vitess.dialect import VtgateDialect
from external_upquery.vitess.shard_of_key import Places, Vindex, spelled_apart
from gtid_tracker.gtid import GtidSet
from sqltypes.schema import Column, SqlType, Table
from tests.support import mysql_packets as server

BIGINT, TEXT = SqlType("bigint"), SqlType("varchar", length=20, collation="utf8mb4_0900_ai_ci")
TABLE = Table("shop", "item", (Column("id", BIGINT, False, 0), Column("n", BIGINT, True, 1)), ("id",))
VINDEX = Vindex("hash", ("id",))
SHARD = server.column("shard", FIELD_TYPE.VAR_STRING, charset=server.UTF8MB4)


def keyed(*ids: int | None, columns: tuple[str, ...] = ("ID",)) -> Statement:
    return Statement("SELECT", keyed=Keyed(TABLE, columns, [(each,) * len(columns) for each in ids]))


def places() -> Places:
    found = Places("shop")
    found.become(("-80", "80-"))
    found.distributed("shop.item", VINDEX)
    return found


def answers(*shards: str | None) -> list[Answer]:
    """Of vtgate; None: an error."""
    decoder = Answers(deprecate_eof=True)
    decoder.expect(len(shards))
    packets = [
        server.result_set([SHARD], [[each.encode()]]) if each else server.packet(server.error(1105, "HY000", "no"))
        for each in shards
    ]
    return decoder.feed(b"".join(packets))


def test_a_key_is_asked_for_once() -> None:
    found = places()
    (one, two) = found.unknown([keyed(1, 2)])
    assert found.questions([one]) == [query("SELECT shard FROM `shop`.`hash` WHERE id = 1")]
    assert found.of([keyed(1)]) == ("-80", "80-"), "not known yet"
    found.told([one, two], answers("80-", "-80"))
    assert found.unknown([keyed(1, 2)]) == []
    assert found.of([keyed(1)]) == ("80-",) and found.of([keyed(2), keyed(2)]) == ("-80",)
    assert found.of([keyed(1), keyed(2)]) == ("-80", "80-")
    found.check_invariants()


@pytest.mark.parametrize(
    "statements",
    [
        [Statement("SELECT")],
        [keyed(1), Statement("SELECT")],
        [keyed(1, None)],
        [keyed(1, columns=("n",))],
        [keyed(*range(MOST_KEYS + 1))],
        [keyed()],
        [],
    ],
)
def test_where_it_would_not_help_nothing_is_asked(statements: list[Statement]) -> None:
    found = places()
    found.told(found.unknown([keyed(1)]), answers("80-"))
    assert found.unknown(statements) == [] and found.of(statements) == ("-80", "80-")


def test_what_was_said_holds_until_the_shards_are_others() -> None:
    found = places()
    found.told(found.unknown([keyed(1, 2)]), answers("80-", None))
    assert len(found.unknown([keyed(1, 2)])) == 1, "an error tells nothing"
    found.become(("-80", "80-"))
    assert found.of([keyed(1)]) == ("80-",)
    found.become(("-80", "80-c0", "c0-"))
    assert found.of([keyed(1)]) == found.shards == ("-80", "80-c0", "c0-")
    found.told(found.unknown([keyed(1)]), answers("80-"))
    assert len(found.unknown([keyed(1)])) == 1, "there is no such shard any more"
    found.check_invariants()


def test_a_vindex_that_another_table_has_otherwise_by_now() -> None:
    found = places()
    found.told(found.unknown([keyed(1)]), answers("80-"))
    found.distributed("shop.other", VINDEX)
    assert found.of([keyed(1)]) == ("80-",)
    found.distributed("shop.another", Vindex("hash", ("id",), ("reverse_bits",)))
    assert found.of([keyed(1)]) == ("-80", "80-") and len(found.unknown([keyed(1)])) == 1


def test_one_shard_needs_no_question() -> None:
    found = Places("plain")
    found.become(("0",))
    found.distributed("shop.item", VINDEX)
    assert found.unknown([keyed(1)]) == [] and found.of([keyed(1)]) == ("0",)


def test_vindexes_of_texts_tell_spellings_apart() -> None:
    def apart(type_: SqlType, kind: str) -> bool:
        table = Table("shop", "name", (Column("name", type_, False, 0), Column("id", BIGINT, False, 1)), ("name",))
        assert spelled_apart(table, Vindex("id", ("id",), (kind, ""))) == frozenset()
        return spelled_apart(table, Vindex("text", ("name",), (kind, ""))) == {"name"}

    def text(name: str, collation: str) -> SqlType:
        return SqlType(name, length=20, collation=collation)

    exact = [("varchar", "utf8mb4_0900_bin", "xxhash"), ("varchar", "utf8mb4_0900_bin", "unicode_loose_xxhash")]
    exact += [(name, "utf8mb4_bin", "unicode_loose_md5") for name in ("char", "varchar")]
    others = [("char", "utf8mb4_0900_bin", "xxhash"), ("varchar", "utf8mb4_bin", "xxhash")]
    others += [("varchar", "utf8mb4_0900_ai_ci", kind) for kind in ("xxhash", "unicode_loose_xxhash")]
    assert not any(apart(text(name, collation), kind) for name, collation, kind in exact)
    assert all(apart(text(name, collation), kind) for name, collation, kind in others)
    assert not apart(SqlType("varbinary", length=16), "xxhash") and apart(SqlType("binary", length=16), "xxhash")
    assert apart(SqlType("datetime"), "xxhash")


def test_a_request_is_asked_of_the_shards_that_have_its_keys() -> None:
    position = GtidSet.parse("3aff29c1-ea19-11f1-a6e4-02fc00000001:1-9,3c52d3d8-ea19-11f1-8b70-02fc00000001:1-7")
    dialect = VtgateDialect("shop", lambda: ("-80", "80-"), lambda: position, lambda: 0.0)
    dialect.places.distributed("shop.item", VINDEX)
    request = UpqueryRequest(1, (keyed(1),), ())
    before = dialect.before(request)
    assert before is not None and before.count == 1
    before.told(answers("80-"))
    assert dialect.before(request) is None
    sending = dialect.upquery(request)
    assert sending.shards == ("80-",) and not sending.whole
    assert dialect.upquery(UpqueryRequest(2, (Statement("SELECT"),), ())).whole
    assert dialect.upquery(UpqueryRequest(2, (Statement("SELECT"),), (), shards=("-80",))).shards == ("-80",)
    assert dialect.upquery(UpqueryRequest(2, (Statement("SELECT"),), (), shards=("-40",))).whole, "a shard that was"
