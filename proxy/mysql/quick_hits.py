"""The quick way of a hit: from a command's bytes to the answer's without a task, a parse or an object per row.

It is taken by reads of a kind (a prepared statement, or texts that differ in their literals only) of which the session
has been given a hit the long way (`cached_reads.py`), since anything was passed through, asked or changed that the long
way looks at. Then only the key and its bytes are to be found.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any

from proxy.api import SessionCache
from proxy.mysql.cached_reads import CachedReads
from proxy.mysql.last_hit import MOST_FOUND
from proxy.mysql.packets import COM_QUERY, COM_STMT_EXECUTE
from proxy.mysql.prepared import CURSOR, LONGLONG, PreparedStatement
from proxy.mysql.routes import Route
from proxy.mysql.rows import end_size
from proxy.mysql.session_sockets import Hot

if TYPE_CHECKING:
    from proxy.mysql.handshake import LoggedIn
    from proxy.mysql.listener import Shared

# What stands before the value of an execution's only parameter whose type was sent before, with and without
# CLIENT_QUERY_ATTRIBUTES: how many parameters there are, which are NULL, that no types follow.
NO_TYPES = {False: b"\0\0", True: b"\1\0\0"}
HOT = 100  # kinds of execution of one session; clients choose their bytes
NO_ATTRIBUTES = b"\0\1"

PLAIN, BY_BYTES, LIST = 0, 1, 2
Found = tuple[bytes, SessionCache, Any, int]
"""What stands before the rows, the cache, the key, and whether the key is the command's last 8 bytes, or not a key but
the parameters, lists among them."""


class QuickHits(CachedReads):
    """Invariants:
    1. A kind is in `heads`, with what stands before the rows of its answers, only while the session is `plain`, may
       read the cache, and nothing has gone to MySQL since.
    2. What is in `heads.hot` is what `quick` would find for the same bytes, had nothing changed in the system.
    """

    def __init__(self, shared: Shared, logged_in: LoggedIn) -> None:
        super().__init__(shared, logged_in)
        self.statements: dict[bytes, PreparedStatement] = {}
        self.quick_moment = shared.system.moment
        self._no_types = NO_TYPES[self.attributes]
        self._end = end_size(eof=self.eof)  # of an answer without rows
        self._heads_of = -1  # the version of caches and accounts that `heads` is of

    def receiver(self, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """A function, not a method, and no call between the socket and the cache: half of a hit's own time."""
        system, find, long_way = self.shared.system, self.heads.hot.get, self.on_bytes
        last_hit = self.last_hit

        def received(data: bytes) -> None:
            hot = find(data[:-8])
            if hot is not None:
                version, key, stored, cache, head = hot
                if version == system.changes and (body := stored(*key(data))) is not None:
                    last_hit.command = data
                    last_hit.rows = body if len(body) <= MOST_FOUND else b""
                    self.quick_cache = cache
                    self.quick_moment = system.moment
                    write(head + body)
                    return
            long_way(data)

        return received

    def quick(self, data: bytes, *, alone: bool = False) -> bytes | None:
        """The answer to a read; None: the long way decides. `data`: what was received, one packet if it is quick."""
        system = self.shared.system
        version = system.changes
        if version != self._heads_of:
            self.heads.clear()
            self._heads_of = version
            return None
        if not self.heads or int.from_bytes(data[:4], "little") != len(data) - 4:  # its number is 0
            return None
        try:
            if data[4] == COM_STMT_EXECUTE:
                found = self._prepared_key(data)
            elif data[4] == COM_QUERY:
                found = self._text_key(data)
            else:
                return None
            if found is None:
                return None
            head, cache, key, way = found
            body = cache.stored(key) if way != LIST else cache.stored_list(key)
        except Exception as error:  # noqa: BLE001 - an edge: the long way answers
            self.shared.note_fault("a quick hit", error, command=repr(data[:2000]))
            self.heads.clear()
            return None
        if body is None:
            return None
        plain = head.__class__ is bytes
        if not plain and len(body) <= self._end:
            return None
        if way == BY_BYTES and alone and plain:
            self._heat(data, cache, head)
        last_hit = self.last_hit
        last_hit.command = data
        last_hit.rows = body if len(body) <= MOST_FOUND else b""
        self.quick_cache = cache
        self.quick_moment = system.moment
        return head + body

    def _heat(self, data: bytes, cache: SessionCache, head: bytes) -> None:
        """The next executions like this one take the shortest way."""
        hot = self.heads.hot
        if len(hot) >= HOT:
            hot.clear()
        last = Struct(f"<{len(data) - 8}xq").unpack
        hot[data[:-8]] = Hot(self._heads_of, last, cache.stored, cache, head)

    def _prepared_key(self, data: bytes) -> Found | None:
        statement = self.statements.get(data[5:9])
        if statement is None:
            return None
        head, target = self.heads.get(statement), statement.target
        if head is None or target is None or target.cache is None or statement.long_data or data[9] & CURSOR:
            return None
        if statement.reals:
            pass  # whether MySQL compares as DOUBLE is for the long way to say
        elif target.plain_int and statement.types == LONGLONG == statement.kinds and data[14:-8] == self._no_types:
            return head, target.cache, int.from_bytes(data[-8:], "little", signed=True), BY_BYTES
        elif target.list_end:
            values = statement.longs(data, target.list_end)
            if values is None:
                return None
            statement.last = data[4:]
            return head, target.cache, (values,), LIST
        known = target.keys.get((statement.types, data[9:]))
        if known is None:
            return None
        key, types, kinds = known
        if kinds != statement.kinds:
            return None
        statement.last, statement.rebound = data[4:], True
        if types != statement.types:
            statement.types = types
            self.heads.hot.clear()
        return head, target.cache, key, PLAIN

    def _text_key(self, data: bytes) -> Found | None:
        if not self.attributes:
            text = data[5:]
        elif data[5:7] == NO_ATTRIBUTES:
            text = data[7:]
        else:
            return None
        entry, values = self.shared.texts.find(text, self.state.database)
        route: Route | None = entry.attached
        head = self.heads.get(route)
        if head is None or route is None or entry.cache is None:
            return None
        cache = route.opened(self.shared.system, entry.cache, binary=False, eof=self.eof)
        if values:
            first = values[0]
            if first.__class__ is int and cache.plain_int:
                return head, cache, first, PLAIN
            if cache.lists and tuple in map(type, values):
                return head, cache, values, LIST
        key = route.keys.get(text)
        if key is None:
            key = route.learn(text, cache, values)
        return None if key is None else (head, cache, key, PLAIN)
