"""Which decoder reads the rows of which table: from TABLE_MAP events and from what is wanted.

A TABLE_MAP event precedes the rows of every statement. Nearly always it is byte-equal to the last one of its table, and
then nothing is parsed. A table is decoded only by a layout that agrees with the wanted `Table`. A table that does not
agree, or cannot be decoded exactly, is untrusted: its rows are not decoded, and the assembled transaction says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set

import structlog

from sqltypes.schema import ANY_TABLE, ZONE_TABLES, Table
from vstream.binlog.definitions import NOT_KNOWN, Definitions
from vstream.binlog.events import DELETE_ROWS, FOLLOWED, PARTIAL_UPDATE_ROWS, UPDATE_ROWS
from vstream.binlog.layout import (
    DOUBLE,
    FLOAT,
    LayoutError,
    add_members,
    difference,
    lenenc,
    parse_table_map,
    table_names,
)
from vstream.binlog.rows import RowDecoders, RowsDecoder, make_decoders
from vstream.ddl import ALL
from vstream.errors import MALFORMED

_log = structlog.get_logger(__name__)

ZONES_LOADED = "what MySQL knows of time zones has changed"
_OF_ZONES = frozenset(table.qualified for table in ZONE_TABLES)
MOST_COUNTED = 10_000  # tables whose changes are counted


class MappedTable:
    """A table id's meaning. `decoders` None: not wanted, or untrusted for the reason in `untrusted`. `odd`: that is
    new, and the table may be another one than the wanted one."""

    __slots__ = ("body", "decoders", "full_images", "full_update", "keys", "leads", "name", "odd", "untrusted")

    def __init__(self, body: bytes, name: str) -> None:
        self.body = body
        self.name = name
        self.decoders: RowDecoders | None = None
        self.untrusted = ""
        self.odd = False
        self.leads: frozenset[int] = frozenset()  # events of rows with which foreign keys change rows of wanted tables
        self.keys: RowsDecoder | None = None  # updated rows' columns to which foreign keys refer; None: any counts
        # What stands in front of the rows when nothing odd is in the event: no extra data, all columns present.
        self.full_images = b""
        self.full_update = b""

    def rows_at(self, data: bytes, at: int, images: int) -> int:
        """Where the first row of a rows event begins; 0 if a column is missing in the images (1 or 2 of them)."""
        front = self.full_images if images == 1 else self.full_update
        first = at + 8 + len(front)
        return first if data[at + 8 : first] == front else self._rows_at_slow(data, at, images)

    def is_followed(self, kind: int, data: bytes, at: int, end: int) -> bool:
        """Whether InnoDB may have changed rows of wanted tables with these, by foreign keys, and MySQL has not logged
        that."""
        if kind not in self.leads or data[at + 6] & FOLLOWED:
            return False
        if kind != UPDATE_ROWS or self.keys is None:
            return True
        first = self.rows_at(data, at, 2)
        try:
            return not first or any(before != after for before, after in self.keys(data, first, end))
        except MALFORMED:
            return True

    def expect_full(self, columns: int) -> None:
        """Its rows have all of their columns: so many."""
        filled = b"\xff" * ((columns + 7) // 8)  # the unused bits of the last byte are set in what MySQL writes
        count = bytes((columns,)) if columns < 251 else b"\xfc" + columns.to_bytes(2, "little")
        self.full_images = b"\2\0" + count + filled
        self.full_update = self.full_images + filled

    def _rows_at_slow(self, data: bytes, at: int, images: int) -> int:
        """Partitioned tables have extra data in front."""
        at += 8 + int.from_bytes(data[at + 8 : at + 10], "little")
        count, at = lenenc(data, at)
        full, size = (1 << count) - 1, (count + 7) // 8
        for _ in range(images):
            if int.from_bytes(data[at : at + size], "little") & full != full:
                return 0
            at += size
        return at


class TableDecoders:
    """The tables wanted, and the meaning of the table ids seen."""

    def __init__(
        self,
        *,
        in_steps: bool = False,
        definitions: Definitions | None = None,
        prepare: Callable[[MappedTable], None] | None = None,
    ) -> None:
        """`in_steps`: for a reader on an event loop: long work is done in steps, and very large rows are not read.
        Otherwise all are read, however long that takes. `definitions`: of tables whose columns the binlog does not
        name; without it such tables are untrusted. `prepare`: makes the decoders of every table, wanted or not. Raises
        LayoutError."""
        self.in_steps = in_steps
        self.definitions = definitions
        self.prepare = prepare
        self.by_id: dict[bytes, MappedTable] = {}
        self.writes: Counter[str] = Counter()  # statements that have changed rows, by the table's qualified name
        self.charsets: Mapping[int, str] = {}  # collation id -> character set, as the server lists them
        self.followers: frozenset[str] = frozenset()  # those wanted whose rows foreign keys change
        self._wanted: dict[tuple[str, str], tuple[Table, frozenset[int]]] = {}
        # Tables that are said to have other columns than before: those from which the rows come that are still to be
        # read, as their DDL is, and those whose DDL has been read.
        self._doubted: set[str] = set()
        self._redefined: set[str] = set()
        self._led_by: dict[int, frozenset[str]] = {}  # `MappedTable.leads` by event
        self._told: dict[str, str] = {}  # by table, why its rows are not decoded, as it was logged last

    def want(self, table: Table, columns: frozenset[str]) -> bool:
        """False if exactly this was wanted already. Raises KeyError for a column that the table has not."""
        positions = frozenset(table.column(name).position for name in columns)
        if self.definitions is not None:
            self.definitions.want(table)
        before = self._wanted.get((table.schema, table.name))
        if before == (table, positions):
            return False
        if before is not None:
            others = {name for name, _, _ in before[0].referenced ^ table.referenced}
            self._doubted |= others - self._redefined
            self._redefined -= others
        self._wanted[table.schema, table.name] = (table, positions)
        self._parse_again()
        return True

    def with_members(self, names: frozenset[str]) -> frozenset[str]:
        """These tables, for `schema.*` the wanted ones of that schema, and wanted tables whose names differ in letter
        case only: a statement is logged as it was written, and may mean the same table."""
        meant = _meant(names)
        return names | {table.qualified for table, _ in self._wanted.values() if meant(table.qualified)}

    def redefined(self, names: frozenset[str]) -> frozenset[str]:
        """The same for tables with a new definition, and for tables whose rows follow theirs by foreign keys: from now
        on they may follow other tables' rows."""
        meant = _meant(names)
        named = {name for table, _ in self._wanted.values() for name, _, _ in table.referenced if meant(name)}
        self._redefined |= named - self._doubted
        self._doubted -= named
        self._define_anew(meant)
        return self.with_members(names) | {
            table.qualified
            for table, _ in self._wanted.values()
            if any(map(meant, table.changed_by_deletes | table.changed_by_updates))
        }

    def all_redefined(self) -> None:
        """As `redefined`, where it is not known which tables are."""
        self._define_anew(lambda name: True)

    def _define_anew(self, meant: Callable[[str], bool]) -> None:
        if self.definitions is not None and self.definitions.changed(meant):
            self._parse_again()

    def children(self, deleted: Set[str], updated: Set[str]) -> frozenset[str]:
        """The wanted tables whose rows foreign keys may change when rows of these tables are deleted or updated."""
        deletes = {ANY_TABLE, *(name.lower() for name in deleted)}
        updates = {ANY_TABLE, *(name.lower() for name in updated)}
        return frozenset(
            table.qualified
            for table, _ in self._wanted.values()
            if (deleted and table.changed_by_deletes & deletes) or (updated and table.changed_by_updates & updates)
        )

    def unwant(self, qualified: str) -> None:
        for key, (table, _) in list(self._wanted.items()):
            if table.qualified == qualified:
                del self._wanted[key]
                self._parse_again()
        if self.definitions is not None:
            self.definitions.unwant(qualified)

    def _parse_again(self) -> None:
        self.followers = frozenset(
            table.qualified
            for table, _ in self._wanted.values()
            if table.changed_by_deletes or table.changed_by_updates
        )
        deletes = frozenset[str]().union(*(table.changed_by_deletes for table, _ in self._wanted.values()))
        updates = frozenset[str]().union(*(table.changed_by_updates for table, _ in self._wanted.values()))
        self._led_by = {DELETE_ROWS: deletes, UPDATE_ROWS: updates, PARTIAL_UPDATE_ROWS: updates}
        # Rows whose TABLE_MAP is already read are still decoded as before; the next TABLE_MAP event is parsed.
        for mapped in self.by_id.values():
            mapped.body = b""

    def forget_ids(self) -> None:
        """A new binlog file or connection numbers its tables anew."""
        self.by_id.clear()

    def note_write(self, name: str) -> None:
        """A statement has changed rows of this table."""
        writes = self.writes
        if name in writes:
            writes[name] += 1
            return
        if len(writes) >= MOST_COUNTED:
            writes.clear()  # most are no more
        writes[name] = 1

    def map(self, body: bytes) -> MappedTable:
        """Learns a TABLE_MAP event (its body). The caller has found that it differs from the last one of this id."""
        schema, name, _ = table_names(body)
        mapped = MappedTable(body, f"{schema}.{name}")
        self.by_id[body[:6]] = mapped
        meant = {ANY_TABLE, mapped.name.lower()}
        mapped.leads = frozenset(kind for kind, names in self._led_by.items() if names & meant)
        if UPDATE_ROWS in mapped.leads:
            mapped.keys = self._key_decoder(mapped)
        wanted = self._wanted.get((schema, name))
        if mapped.name in _OF_ZONES:
            mapped.untrusted = ZONES_LOADED
        elif wanted is not None:
            try:
                self._prepare(mapped, *wanted)
            except LayoutError as error:
                self._distrust(mapped, str(error))
        if self.prepare is not None:
            try:
                self.prepare(mapped)
            except LayoutError as error:
                mapped.untrusted = str(error)
        return mapped

    def _distrust(self, mapped: MappedTable, reason: str) -> None:
        mapped.untrusted = reason
        mapped.odd = self.tell(mapped.name, reason)

    def tell(self, name: str, reason: str) -> bool:
        """Logs why rows of a table are not decoded, where that is not what was logged of it last."""
        if self._told.get(name) == reason:
            return False
        if len(self._told) >= MOST_COUNTED:
            self._told.clear()
        self._told[name] = reason
        _log.warning("rows of a table are not decoded", table=name, reason=reason)
        return True

    def _prepare(self, mapped: MappedTable, table: Table, columns: frozenset[int]) -> None:
        layout = parse_table_map(mapped.body)
        nameless = bool(layout.columns) and layout.columns[0].name is None
        reason = difference(layout, table, self.charsets, by_schema=self.definitions is not None)
        if reason:
            self._distrust(mapped, reason)
            return
        if nameless and self.definitions is not None:
            if not self.definitions.is_known(table.qualified):
                mapped.untrusted = NOT_KNOWN
                mapped.body = b""  # the next event of the table is looked at anew
                return
            add_members(layout, table)
        self._told.pop(mapped.name, None)
        mapped.decoders = make_decoders(layout, columns, self.charsets, late=self.in_steps)
        mapped.expect_full(len(layout.columns))

    def _key_decoder(self, mapped: MappedTable) -> RowsDecoder | None:
        """Reads of updated rows the columns by which rows of wanted tables follow them. None where these are not
        known."""
        name = mapped.name.lower()
        columns: set[tuple[int, int]] = set()
        for table, _ in self._wanted.values():
            if not table.changed_by_updates.isdisjoint((name, ANY_TABLE)):
                own = {(position, width) for above, position, width in table.referenced if above == name}
                if not own or ANY_TABLE in table.changed_by_updates:
                    return None
                columns |= own
        try:
            layout = parse_table_map(mapped.body)
            found = layout.columns
            if name in self._doubted or any(width != len(found) for _, width in columns):
                return None
            if any(found[position].kind in (FLOAT, DOUBLE) for position, _ in columns):  # 0 and -0 are equal
                return None
            decoders = make_decoders(layout, frozenset(position for position, _ in columns), self.charsets)
        except LayoutError:
            return None
        mapped.expect_full(len(found))
        return decoders.updates


def _meant(names: frozenset[str]) -> Callable[[str], bool]:
    lower = {name.lower() for name in names}
    schemas = {name[: -len(ALL) - 1] for name in lower if name.endswith(f".{ALL}")}
    return lambda name: name.lower() in lower or name.lower().partition(".")[0] in schemas
