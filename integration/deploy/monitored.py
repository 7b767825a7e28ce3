"""A real Upwell under load, and a real Prometheus that reads its metrics by the rules of deploy/monitoring."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pymysql
import yaml

from examples.lobsters.proxy_process import ProxyProcess
from integration.deploy.tools import prometheus
from integration.servers.mysql_server import Server

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy/monitoring"
PATIENCE = 120.0  # seconds
SCRAPES = 5  # that must have been read under load: rates need two

Series = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Monitored:
    """`metrics`: the text of /metrics now; the names that it declares are there without a series, too."""

    proxy: ProxyProcess
    prometheus: str

    def metrics(self) -> str:
        with urlopen(f"http://127.0.0.1:{self.proxy.http_port}/metrics", timeout=60) as answer:
            text: str = answer.read().decode()
        return text

    def ask(self, path: str, **parameters: str) -> Any:
        """What Prometheus answers under /api/v1."""
        with urlopen(f"{self.prometheus}/api/v1/{path}?{urlencode(parameters)}", timeout=60) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Series]:
        """Each with `metric`, its labels, and `value`, a time and a number as text."""
        found: list[Series] = self.ask("query", query=expression)["result"]
        return found


def until(condition: Callable[[], bool], what: str) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.1)):
        with suppress(URLError, ConnectionError):
            if condition():
                return
        pause.wait(0.1)
    raise AssertionError(f"not within {PATIENCE:.0f} s: {what}")


@contextmanager
def monitored(mysql: Server, database: str, folder: Path) -> Iterator[Monitored]:
    mysql.execute(
        f"USE `{database}`",
        "CREATE TABLE item (id INT PRIMARY KEY, grp INT NOT NULL, n INT NOT NULL, KEY (grp))",
        "CREATE TABLE locked (id INT PRIMARY KEY, n INT NOT NULL)",
        "INSERT INTO item VALUES " + ", ".join(f"({n}, {n % 7}, 0)" for n in range(100)),
        "INSERT INTO locked VALUES (1, 1), (2, 2)",
    )
    # A locked table is waited for as long as the tests take.
    options = ("--upquery-timeout=10m", "--auto-cache=off")
    with ProxyProcess(mysql.url, folder, options=options, grpc_port=0, http_port=0, mysql_port=0) as proxy:
        proxy.wait_ready().close()
        with loaded(mysql, database, proxy), scraping(folder, proxy.http_port) as address:
            found = Monitored(proxy, address)
            # What comes late: the reason for which a cache's read was MySQL's, what a change has emptied, and the fill.
            late = ("upwell_cache_passed_total", "upwell_cache_needless_total", "upwell_fill_keys")
            read = " and ".join(f"min(count_over_time({name}[5m])) >= {SCRAPES}" for name in late)
            until(lambda: bool(found.query(read)), "Prometheus has read the metrics under load")
            yield found


@contextmanager
def loaded(mysql: Server, database: str, proxy: ProxyProcess) -> Iterator[None]:
    """Meanwhile: hits, misses, passed reads and writes; and a large fill that waits for a locked table."""
    ended = threading.Event()
    with (
        closing(mysql.connect(database=database)) as locking,
        closing(session(proxy, database)) as reading,
        proxy.wait_ready() as client,
    ):
        with reading.cursor() as cursor:
            cursor.execute("CREATE CACHE by_id FROM SELECT n FROM item WHERE id = ?")
            cursor.execute("CREATE CACHE of_group FROM SELECT COUNT(*), SUM(n) FROM item WHERE grp = ?")
            cursor.execute("CREATE CACHE evicted FROM SELECT COUNT(DISTINCT n) FROM item WHERE grp = ?")
            cursor.execute("CREATE CACHE late FROM SELECT n FROM locked WHERE id = ?")
        with locking.cursor() as cursor:
            cursor.execute("LOCK TABLES locked WRITE")

        def read() -> None:
            """No read of a lost connection at the end is a fault."""
            with suppress(pymysql.Error), reading.cursor() as cursor:
                number = 0
                while not ended.wait(0.002):
                    number += 1
                    cursor.execute("SELECT n FROM item WHERE id = %s", (number % 10,))
                    cursor.execute("SELECT COUNT(*), SUM(n) FROM item WHERE grp = %s", (number % 7,))
                    cursor.execute("SELECT COUNT(DISTINCT n) FROM item WHERE grp = %s", (number % 7,))
                    cursor.execute("SELECT MAX(n) + SLEEP(0) FROM item")
                    cursor.execute("SELECT n FROM item WHERE id = %s FOR UPDATE", (number % 10,))
                    cursor.execute("UPDATE item SET n = n + 1 WHERE id = %s", (number % 10,))
                    # Its snapshot is at MySQL: the cache's read is passed.
                    for statement in (
                        "BEGIN",
                        "SELECT MIN(n) + SLEEP(0) FROM item",
                        "SELECT n FROM item WHERE id = 1",
                        "COMMIT",
                    ):
                        cursor.execute(statement)

        def fill() -> None:
            for _ in client.cache("late").fill([(1,), (2,)], by="direct"):
                if ended.is_set():
                    return

        threads = [threading.Thread(target=work) for work in (read, fill)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            with locking.cursor() as cursor:
                cursor.execute("UNLOCK TABLES")
            for thread in threads:
                thread.join(PATIENCE)


def session(proxy: ProxyProcess, database: str) -> pymysql.Connection[pymysql.cursors.Cursor]:
    return pymysql.connect(host="127.0.0.1", port=proxy.mysql_port, user="root", database=database, autocommit=True)


@contextmanager
def scraping(folder: Path, port: int) -> Iterator[str]:
    """Prometheus by the configuration of deploy/monitoring, at this target once a second; its address."""
    settings = yaml.safe_load((MONITORING / "prometheus.yaml").read_text())
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings["rule_files"] = [str(MONITORING / "alerts.yaml")]
    settings["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(settings))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = free.getsockname()[1]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [*prometheus(), f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'series'}",
             f"--web.listen-address=127.0.0.1:{own}", "--web.console.templates=", "--web.console.libraries="],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{own}"

        def ready() -> bool:
            assert process.poll() is None, (folder / "prometheus.log").read_text()[-2000:]
            with urlopen(f"{address}/-/ready", timeout=10) as answer:
                return bool(answer.status == 200)

        until(ready, "Prometheus serves")
        yield address
    finally:
        process.terminate()
        process.wait(60)
