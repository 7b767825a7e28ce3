"""Who is answered by a cache is who MySQL would answer: sessions of one account may differ in their rights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic

import pytest

from integration.protocol.test_hits_same_bytes import comparable
from integration.servers.mysql_server import Server
from integration.support.grpc_app import held_back
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient

READ = "SELECT id, name FROM item WHERE id = 1"
USER, ROLE = f"u{os.getpid()}_rights", f"r{os.getpid()}_rights"


@pytest.fixture
def beside(mysql: Server, database: str, tmp_path: Path) -> Iterator[Beside]:
    mysql.execute(
        f"USE `{database}`",
        "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(20))",
        "INSERT INTO item VALUES (1, 'one')",
        f"CREATE USER {USER}",
        f"CREATE ROLE {ROLE}",
        f"GRANT INSERT ON `{database}`.* TO {USER}",  # who has no right in a database may not log in to it
    )
    try:
        with proxy_in_thread(mysql, database, tmp_path) as found:
            with found.client() as client:
                assert client.query("CREATE CACHE FROM SELECT id, name FROM item WHERE id = ?")[4] == 0
                for _ in range(2):
                    client.query(READ)
            yield found
    finally:
        mysql.execute(f"DROP USER {USER}", f"DROP ROLE {ROLE}")


@contextmanager
def held(beside: Beside) -> Iterator[None]:
    """The stream brings nothing meanwhile."""
    holding = held_back(beside.proxy)
    beside.call(holding.__enter__)
    try:
        yield
    finally:
        beside.call(lambda: holding.__exit__(None, None, None))


class Pair:
    """A session through the proxy, and one of the same account that did the same at MySQL."""

    def __init__(self, stack: ExitStack, beside: Beside) -> None:
        self.direct: RawClient = stack.enter_context(beside.direct(user=USER))
        self.client: RawClient = stack.enter_context(beside.client(user=USER))

    def ask(self, sql: str) -> None:
        assert self.client.query(sql)[4] == self.direct.query(sql)[4] == 0

    def reads(self) -> bool:
        """Whether it may read. Fails where the two differ."""
        wanted = self.direct.query(READ)
        for _ in range(2):
            assert comparable(self.client, self.client.query(READ)) == comparable(self.direct, wanted)
        return wanted[4] != 0xFF


RIGHTS = {
    "global": ("GRANT SELECT ON *.* TO {user}", "REVOKE SELECT ON *.* FROM {user}"),
    "database": ("GRANT SELECT ON `{db}`.* TO {user}", "REVOKE SELECT ON `{db}`.* FROM {user}"),
    "table": ("GRANT SELECT ON `{db}`.item TO {user}", "REVOKE SELECT ON `{db}`.item FROM {user}"),
    "role": ("GRANT {role} TO {user}", "REVOKE {role} FROM {user}"),
}


def granted(beside: Beside, kind: str) -> str:
    """Gives the user a right of this kind; the statement that takes it away."""
    grant, revoke = RIGHTS[kind]
    names = {"user": USER, "db": beside.proxy.database, "role": ROLE}
    beside.mysql.execute(
        f"GRANT SELECT ON `{beside.proxy.database}`.* TO {ROLE}",
        grant.format(**names),
        f"SET DEFAULT ROLE ALL TO {USER}",
    )
    beside.caught_up()
    return revoke.format(**names)


@pytest.mark.parametrize("kind", list(RIGHTS))
def test_sessions_that_were_there_before_a_revoke_do_not_speak_for_others(beside: Beside, kind: str) -> None:
    revoke = granted(beside, kind)
    with ExitStack() as stack:
        old, used, set_ = (Pair(stack, beside) for _ in range(3))
        assert old.reads() and used.reads() and set_.reads()
        beside.mysql.execute(revoke)
        beside.caught_up()
        new = Pair(stack, beside)
        used.ask(f"USE `{beside.proxy.database}`")
        set_.ask("SET ROLE DEFAULT")
        for _ in range(2):
            for pair in (old, used, set_):
                pair.reads()
            assert not new.reads()


@pytest.mark.parametrize("kind", ["global", "database", "role"])
def test_rights_that_were_read_before_the_stream_has_brought_their_change(beside: Beside, kind: str) -> None:
    """Those of a session may be from before the change or from behind it: who is sure to be older does not speak for
    it."""
    revoke = granted(beside, kind)
    with ExitStack() as stack:
        old, used, set_ = (Pair(stack, beside) for _ in range(3))
        assert old.reads() and used.reads() and set_.reads()
        with held(beside):
            beside.mysql.execute(revoke)
            new = Pair(stack, beside)
            used.ask(f"USE `{beside.proxy.database}`")
            set_.ask("SET ROLE DEFAULT")
        beside.caught_up()
        for _ in range(2):
            for pair in (old, used, set_, new):
                pair.reads()
        assert not new.reads()


def test_a_mandatory_role_that_is_taken_away_is_taken_from_hits_too(
    mysql: Server, database: str, beside: Beside
) -> None:
    """No binlog tells of it."""
    mysql.execute(f"GRANT SELECT ON `{database}`.* TO {ROLE}", f"SET GLOBAL mandatory_roles = '{ROLE}'")
    try:
        with ExitStack() as stack:
            pair = Pair(stack, beside)
            pair.ask("SET ROLE ALL")
            assert pair.reads()
            mysql.execute("SET GLOBAL mandatory_roles = ''")
            deadline = monotonic() + 30
            allowed = pair.direct.query(READ)[4] != 0xFF
            while (pair.client.query(READ)[4] != 0xFF) != allowed:
                assert monotonic() < deadline
            assert pair.reads() == allowed
            assert not Pair(stack, beside).reads()
    finally:
        mysql.execute("SET GLOBAL mandatory_roles = ''")
