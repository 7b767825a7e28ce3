"""SIGHUP: the configuration and the certificates are read anew, and nothing ends."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pymysql
import pytest

from integration.servers.mysql_server import Server
from integration.support.certificates import certificate
from integration.support.proxy_process import Serving, serving
from tests.support.waiting import until
from upwell.client import Client
from upwell.errors import UpwellError

TABLE = "CREATE TABLE stories (id BIGINT PRIMARY KEY, title VARCHAR(100))"
CACHE = """
[[cache]]
name = "{}"
sql = "SELECT title FROM stories WHERE id = ?"
database = "{}"
"""


def logged(served: Serving, event: str) -> list[dict[str, object]]:
    return [line for text in served.log if (line := json.loads(text))["event"] == event]


def hang_up(served: Serving, event: str) -> dict[str, object]:
    """SIGHUP; the line that says what came of it."""
    before = len(logged(served, event))
    served.process.send_signal(signal.SIGHUP)
    asyncio.run(until(lambda: len(logged(served, event)) > before, 60))
    assert served.process.poll() is None
    return logged(served, event)[-1]


@contextmanager
def minding_hang_ups() -> Iterator[None]:
    """Also where the tests run under nohup: what is ignored is inherited."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def shown_by_mysql(served: Serving, authority: Path) -> bool:
    """Whether the listener shows the certificate."""
    try:
        pymysql.connect(host="127.0.0.1", port=served.port, user="root", ssl={"ca": str(authority)}).close()
    except pymysql.OperationalError as error:
        assert "CERTIFICATE_VERIFY_FAILED" in str(error), error
        return False
    return True


def shown_by_grpc(served: Serving, authority: Path, token: str) -> bool:
    with Client(served.grpc, token=token, tls=authority.read_bytes(), timeout=20) as client:
        try:
            client.status()
        except UpwellError as error:
            assert "CERTIFICATE_VERIFY_FAILED" in str(error) or "TLS" in str(error), error
            return False
    return True


def test_configuration_and_certificates_are_read_anew(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(f"USE `{database}`", TABLE, "INSERT INTO stories VALUES (1, 'one')")
    folders = [tmp_path / name for name in ("used", "first", "second")]
    for folder in folders:
        folder.mkdir()
    used, first, second = folders
    old, new = (certificate(folder)[0] for folder in (first, second))

    def use(folder: Path) -> None:
        for name in ("cert.pem", "key.pem"):
            (used / name).write_bytes((folder / name).read_bytes())

    use(first)
    token = tmp_path / "token"
    token.write_text("secret\n")
    settings = tmp_path / "upwell.toml"
    files = f'"{used}/cert.pem"', f'"{used}/key.pem"'
    base = (
        f'grpc-tls-cert = {files[0]}\ngrpc-tls-key = {files[1]}\ngrpc-token-file = "{token}"\n'
        f"mysql-tls-cert = {files[0]}\nmysql-tls-key = {files[1]}\n"
    )
    settings.write_text(base + CACHE.format("story", database))
    judges: tuple[Callable[[Serving, Path], bool], ...] = (
        shown_by_mysql,
        lambda served, authority: shown_by_grpc(served, authority, "secret"),
    )
    with ExitStack() as stack:
        with minding_hang_ups():
            served = stack.enter_context(serving(mysql, database, tmp_path / "state", f"--config={settings}"))
        kept = stack.enter_context(served.client())
        assert all(shown(served, old) and not shown(served, new) for shown in judges)
        with Client(served.grpc, token="secret", timeout=20) as plain, pytest.raises(UpwellError, match="--tls"):
            plain.status()

        use(second)
        caches = "".join(CACHE.format(name, database) for name in ("story", "other"))
        settings.write_text(f"max-staleness = '77s'\nupquery-connections = 3\n{base}{caches}")
        told = hang_up(served, "configuration_read")
        assert told["changed"] == ["caches", "max-staleness", "grpc-tls-cert", "grpc-tls-key"]
        assert logged(served, "settings_need_a_restart")[-1]["settings"] == ["upquery-connections"]
        assert all(shown(served, new) and not shown(served, old) for shown in judges)

        for bad, why in (
            (lambda: settings.write_text("max-stalenes = '1s'\n"), "'max-stalenes' is not known"),
            (lambda: settings.write_text(base + "memory-limit = 'much'\n"), "'much'"),
            (
                lambda: (settings.write_text(base), (used / "key.pem").write_bytes((first / "key.pem").read_bytes())),
                "TLS",
            ),
            (lambda: (used / "cert.pem").unlink(), "cert.pem"),
        ):
            bad()
            assert why in str(hang_up(served, "configuration_not_read")["why"])
            assert all(shown(served, new) for shown in judges), "as it was"
        assert b"one" in kept.query(f"SELECT title FROM `{database}`.stories WHERE id = 1"), "the session goes on"
        with Client(served.grpc, token="secret", tls=new.read_bytes()) as client:
            assert sorted(cache.name for cache in client.caches()) == ["other", "story"]
