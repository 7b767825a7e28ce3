"""The page at `/` in a real Chromium: it draws, follows, sorts, makes a cache, and keeps nobody out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from integration.http.chromium import axe, chromium
from integration.http.made_up import ACCESS, SHARDS, made_up
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from proxy.http.streams import MOST
from proxy.port.overview import Overview
from tests.support.fake_overviews import FakeCharts

TABLE = (
    "CREATE TABLE item (id INT PRIMARY KEY, owner INT, name VARCHAR(20), KEY (owner))",
    "INSERT INTO item VALUES (1, 1, 'one'), (2, 1, 'two')",
)
DRAWN = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
OWNED = "SELECT name FROM item WHERE owner = ?"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """The page, live. Whatever the console says is a failure, and so is a request to anywhere else. `allowed`: errors
    of the console that are meant."""
    allowed = options.pop("allowed", "$.")
    said: list[str] = []
    asked: list[str] = []
    with browser.new_context(**options) as context:
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        expect(page.locator("#live")).to_have_text("live")
        yield page
        page.close()
    assert not [text for text in said if not re.search(allowed, text)]
    assert all(url.startswith(address) for url in asked)


def test_it_draws_and_follows(browser: Browser) -> None:
    with made_up() as shown, opened(browser, shown.address) as page:
        expect(page.locator("#caches-body .row")).to_have_count(3)
        expect(page.locator(".charts .plot canvas")).to_have_count(4)
        for plot in page.locator(".charts .plot").all():
            width = plot.bounding_box()
            assert width is not None and width["width"] > 300
            assert plot.locator("canvas").evaluate(DRAWN), "lines"
        hits = page.locator("#caches-body .row >> nth=0").locator("td >> nth=2")
        before = hits.inner_text()
        expect(hits).not_to_have_text(before)  # at the next look
        expect(page.locator("#hit-rate")).to_have_text("70.0%")
        expect(page.locator("#source")).to_contain_text("mysql://127.0.0.1:3306")


def test_a_heading_sorts_and_a_word_finds(browser: Browser) -> None:
    with made_up(12) as shown, opened(browser, shown.address) as page:
        names = page.locator("#caches-body .name")
        by_name = [f"cache_{number}" for number in range(12)]
        expect(names).to_have_text(by_name[::-1])  # by what they save
        page.get_by_role("button", name="Cache", exact=True).click()
        expect(names).to_have_text(by_name)
        expect(page.locator("th[aria-sort]")).to_have_attribute("aria-sort", "ascending")
        page.get_by_role("button", name="Hits").click()
        expect(names).to_have_text(by_name[::-1])
        expect(page.locator("th[aria-sort]")).to_have_attribute("aria-sort", "descending")
        page.get_by_role("button", name="Hits").click()
        expect(names).to_have_text(by_name)
        page.get_by_role("searchbox").fill("shop.part")
        expect(names).to_have_text(by_name[1::2])
        expect(page.locator("#caches-count")).to_have_text("6 of 12")


def test_a_cache_opens_with_its_query_plan_and_reasons(browser: Browser) -> None:
    with made_up() as shown, opened(browser, shown.address) as page:
        name = page.get_by_role("button", name="cache_1", exact=True)
        name.click()
        details = page.locator(".details")
        expect(details.locator("pre")).to_have_text("SELECT ...")
        expect(details.locator("svg")).to_have_attribute("aria-label", re.compile("table shop.item.*reader"))
        expect(details.locator("svg path.edge")).to_have_count(4)
        expect(details.locator("svg path.edge.whole")).to_have_count(1)
        expect(details).to_contain_text("parameters 5")
        expect(details).to_contain_text("db.t 7 (25.0% needlessly), memory 2")
        expect(page.locator("#emptied-list li")).to_have_text(["db.t21", "memory6"])  # of all three caches
        page.get_by_role("button", name="Needless").click()
        expect(page.locator("th[aria-sort]")).to_contain_text("Needless")
        expect(name).to_have_attribute("aria-expanded", "true")
        name.click()
        expect(details).to_have_count(0)


def test_each_shard_has_a_line_and_mysql_has_one(browser: Browser) -> None:
    with made_up() as shown, opened(browser, shown.address) as page:
        lines = page.locator("#servers-body tr:not(.position)")
        expect(lines).to_have_count(1)
        expect(lines).to_contain_text(re.compile("MySQL.*250 ms.*1 of 8"))
        shown.shards = SHARDS
        expect(lines).to_have_count(2)
        expect(lines.first).to_contain_text(re.compile("-80.*< 1 ms.*ago.*2"))
        expect(page.locator("#servers-body .position")).to_contain_text(["1-90", "1-7"])
        expect(lines.last).to_contain_text(re.compile("80-.*2.5 s.*0"))
        expect(page.locator("#servers-name")).to_have_text("Shard")


def test_without_an_access_log_nothing_is_asked_of_it(browser: Browser) -> None:
    with made_up() as shown, opened(browser, shown.address) as page:
        expect(page.locator("#caches-body .row")).to_have_count(3)
        expect(page.locator("#access")).to_be_hidden()


def test_the_access_log_is_drawn_where_it_is_on(browser: Browser) -> None:
    with made_up() as shown:
        charts = shown.system.overviews.charts = FakeCharts(ACCESS)
        with opened(browser, shown.address) as page:
            expect(page.locator("#access-note")).to_contain_text("4,321 rows of 2 proxies")
            expect(page.locator("#access-note")).to_contain_text("25.0% of the reads are logged")
            assert page.locator("#access-chart canvas").evaluate(DRAWN), "lines"
            used, keys, queries = (page.locator(f"#access-{name} li") for name in ("caches", "keys", "queries"))
            expect(used).to_contain_text(["cache_1", "more misses than hits"])
            expect(used.first).to_contain_text("90.0% of 1,000")
            expect(keys).to_contain_text(["a long key"])
            expect(queries).to_contain_text(["12.5 s in 90"])
            assert charts.asked == [24.0]
            page.locator("#access-hours").select_option("week")
            while charts.asked != [24.0, 168.0]:
                page.evaluate("new Promise(requestAnimationFrame)")


def test_a_log_that_is_empty_or_cannot_be_read_says_so(browser: Browser) -> None:
    with made_up() as shown:
        charts = shown.system.overviews.charts = FakeCharts({**ACCESS, "rows": 0})
        with opened(browser, shown.address, allowed="503") as page:
            expect(page.locator("#access-note")).to_contain_text("a file is complete after five minutes")
            expect(page.locator("#access-shown")).to_be_hidden()
            charts.fault = "the access log cannot be read: no disk"
            page.locator("#access-hours").select_option("hour")
            expect(page.locator("#access-note")).to_have_text(charts.fault)


def test_beyond_loopback_the_access_log_is_shown_with_the_token_alone(browser: Browser) -> None:
    with made_up(host="0.0.0.0") as shown:
        shown.system.overviews.charts = FakeCharts(ACCESS)
        with opened(browser, shown.address) as page:
            expect(page.locator("#access-note")).to_have_text("It has keys: it is shown with the token.")
            page.get_by_role("button", name="Give the token").click()
            page.get_by_label("Token", exact=True).fill("secret")
            page.get_by_role("button", name="Go on").click()
            expect(page.locator("#access-keys li")).to_have_count(1)


@pytest.mark.parametrize("caches", [0, 3])
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_axe_finds_nothing(browser: Browser, scheme: Literal["light", "dark"], width: int, caches: int) -> None:
    size: Any = {"width": width, "height": 900}
    with made_up(caches) as shown:
        if caches:
            shown.shards = SHARDS
            shown.system.overviews.charts = FakeCharts(ACCESS)
        else:
            shown.system.overviews.queries.clear()
        with opened(browser, shown.address, color_scheme=scheme, viewport=size, bypass_csp=True) as page:
            if caches:
                page.get_by_role("button", name="cache_1", exact=True).click()
                expect(page.locator(".details svg")).to_be_visible()
                expect(page.locator("#access-keys li")).to_have_count(1)
            for dialog in (False, True):
                if dialog:
                    page.locator("#token").click()
                page.evaluate(axe())
                found = page.evaluate("axe.run().then(found => found.violations)")
                shown_of = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found]
                assert not found, shown_of
            assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing is beyond the edge"


# Headings of the table that are wider than their cells, and so run into the next ones.
TOO_WIDE = """[...document.querySelectorAll('#caches-head button')].filter(one => one.offsetParent).filter(one => {
  const cell = one.closest('th').getBoundingClientRect(), text = document.createRange();
  text.selectNodeContents(one);
  return text.getBoundingClientRect().right > cell.right + 0.5 || text.getBoundingClientRect().left < cell.left - 0.5;
}).map(one => one.textContent)"""


def test_headings_have_room_at_any_width_and_an_address_takes_none_from_the_button(browser: Browser) -> None:
    with made_up() as shown:
        at_work = shown.system.overviews.changed

        def far(overview: Overview) -> Overview:
            seen = at_work(overview)
            return replace(seen, source=replace(seen.source, address=f"mysql://{'h' * 250}:3306"))

        shown.system.overviews.changed = far
        with opened(browser, shown.address) as page:
            expect(page.locator("#source")).to_contain_text("hhh")
            for width in (320, 390, 600, 900, 1100, 1180, 1279, 1280, 1440, 1920):
                page.set_viewport_size({"width": width, "height": 900})
                assert (width, page.evaluate(TOO_WIDE)) == (width, [])
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                box = page.locator("#token").bounding_box()
                assert box is not None and box["height"] < 40, width


def test_it_tells_that_the_proxy_is_away_and_comes_back(browser: Browser) -> None:
    with made_up() as shown, opened(browser, shown.address, allowed="ERR_|network") as page:
        shown.stop()
        expect(page.locator("#live")).to_have_text("The proxy does not answer; trying again")
        shown.system.caches.add("new", {})
        shown.start()
        expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("#caches-body .name", has_text="new")).to_be_visible()


def test_a_browser_that_goes_away_leaves_nothing_behind(browser: Browser) -> None:
    with made_up() as shown:
        with opened(browser, shown.address), opened(browser, shown.address):
            assert shown.connections() == 2
        while shown.connections():
            pass
        looks = shown.system.overviews.looks
        browser.new_context().close()
        assert shown.system.overviews.looks == looks


def test_beyond_loopback_texts_are_shown_with_the_token_alone(browser: Browser) -> None:
    with made_up(host="0.0.0.0") as shown, opened(browser, shown.address, allowed="401") as page:
        expect(page.locator("#queries-empty")).to_have_text("Their texts are shown with the token.")
        page.get_by_role("button", name="cache_1", exact=True).click()
        expect(page.locator(".details")).to_contain_text("The text is shown with the token.")
        assert "SELECT" not in page.locator("main").inner_text().replace("CREATE CACHE FROM SELECT", "")
        page.get_by_role("button", name="Give the token").click()
        page.get_by_label("Token", exact=True).fill("wrong")
        page.get_by_role("button", name="Go on").click()
        expect(page.locator("#toast")).to_have_text("That is not the token of this proxy.")
        page.get_by_role("button", name="Give the token").click()
        page.get_by_label("Token", exact=True).fill("secret")
        page.get_by_role("button", name="Go on").click()
        expect(page.locator("#queries-body tr")).to_have_count(1)
        expect(page.locator(".details pre")).to_have_text("SELECT ...")
        page.reload()
        expect(page.locator("#queries-body tr")).to_have_count(1)  # this tab still has it
        page.get_by_role("button", name="Forget the token").click()
        expect(page.locator("#queries-empty")).to_be_visible()


def test_many_caches_are_shown_in_part_until_all_are_asked_for(browser: Browser) -> None:
    with made_up(250) as shown, opened(browser, shown.address) as page:
        rows = page.locator("#caches-body .row")
        expect(rows).to_have_count(200)
        page.get_by_role("button", name="Show all 250 caches").click()
        expect(rows).to_have_count(250)


def test_what_is_selected_stays_selected_and_a_row_stays_the_same(browser: Browser) -> None:
    """Somebody copies a text while figures move."""
    selected = "node => { const all = document.createRange(); all.selectNodeContents(node);"
    selected += " getSelection().removeAllRanges(); getSelection().addRange(all); node.marked = true; }"
    with made_up() as shown, opened(browser, shown.address) as page:
        page.get_by_role("button", name="cache_1", exact=True).click()
        queries = shown.system.overviews.queries
        for locator in (page.locator(".details dd", has_text="shop.part"), page.locator("#queries-body th span")):
            locator.evaluate(selected)
            text = page.evaluate("getSelection().toString()")
            hits, reads = (
                page.locator(".details dd", has_text="median").first,
                page.locator("#queries-body td >> nth=1"),
            )
            before = hits.inner_text(), reads.inner_text()
            queries[0] = replace(queries[0], count=queries[0].count + 1)
            expect(hits).not_to_have_text(before[0])
            expect(reads).not_to_have_text(before[1])
            assert page.evaluate("getSelection().toString()") == text != ""
            assert locator.evaluate("node => node.marked")


def test_a_hit_rate_is_whole_only_where_nothing_is_missing(browser: Browser) -> None:
    with made_up() as shown, opened(browser, shown.address) as page:
        asked = "import('/page/format.js').then(({ percent }) => [0, 0.5, 0.99951, 0.99999, 1].map(percent))"
        assert page.evaluate(asked) == ["0.0%", "50.0%", "99.9%", "99.9%", "100%"]


def test_a_proxy_of_another_version_brings_its_own_page(browser: Browser) -> None:
    with made_up() as shown, opened(browser, shown.address, allowed="ERR_|network") as page:
        page.evaluate("window.old = true")
        shown.stop()
        at_work = shown.system.overviews.changed
        shown.system.overviews.changed = lambda overview: replace(at_work(overview), version="99.0.0")
        shown.start()
        expect(page.locator("#version")).to_have_text("99.0.0")
        assert page.evaluate("window.old") is None
        expect(page.locator("#live")).to_have_text("live")


def test_it_says_why_the_proxy_refuses(browser: Browser) -> None:
    with made_up() as shown, opened(browser, shown.address, allowed="503") as page:
        with ExitStack() as others:
            for _ in range(MOST):
                connection = HTTPConnection("127.0.0.1", shown.port)
                others.callback(connection.close)
                connection.request("GET", "/v1/live")
                connection.getresponse()
            page.reload()
            expect(page.locator("#live")).to_have_text(
                f"The proxy says: more than {MOST} streams are open; trying again"
            )
        expect(page.locator("#live")).to_have_text("live")


@pytest.fixture
def real(mysql: Server, tmp_path: Path) -> Iterator[Beside]:
    with beside_database(mysql, f"t{os.getpid()}_page", tmp_path, *TABLE) as found:
        yield found


def test_the_button_makes_a_cache_of_a_query_that_passes(browser: Browser, real: Beside) -> None:
    app = real.proxy.app
    with real.client() as session:
        for _ in range(3):
            session.query("SELECT name FROM item WHERE owner = 1")
    with opened(browser, f"http://127.0.0.1:{app.http_port}/", allowed="401") as page:
        query = page.locator("#queries-body tr", has_text=OWNED)
        query.get_by_role("button").click()
        expect(page.locator("#ask-why")).to_contain_text("no token: it is in /")
        page.get_by_label("Token", exact=True).fill("wrong")
        page.get_by_role("button", name="Go on").click()
        expect(page.locator("#toast")).to_contain_text("the token is not this proxy's")
        query.get_by_role("button").click()
        page.get_by_label("Token", exact=True).fill(str(app.grpc_token))
        page.get_by_role("button", name="Go on").click()
        expect(page.locator("#toast")).to_contain_text("is made")
        name = page.locator("#caches-body .name").inner_text()
        with real.client() as session:
            for _ in range(3):
                session.query("SELECT name FROM item WHERE owner = 1")
        hits = page.locator("#caches-body .row td >> nth=2")
        expect(hits).not_to_have_text("0")
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.locator(".details svg g.table title")).to_have_text(f"{real.proxy.database}.item")
        expect(query).to_contain_text(f"cached as '{name}'")
