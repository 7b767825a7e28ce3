"""Reverse-equivalent SQL: what MySQL must run to fill given keys of an arrangement, and the columns of what it returns.

Layout of a fill's rows (`fill_columns`), by which the engine decodes them:

| arrangement | columns |
| --- | --- |
| all | first the key's columns, in the key's order, as stored (compare them by canonical key) |
| rows | `columns` |
| top-k | `columns`, then the columns that only the order reads, then those of the primary key that are missing |
| aggregate | `group` (all of it), then for each aggregate its value (AVG: sum, then count), then COUNT(*), then for
each SUM the COUNT of its argument (0 means that the SUM is NULL), then for each MIN and MAX whose equal values may be
spelled otherwise whether all equal ones are spelled alike, then the same of each such column of `group` (`spelled`) |

FLOAT columns are selected through CAST(... AS DOUBLE): MySQL's text form of a FLOAT has six digits. Rows come in no
order, but top-k's, of which at most `topk_fetch` come for each key: fewer mean that the key has no more. Table names
are qualified and quoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Formatter
from typing import NamedTuple

from planner.tree.plan import (
    Aggregate,
    AggregateArrangement,
    AggregateFunction,
    AnswerArrangement,
    Arrangement,
    Crossing,
    QueryPlan,
    RowsArrangement,
    TopKArrangement,
    one_spelling_of,
    own,
)
from planner.tree.sql_text import condition_sql, expr_sql, from_table, quoted_name, table_name
from planner.tree.untyped import BOUND
from sqltypes.collation import character_set
from sqltypes.expression import Call, ColumnRef, Expr, Literal, ParamRef, Value, columns_of, walk
from sqltypes.schema import BIGINT, SqlType, Table
from sqltypes.values import sql_literal

TOPK_SLACK = 2  # one more row for so many of the limit is fetched, so that deletions do not empty the key at once
TOPK_SPARE = 8  # rows besides, where the limit is small

KeyValues = tuple[Value, ...]
Filling = RowsArrangement | AggregateArrangement | TopKArrangement


def quoted(table: Table) -> str:
    """A table's name for SQL, qualified."""
    return table_name(table)


def topk_fetch(arrangement: TopKArrangement) -> int:
    """How many rows of a key a fill asks for."""
    return arrangement.limit + arrangement.limit // TOPK_SLACK + TOPK_SPARE


# -- what is selected -------------------------------------------------------------------------------------------------


def fill_columns(arrangement: Arrangement) -> tuple[tuple[str, SqlType], ...]:
    """Names and types of a fill's columns (see above). Of an answer arrangement: the answer's columns."""
    match arrangement:
        case AnswerArrangement():
            return tuple((column.name, column.type) for column in arrangement.columns)
        case AggregateArrangement():
            names = (*arrangement.key, *arrangement.group)
            columns = [(name, arrangement.table.column(name).type) for name in names]
            return (*columns, *((name, type_) for name, type_, _ in _aggregate_columns(arrangement)))
        case _:
            names = (*arrangement.key, *_payload(arrangement))
            return tuple((name, arrangement.table.column(name).type) for name in names)


def _payload(arrangement: RowsArrangement | TopKArrangement) -> tuple[str, ...]:
    if isinstance(arrangement, RowsArrangement):
        return arrangement.columns
    names = {name.lower(): name for name in arrangement.columns}
    order = {ref.name.lower() for term in arrangement.order for ref in columns_of(term.expr)}
    for column in arrangement.table.columns:
        if column.name.lower() in order:
            names.setdefault(column.name.lower(), column.name)
    for name in arrangement.table.primary_key:
        names.setdefault(name.lower(), name)
    return tuple(names.values())


def _aggregate_columns(arrangement: AggregateArrangement) -> list[tuple[str, SqlType, str]]:
    """(name, type, SQL) after the group's columns."""
    out: list[tuple[str, SqlType, str]] = []
    for aggregate in arrangement.aggregates:
        if aggregate.function is AggregateFunction.AVG:
            out.append((f"sum of {aggregate.name}", _sum_type(aggregate), f"SUM({_argument(aggregate)})"))
            out.append((f"count of {aggregate.name}", BIGINT, f"COUNT({_argument(aggregate)})"))
        elif aggregate.function is AggregateFunction.COUNT_STAR:
            out.append((aggregate.name, BIGINT, "COUNT(*)"))
        else:
            text = f"{aggregate.function.name}({_argument(aggregate)})"
            out.append((aggregate.name, aggregate.type, _as_double(text, aggregate.type)))
    out.append(("count(*)", BIGINT, "COUNT(*)"))
    for aggregate in arrangement.aggregates:
        if aggregate.function is AggregateFunction.SUM:
            out.append((f"count of {aggregate.name}", BIGINT, f"COUNT({_argument(aggregate)})"))
    for aggregate in arrangement.aggregates:
        if aggregate.is_spelled:
            out.append((one_spelling_of(aggregate.name), BIGINT, _are_alike(aggregate)))
    for name in arrangement.spelled:
        bytes_ = f"CAST({quoted_name(name)} AS BINARY)"
        out.append((one_spelling_of(name), BIGINT, f"MIN({bytes_}) <=> MAX({bytes_})"))
    return out


def _are_alike(aggregate: Aggregate) -> str:
    """Whether all equal values of the argument are spelled alike."""
    assert aggregate.argument is not None
    value = _argument(aggregate)
    if aggregate.argument.type.is_approximate:  # zero is spelled in two ways
        return f"COUNT(DISTINCT IF({value} = 0, CAST({value} AS BINARY), NULL)) < 2"
    return f"COUNT(DISTINCT {value}) = COUNT(DISTINCT CAST({value} AS BINARY))"


def _sum_type(aggregate: Aggregate) -> SqlType:
    assert aggregate.argument is not None
    type_ = aggregate.argument.type
    return SqlType("decimal", precision=65, scale=type_.scale or 0 if type_.name == "decimal" else 0)


def _argument(aggregate: Aggregate) -> str:
    assert aggregate.argument is not None
    return expr_sql(aggregate.argument)


def _as_double(text: str, type_: SqlType) -> str:
    return f"CAST({text} AS DOUBLE)" if type_.name == "float" else text


def _select_list(arrangement: Filling) -> str:
    names = arrangement.key
    if isinstance(arrangement, AggregateArrangement):
        plain = (*names, *arrangement.group)
        rest = [text for _, _, text in _aggregate_columns(arrangement)]
    else:
        plain = (*names, *_payload(arrangement))
        rest = []
    columns = [_as_double(quoted_name(name), arrangement.table.column(name).type) for name in plain]
    return ", ".join([*columns, *rest])


# -- which keys -------------------------------------------------------------------------------------------------------


def key_condition(columns: Sequence[str], types: Sequence[SqlType], keys: Sequence[KeyValues]) -> str:
    """The condition that holds for the rows of these keys, in a form that MySQL uses an index for.

    One column, or all but one with one value each: `=` and IN; else OR of ANDs. NULL, which `=` never finds, is `IS
    NULL`. "" for the key without parts.
    """
    if not columns:
        return ""
    constant = [len({key[at] for key in keys}) == 1 for at in range(len(columns))]
    varying = [at for at, same in enumerate(constant) if not same]
    if len(varying) <= 1:
        return " AND ".join(
            _one_column(columns[at], types[at], [key[at] for key in keys]) for at in range(len(columns))
        )
    return " OR ".join(
        "(" + " AND ".join(_one_column(columns[at], types[at], [key[at]]) for at in range(len(columns))) + ")"
        for key in dict.fromkeys(keys)
    )


def _one_column(name: str, type_: SqlType, values: Sequence[Value]) -> str:
    texts = list(dict.fromkeys(sql_literal(value, type_) for value in values if value is not None))
    found = []
    if texts:
        found.append(f"{name} = {texts[0]}" if len(texts) == 1 else f"{name} IN ({', '.join(texts)})")
    if any(value is None for value in values):
        # `IS NULL` finds the zero dates of a NOT NULL column too, `<=>` does not.
        found.append(f"{name} <=> NULL" if type_.name in ("date", "datetime") else f"{name} IS NULL")
    return found[0] if len(found) == 1 else "(" + " OR ".join(found) + ")"


def fill_sql(arrangement: Filling, keys: Sequence[KeyValues]) -> str:
    """The SELECT that fills these keys. Values are canonical for the key's columns. Requires: at least one key."""
    types = [arrangement.table.column(name).type for name in arrangement.key]
    names = [quoted_name(name) for name in arrangement.key]
    if isinstance(arrangement, TopKArrangement):
        parts = [text_with_condition(arrangement, key_condition(names, types, [key])) for key in keys]
        return parts[0] if len(parts) == 1 else " UNION ALL ".join(f"({part})" for part in parts)
    return text_with_condition(arrangement, key_condition(names, types, keys))


def text_with_condition(arrangement: Filling, condition: str) -> str:
    """The fill's SELECT with this condition on the key; "" for none."""
    conditions = [condition] if condition else []
    if arrangement.filter is not None:
        conditions.append(condition_sql(arrangement.filter))
    if len(conditions) > 1 and " OR " in conditions[0]:
        conditions[0] = f"({conditions[0]})"
    text = f"SELECT {_select_list(arrangement)} FROM {from_table(arrangement.table)}"
    if conditions:
        text += f" WHERE {' AND '.join(conditions)}"
    if isinstance(arrangement, AggregateArrangement) and arrangement.group:
        text += f" GROUP BY {', '.join(quoted_name(name) for name in arrangement.group)}"
    elif isinstance(arrangement, AggregateArrangement):
        # Without GROUP BY, SQL gives a row even over nothing; here a group without rows does not exist.
        text += " HAVING COUNT(*) > 0"
    if isinstance(arrangement, TopKArrangement):
        text += f" ORDER BY {_order(arrangement)} LIMIT {topk_fetch(arrangement)}"
    return text


def _order(arrangement: TopKArrangement) -> str:
    """The query's order, then the primary key, so that it is total."""
    terms = [(term.expr, term.descending) for term in arrangement.order]
    terms += [
        (ref, False)
        for name in arrangement.table.primary_key
        if (ref := own(name, arrangement.table)) not in {expr for expr, _ in terms}
    ]
    return ", ".join(expr_sql(expr) + (" DESC" if descending else "") for expr, descending in terms)


def fill_template(arrangement: Arrangement) -> str:
    """A fill's SQL with `?` for the values of one key, for EXPLAIN."""
    if isinstance(arrangement, AnswerArrangement):
        return arrangement.sql.format(*("?" for _ in arrangement.key_types))
    return text_with_condition(arrangement, " AND ".join(f"{quoted_name(name)} = ?" for name in arrangement.key))


MOST_OF_UTF8MB3 = "\uffff"
"""The last character of the set that MySQL converts the literal of a PREPARE to. What a variable has it converts to
character_set_connection, which has all (`Sent.foreign`)."""
FOUND_ROWS = "SELECT FOUND_ROWS()"  # right behind the text of an answer that counts


class Asked(NamedTuple):
    """How MySQL is asked for an answer: `before`: statements in the same session ahead of `sql`; `after`: behind it."""

    sql: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def answer_sql(arrangement: AnswerArrangement, values: KeyValues) -> Asked:
    """The client's own text with the key's values in place of its parameters. Where some were bound to a prepared
    statement without a column that tells their type, the text is prepared, too, and executed with variables of their
    values (`planner/tree/untyped.py`)."""
    bound: list[list[str]] = []  # of each value, in the order of the key
    texts = []
    for value, type_, is_list in zip(values, arrangement.key_types, arrangement.key_is_list, strict=True):
        items = value if isinstance(value, tuple) else (value,)
        literals = [sql_literal(item, type_) for item in items]
        given = [one[len(BOUND) :] for one in literals if one.startswith(BOUND)] if type_.name == "literal" else []
        bound.append(given)
        literals = [BOUND if one.startswith(BOUND) else one for one in literals] if given else literals
        # An empty list is no SQL; `IN (NULL)` is true for nothing, as it would be.
        texts.append(", ".join(literals) or "NULL" if is_list else literals[0])
    text = arrangement.sql.format(*texts)
    if not any(bound):
        return Asked(text)
    fields = [int(name) for _, name, _, _ in Formatter().parse(arrangement.sql) if name is not None]
    assigned = [literal for at in fields for literal in bound[at]]
    names = [f"@upwell_{at}" for at in range(len(assigned))]
    sets = ", ".join(f"{name} = {literal}" for name, literal in zip(names, assigned, strict=True))
    code = sql_literal(text, SqlType("varchar"))
    if text.isascii() or max(text) <= MOST_OF_UTF8MB3:
        before: tuple[str, ...] = f"SET {sets}", f"PREPARE upwell FROM {code}"
    else:
        before = f"SET {sets}", f"SET @upwell_text = {code}", "PREPARE upwell FROM @upwell_text"
    return Asked(f"EXECUTE upwell USING {', '.join(names)}", before, ("DEALLOCATE PREPARE upwell",))


# -- semi-joins -------------------------------------------------------------------------------------------------------


def semijoin_sql(plan: QueryPlan, index: int, keys: Sequence[KeyValues]) -> str:
    """Fills of lookup `index` for all its keys that the answers of these reader keys lead to, evaluated by MySQL.

    `keys`: values of the reader's key parts (`plan.key`), in order. Requires: the root is no answer arrangement.
    """
    reader = plan.reader
    lookup = reader.lookups[index]
    arrangement = lookup.arrangement
    wanted = {ref.source for expr in lookup.key for ref in columns_of(expr)}
    steps = _steps_towards(plan, index, wanted)
    parts = []
    by_parameters = any(
        isinstance(node, ParamRef) for expr in _semijoin_exprs(plan, index, steps) for node in walk(expr)
    )
    # Values of parameters that are no root key differ from key to key: then each key has its own subquery.
    for batch in [[key] for key in keys] if by_parameters else [list(keys)]:
        parts.append(_reachable(plan, index, steps, batch))
    names = ", ".join(quoted_name(name) for name in arrangement.key)
    left = f"({names})" if len(arrangement.key) > 1 else names
    condition = " OR ".join(f"{left} IN ({part})" for part in dict.fromkeys(parts))
    return text_with_condition(arrangement, condition)


def crossing_sqls(
    arrangement: AnswerArrangement, values: KeyValues, crossings: Sequence[Crossing] | None = None
) -> list[str]:
    """The SELECTs of its crossings, or of some of these, for a key. Requires: none of its parts is a list."""
    texts = [sql_literal(value, type_) for value, type_ in zip(values, arrangement.key_types, strict=True)]
    return [crossing.sql.format(*texts) for crossing in (arrangement.crossings if crossings is None else crossings)]


def _semijoin_exprs(plan: QueryPlan, index: int, steps: Sequence[int]) -> list[Expr]:
    lookups = plan.reader.lookups
    exprs = list(lookups[index].key)
    for step in steps:
        exprs += [*lookups[step].key, *((on,) if (on := lookups[step].on) is not None else ())]
    return exprs


def _steps_towards(plan: QueryPlan, index: int, wanted: set[str]) -> list[int]:
    """The earlier lookups that the wanted aliases come from, in order."""
    steps: list[int] = []
    for step in range(index - 1, -1, -1):
        lookup = plan.reader.lookups[step]
        if lookup.alias in wanted:
            steps.append(step)
            wanted |= {ref.source for expr in _semijoin_exprs(plan, step, ()) for ref in columns_of(expr)}
    return sorted(steps)


def _reachable(plan: QueryPlan, index: int, steps: Sequence[int], keys: Sequence[KeyValues]) -> str:
    """The subquery that gives the lookup's keys."""
    reader = plan.reader
    root = reader.root
    assert not isinstance(root, AnswerArrangement)
    at = {part.parameter: position for position, part in enumerate(plan.key)}

    def column(ref: ColumnRef) -> str:
        return f"{quoted_name(ref.source)}.{quoted_name(ref.name)}"

    def parameter(ref: ParamRef) -> str:
        return sql_literal(keys[0][at[ref.index]], ref.type)

    keys_on_the_way = [expr for step in (*steps, index) for expr in reader.lookups[step].key]
    # COALESCE(b.x, 1) is a key also where b has no partner; a column of b is none then.
    may_lead_from_nothing = not all(isinstance(expr, ColumnRef | ParamRef | Literal) for expr in keys_on_the_way)
    selected = ", ".join(_as_compared(expr, expr_sql(expr, column, parameter)) for expr in reader.lookups[index].key)
    text = f"SELECT {selected} FROM {_source_sql(root, reader.alias)}"
    for step in steps:
        lookup = reader.lookups[step]
        pairs = zip(lookup.arrangement.key, lookup.key, strict=True)
        on = [
            f"{quoted_name(lookup.alias)}.{quoted_name(name)} = {expr_sql(expr, column, parameter)}"
            for name, expr in pairs
        ]
        if may_lead_from_nothing and lookup.outer:
            on += [expr_sql(lookup.on, column, parameter)] if lookup.on is not None else []
            join = "LEFT JOIN"
        else:
            # Its `on` would only narrow what is reached; rows without a partner lead nowhere further.
            join = "JOIN"
        text += f" {join} {_source_sql(lookup.arrangement, lookup.alias)} ON {' AND '.join(on)}"
    names = [f"{quoted_name(reader.alias)}.{quoted_name(name)}" for name in root.key]
    types = [root.table.column(name).type for name in root.key]
    condition = key_condition(names, types, [tuple(key[part] for part in reader.root_key) for key in keys])
    return text + (f" WHERE {condition}" if condition else "")


def _as_compared(expr: Expr, text: str) -> str:
    """A key in the character set and collation in which it is compared. Where MySQL puts the subquery's rows into a
    table of its own, it misses those of another character set."""
    if not isinstance(expr, Call) or expr.op != "collate":
        return text
    collation = expr.type.collation or ""
    target = character_set(collation)
    if target != character_set(expr.args[0].type.collation or ""):
        text = f"CONVERT({text} USING {target})"
    return f"{text} COLLATE {collation}"


def _source_sql(arrangement: Filling, alias: str) -> str:
    """The arrangement's rows as a table of a FROM clause."""
    if isinstance(arrangement, RowsArrangement) and arrangement.filter is None:
        return from_table(arrangement.table, alias)
    name = from_table(arrangement.table)
    if isinstance(arrangement, RowsArrangement):
        return f"(SELECT * FROM {name} WHERE {expr_sql(arrangement.filter)}) AS {quoted_name(alias)}"  # type: ignore[arg-type] # not None
    if isinstance(arrangement, AggregateArrangement):
        columns = [quoted_name(group) for group in arrangement.group]
        columns += [
            f"{aggregate.function.name}({_argument(aggregate)}) AS {quoted_name(aggregate.name)}"
            for aggregate in arrangement.aggregates
            if aggregate.argument is not None
        ]
        columns.append("COUNT(*) AS `count(*)`")
        where = f" WHERE {expr_sql(arrangement.filter)}" if arrangement.filter is not None else ""
        group = f" GROUP BY {', '.join(quoted_name(name) for name in arrangement.group)}" if arrangement.group else ""
        return f"(SELECT {', '.join(columns)} FROM {name}{where}{group}) AS {quoted_name(alias)}"
    raise AssertionError("a top-k root has no lookups")
