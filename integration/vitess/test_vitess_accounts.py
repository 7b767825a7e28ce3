"""A vtgate that lets only those in whom it knows, by TLS: the proxy and its clients as accounts of it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pymysql
import pytest

from external_upquery.address import parse_upstream
from integration.support.certificates import certificate
from integration.support.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import proxy_before
from integration.vitess.shop import SHARDED
from proxy.source.vitess_doctor import check
from sqltypes.errors import SourceDown, SourceError, UpwellError
from sqltypes.source_checks import Severity

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it

PASSWORDS = {"app": "pa:ss/w@rd #1", "sql_only": "s", "letters": "grün"}
"""`sql_only` is no account of gRPC's, and `letters` cannot be one: gRPC takes ASCII only."""


@dataclass(frozen=True)
class Guarded:
    """A vtgate that asks for accounts and TLS at both ports. `ca`: the certificate that vouches for it."""

    sql: int
    grpc: int
    ca: Path

    def address(self, user: str = "app", password: str | None = None, options: str | None = None) -> str:
        known = quote(PASSWORDS[user] if password is None else password, safe="")
        how = f"tls=verify&ca={self.ca}" if options is None else options
        return f"vitess://{user}:{known}@127.0.0.1:{self.sql}/{SHARDED}?grpc=127.0.0.1:{self.grpc}&{how}"


@pytest.fixture(scope="module")
def guarded(vitess: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = vitess.root / "guarded"  # vtgate may be another account's
    folder.mkdir()
    cert, key = certificate(folder)
    key.chmod(0o644)
    of_sql = folder / "sql.json"
    of_sql.write_text(json.dumps({user: [{"Password": known}] for user, known in PASSWORDS.items()}))
    of_grpc = folder / "grpc.json"
    of_grpc.write_text(json.dumps([{"Username": "app", "Password": PASSWORDS["app"]}]))
    with vitess.another_vtgate(
        *("--mysql-auth-server-impl", "static", "--mysql-auth-server-static-file", str(of_sql)),
        *("--mysql-server-ssl-cert", str(cert), "--mysql-server-ssl-key", str(key)),
        "--mysql-server-require-secure-transport",
        *("--grpc-cert", str(cert), "--grpc-key", str(key)),
        *("--grpc-auth-mode", "static", "--grpc-auth-static-password-file", str(of_grpc)),
    ) as (sql, grpc):
        ca = tmp_path_factory.mktemp("ca") / "ca.pem"
        shutil.copy(cert, ca)
        yield Guarded(sql, grpc, ca)


def test_a_proxy_and_its_clients_are_let_in(vitess: Cluster, guarded: Guarded, tmp_path: Path) -> None:
    assert {one.severity for one in check(parse_upstream(guarded.address()))} == {Severity.OK}
    vitess.execute(SHARDED, "DELETE FROM item", "INSERT INTO item VALUES (1, 10, 'one')")

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path, upstream=guarded.address()) as proxy:
            await proxy.client.create_cache("SELECT n FROM item WHERE id = ?", name="by_id")
            cache = proxy.client.cache("by_id")
            assert list(await cache.get(1)) == [(10,)]
            assert (await cache.get(1)).served == "hit"
            await proxy.write("UPDATE item SET n = 11")
            assert list(await cache.get(1)) == [(11,)]

            def asked() -> None:
                for user in ("app", "sql_only"):
                    with closing(proxy.session(user=user, password=PASSWORDS[user])) as session:
                        cursor = session.cursor()
                        for _ in range(2):
                            cursor.execute("SELECT n FROM item WHERE id = 1")
                            assert cursor.fetchall() == ((11,),)
                        cursor.execute("EXPLAIN LAST STATEMENT")
                        assert cursor.fetchall()[0][0] == "hit"
                with pytest.raises(pymysql.err.OperationalError, match="Access denied") as refused:
                    proxy.session(user="app", password="another")
                assert refused.value.args[0] == 1045

            await asyncio.to_thread(asked)

    run(scenario)


def test_an_account_that_grpc_cannot_send_is_no_harm_where_it_asks_for_none(vitess: Cluster) -> None:
    url = (
        f"vitess://letters:{quote(PASSWORDS['letters'])}@127.0.0.1:{vitess.sql}/{SHARDED}?grpc=127.0.0.1:{vitess.grpc}"
    )
    assert {one.severity for one in check(parse_upstream(url))} == {Severity.OK}


REFUSED: dict[str, tuple[dict[str, str], type[UpwellError], str]] = {
    "another password": ({"password": "another"}, SourceDown, "Access denied"),
    "no account of gRPC's": ({"user": "sql_only"}, SourceError, "does not let its changes be read"),
    "a password that gRPC cannot send": ({"user": "letters"}, SourceError, "not sent: gRPC takes printable ASCII only"),
    "no TLS": ({"options": "tls=disabled"}, SourceDown, "client must use SSL/TLS"),
    "nobody vouches for it": ({"options": "tls=verify"}, SourceDown, "certificate"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_who_is_not_let_in_is_told_so(vitess: Cluster, guarded: Guarded, tmp_path: Path, why: str) -> None:
    given, error, said = REFUSED[why]
    url = guarded.address(**given)

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path, upstream=url):
            raise AssertionError("it runs")

    with pytest.raises(error) as raised:
        run(scenario)
    assert said in raised.value.message and "\n" not in raised.value.message
    try:
        found = [one for one in check(parse_upstream(url)) if one.severity is Severity.ERROR]
    except error as of_doctor:
        assert said in of_doctor.message and "\n" not in of_doctor.message
    else:
        assert [one.name for one in found] == ["stream"] and said in found[0].seen and found[0].needed
