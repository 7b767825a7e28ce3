"""GTIDs and sets of them: normalised interval maps with MySQL's own text and binary forms.

A `source` names who numbered a transaction: a server's UUID in lower case, or `uuid:tag` for tagged GTIDs. A set maps
each source to a flat, strictly increasing sequence of boundaries: start, end, start, end, ... with every end exclusive.
Neighbours are always merged, so equal sets have equal maps, and a number is inside iff an odd number of boundaries is
not above it: one bisection.

`GtidSet` is an immutable value. `MutableGtidSet` is a position that grows: adding the next number of a source is O(1).
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from typing import NamedTuple

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ONE = re.compile(rf"({_UUID.pattern}):([0-9]{{1,19}})")
_UNBROKEN = re.compile(rf"({_UUID.pattern}):([0-9]{{1,19}})-([0-9]{{1,19}})")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_FLAVOUR = "mysql56/"
UUID = 36  # characters
_MAX_NUMBER = 2**63 - 1
_U64 = struct.Struct("<Q")
_PAIR = struct.Struct("<QQ")


class Gtid(NamedTuple):
    """One transaction's identity: `source` is "uuid" or "uuid:tag" (lower case), `number` counts from 1."""

    source: str
    number: int

    def __str__(self) -> str:
        return f"{self.source}:{self.number}"

    @classmethod
    def parse(cls, text: str) -> Gtid:
        """Reads `uuid:5` or `uuid:tag:5`. Raises ValueError."""
        usual = _ONE.fullmatch(text)
        if usual is not None and 0 < (number := int(usual[2])) <= _MAX_NUMBER:
            return cls(usual[1], number)
        found = GtidSet.parse(text)
        if found.count() != 1:
            raise ValueError(f"not one GTID: {text!r}")
        return found.last()


class GtidSet:
    """An immutable set of GTIDs. `intervals`: the boundaries by source: start, exclusive end, start, ... To be read
    only."""

    def __init__(self, intervals: Mapping[str, Sequence[int]] | None = None) -> None:
        """`intervals`: flat boundaries by source, already normalised; `parse` and `of` make them from anything else."""
        self.intervals: Mapping[str, Sequence[int]] = {s: tuple(b) for s, b in (intervals or {}).items() if b}
        self._text: str | None = None  # once it is asked for
        self._hash: int | None = None  # likewise

    @classmethod
    def empty(cls) -> GtidSet:
        return _EMPTY

    @classmethod
    def of(cls, gtids: Iterable[Gtid]) -> GtidSet:
        numbers: dict[str, list[int]] = {}
        for source, number in gtids:
            numbers.setdefault(source, []).append(number)
        return cls({s: _normalise((n, n + 1) for n in ns) for s, ns in numbers.items()})

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Reads MySQL's text, line breaks, capitals and the prefix `MySQL56/` included. Raises ValueError."""
        text = text.strip()
        if text[: len(_FLAVOUR)].lower() == _FLAVOUR:
            text = text[len(_FLAVOUR) :]
        spans: dict[str, list[tuple[int, int]]] = {}
        for chunk in text.split(","):
            _parse_chunk(chunk, spans)
        return cls({source: _normalise(found) for source, found in spans.items()})

    def __str__(self) -> str:
        text = self._text
        if text is None:
            text = self._text = self._written()
        return text

    def _written(self) -> str:
        lines: list[str] = []
        for source in sorted(self.intervals):
            uuid, _, tag = source.partition(":")
            if tag and lines and lines[-1].startswith(uuid):
                lines[-1] += f":{tag}:{_interval_text(self.intervals[source])}"
            else:
                lines.append(f"{source}:{_interval_text(self.intervals[source])}")
        return ",\n".join(lines)

    def __repr__(self) -> str:
        return f"GtidSet.parse({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidSet) and self.intervals == other.intervals

    def __hash__(self) -> int:
        found = self._hash
        if found is None:
            found = self._hash = hash(frozenset(self.intervals.items()))
        return found

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def __contains__(self, gtid: Gtid) -> bool:
        bounds = self.intervals.get(gtid[0])
        return bounds is not None and bisect_right(bounds, gtid[1]) & 1 == 1

    def __iter__(self) -> Iterator[Gtid]:
        """Every GTID, by source and number: for small sets."""
        for source in sorted(self.intervals):
            for start, end in _spans(self.intervals[source]):
                for number in range(start, end):
                    yield Gtid(source, number)

    def count(self) -> int:
        return sum(end - start for bounds in self.intervals.values() for start, end in _spans(bounds))

    @property
    def tagged(self) -> bool:
        return any(":" in source for source in self.intervals)

    def last(self) -> Gtid:
        """The highest number of the source that is last in text order. Requires: the set is not empty."""
        source = max(self.intervals)
        return Gtid(source, self.intervals[source][-1] - 1)

    def issubset(self, other: GtidSet) -> bool:
        return self is other or self.intervals == other.intervals or _covers(other.intervals, self)

    def union(self, other: GtidSet) -> GtidSet:
        if not other.intervals or other is self:
            return self
        if not self.intervals:
            return other
        result = dict(self.intervals)
        for source, bounds in other.intervals.items():
            mine = result.get(source)
            if mine is None:
                result[source] = bounds
            elif mine != bounds:
                result[source] = tuple(_normalise(merge(_spans(mine), _spans(bounds))))
        return GtidSet(result)

    def difference(self, other: GtidSet) -> GtidSet:
        result: dict[str, Sequence[int]] = {}
        for source, bounds in self.intervals.items():
            theirs = other.intervals.get(source)
            if theirs is None:
                result[source] = bounds
            elif theirs != bounds:
                result[source] = _combine(bounds, theirs, lambda mine, their: mine & ~their)
        return GtidSet(result)

    def intersection(self, other: GtidSet) -> GtidSet:
        result: dict[str, Sequence[int]] = {}
        for source, bounds in self.intervals.items():
            theirs = other.intervals.get(source)
            if theirs is not None:
                result[source] = _combine(bounds, theirs, lambda mine, their: mine & their)
        return GtidSet(result)

    def of_servers(self, *others: GtidSet) -> GtidSet:
        """Its GTIDs of the servers that have a GTID in one of the others, under any tag."""
        servers = {source[:UUID] for other in others for source in other.intervals}
        return GtidSet({source: bounds for source, bounds in self.intervals.items() if source[:UUID] in servers})

    def add(self, gtid: Gtid) -> GtidSet:
        """The set with this GTID in it."""
        if gtid in self:
            return self
        return self.union(GtidSet({gtid[0]: (gtid[1], gtid[1] + 1)}))

    def encode(self) -> bytes:
        """The form of COM_BINLOG_DUMP_GTID and PREVIOUS_GTIDS_LOG_EVENT; tag-aware only where a tag is in the set."""
        return _encode(self.intervals, self.tagged)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> GtidSet:
        """Reads either form of `encode`. Raises ValueError."""
        return cls(_decode(bytes(data)))


_EMPTY = GtidSet()


class MutableGtidSet:
    """A growing set of GTIDs, for positions. `freeze` gives the value at a moment; cheap when nothing was added."""

    __slots__ = ("_frozen", "_intervals")

    def __init__(self, start: GtidSet | None = None) -> None:
        self._frozen: GtidSet | None = start if start is not None else _EMPTY
        self._intervals: dict[str, list[int]] = {s: list(b) for s, b in self._frozen.intervals.items()}

    def add(self, gtid: Gtid) -> bool:
        """False: it was there, and nothing changes."""
        source, number = gtid
        bounds = self._intervals.get(source)
        if bounds is None:
            self._intervals[source] = [number, number + 1]
        elif bounds[-1] == number:
            bounds[-1] = number + 1
        elif not self._add_slow(bounds, number):
            return False
        self._frozen = None
        return True

    def _add_slow(self, bounds: list[int], number: int) -> bool:
        at = bisect_right(bounds, number)
        if at & 1:
            return False
        left = at > 0 and bounds[at - 1] == number
        right = at < len(bounds) and bounds[at] == number + 1
        if left and right:
            del bounds[at - 1 : at + 1]
        elif left:
            bounds[at - 1] = number + 1
        elif right:
            bounds[at] = number
        else:
            bounds[at:at] = (number, number + 1)
        return True

    def update(self, other: GtidSet) -> None:
        """Adds a whole set."""
        joined = self.freeze().union(other)
        self._intervals = {s: list(b) for s, b in joined.intervals.items()}
        self._frozen = joined

    def replace(self, other: GtidSet) -> None:
        """Takes the value of another set."""
        self._intervals = {s: list(b) for s, b in other.intervals.items()}
        self._frozen = other

    def __contains__(self, gtid: Gtid) -> bool:
        bounds = self._intervals.get(gtid[0])
        if bounds is None or gtid[1] >= bounds[-1]:  # it is new, as nearly all are that a stream brings
            return False
        return bisect_right(bounds, gtid[1]) & 1 == 1

    def covers(self, other: GtidSet) -> bool:
        """True if every GTID of `other` is inside."""
        return other is self._frozen or _covers(self._intervals, other)

    def freeze(self) -> GtidSet:
        if self._frozen is None:
            self._frozen = GtidSet(self._intervals)
        return self._frozen

    def __str__(self) -> str:
        return str(self.freeze())


class CachedParser:
    """Parses a text that is read again and again (gtid_executed): only when it has changed, and then only the changed
    part."""

    def __init__(self) -> None:
        self._text = ""
        self._set = _EMPTY
        self._chunks: dict[str, dict[str, list[int]]] = {}

    def parse(self, text: str) -> GtidSet:
        """As `GtidSet.parse`; equal texts in a row give the same object."""
        if text != self._text:
            self._set = self._parse_changed(text)
            self._text = text
        return self._set

    def _parse_changed(self, text: str) -> GtidSet:
        chunks: dict[str, dict[str, list[int]]] = {}
        merged: dict[str, list[int]] = {}
        for chunk in text.split(","):
            known = self._chunks.get(chunk)
            if known is None:
                spans: dict[str, list[tuple[int, int]]] = {}
                _parse_chunk(chunk, spans)
                known = {source: _normalise(found) for source, found in spans.items()}
            chunks[chunk] = known
            if known.keys() & merged.keys():  # a server named twice: MySQL does not print that
                self._chunks = {}
                return GtidSet.parse(text)
            merged.update(known)
        self._chunks = chunks
        return GtidSet(merged)


def parse_owned(text: str) -> GtidSet:
    """Reads @@global.gtid_owned: `uuid:n#thread:n#thread`, where MySQL puts nothing between one source and the next."""
    text = text.lower()
    starts = [match.start() for match in _UUID.finditer(text)]
    if not starts:
        if not text.strip():
            return _EMPTY
        raise ValueError(f"not a list of owned GTIDs: {text!r}")
    spans: dict[str, list[tuple[int, int]]] = {}
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        plain = re.sub(r"#\d+", "", text[start:end])
        _parse_chunk(plain.strip(" \n,"), spans)
    return GtidSet({source: _normalise(found) for source, found in spans.items()})


def _parse_chunk(chunk: str, spans: dict[str, list[tuple[int, int]]]) -> None:
    """One server's part of a set: `uuid:1-5:7:tag:1-3`."""
    usual = _UNBROKEN.fullmatch(chunk)
    if usual is not None and 0 < (start := int(usual[2])) <= (last := int(usual[3])) <= _MAX_NUMBER:
        spans.setdefault(usual[1], []).append((start, last + 1))
        return
    parts = [part.strip() for part in chunk.strip().lower().split(":")]
    if parts == [""]:
        return
    source = parts[0]
    if not _UUID.fullmatch(source):
        raise ValueError(f"not a server's UUID in a GTID set: {source!r}")
    if len(parts) == 1:
        raise ValueError(f"no interval in a GTID set after {source!r}")
    for part in parts[1:]:
        if _TAG.fullmatch(part):
            source = f"{parts[0]}:{part}"
            continue
        first, dash, until = part.partition("-")
        try:
            start = int(first)
            end = (int(until) if dash else start) + 1
        except ValueError:
            raise ValueError(f"not an interval in a GTID set: {part!r}") from None
        if not 0 < start <= _MAX_NUMBER or end > _MAX_NUMBER + 1:
            raise ValueError(f"an interval out of range in a GTID set: {part!r}")
        if start < end:
            spans.setdefault(source, []).append((start, end))


def _spans(bounds: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(bounds[::2], bounds[1::2], strict=True)


def _normalise(spans: Iterable[tuple[int, int]]) -> list[int]:
    """Sorted, merged, flat."""
    bounds: list[int] = []
    for start, end in sorted(spans):
        if bounds and start <= bounds[-1]:
            if end > bounds[-1]:
                bounds[-1] = end
        else:
            bounds += (start, end)
    return bounds


def _combine(mine: Sequence[int], theirs: Sequence[int], keep: Callable[[int, int], int]) -> list[int]:
    """Sweeps over both boundary lists; `keep(inside mine, inside theirs)` says what stays."""
    bounds: list[int] = []
    inside = False
    for at in sorted({*mine, *theirs}):
        wanted = bool(keep(bisect_right(mine, at) & 1, bisect_right(theirs, at) & 1))
        if wanted != inside:
            bounds.append(at)
            inside = wanted
    return bounds


def _covers(intervals: Mapping[str, Sequence[int]], other: GtidSet) -> bool:
    for source, theirs in other.intervals.items():
        mine = intervals.get(source)
        if mine is None or theirs[-1] > mine[-1] or theirs[0] < mine[0]:
            return False
        if len(mine) == 2 or mine is theirs:
            continue
        for start, end in _spans(theirs):
            at = bisect_right(mine, start)
            if not at & 1 or mine[at] < end:
                return False
    return True


def _interval_text(bounds: Sequence[int]) -> str:
    return ":".join(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in _spans(bounds))


def _encode(intervals: Mapping[str, Sequence[int]], tagged: bool) -> bytes:
    count = len(intervals)
    parts = [_U64.pack(count << 8 | 1 | 1 << 56) if tagged else _U64.pack(count)]
    for source in sorted(intervals):
        uuid, _, tag = source.partition(":")
        parts.append(bytes.fromhex(uuid.replace("-", "")))
        if tagged:
            parts.append(bytes((len(tag) << 1,)) + tag.encode())
        bounds = intervals[source]
        parts.append(_U64.pack(len(bounds) // 2))
        parts.extend(_PAIR.pack(start, end) for start, end in _spans(bounds))
    return b"".join(parts)


def _decode(data: bytes) -> dict[str, list[int]]:
    try:
        (header,) = _U64.unpack_from(data)
        tagged = header >> 56 == 1
        count = header >> 8 & (1 << 48) - 1 if tagged else header
        at = 8
        result: dict[str, list[int]] = {}
        for _ in range(count):
            raw = data[at : at + 16].hex()
            source = f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:32]}"
            at += 16
            if tagged:
                length = data[at] >> 1
                if length:
                    source += ":" + data[at + 1 : at + 1 + length].decode()
                at += 1 + length
            (spans,) = _U64.unpack_from(data, at)
            at += 8
            result[source] = _normalise(_PAIR.unpack_from(data, at + 16 * i) for i in range(spans))
            at += 16 * spans
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"not an encoded GTID set: {data[:32]!r}...") from error
    return result
