"""With which rows of a table InnoDB may have changed rows of others by foreign keys, as far as the binlog tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sqltypes.schema import ANY_TABLE
from tests.support.binlog_bytes import COLLATIONS, BinlogTable
from vstream.binlog.decode import TableDecoders
from vstream.binlog.events import HEADER, PARTIAL_UPDATE_ROWS

PARENT = BinlogTable("Parent", ("int", "varchar", "bigint"))
CHILD = BinlogTable("child", ("int", "int")).table
BY_NAME = (("d.parent", 1, 3),)
ROW = (1, "a", 5)


def decoders(*, updates: str = "d.parent", referenced: Sequence[tuple[str, int, int]] = BY_NAME) -> TableDecoders:
    found = TableDecoders()
    found.charsets = COLLATIONS
    child = replace(CHILD, changed_by_updates=frozenset({updates}), referenced=frozenset(referenced))
    found.want(child, frozenset({"c0"}))
    return found


def follows(found: TableDecoders, event: bytes, flags: int = 1, kind: int = 0) -> bool:
    event = event[: HEADER + 6] + bytes((flags,)) + event[HEADER + 7 :]
    mapped = found.map(PARENT.map()[HEADER:])
    return mapped.is_followed(kind or event[4], event, HEADER, len(event))


@pytest.mark.parametrize(
    ("after", "followed"),
    [(ROW, False), ((2, "a", 6), False), ((1, "A", 5), True), ((1, "a ", 5), True), ((1, None, 5), True)],
)
def test_only_updates_of_columns_that_keys_refer_to(after: tuple[object, ...], followed: bool) -> None:
    assert follows(decoders(), PARENT.updates((ROW, after))) == followed
    assert follows(decoders(), PARENT.updates((ROW, ROW), (ROW, after))) == followed, "the second row"


def test_only_what_keys_say_something_of() -> None:
    assert not follows(decoders(), PARENT.deletes(ROW)), "these say nothing of deletes"
    assert not follows(decoders(), PARENT.inserts(ROW))
    assert not follows(decoders(updates="d.other"), PARENT.updates((ROW, (2, "b", 6))))
    assert not follows(TableDecoders(), PARENT.deletes(ROW))


@pytest.mark.parametrize("flags", [0x03, 0x11, 0x13])
def test_what_mysql_has_followed_is_in_the_binlog(flags: int) -> None:
    assert not follows(decoders(), PARENT.updates((ROW, (1, "b", 5))), flags)


@pytest.mark.parametrize(
    "found",
    [
        decoders(referenced=()),
        decoders(referenced=(("d.other", 1, 3),)),
        decoders(referenced=(("d.parent", 1, 4),)),
        decoders(referenced=(*BY_NAME, ("d.parent", 1, 4))),
        decoders(updates=ANY_TABLE),
    ],
    ids=["none", "of another", "another width", "two widths", "of any table"],
)
def test_where_the_columns_are_not_known_any_update_counts(found: TableDecoders) -> None:
    assert follows(found, PARENT.updates((ROW, ROW)))


def test_what_cannot_be_read_counts() -> None:
    event = PARENT.updates((ROW, ROW))
    assert not follows(decoders(), event)
    assert follows(decoders(), event[:-3]), "cut off"
    assert follows(decoders(), event, kind=PARTIAL_UPDATE_ROWS)
    minimal = event[: HEADER + 11] + b"\x03" + event[HEADER + 12 :]
    assert follows(decoders(), minimal), "columns are missing"


def test_columns_that_have_moved_count_once_their_ddl_is_read() -> None:
    """The rows that are still to be read before it have them where they were."""
    found = decoders()
    child = replace(CHILD, changed_by_updates=frozenset({"d.parent"}))
    event = PARENT.updates((ROW, (1, "b", 5)))
    found.want(replace(child, referenced=frozenset({("d.parent", 2, 3)})), frozenset({"c0"}))
    assert follows(found, event) and follows(found, PARENT.updates((ROW, ROW)))
    found.redefined(frozenset({"d.Parent"}))
    assert not follows(found, event) and follows(found, PARENT.updates((ROW, (1, "a", 6))))
    found.redefined(frozenset({"d.*"}))
    found.want(replace(child, referenced=frozenset(BY_NAME)), frozenset({"c0"}))
    assert follows(found, event) and not follows(found, PARENT.updates((ROW, ROW))), "read before"
    found.want(replace(child, referenced=frozenset({("d.parent", 0, 3)})), frozenset({"c0"}))
    assert follows(found, PARENT.updates((ROW, ROW))), "and changed again"
