"""The quick path of a hit: from a command's bytes to the answer's without a task, a parse or an object per row.

It is taken by reads of a kind (a prepared statement, or texts that differ in their literals only) of which the session
has been given a hit the long way (`cached_reads.py`), since anything was passed through, asked or changed that the long
way looks at. Then only the key and its bytes are to be found. Still quicker are executions that differ in one integer,
their last 8 bytes: they are answered where the socket's bytes arrive.

 what happens                                              | `kinds`    | `hot`
-----------------------------------------------------------+------------+--------------------------------------------
 a hit the long way, where no other read of the kind       | and its    | emptied
 could be another answer for what the session is like      | kind       |
 a quick hit by an execution's last 8 bytes, alone in what | kept       | and its kind; of more than 100 only that one
 was received, in no transaction                           |            |
 another quick hit                                         | kept       | kept; emptied where types change, or where it
                                                           |            | was not alone
 BEGIN and COMMIT, once they were answered here (`bounds`) | kept       | emptied
 another command                                           | kept       | emptied
 one that MySQL answers or is asked for, the session's end | emptied    | emptied
 a task of which MySQL hears nothing in the session: a miss | set aside, | emptied
                                                           | put back   |
 the client's socket takes no more, or takes more again    | kept       | emptied
 caches, accounts or rights change                         | emptied when the next command is looked at
 a fault on this path, rights that lapse                   | emptied    | emptied
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, NamedTuple

from planner.text.clock import MAY_HAVE
from proxy.mysql.reads.bound_types import CURSOR, LONGLONG
from proxy.mysql.reads.gate import COMMITTED, MOST_LOOKED_AT, SERIALIZABLE
from proxy.mysql.reads.last_hit import MOST_FOUND
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.reads.routes import Target
from proxy.mysql.reads.shown import ShownKind
from proxy.mysql.session.known_texts import Looked
from proxy.mysql.session.own_transactions import LONGEST, Bounds
from proxy.mysql.session.session_context import SessionContext
from proxy.mysql.wire.packets import COM_QUERY, COM_STMT_EXECUTE, PLAIN_STATUS
from proxy.mysql.wire.rows import end_size, joined
from proxy.port.api import Lookup, ParameterValue
from proxy.port.session import SessionCache
from proxy.read.together import Several
from proxy.settings.quantities import Transactions
from sqltypes.expression import Value

# What stands before the value of an execution's only parameter whose type was sent before, with and without
# CLIENT_QUERY_ATTRIBUTES: how many parameters there are, which are NULL, that no types follow.
NO_TYPES = {False: b"\0\0", True: b"\1\0\0"}
HOT = 100  # kinds of execution of one session; clients choose their bytes
NO_ATTRIBUTES = b"\0\1"

PLAIN, BY_BYTES, LIST = 0, 1, 2
OFF, STRICT = Transactions.OFF, Transactions.STRICT

Bound = tuple[PreparedStatement, object, tuple[Value, ...]]
Found = tuple[bytes, SessionCache, Any, int, Sequence[ParameterValue], bytes, Bound | None, bool]
"""What a command asks for: what stands before the rows; the cache; the key; whether that is the command's last 8 bytes,
or not a key but the parameters, lists among them; the values of the cache's parameters; the text as it was sent;
what is bound to it, as in `QuickHit`; whether it is a text with functions of the clock. A plain tuple: one is made for
each hit."""


class Hot(NamedTuple):
    """Executions that differ in one integer, their last 8 bytes. `version`: of caches and accounts, as of which the
    rest is. `key`: takes the integer out of a packet."""

    version: int
    key: Callable[[bytes], tuple[Any, ...]]
    stored: Lookup
    cache: SessionCache
    head: bytes


class HeadOfRows(bytes):
    """A head that stands before rows only: an answer without any has another one."""


class QuickPath:
    """What is at hand of one session's hits.

    Invariants:
    1. A kind is in `kinds`, with what stands before the rows of its answers, only while the session is `calm`, may
       read the cache, and nothing has gone to MySQL since that it answers.
    2. What is in `hot`, by the bytes before the integer, is what `answer` would find for the same bytes, had nothing
       changed in the system. There is something only outside of transactions.
    """

    def __init__(self, context: SessionContext, bounds: Bounds) -> None:
        self.kinds: dict[object, bytes] = {}
        self._aside: dict[object, bytes] = {}  # `kinds` of before what is under way
        self.hot: dict[bytes, Hot] = {}
        self._shown_kinds: dict[object, ShownKind] = {}  # of `kinds`, of those that a transaction was given
        # What was found out about the last text that was none of a kind at hand: the long way begins with it.
        self.looked: tuple[bytes, Looked] | None = None
        self._context = context
        self._shared = context.shared
        self._state = context.state
        self._transaction = context.state.transaction
        self._variables = context.state.variables
        self._statements = context.statements
        self._last_hit = context.last_hit
        self._no_types = NO_TYPES[context.attributes]
        self._end = end_size(eof=context.eof)  # of an answer without rows
        self.bounds = bounds
        self._version = -1  # of caches and accounts, as of which `kinds` is

    def remember(self, kind: object, head: bytes) -> None:
        """The session was given a hit of this kind, and the next one may be given at once."""
        self.kinds[kind] = head

    def cool(self) -> None:
        """A command does not take this path, or the client's socket takes no answer."""
        self.hot.clear()

    def close(self) -> None:
        """Something is under way: nothing is answered from here meanwhile."""
        self.hot.clear()
        if self.kinds:
            self._aside, self.kinds = self.kinds, {}

    def reopen(self, *, unheard: bool) -> None:
        """It has ended. `unheard`: MySQL was sent nothing for it, so that what was at hand holds, where the session is
        still such."""
        if unheard and self._aside and self._state.calm:
            self.kinds = {**self._aside, **self.kinds}
        if not unheard:
            self._shown_kinds.clear()
            if self.bounds.at_hand:
                self.bounds.forget()
        self._aside = {}

    def invalidate(self) -> None:
        """Nothing is at hand any more: what was may not hold behind what comes."""
        self.kinds.clear()
        self._aside = {}
        self._shown_kinds.clear()
        self.hot.clear()
        self.bounds.forget()

    def receiver(self, write: Callable[[bytes], None], long_way: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """What takes the client's bytes. A function, not a method, and no call between the socket and the cache: half
        of a hit's own time."""
        changes, position, find = self._shared.system.changes, self._shared.position, self.hot.get
        last_hit = self._last_hit

        def received(data: bytes) -> None:
            hot = find(data[:-8])
            if hot is not None:
                version, key, stored, cache, head = hot
                if version == changes.count and (body := stored(*key(data))) is not None:
                    last_hit.command = data
                    last_hit.rows = body if len(body) <= MOST_FOUND else b""
                    last_hit.cache = cache
                    last_hit.moment = position.moment
                    write(head + body)
                    return
            long_way(data)

        return received

    def answer(self, data: bytes, *, alone: bool = False) -> bytes | None:
        """The answer to a read; None: the long way decides. `data`: what was received, one packet if it is quick.
        `alone`: nothing came with it, or waits before it."""
        version = self._shared.system.changes.count
        if version != self._version:
            self.invalidate()
            self._version = version
            return None
        if not self.kinds or int.from_bytes(data[:4], "little") != len(data) - 4:  # its number is 0
            return None
        try:
            bound = self.bounds.at_hand.get(data) if len(data) <= LONGEST else None
            if bound is not None:
                self.hot.clear()
                return self.bounds.answer(data, bound, at_hand=True)
            found = self._find(data)
            if found is None:
                return None
            head, cache, key, way = found[:4]
            body = cache.stored(key) if way != LIST else cache.stored_list(key)
        except Exception as error:  # noqa: BLE001 - an edge: the long way answers
            self._shared.note_fault("a quick hit", error, command=repr(data[:2000]))
            self.invalidate()
            return None
        plain = head.__class__ is bytes
        if body is None or (not plain and len(body) <= self._end):
            return None
        outside = self._variables.outside
        if outside is not None and (len(body) > MOST_LOOKED_AT or outside.search(body) is not None):
            return None
        state = self._transaction
        if state.begun or state.flags != PLAIN_STATUS:
            if (state.begun or state.transactional) and not self._may_follow(found, body):
                return None
            answer = joined(head, body, state.flags | state.begun, eof=self._context.eof)
        else:
            answer = head + body
            if way == BY_BYTES and alone and plain and outside is None:
                self._heat(data, cache, head)
        last_hit = self._last_hit
        last_hit.command = data
        last_hit.rows = body if len(body) <= MOST_FOUND else b""
        last_hit.cache = cache
        last_hit.moment = self._shared.position.moment
        return answer

    def _find(self, data: bytes) -> Found | None:
        if data[4] == COM_STMT_EXECUTE:
            return self._prepared_key(data)
        return self._text_key(data) if data[4] == COM_QUERY else None

    def _may_follow(self, found: Found, body: bytes) -> bool:
        """Whether a read of a transaction may be given what is the answer now, which is noted then."""
        transaction, shown, shared = self._transaction, self._context.shown, self._shared
        if not (transaction.begun or transaction.in_transaction):
            shown.clear()
        isolation = self._variables.values.get("transaction_isolation", "")
        mode = shared.options.transactions
        if mode is OFF or isolation == SERIALIZABLE:
            return False
        if isolation not in COMMITTED or shown.began:
            _, _, _, _, values, text, bound, by_clock = found
            kind = self._kind(found)
            if mode is STRICT or by_clock or kind.by_clock:
                return False
            if not shown.give((kind, values, body, text, bound), shared.position.sequence(), shared.position.text):
                return False
        if not transaction.begun:
            self._state.begin_with_hit()
        return True

    def _kind(self, found: Found) -> ShownKind:
        """What this hit has in common with others that are given while `kinds` holds."""
        head, cache, _, _, _, text, bound, _ = found
        target = None if bound is None else bound[0].target
        kind = self._shown_kinds.get((head, target or cache))
        if kind is not None and kind.generation == cache.generation:
            return kind
        by_clock = bound is not None and MAY_HAVE.search(text) is not None
        self._shown_kinds[head, target or cache] = kind = self._context.shown_kind(
            cache, head, target if isinstance(target, Target) else None, by_clock
        )
        return kind

    def _heat(self, data: bytes, cache: SessionCache, head: bytes) -> None:
        """The next executions like this one take the shortest way."""
        hot = self.hot
        if len(hot) >= HOT:
            hot.clear()
        last = Struct(f"<{len(data) - 8}xq").unpack
        hot[data[:-8]] = Hot(self._version, last, cache.stored, cache, head)

    def _prepared_key(self, data: bytes) -> Found | None:
        statement = self._statements.get(data[5:9])
        if statement is None:
            return None
        head, target = self.kinds.get(statement), statement.target
        if head is None or not isinstance(target, Target) or target.cache is None or data[9] & CURSOR:
            return None
        binding = statement.bound
        if target.plain_int and binding.types == LONGLONG == binding.kinds and data[14:-8] == self._no_types:
            value = int.from_bytes(data[-8:], "little", signed=True)
            return (
                head,
                target.cache,
                value,
                BY_BYTES,
                (value,),
                statement.text,
                (statement, LONGLONG, (value,)),
                False,
            )
        elif target.list_end:
            values = binding.longs(data)
            if values is None:
                return None
            binding.last = data[4:]
            bound: Bound = statement, binding.types, values
            return head, target.cache, (values,), LIST, (values,), statement.text, bound, False
        variables = self._variables
        if (variables.narrow and variables.misreads(data[9:])) or variables.escapes(data, statement.differed):
            return None
        known = target.keys.get((binding.types, data[9:]))
        if known is None or known.kinds != binding.kinds:
            return None
        binding.last, binding.told = data[4:], False
        if known.types != binding.types:
            binding.types = known.types
            self.cool()
        bound = statement, binding.types, known.given
        return head, target.cache, known.key, PLAIN, known.values, statement.text, bound, False

    def _text_key(self, data: bytes) -> Found | None:
        if not self._context.attributes:
            sent = data[5:]
        elif data[5:7] == NO_ATTRIBUTES:
            sent = data[7:]
        else:
            return None
        text = self._filled(sent) if self._variables.narrow or self._variables.marks else sent
        if text is None:
            return None
        quoted, looked = text is not sent, None
        entry, values = self._shared.texts.entries.find(text, self._state.database)
        route = entry.attached
        by_clock = route.by_clock if route is not None else MAY_HAVE.search(sent) is not None
        hinted = self._variables.mode_hint != b"" and route not in self.kinds
        if hinted or by_clock:
            looked = self._shared.texts.find(text, self._state, eof=self._context.eof)
            text, entry, values, route, *_ = looked
        unsure = looked is not None and looked.upto is not None
        head = None if unsure else self.kinds.get(route)
        if head is None or route is None or entry.cache is None or (quoted and route.spelled):
            if route is not None:
                self.looked = data, looked or Looked(text, entry, values, route)
            return None
        eof, clocks = self._context.eof, self._variables.clocks
        cache = route.opened(self._shared.system, entry.cache, binary=False, eof=eof, clocks=clocks)
        if values:
            first = values[0]
            if first.__class__ is int and cache.plain_int:
                return head, cache, first, PLAIN, values, sent, None, by_clock
            if cache.lists and tuple in map(type, values):
                return head, cache, values, LIST, values, sent, None, by_clock
        key = route.keys.get(text)
        if key is None or (key.__class__ is Several and not key.keys):  # what was kept of several was let go
            key = cache.moments.standing(values)
            if key is None:
                key = route.learn(text, cache, values)
        return None if key is None else (head, cache, key, PLAIN, values, sent, None, by_clock)

    def _filled(self, text: bytes) -> bytes | None:
        """A text as sessions that fill caches would be sent it; None where that is not known."""
        return None if self._variables.misreads(text) else self._variables.as_filled(text)

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        assert self.kinds or not self.hot, "a hot execution of a kind that is not at hand"
        assert not self.kinds or self._state.calm, "a kind is at hand, and the session is not calm"
        assert not self.hot or self._state.plain, "a hot execution, and the session is not plain"
