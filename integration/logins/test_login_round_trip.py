"""What a login asks of MySQL unseen: two statements in one round trip, whatever MySQL gives to new sessions."""

from __future__ import annotations

from pathlib import Path

from integration.conftest import OwnMySQL
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import COM_RESET_CONNECTION

READ = "SELECT n FROM item WHERE id = 1"
QUESTIONS = "SHOW SESSION STATUS LIKE 'Questions'"
OTHERWISE = (
    "SET GLOBAL session_track_gtids = ALL_GTIDS, GLOBAL session_track_state_change = ON, "
    "GLOBAL session_track_system_variables = 'sql_mode,lock_wait_timeout'"
)
AS_BEFORE = (
    "SET GLOBAL session_track_gtids = DEFAULT, GLOBAL session_track_state_change = DEFAULT, "
    "GLOBAL session_track_system_variables = DEFAULT"
)


def questions(client: RawClient) -> int:
    """Statements that MySQL has seen of this session, this one too."""
    answer = client.query(QUESTIONS)
    at = answer.rindex(b"\x09Questions") + 10
    return int(answer[at + 1 : at + 1 + answer[at]])


def tracks(beside: Beside) -> dict[str, str]:
    """What the one session's client wants to be told."""
    (session,) = beside.shared.sessions
    return session.state.tracks.wanted


def test_a_login_asks_twice_in_one_round_trip_and_once_more_where_sessions_begin_otherwise(
    own_mysql: OwnMySQL, tmp_path: Path
) -> None:
    mysql = own_mysql()
    mysql.execute(
        "CREATE DATABASE d", "CREATE TABLE d.item (id INT PRIMARY KEY, n INT)", "INSERT INTO d.item VALUES (1, 2)"
    )
    with proxy_in_thread(mysql, "d", tmp_path) as beside:
        with beside.client() as maker:
            maker.query("CREATE CACHE one FROM SELECT n FROM item WHERE id = ?")
        expected = {"SET GLOBAL autocommit = 1": 2, OTHERWISE: 3, AS_BEFORE: 3}
        for change, hidden in expected.items():
            mysql.execute(change)
            for asked in (hidden, 2):
                beside.at_rest()
                with beside.client() as client:
                    assert questions(client) == asked + 1, change
                    gtids = "ALL_GTIDS" if change == OTHERWISE else "OFF"
                    assert tracks(beside)["session_track_gtids"] == gtids
                    assert tracks(beside)["session_track_system_variables"].startswith(
                        "sql_mode,lock" if change == OTHERWISE else "time_zone,autocommit"
                    )
                    read_until_hit(beside, client, client.query, READ)
                    client.command(COM_RESET_CONNECTION)
                    client.query(READ)
                    assert last_served(beside) == "hit"
