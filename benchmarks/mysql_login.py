"""What a login costs over MySQL's protocol: from `connect` to MySQL's OK, at MySQL itself, through a bare uvloop byte
forwarder (`bare_uvloop.py`), and through Upwell, in turns. One client, so that nothing waits for another.

The account has a password that MySQL has in its cache (caching_sha2_password): what an application's pool does.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

from benchmarks.bare_uvloop import Bare
from benchmarks.bench import SCRATCH, Bench
from benchmarks.points import Way, load_points
from benchmarks.result import Figure, Result, Sheet
from examples.lobsters.cpu import process_seconds
from integration.support.raw_client import RawClient
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, COM_QUIT, packet

DIRECT, BARE, UPWELL = "direct", "forwarder", "Upwell"
USER, PASSWORD = "login_bench", "a password"
LOGINS = 400  # of each way, and as many before that are not counted but a tenth


def run(bench: Bench) -> Result:
    load_points(bench)
    server = bench.server
    server.execute(
        f"DROP USER IF EXISTS {USER}", f"CREATE USER {USER} IDENTIFIED BY '{PASSWORD}'",
        f"GRANT SELECT ON `{SCRATCH}`.* TO {USER}",
    )  # fmt: skip
    with server.connect(user=USER, password=PASSWORD):  # MySQL knows the password from here on
        pass
    result = Result("mysql_login")
    columns = "answered by", "median", "of the fastest tenth", "and its first statement", "CPU of the proxy"
    sheet = Sheet("a login, milliseconds", columns)
    result.sheets.append(sheet)
    with bench.proxy() as (proxy, _), Bare("forward", server.host, server.port) as bare:
        ways = (
            Way(DIRECT, server.host, server.port),
            Way(BARE, "127.0.0.1", bare.port, bare.pid),
            Way(UPWELL, "127.0.0.1", proxy.mysql_port, proxy.pid),
        )
        times: dict[str, list[tuple[float, float]]] = {way.name: [] for way in ways}
        for way in ways:
            for _ in range(LOGINS // 10):
                login(way)
        used = {way.name: process_seconds(way.pid) if way.pid else 0.0 for way in ways}
        for _ in range(LOGINS):
            for way in ways:
                times[way.name].append(login(way))
        for way in ways:
            found = sorted(took for took, _ in times[way.name])
            first = median(took for _, took in times[way.name])
            spent = (process_seconds(way.pid) - used[way.name]) / LOGINS * 1e3 if way.pid else 0.0
            sheet.rows.append((way.name, median(found), found[len(found) // 10], first, spent))
        of = {name: median(took for took, _ in found) for name, found in times.items()}
        firsts = {name: median(took for _, took in found) for name, found in times.items()}
        result.figures.append(Figure("a login through Upwell", of[UPWELL], "ms"))
        result.figures.append(Figure("a login through Upwell, in times of MySQL's own", of[UPWELL] / of[DIRECT], "x"))
        result.figures.append(
            Figure("a login and its first statement, in times of MySQL's", firsts[UPWELL] / firsts[DIRECT], "x")
        )
    server.execute(f"DROP USER {USER}")
    return result


def login(way: Way) -> tuple[float, float]:
    """Milliseconds until MySQL's OK, and until the answer to a first statement."""
    began = perf_counter()
    client = RawClient(
        way.host, way.port, user=USER, password=PASSWORD, database=SCRATCH, capabilities=CLIENT_DEPRECATE_EOF
    )
    took = (perf_counter() - began) * 1e3
    client.query("SELECT 1")
    first = (perf_counter() - began) * 1e3
    client.write(packet(bytes((COM_QUIT,)), 0))
    client.close()
    return took, first
