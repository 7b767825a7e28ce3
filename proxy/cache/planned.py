"""A plan with all that a cache is made of, and what it was made from. As bytes it outlives the process."""

from __future__ import annotations

from dataclasses import dataclass

from planner.fill.whole import SMALL_TABLE
from planner.text.fingerprint import Fingerprint
from planner.tree.plan import QueryPlan
from sqltypes.schema import Relation, ResultColumn, SchemaSnapshot, Table

Parts = tuple[
    QueryPlan,
    tuple[ResultColumn, ...],
    frozenset[tuple[str, str]],
    frozenset[str],
    Fingerprint,
    str,
    dict[tuple[str, str], Relation],
    tuple[int, int, int],
    int,
]
"""A `Planned` in classes that a snapshot may name."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan that agrees with MySQL, the columns that MySQL announces, the relations that it was made from, the
    session variables on which its answers depend, and its text's fingerprint with its outline. `schema`: the
    definitions that it was made from; None: another reading of them would give another plan, for its query's cache has
    lost its trust."""

    plan: QueryPlan
    columns: tuple[ResultColumn, ...]
    relations: frozenset[tuple[str, str]]
    needs: frozenset[str]
    fingerprint: Fingerprint
    outline: str
    schema: SchemaSnapshot | None = None

    def parts(self) -> Parts | None:
        """None: it is not to be made use of again."""
        if self.schema is None:
            return None
        schema = self.schema
        facts = schema.relations, schema.server_version, schema.lower_case_table_names
        return (self.plan, self.columns, self.relations, self.needs, self.fingerprint, self.outline, *facts)


def planned_of(parts: Parts) -> Planned:
    return Planned(*parts[:6], SchemaSnapshot(*parts[6:]))


def alike(one: SchemaSnapshot, other: SchemaSnapshot) -> bool:
    """Whether the same text has the same plan by both."""
    return (
        one.server_version == other.server_version
        and one.lower_case_table_names == other.lower_case_table_names
        and one.relations.keys() == other.relations.keys()
        and all(_is_alike(relation, other.relations[name]) for name, relation in one.relations.items())
    )


def _is_alike(one: Relation, other: Relation) -> bool:
    if not (isinstance(one, Table) and isinstance(other, Table)):
        return one == other
    few, many = sorted((one.rows_estimate, other.rows_estimate))
    return one.is_defined_as(other) and (few < SMALL_TABLE) == (many < SMALL_TABLE) and many <= 2 * few + 100
