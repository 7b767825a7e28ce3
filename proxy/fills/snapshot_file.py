"""The file of a snapshot: what was held, for the next start. Not for the event loop.

    upwell snapshot 2\\n
    block ...        length and CRC-32 of what follows, four bytes each; a pickle, compressed by zstd
    the footer       as blocks: its lists in pieces, then itself without them
    the end          where the footer begins, in eight bytes, and END

The footer is written last, and the file is renamed when all of it is on the disk. So a file that is there is whole, or
the disk has damaged it. Only its owner may read it: answers are data. A pickle may name the classes of values and plans
alone (`Reading`).
"""

from __future__ import annotations

import io
import marshal
import os
import pickle
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO
from zlib import crc32

import zstandard

from upwell import __version__
from vstream.history import Followed

MAGIC = b"upwell snapshot 2\n"
END = b"WHOLE\x00\x00\n"
PLACE = Struct("=Q")
HEAD, TAIL = Struct("<II"), Struct("<Q8s")
LEVEL = 1
AT_ONCE = 500  # blocks or caches of one piece of the footer: no other thread runs while it is written or read
LARGEST = 1 << 30  # bytes of a block, none of which comes near
PYTHON = f"Python {sys.version_info[0]}.{sys.version_info[1]} (marshal {marshal.version}, {sys.byteorder} endian)"
WRITTEN_BY = f"{__version__} on {PYTHON}"
"""What is held is written as it is in memory, which another version may have otherwise."""
OWN = ("sqltypes.", "planner.", "gtid_tracker.", "vstream.history", "dataflow.operators.", "proxy.fills.snapshot_file")
VALUES = frozenset({("decimal", "Decimal"), ("builtins", "frozenset")}) | {
    ("datetime", name) for name in ("date", "datetime", "time", "timedelta")
}


Piece = tuple[str, object]


class Unusable(Exception):
    """The file, or a part of it, cannot be used, with the reason as a sentence."""


@dataclass(frozen=True, slots=True)
class KeptCache:
    """`plan`: pickled, as `Planned.parts`, or the plan alone. `columns`: with which MySQL has answered, where answers
    are held as they came."""

    name: str
    sql: str
    database: str
    plan: bytes
    columns: Any = None


@dataclass(slots=True)
class Footer:
    """`written_by`: WRITTEN_BY. `places`: where each block begins; `hot`: of each block, whether its keys were read
    lately. `void`: by block the numbers of entries that are not true (`packed`). These are bytes: nobody need walk
    through a million small objects. `keys`: how many there are. `at`: seconds since the epoch.
    `planner`: `code_identity` of who made the plans. `pieces`: in the file, where each piece of `caches` and `void`
    is."""

    written_by: str
    source: str
    followed: Followed
    caches: Sequence[KeptCache]
    places: bytes = b""
    hot: bytes = b""
    void: dict[int, bytes] = field(default_factory=dict)
    keys: int = 0
    at: float = 0.0
    planner: str = ""
    pieces: list[int] = field(default_factory=list)

    def cut(self) -> Iterator[Piece]:
        """Its lists, in pieces that are short to write and to read."""
        for first in range(0, len(self.caches), AT_ONCE):
            yield "caches", list(self.caches[first : first + AT_ONCE])
        numbers = list(self.void)
        for first in range(0, len(numbers), AT_ONCE):
            yield "void", {number: self.void[number] for number in numbers[first : first + AT_ONCE]}

    def join(self, piece: Any) -> None:
        """Raises Unusable where that is no piece."""
        match piece:
            case ("caches", list(found)):
                self.caches = [*self.caches, *found]
            case ("void", dict(found)):
                self.void |= found
            case _:
                raise Unusable("a piece of its footer is none")

    def place(self, number: int) -> int:
        """Where a block begins."""
        return int(PLACE.unpack_from(self.places, number * PLACE.size)[0])

    def void_of(self, number: int) -> frozenset[int]:
        """The numbers of a block's entries that are not true."""
        return frozenset(array("I", self.void.get(number, b"")))


class Reading(pickle.Unpickler):
    """Reads what `pickled` has written, and nothing that calls something else."""

    def find_class(self, module: str, name: str) -> Any:
        if "." not in name and ((module, name) in VALUES or module.startswith(OWN)):
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise Unusable(f"it names {module}.{name}, which no snapshot has")


def packed(numbers: Sequence[int]) -> bytes:
    """As `Footer.void` has them."""
    return array("I", numbers).tobytes()


def pickled(value: object) -> bytes:
    return pickle.dumps(value, 5)


def unpickled(data: bytes) -> Any:
    """Raises Unusable, and whatever pickle does with what is no pickle."""
    return Reading(io.BytesIO(data)).load()


class Writer:
    """Writes beside `path`; `put` puts it in its place. Raises OSError."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = path
        self._beside = path.with_suffix(".new")
        descriptor = os.open(self._beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file: BinaryIO = os.fdopen(descriptor, "wb")
        self._compress = zstandard.ZstdCompressor(level=LEVEL).compress
        self._file.write(MAGIC)
        self._at = len(MAGIC)
        self.places: list[int] = []

    def add(self, blocks: Sequence[bytes]) -> None:
        for block in blocks:
            self.places.append(self._at)
            self._write(block)

    def _write(self, block: bytes) -> None:
        compressed = self._compress(block)
        self._file.write(HEAD.pack(len(compressed), crc32(compressed)))
        self._file.write(compressed)
        self._at += HEAD.size + len(compressed)

    def finish(self, footer: Footer, hot: Sequence[bool]) -> int:
        """How many bytes the file has. `put` follows."""
        footer.places, footer.hot = array("Q", self.places).tobytes(), bytes(hot)
        places = []
        for piece in footer.cut():
            places.append(self._at)
            self._write(pickled(piece))
        at = self._at
        self._write(pickled(replace(footer, caches=(), void={}, pieces=places)))
        self._file.write(TAIL.pack(at, END))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._at + TAIL.size

    def put(self) -> None:
        """Puts the file in its place. Short."""
        self._beside.replace(self._path)

    def abandon(self) -> None:
        self._file.close()
        self._beside.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """What was renamed or removed in it stays so."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Reader:
    """An open file. Raises FileNotFoundError, OSError, Unusable."""

    def __init__(self, path: Path, source: str) -> None:
        self.path = str(path)
        self._file = path.open("rb")
        self._decompress = zstandard.ZstdDecompressor().decompress
        try:
            self.footer = self._footer(source)
        except BaseException:
            self.close()
            raise

    def _footer(self, source: str) -> Footer:
        file = self._file
        if file.read(len(MAGIC)) != MAGIC:
            raise Unusable("it is no snapshot of this version")
        size = self._size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL.size))
        tail = file.read(TAIL.size)
        if len(tail) != TAIL.size or not tail.endswith(END):
            raise Unusable("it is cut off")
        self._end = TAIL.unpack(tail)[0]
        footer = self._block(self._end)
        if not isinstance(footer, Footer):
            raise Unusable("it has no footer")
        if footer.written_by != WRITTEN_BY:
            raise Unusable(f"Upwell {footer.written_by} has written it, this is {WRITTEN_BY}")
        if footer.source != source:
            raise Unusable(f"it is of another source, {footer.source}")
        for place in footer.pieces:
            footer.join(self._block(place))
        return footer

    def _block(self, at: int) -> Any:
        if not len(MAGIC) <= at < self._size:
            raise Unusable("it is damaged")
        self._file.seek(at)
        head = self._file.read(HEAD.size)
        if len(head) < HEAD.size:
            raise Unusable("it is cut off")
        length, checksum = HEAD.unpack(head)
        compressed = self._file.read(min(length, LARGEST))
        if len(compressed) != length or crc32(compressed) != checksum:
            raise Unusable("it is damaged")
        try:
            return unpickled(self._decompress(compressed))
        except Unusable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the bytes
            raise Unusable(f"it is damaged: {error!r}") from None

    def blocks(self, at_once: int) -> Iterator[list[tuple[int, Any]]]:
        """The blocks with their numbers, some at a time, those first whose keys were read lately."""
        place = self.footer.place
        order = [number for number, hot in enumerate(self.footer.hot) if hot]
        order += [number for number, hot in enumerate(self.footer.hot) if not hot]
        for first in range(0, len(order), at_once):
            yield [(number, self._block(place(number))) for number in order[first : first + at_once]]

    def close(self) -> None:
        self._file.close()
