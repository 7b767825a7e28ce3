"""Whether evaluating a condition may end in an error, by the values of a row.

MySQL evaluates the conditions of a WHERE in an order of its own, so that a row may raise an error that another
condition would have left out. Where this is not told surely, the answer is yes.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.text.scan import words
from planner.tree.function_table import classes

_BY_NAME = words("""
    uuid_to_bin bin_to_uuid extractvalue updatexml gtid_subset gtid_subtract statement_digest statement_digest_text
    string_to_vector to_vector vector_to_string from_vector distance vector_distance exp pow power cot tan conv
""")
_PREFIXES = ("json_", "st_", "mbr", "regexp_")
_ARITHMETIC = classes("Add Sub Mul IntDiv Div Mod Pow Exp Abs Round BitwiseNot")
_JSON = classes("""
    JSONExtract JSONExtractScalar JSONArrayContains JSONValue JSONObject JSONArray JSONKeys JSONType ParseJSON JSONSet
    JSONRemove JSONBExtract JSONExists JSONTable
""")
_OF_DOCUMENTS = classes("JSONExtract JSONExtractScalar JSONValue")


def may_raise(node: exp.Expr, is_json: Callable[[exp.Column], bool]) -> bool:
    """Whether some row may make it raise. `is_json`: whether a column's type is JSON."""
    return any(_raises(each, is_json) for each in node.walk())


def _raises(node: exp.Expr, is_json: Callable[[exp.Column], bool]) -> bool:
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        return name in _BY_NAME or name.startswith(_PREFIXES)
    if isinstance(node, _OF_DOCUMENTS):
        return not _is_document(node.this, is_json)
    if isinstance(node, exp.RegexpLike):
        return not isinstance(node.expression, exp.Literal)
    if isinstance(node, exp.Neg):
        return not isinstance(node.this, exp.Literal)
    if isinstance(node, exp.Cast):
        return node.to.is_type(exp.DataType.Type.JSON)
    return isinstance(node, (*_ARITHMETIC, *_JSON))


def _is_document(node: exp.Expr, is_json: Callable[[exp.Column], bool]) -> bool:
    """Whether the value is JSON, whatever the row is."""
    if isinstance(node, exp.Column):
        return is_json(node)
    return isinstance(node, exp.JSONExtract) and _is_document(node.this, is_json)
