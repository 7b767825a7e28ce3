"""A query with what is known of it before it is planned: its views, its tables, the kinds of its columns. Each is
computed once, when it is first asked for."""

from __future__ import annotations

from functools import cached_property

from sqlglot import exp

from planner.text.parse import ParsedQuery
from planner.tree.kinds import Kinds
from planner.tree.meanings import Meanings, meanings_of
from planner.tree.names import Catalogue
from planner.tree.pins import Pins
from planner.tree.reasons import misread
from sqltypes.schema import Relation, Table, View


class ResolvedQuery:
    """Requires: `Catalogue.require` has passed for the tree."""

    def __init__(self, parsed: ParsedQuery, catalogue: Catalogue) -> None:
        self.parsed = parsed
        self.tree = parsed.tree
        self.catalogue = catalogue

    def with_tree(self, tree: exp.Query) -> ResolvedQuery:
        """The query with other constants or parameters in the same text."""
        other = ResolvedQuery(self.parsed, self.catalogue)
        other.tree = tree
        other.__dict__.update(views=self.views, tables=self.tables, misread=self.misread)
        return other

    @cached_property
    def relations(self) -> tuple[Relation, ...]:
        """All tables and views that the query reads, those below views included; each checked."""
        return tuple(self.catalogue.relations(self.tree))

    @cached_property
    def views(self) -> tuple[tuple[View, ParsedQuery], ...]:
        """The views among these."""
        return tuple([(each, self.catalogue.parsed(each)) for each in self.relations if isinstance(each, View)])

    @cached_property
    def texts(self) -> tuple[ParsedQuery, ...]:
        """The query and its views, as they are written."""
        return (self.parsed, *[parsed for _, parsed in self.views])

    @cached_property
    def trees(self) -> tuple[exp.Query, ...]:
        """Of the query and its views, which MySQL merges."""
        return (self.tree, *[parsed.tree for _, parsed in self.views])

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The base tables among these, each once."""
        return tuple(dict.fromkeys([each for each in self.relations if isinstance(each, Table)]))

    @cached_property
    def computing(self) -> tuple[Table, ...]:
        """The tables with VIRTUAL columns."""
        return tuple(dict.fromkeys([table for table in self.tables for each in table.columns if each.expression]))

    @cached_property
    def meanings(self) -> Meanings:
        return meanings_of(self.tree, self.catalogue)

    @cached_property
    def kinds(self) -> Kinds:
        return Kinds(self.meanings)

    @cached_property
    def pins(self) -> Pins:
        return Pins(self.trees, self.meanings)

    @cached_property
    def misread(self) -> str:
        """What of the query or of its views the tree may not mean as MySQL does, "" where it can be relied on."""
        return next(filter(None, [misread(text.tree, text.tokens) for text in self.texts]), "")
