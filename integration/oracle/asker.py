"""MySQL and a proxy beside it, and three sessions: at MySQL, through the proxy, and one that writes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pymysql

from gtid_tracker.gtid import GtidSet
from integration.oracle.answers import Answer, parse
from integration.oracle.settings import USUALLY, Settings
from integration.oracle.trees import Spelled, payload
from integration.oracle.world import LOOSE
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import Ended, RawClient
from integration.support.served import Reads
from proxy.mysql.wire.packets import packet

LOST = 2013  # the connection ended
AT_ONCE = 16  # statements that are sent before the first answer is read
Asked = tuple[str, Sequence[Spelled] | None]  # a text, and what is bound to it
Known = tuple[str | int, ...]  # a statement's text, and the types of its parameters
DISTRUSTED = "was not MySQL's own answer"
LOOKS_IN_VAIN = 3  # that make no cache: then none is to come
LOOK = 60.0  # seconds that a look of automatic caching may take
BOUNDED = ", max_execution_time = 6000"  # milliseconds: joins of many tables may have billions of rows


@dataclass
class Asker:
    """`database` is made anew by `new_database`; its name stays. `automatic`: caches come by themselves."""

    beside: Beside
    database: str
    automatic: bool = False
    sessions: dict[str, RawClient] = field(default_factory=dict)
    prepared: dict[str, dict[Known, int]] = field(default_factory=dict)  # by session: numbers of statements
    took: list[float] = field(default_factory=list)  # seconds that each answer of the last `ask_all` was waited for
    settings: Settings = USUALLY
    spaces: int = 0  # behind the text that was last prepared anew

    def __post_init__(self) -> None:
        self.writer = self.beside.mysql.connect()
        self.run([LOOSE])

    def close(self) -> None:
        self.writer.close()
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()

    # -- writing -------------------------------------------------------------------------------------------------------

    def run(self, statements: Sequence[str]) -> list[str]:
        """Has the writer run them; those that MySQL refused, with its error."""
        refused = []
        with self.writer.cursor() as cursor:
            for statement in statements:
                try:
                    cursor.execute(statement)
                except pymysql.MySQLError as error:
                    refused.append(f"{statement}: {error}")
        return refused

    def new_database(self, settings: Settings = USUALLY) -> None:
        """`settings`: of the sessions that ask from here on."""
        self.settings = settings
        self.run(
            [f"DROP DATABASE IF EXISTS {self.database}", f"CREATE DATABASE {self.database}", f"USE {self.database}"]
        )
        self.beside.call(self.forget_reads)
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()
        self.prepared = {"direct": {}, "through": {}}

    def begin(self, statements: Sequence[str]) -> None:
        """No cache, and a database in which these statements have run."""
        self.drop_caches()
        self.new_database()
        refused = self.run(statements)
        assert not refused, refused
        self.wait()

    def wait(self) -> None:
        """Returns when the proxy has applied all that MySQL has committed."""
        with self.writer.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.gtid_executed")
            wanted = GtidSet.parse(cursor.fetchall()[0][0])
        engine = self.beside.proxy.app.engine
        self.beside.until(lambda: wanted.issubset(engine.state.ring.position.freeze()) and not engine.inserting.waiting)

    # -- caches --------------------------------------------------------------------------------------------------------

    def create_cache(self, name: str, text: str) -> Answer:
        return self.create_caches({name: text})[name]

    def create_caches(self, texts: Mapping[str, str]) -> dict[str, Answer]:
        """By name."""
        statements = [(f"CREATE CACHE {name} FROM {text}", None) for name, text in texts.items()]
        return dict(zip(texts, self.ask_all("through", statements), strict=True))

    def create(self, statement: str) -> Answer:
        return self.ask("through", statement, None)

    def mode(self, name: str) -> str:
        cache = self.beside.proxy.app.catalog.caches.get(name)
        return cache.plan.mode.value if cache is not None and cache.plan is not None else ""

    def cache_by_itself(self) -> int:
        """Has automatic caching look until it makes no more; how many caches there are."""
        app = self.beside.proxy.app
        automatic, caches = app.router.auto_cache, app.catalog.caches
        assert automatic is not None
        in_vain = 0
        while in_vain < LOOKS_IN_VAIN:
            before = len(caches)
            self.beside.until(lambda: not automatic.looking)
            asyncio.run_coroutine_threadsafe(automatic.look(), self.beside.loop).result(LOOK)
            in_vain = 0 if len(caches) > before else in_vain + 1
        return len(caches)

    def forget_reads(self) -> None:
        """What was read before does not count for automatic caching."""
        for entry in self.beside.proxy.app.router.proxied:
            entry.recent, entry.marked = 0.0, entry.count

    def drop_caches(self) -> None:
        for name in list(self.beside.proxy.app.catalog.caches):
            self.session("through").query(f"DROP CACHE {name}")

    def settled(self) -> None:
        """Returns when no cache is being rebuilt."""
        caches = self.beside.proxy.app.catalog.caches
        self.beside.until(lambda: all(cache.state != "rebuilding" for cache in caches.values()))

    # -- asking --------------------------------------------------------------------------------------------------------

    def session(self, name: str) -> RawClient:
        found = self.sessions.get(name)
        if found is None:
            with self._packet():
                make = self.beside.direct if name == "direct" else self.beside.client
                found = self.sessions[name] = make(database=self.database)
            found.query(self.settings.text + BOUNDED if name == "direct" else self.settings.text)
            self.prepared[name] = {}
        found.transcript.clear()
        return found

    @contextmanager
    def _packet(self) -> Iterator[None]:
        """Who logs in meanwhile has the max_allowed_packet of the settings."""
        if not self.settings.packet:
            yield
            return
        with self.writer.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.max_allowed_packet")
            (before,) = cursor.fetchall()[0]
            cursor.execute(f"SET GLOBAL max_allowed_packet = {self.settings.packet}")
            try:
                yield
            finally:
                cursor.execute(f"SET GLOBAL max_allowed_packet = {before}")

    def ask(self, name: str, text: str, values: Sequence[Spelled] | None) -> Answer:
        """`values` None: as a text. An ended connection is an answer, too, with the error that drivers have for it."""
        return self.ask_all(name, [(text, values)])[0]

    def with_own_tables(self, text: str, values: Sequence[Spelled] | None) -> tuple[Answer, Answer]:
        """What MySQL says to both, each of whom opens the tables: with one MySQL keeps settings of who has opened it,
        by which it computes VIRTUAL columns."""
        found = []
        for name in ("direct", "through"):
            self.run(["FLUSH TABLES"])
            self.wait()
            found.append(self.ask(name, text, values))
        return found[0], found[1]

    def anew(self, text: str) -> str:
        """The same text as a statement that was not prepared before: what MySQL makes of a value may depend on the
        executions before (CONVERT of a UTF-16 column within MAX)."""
        self.spaces += 1
        return text + " " * self.spaces

    def ask_all(self, name: str, asked: Sequence[Asked]) -> list[Answer]:
        """Sent at once, some at a time, and answered in their order."""
        answers: list[Answer] = []
        self.took.clear()
        for at in range(0, len(asked), AT_ONCE):
            answers += self._ask_some(name, asked[at : at + AT_ONCE])
        return answers

    def _ask_some(self, name: str, asked: Sequence[Asked]) -> list[Answer]:
        try:
            commands = [self._command(name, text, values) for text, values in asked]
            session = self.session(name)
            session.write(b"".join(packet(command, 0) for command in commands if isinstance(command, bytes)))
            answers: list[Answer] = []
            for command, (_, values) in zip(commands, asked, strict=True):
                begun = monotonic()
                binary = values is not None
                answers.append(parse(session.result(), binary=binary) if isinstance(command, bytes) else command)
                self.took.append(monotonic() - begun)
            return answers
        except (Ended, OSError) as error:
            ended = self.sessions.pop(name, None)
            if ended is not None:
                ended.close()
            return [Answer(False, LOST, f"the connection ended: {error}")] * len(asked)

    def _command(self, name: str, text: str, values: Sequence[Spelled] | None) -> bytes | Answer:
        """What is sent, or MySQL's error where the statement cannot be prepared."""
        session = self.session(name)
        if values is None:
            return session.text(text)
        # MySQL goes on comparing by the types that a statement was first executed with.
        known: Known = (text, *(value.type for value in values))
        number = self.prepared[name].get(known)
        if number is None:
            statement = session.prepare(text)
            if statement.error:
                return parse(session.transcript[-1][1], binary=True)
            number = self.prepared[name][known] = statement.id
        return session.execution(number, payload(values))

    def close_statements(self) -> None:
        for name, numbers in self.prepared.items():
            if name in self.sessions:
                for number in numbers.values():
                    self.sessions[name].close_statement(number)
            numbers.clear()

    def distrusted(self) -> dict[str, str]:
        """Why, by the name of a cache whose checks have found a difference."""
        caches = self.beside.proxy.app.catalog.caches
        return {name: cache.why for name, cache in list(caches.items()) if DISTRUSTED in cache.why}

    def until_hit(self, text: str, values: Sequence[Spelled] | None = None) -> None:
        """Reads through the proxy until a read is a hit (`integration/support/served.py`)."""
        reads = Reads("hit")
        while True:
            self.ask("through", text, values)
            if reads.done(" ".join(self.served())):
                return

    def served(self) -> tuple[str, str]:
        """How the last statement through the proxy was answered (hit, miss, passed), and why."""
        for session in list(self.beside.shared.sessions):
            last = session.context.last_statement
            if last is not None:
                return last.served, last.reason
        return "", ""


@contextmanager
def asker_beside(server: Server, database: str, state: Path, **options: str) -> Iterator[Asker]:
    """`options`: settings of the proxy."""
    with proxy_in_thread(server, "", state, check="false", **options) as beside:
        server.execute(f"CREATE DATABASE IF NOT EXISTS {database}")
        asker = Asker(beside, database, options.get("auto_cache") == "on")
        try:
            yield asker
        finally:
            asker.close()
            beside.at_rest()
            server.execute(f"DROP DATABASE IF EXISTS {database}")
