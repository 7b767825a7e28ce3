"""What checks have shown of plans, so that a plan like others which have earned their trust need not show it all again.

A plan is made of parts: each expression with the types of what it computes from, each arrangement with the types of its
key, what the reader does in which order. A cache that has earned its trust proves the parts of its plan. One whose
parts are all proven is checked over few keys in the place of many. One difference takes all that its plan has proved
away again.

What a plan has earned outlives a restart, of the same version of Upwell before the same version of the server: the same
plan (its query, its parts and the definitions of its tables) needs few checks then.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path

import structlog

from planner.tree.plan import AnswerArrangement, KeyPart, OutputColumn, Parameter, QueryPlan
from proxy.state_dir.folder import digest_of
from proxy.state_dir.writing import Writing
from proxy.state_dir.written_behind import WrittenBehind
from sqltypes.expression import Call, ColumnRef, Expr, Literal, ParamRef
from sqltypes.schema import ResultColumn, SqlType, Table

log = structlog.get_logger("upwell.trust")

VERSION = 1
SAVED_EVERY = 30.0  # seconds
FEW = 4  # keys of which a check must agree, where others have proven all parts of the plan
MOST_COLUMNS = 400  # of a plan's tables: with more it takes long to tell what it is made of
MOST_EARNED = 2000  # plans that are remembered, the newest
_NAMES = frozenset({"alias", "name", "columns", "key", "group", "sql", "database", "key_columns", "source"})
"""Fields that hold names or texts: with other ones a plan does the same."""
_OF_TABLE = ("key", "group", "key_columns")
"""Fields that name columns of the node's own table by which it tells rows apart."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is to be shown of a plan: that its fills are right, or what it makes of changes. `print_`: the same for the
    same plan, also in another process. `parts`: what the plan is made of."""

    print_: str
    parts: frozenset[str]


NOTHING = Claim("", frozenset())


class Evidence:
    """Which parts are proven, and what has earned its trust. `earned`: the prints of claims that had when the file was
    written, the oldest first.

    Invariants: 1. `_proven` counts the claims of `_shown` that have each part.
    """

    def __init__(self, earned: Iterable[str] = ()) -> None:
        self._earned: OrderedDict[str, None] = OrderedDict.fromkeys(earned)
        self._shown: dict[str, Claim] = {}  # in this process, by their prints
        self._proven: dict[str, int] = {}
        self.changed = False  # `earned` has, since it was written

    def knows(self, claim: Claim) -> bool:
        """Whether so much is proven of it that checks over few keys do."""
        return claim.print_ in self._earned or (bool(claim.parts) and self._proven.keys() >= claim.parts)

    def prove(self, claim: Claim) -> None:
        """Checks over enough keys have agreed."""
        if claim.print_ not in self._shown:
            self._shown[claim.print_] = claim
            for part in claim.parts:
                self._proven[part] = self._proven.get(part, 0) + 1
        if claim.print_ not in self._earned:
            self._earned[claim.print_] = None
            self.changed = True
            while len(self._earned) > MOST_EARNED:
                self._earned.popitem(last=False)

    def refute(self, claim: Claim) -> None:
        """A check differed: what has been proven of its parts, by whatever claims, is so no more. Of claims before the
        start the parts are not known: they all go."""
        for other in list(self._shown.values()):
            if not other.parts.isdisjoint(claim.parts) or other.print_ == claim.print_:
                self._take(other)
        self.changed |= bool(self._earned)
        self._earned = OrderedDict.fromkeys(self._shown)

    def _take(self, claim: Claim) -> None:
        del self._shown[claim.print_]
        for part in claim.parts:
            self._proven[part] -= 1
            if not self._proven[part]:
                del self._proven[part]

    @property
    def earned(self) -> list[str]:
        return list(self._earned)

    def check_invariants(self) -> None:
        counts: dict[str, int] = {}
        for part in (part for claim in self._shown.values() for part in claim.parts):
            counts[part] = counts.get(part, 0) + 1
        assert counts == self._proven


def claims_of(plan: QueryPlan, needs: frozenset[str], versions: tuple[str, ...]) -> tuple[Claim, Claim]:
    """Of its fills, and of what it makes of changes. `versions`: of all that answers depend on beside the plan."""
    if sum(len(table.columns) for table in plan.tables) > MOST_COLUMNS:
        return NOTHING, NOTHING
    parts = parts_of(plan)
    print_ = fingerprint(plan, parts, needs, versions)
    fills, changes = (
        Claim(f"{kind} {print_}", frozenset(f"{kind} {part}" for part in parts)) for kind in ("fills", "changes")
    )
    return fills, changes


def fingerprint(plan: QueryPlan, parts: frozenset[str], needs: frozenset[str], versions: tuple[str, ...]) -> str:
    """The same in two processes for the same plan, made by the same version of what answers depend on."""
    digest = hashlib.sha256()
    for text in (*versions, plan.sql, plan.database, *sorted(needs), *sorted(parts)):
        digest.update(text.encode() + b"\0")
    for table in plan.tables:
        told = (table.qualified, table.columns, table.primary_key, table.unique_keys, table.indexes, table.engine)
        digest.update(repr(told).encode())
    return digest.hexdigest()


def parts_of(plan: QueryPlan) -> frozenset[str]:
    """The parts of a plan, each as a text: its expressions with the types of what they compute from, and the whole with
    everything but names, types and constants."""
    found: set[str] = set()
    whole = _described((plan.mode, plan.key, plan.reader, plan.parameters), found)
    return frozenset({*found, "plan " + hashlib.sha256(whole.encode()).hexdigest()})


def _described(node: object, found: set[str]) -> str:
    """A node without names and constants; the parts that it is made of go to `found`."""
    match node:
        case Call():
            given = ", ".join(_type(argument.type) for argument in node.args)
            found.add(f"{node.op}({given}) {_type(node.type)}")
            return f"{node.op}({', '.join(_described(argument, found) for argument in node.args)})"
        case KeyPart():
            found.add(f"key {_type(node.type)} {node.null_safe} {node.list}")
            return f"key {node.null_safe} {node.list}"
        case OutputColumn():
            found.add(f"shows {type(node.expr).__name__} {_type(node.type)} {node.nullable}")
            return _described(node.expr, found)
        case Parameter():
            found.add(f"parameter {_type(node.type)} {node.list} {node.operand} {node.sent}")
            return f"parameter {node.list} {node.operand}"
        case AnswerArrangement():
            found.update(f"answers by {_type(one)}" for one in node.key_types)
            return f"answers {node.why} {node.counts} {len(node.crossings)} {_fields(node, found)}"
        case SqlType():
            return _type(node)
        case Enum() | bool() | None:
            return str(node)
        case ColumnRef() | ParamRef() | Literal() | Table() | ResultColumn() | str() | int():
            return type(node).__name__
    if is_dataclass(node):
        return f"{type(node).__name__} {_fields(node, found)}"
    assert isinstance(node, Iterable), node
    return "[" + ", ".join(_items(node, found)) + "]"


def _items(nodes: Iterable[object], found: set[str]) -> Iterator[str]:
    """Of columns that are shown one is described for all that are described alike."""
    last = ""
    for node in nodes:
        told = _described(node, found)
        if told != last or not isinstance(node, OutputColumn | str):
            yield told
        last = told


def _fields(node: object, found: set[str]) -> str:
    """Of a dataclass. The types of what a field computes, or of the columns that it names, are parts."""
    assert is_dataclass(node)
    told = []
    kind, table = type(node).__name__, getattr(node, "table", None)
    for field in fields(node):
        value = getattr(node, field.name)
        given = value if isinstance(value, tuple) else (value,)
        found.update(f"{kind} {field.name} {_type(one.type)}" for one in given if isinstance(one, Expr))
        if isinstance(table, Table) and field.name in _OF_TABLE:
            found.update(f"{kind} {field.name} {_type(table.column(name).type)}" for name in value if name)
        if field.name == "key" and value and isinstance(value[0], str):
            told.append(f"key of {len(value)}")
        elif field.name not in _NAMES or not isinstance(value, str | tuple) or _has_nodes(value):
            told.append(f"{field.name}={_described(value, found)}")
    return "(" + ", ".join(told) + ")"


def _has_nodes(value: object) -> bool:
    return isinstance(value, tuple) and any(not isinstance(item, str | None) for item in value)


def _type(type_: SqlType) -> str:
    """Without lengths and members, on which nothing is computed."""
    signed = " unsigned" if type_.unsigned else ""
    return (
        f"{type_.name}{signed} {type_.precision} {type_.scale} {type_.collation}{' zerofill' if type_.zerofill else ''}"
    )


class EarnedFile:
    """What had earned its trust when Upwell ran last, in a file of the state directory."""

    def __init__(self, folder: Path, source: str, writing: Writing | None = None) -> None:
        self.evidence = Evidence()
        self.path = folder / f"trust-{digest_of(source)}.json"
        self._file = WrittenBehind(self.path, writing)
        self._saved_at = float("-inf")

    def loaded(self) -> Evidence:
        """As the file has it. Where that cannot be read, trust is earned anew."""
        self._load()
        return self.evidence

    def _load(self) -> None:
        try:
            document = json.loads(self.path.read_text())
            earned = [str(item) for item in document["earned"]] if document["version"] == VERSION else []
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("trust_not_read", file=str(self.path), why=repr(error))
            return
        self.evidence = Evidence(earned[-MOST_EARNED:])

    def tick(self, now: float) -> None:
        """To be called now and then. `now`: in seconds."""
        if self.evidence.changed and now - self._saved_at >= SAVED_EVERY:
            self._saved_at = now
            self._save()

    def written(self) -> None:
        """Waits until the file has what is known now. Not for the event loop."""
        if self.evidence.changed:
            self._save()
        self._file.written()

    def close(self) -> None:
        """As `written`, and the end."""
        if self.evidence.changed:
            self._save()
        self._file.close()

    def _save(self) -> None:
        self.evidence.changed = False
        self._file.put({"version": VERSION, "earned": self.evidence.earned})
