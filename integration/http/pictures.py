"""`make pictures`: the page as README and docs/http.md show it, over the sample of `make run`.

Clients read and write the site's pages. Most of its queries have a cache, some pass. The pictures are of a real proxy
beside a real MySQL, after some minutes of that load: docs/pictures/page.png, page-dark.png, page-phone.png.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
from playwright.sync_api import Browser, Page, expect

from benchmarks.bench import Bench
from examples.lobsters.closed_load import Port
from examples.lobsters.data import SETS
from examples.lobsters.direct import Direct
from examples.lobsters.load import DATABASE
from examples.lobsters.pages import EvenStream
from examples.lobsters.queries import Template, of_variant
from integration.http.chromium import chromium
from integration.servers.private_mysql import find_mysql

FOLDER = Path(__file__).resolve().parents[2] / "docs/pictures"
CLIENTS = 3
SECONDS = 240.0
VARIANT, SEED = "D", 3
TURN = 1.0  # seconds
UNCACHED = 5  # every so many queries of the site have no cache
# The name of the cache whose details are shown: the one of several tables that saves most.
JOIN = """fetch("/v1/overview").then(answer => answer.json()).then(({caches}) => Object.values(caches).sort(
    (one, other) => (other.tables.length > 1) - (one.tables.length > 1) || other.saved_seconds - one.saved_seconds
)[0].name)"""


def templates() -> list[Template]:
    return [template for number, template in enumerate(of_variant(VARIANT)) if number % UNCACHED]


@contextmanager
def visited(bench: Bench, port: int) -> Iterator[None]:
    """Clients read and write the site's pages through this port meanwhile."""
    ending = threading.Event()
    sessions = [Direct(connected(bench, port)) for _ in range(CLIENTS)]
    known = [template.id for template in of_variant(VARIANT)]
    load = Port(sessions, known, EvenStream(bench.shape, VARIANT, SEED))

    def visit() -> None:
        with ThreadPoolExecutor(CLIENTS) as pool:
            while not ending.is_set():
                load.run(TURN, pool)

    thread = threading.Thread(target=visit)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        for session in sessions:
            session.close()


def connected(bench: Bench, port: int) -> Any:
    server = bench.server
    return pymysql.connect(
        host="127.0.0.1", port=port, user=server.user, password=server.password, database=DATABASE, autocommit=True
    )


@contextmanager
def opened(browser: Browser, address: str, size: tuple[int, int], scheme: Any, scale: float = 1) -> Iterator[Page]:
    viewport: Any = {"width": size[0], "height": size[1]}
    with browser.new_context(viewport=viewport, color_scheme=scheme, device_scale_factor=scale) as context:
        page = context.new_page()
        page.goto(address)
        expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("#hit-rate")).to_contain_text("%")
        expect(page.locator("#caches-body .row td >> nth=1")).not_to_have_text("0")  # reads a second: of two looks
        yield page


def take(browser: Browser, address: str) -> None:
    with opened(browser, address, (1280, 1000), "light") as page:
        page.screenshot(path=FOLDER / "page.png")
    with opened(browser, address, (1280, 1000), "dark") as page:
        page.get_by_role("button", name=page.evaluate(JOIN), exact=True).click()
        expect(page.locator(".details svg")).to_be_visible()
        page.evaluate("document.documentElement.style.scrollPaddingTop = '70px'")
        page.locator("#caches").evaluate("section => section.scrollIntoView()")
        page.screenshot(path=FOLDER / "page-dark.png")
    with opened(browser, address, (390, 844), "light", 1.5) as page:
        page.screenshot(path=FOLDER / "page-phone.png")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make pictures", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of load before the pictures")
    given = parser.parse_args(arguments)
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        find_mysql(None, (), print) as server,
        chromium() as browser,
    ):
        bench = Bench(server, Path(folder), SETS["mid"])
        with bench.cached_sample(templates()) as sample, visited(bench, sample.proxy.mysql_port):
            threading.Event().wait(given.seconds)
            take(browser, f"http://127.0.0.1:{sample.proxy.http_port}/")
    print(f"written: {', '.join(sorted(path.name for path in FOLDER.glob('page*.png')))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
