"""Sums of long DECIMALs: MySQL cuts one of more than 65 digits where its plan has a table for groups. Sums that cannot
have so many are held, and are the same by each plan."""

from __future__ import annotations

from pathlib import Path

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import beside_database
from integration.support.raw_client import payloads_of
from integration.support.served import read_until_hit

PRICING = (
    "SELECT flag, status, SUM(quantity), SUM(price * (1 - discount)), SUM(price * (1 - discount) * (1 + tax)),"
    " AVG(price * (1 - discount) * (1 + tax)), COUNT(*) FROM item{} WHERE shipped <= '1998-09-02'"
    " GROUP BY flag, status ORDER BY flag, status"
)
"""The pricing summary of TPC-H."""
LARGEST = "9999999999999.99"
TABLE = (
    "CREATE TABLE item (id INT PRIMARY KEY, flag CHAR(1), status CHAR(1), quantity DECIMAL(15, 2),"
    " price DECIMAL(15, 2), discount DECIMAL(15, 2), tax DECIMAL(15, 2), shipped DATE, KEY by_flag (flag, status))",
    "INSERT INTO item VALUES (1, 'A', 'F', 17, 9.5, 0.05, 0.02, '1997-01-01'), (2, 'A', 'F', 3, 7, 0, 0, '1998-09-02'),"
    f" (3, 'N', 'O', {LARGEST}, {LARGEST}, -{LARGEST}, {LARGEST}, '1996-02-29'),"
    f" (4, 'N', 'O', {LARGEST}, {LARGEST}, -{LARGEST}, {LARGEST}, '1996-02-29')",
)
WRITES = (
    "UPDATE item SET tax = 0.07 WHERE id = 1",
    "INSERT INTO item SELECT 5, flag, status, quantity, price, discount, tax, shipped FROM item WHERE id = 3",
)


def test_the_pricing_summary_is_a_hit_with_the_largest_values_and_the_same_by_each_plan(
    mysql: Server, tmp_path: Path
) -> None:
    with (
        beside_database(mysql, "t_long_sums", tmp_path, *TABLE, verify_new_caches="32") as beside,
        beside.client() as client,
        beside.direct() as direct,
    ):
        assert client.query(f"CREATE CACHE FROM {PRICING.format('')}")[4] == 0
        for write in ("", *WRITES):
            if write:
                direct.query(write)
                beside.caught_up()
            plans = [
                direct.query(PRICING.format(hint)) for hint in ("", " IGNORE INDEX (by_flag)", " FORCE INDEX (by_flag)")
            ]
            rows = payloads_of(plans[0])[8:-1]
            assert len(rows) == 2 and all(payloads_of(plan)[8:-1] == rows for plan in plans)
            assert payloads_of(read_until_hit(beside, client, client.query, PRICING.format(""))[-1])[8:-1] == rows
