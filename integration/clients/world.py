"""What the clients' programs meet: a proxy, and users, databases and rows, which are made directly on MySQL."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from examples.lobsters.proxy_process import ProxyFailed, ProxyProcess
from integration.clients.addresses import Address
from integration.servers.mysql_server import Server

DATA = Path(__file__).with_name("data.sql")
MAY_READ = "SELECT, EXECUTE, SHOW VIEW, LOCK TABLES, TRIGGER, EVENT"


def statements_of(script: str) -> Iterator[str]:
    """The statements of `script`: they end with a semicolon and an empty line, or are followed by another's start."""
    for block in re.split(r"\n\n+", re.sub(r"^--.*$", "", script, flags=re.MULTILINE).strip()):
        if "\nBEGIN\n" in block:
            yield block
        else:
            yield from (text for text in re.split(r";\s*(?:\n|$)", block) if text.strip())


@contextlib.contextmanager
def upwell_beside(server: Server, folder: Path, *options: str) -> Iterator[int]:
    """The port on 127.0.0.1 where a proxy of `server` speaks MySQL's protocol: a process of its own, as in use."""
    with proxy_beside(server, folder, *options) as proxy:
        yield proxy.mysql_port


@contextlib.contextmanager
def proxy_beside(server: Server, folder: Path, *options: str) -> Iterator[ProxyProcess]:
    """The process of `upwell_beside`, which is ready."""
    with contextlib.ExitStack() as running:
        for tries_left in (2, 1, 0):  # somebody may take a free port before the proxy does
            started = ProxyProcess(server.url, folder, options=options, grpc_port=0, http_port=0, mysql_port=0)
            proxy = running.enter_context(started)
            try:
                proxy.wait_ready().close()
            except ProxyFailed:
                if not tries_left:
                    raise
            else:
                break
        yield proxy


def make_data(server: Server, data: str) -> None:
    """The database that is only read."""
    server.execute(
        f"DROP DATABASE IF EXISTS `{data}`",
        f"CREATE DATABASE `{data}` CHARACTER SET utf8mb4",
        f"USE `{data}`",
        *statements_of(DATA.read_text()),
    )


def make_users_and_work(server: Server, address: Address) -> None:
    """An empty database to work in, and users whom MySQL has never seen, so that each login is a full one at first."""
    remove_users_and_work(server, address)
    server.execute(
        f"CREATE DATABASE `{address.database}` CHARACTER SET utf8mb4",
        f"CREATE USER '{address.user}'@'%' IDENTIFIED BY '{quoted(address.password)}'",
        f"CREATE USER '{address.guest}'@'%' IDENTIFIED BY '{quoted(address.guest_password)}'",
        f"GRANT ALL ON `{address.database}`.* TO '{address.user}'@'%'",
        f"GRANT {MAY_READ} ON `{address.data}`.* TO '{address.user}'@'%'",
        f"GRANT SHOW_ROUTINE ON *.* TO '{address.user}'@'%'",  # for mysqldump, which dumps other users' procedures
        f"GRANT SELECT ON `{address.data}`.* TO '{address.guest}'@'%'",
    )


def remove_users_and_work(server: Server, address: Address) -> None:
    server.execute(
        f"DROP DATABASE IF EXISTS `{address.database}`",
        f"DROP USER IF EXISTS '{address.user}'@'%', '{address.guest}'@'%'",
    )


def quoted(password: str) -> str:
    return password.replace("'", "''")
