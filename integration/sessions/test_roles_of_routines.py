"""A stored routine may change the session's roles, or have MySQL read their rights anew, and no tracker tells of it:
what is read behind it is what MySQL lets the session read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.protocol.test_hits_same_bytes import KINDS, comparable
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import CLIENT_MULTI_STATEMENTS, ERR

BY_ID = "SELECT id, n FROM item WHERE id = 1"
USER, ROLE = "of_routines", "role_of_routines"
WAYS = {
    "a procedure": "CALL {}_role()",
    "a function": "SELECT {}_role_of()",
    "one that is named as a type": "SELECT roles_of_routines.datetime('{}') path",
    "in SET": "SET @x = {}_role_of()",
    "in DO": "DO {}_role_of()",
    "in a write": "INSERT INTO other VALUES ({}_role_of())",
    "in a write that selects": "INSERT INTO other SELECT HIGH_PRIORITY {}_role_of()",
    "of what is written": "INSERT INTO other VALUES (1), (1) ON DUPLICATE KEY UPDATE id = {}_role_for(VALUES(id))",
    "a write that fails": "INSERT INTO other VALUES ({}_role_of()), (1), (1)",
    "behind another": "SELECT 1; CALL {}_role()",
    "prepared by SQL": "EXECUTE {}",
}


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    statements = [
        "CREATE TABLE item (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "INSERT INTO item VALUES (1, 10)",
        f"CREATE ROLE {ROLE}",
        f"CREATE USER {USER}",
    ]
    for name, roles in (("no", "NONE"), ("this", ROLE)):
        statements += [
            f"CREATE PROCEDURE {name}_role() SQL SECURITY INVOKER SET ROLE {roles}",
            f"CREATE FUNCTION {name}_role_of() RETURNS INT DETERMINISTIC SQL SECURITY INVOKER"
            f" BEGIN SET ROLE {roles}; RETURN 1; END",
            f"CREATE FUNCTION {name}_role_for(id INT) RETURNS INT DETERMINISTIC SQL SECURITY INVOKER"
            f" BEGIN SET ROLE {roles}; RETURN id + 1; END",
        ]
    statements.append(
        "CREATE FUNCTION datetime(which VARCHAR(9)) RETURNS INT DETERMINISTIC SQL SECURITY INVOKER"
        f" BEGIN IF which = 'no' THEN SET ROLE NONE; ELSE SET ROLE {ROLE}; END IF; RETURN 1; END"
    )
    (before,) = mysql.execute("SELECT @@log_bin_trust_function_creators")
    mysql.execute("SET GLOBAL log_bin_trust_function_creators = ON")
    state = Path(tmp_path_factory.mktemp("state"))
    try:
        with beside_database(mysql, "roles_of_routines", state, *statements) as found:
            with found.client() as client:
                assert client.query(f"CREATE CACHE FROM {BY_ID[:-1]}?")[4] != ERR
            yield found
    finally:
        mysql.execute(
            f"DROP USER {USER}", f"DROP ROLE {ROLE}", f"SET GLOBAL log_bin_trust_function_creators = {before[0]}"
        )


@pytest.fixture(autouse=True)
def granted(beside: Beside) -> None:
    database = beside.proxy.database
    beside.mysql.execute(
        f"GRANT SELECT ON {database}.item TO {ROLE}", f"GRANT {ROLE} TO {USER}", f"SET DEFAULT ROLE ALL TO {USER}",
        f"GRANT EXECUTE ON {database}.* TO {USER}", f"GRANT SELECT, INSERT, UPDATE ON {database}.other TO {USER}",
        f"DELETE FROM {database}.other",
    )  # fmt: skip
    beside.caught_up()


def answers(clients: tuple[RawClient, RawClient]) -> list[object]:
    return [comparable(client, client.query(BY_ID)) for client in clients]


def pair(beside: Beside, kind: str) -> tuple[RawClient, RawClient]:
    options = {"user": USER, "capabilities": KINDS[kind] | CLIENT_MULTI_STATEMENTS}
    return beside.direct(**options), beside.client(**options)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("way", list(WAYS))
def test_a_role_that_is_laid_down(beside: Beside, way: str, kind: str) -> None:
    clients = pair(beside, kind)
    for client in clients:
        client.query("PREPARE no FROM 'CALL no_role()'")
    read_until_hit(beside, clients[1], clients[1].query, BY_ID)
    for client in clients:
        client.query(WAYS[way].format("no"))
        beside.mysql.execute(f"DELETE FROM {beside.proxy.database}.other")
    direct, through = answers(clients)
    assert direct == through, last_served(beside, clients[1])
    assert b"denied" in str(direct).encode()
    for client in clients:
        client.close()


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("way", list(WAYS))
def test_rights_of_a_role_that_are_read_anew(beside: Beside, way: str, kind: str) -> None:
    """Sessions that have had the role before go on reading what it may read no more; one that has taken it anew does
    not, though it has the same roles."""
    database = beside.proxy.database
    beside.mysql.execute(
        f"REVOKE SELECT ON {database}.item FROM {ROLE}", f"GRANT SELECT, INSERT, EXECUTE ON {database}.* TO {ROLE}"
    )
    beside.caught_up()
    clients, older = pair(beside, kind), pair(beside, kind)
    for client in clients:
        client.query("PREPARE this FROM 'CALL this_role()'")
    for _, reader in (clients, older):
        read_until_hit(beside, reader, reader.query, BY_ID)
    beside.mysql.execute(f"REVOKE SELECT ON {database}.* FROM {ROLE}")
    beside.caught_up()
    for client in clients:
        client.query(WAYS[way].format("this"))
        beside.mysql.execute(f"DELETE FROM {database}.other")
    for each in (older, clients, older, clients):
        direct, through = answers(each)
        assert direct == through, (each is older, last_served(beside, each[1]))
        assert (b"denied" in str(direct).encode()) == (each is clients)
    for client in (*clients, *older):
        client.close()


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("roles", [("ALL", "NONE"), ("NONE", "ALL"), ("DEFAULT", "NONE", "ALL"), (ROLE, "NONE", ROLE)])
def test_set_role_where_rights_have_changed(beside: Beside, roles: tuple[str, ...], kind: str) -> None:
    """MySQL reads a database's rights anew at some of these, and not where the roles stay as they are."""
    database = beside.proxy.database
    for grantee in (USER, ROLE):
        for revoked in ((), (f"REVOKE {ROLE} FROM {USER}",)):
            beside.mysql.execute(
                f"REVOKE SELECT ON {database}.item FROM {ROLE}", f"GRANT SELECT, INSERT ON {database}.* TO {grantee}"
            )
            beside.caught_up()
            clients = pair(beside, kind)
            read_until_hit(beside, clients[1], clients[1].query, BY_ID)
            beside.mysql.execute(f"REVOKE SELECT ON {database}.* FROM {grantee}", *revoked)
            beside.caught_up()
            for role in ("", *roles):
                for client in clients:
                    client.query(f"SET ROLE {role}" if role else "DO 1")
                for _ in range(2):
                    direct, through = answers(clients)
                    assert direct == through, (grantee, revoked, role, last_served(beside, clients[1]))
            for client in clients:
                client.close()
            beside.mysql.execute(
                f"REVOKE INSERT ON {database}.* FROM {grantee}", f"GRANT SELECT ON {database}.item TO {ROLE}",
                f"GRANT {ROLE} TO {USER}", f"SET DEFAULT ROLE ALL TO {USER}",
            )  # fmt: skip
