"""Definitions that another process knew where the stream is taken up."""

from __future__ import annotations

from dataclasses import replace

from sqltypes.schema import Column, SqlType, Table
from vstream.binlog.definitions import Definitions

INT = SqlType("int")
ITEM = Table("shop", "item", (Column("id", INT, False, 0), Column("n", INT, True, 1)), ("id",))
RENAMED = replace(ITEM, columns=(replace(ITEM.columns[0], name="n"), replace(ITEM.columns[1], name="id")))


def taken_up() -> Definitions:
    definitions = Definitions()
    definitions.note(named=False)
    definitions.take_up([ITEM])
    return definitions


def test_one_that_was_known_is_known_without_a_question() -> None:
    definitions = taken_up()
    definitions.want(ITEM)
    assert definitions.is_known("shop.item") and not definitions.waiting()
    assert definitions.known == (ITEM,)


def test_another_one_is_not() -> None:
    definitions = taken_up()
    definitions.want(RENAMED)
    assert not definitions.is_known("shop.item") and definitions.waiting()
    assert definitions.known == ()


def test_one_behind_a_ddl_statement_is_not() -> None:
    """Also where nobody wants the table as the statement comes."""
    definitions = taken_up()
    definitions.changed(lambda name: name == "shop.item")
    definitions.want(ITEM)
    assert not definitions.is_known("shop.item")
