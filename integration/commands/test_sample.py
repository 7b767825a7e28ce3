"""The smallest set of the sample on a real MySQL: it loads, its templates run, its pages run."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from examples.lobsters.cached import Cached, create_caches, wait_until_current
from examples.lobsters.data import SETS
from examples.lobsters.direct import Direct
from examples.lobsters.load import Chunk, connect, inserts, load
from examples.lobsters.pages import PageStream, run_page
from examples.lobsters.proxy_process import ProxyProcess
from examples.lobsters.queries import CATALOGUE, Compare, Sample
from integration.servers.mysql_server import Server

TINY = SETS["tiny"]


@dataclass(frozen=True)
class Loaded:
    server: Server
    database: str
    rows: int


@pytest.fixture(scope="module")
def sample(mysql: Server) -> Iterator[Loaded]:
    name = f"t{os.getpid()}_sample"
    rows = load(mysql, TINY, database=name)
    yield Loaded(mysql, name, rows)
    mysql.execute(f"DROP DATABASE `{name}`")


@pytest.fixture
def direct(sample: Loaded) -> Iterator[Direct]:
    reader = Direct(connect(sample.server, sample.database))
    yield reader
    reader.close()


def scalar(direct: Direct, sql: str) -> Any:
    return direct.query(sql)[0][0]


def test_every_generated_row_is_there(sample: Loaded, direct: Direct) -> None:
    assert scalar(direct, "SELECT COUNT(*) FROM votes") == TINY.votes
    assert scalar(direct, "SELECT COUNT(*) FROM stories") == TINY.stories
    assert scalar(direct, "SELECT COUNT(*) FROM comments WHERE parent_comment_id IS NOT NULL") > TINY.comments / 5
    tables = direct.query("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
    assert sum(scalar(direct, f"SELECT COUNT(*) FROM `{table}`") for (table,) in tables) == sample.rows


def test_denormalised_and_natural_score_agree(direct: Direct) -> None:
    rows = direct.query(
        "SELECT s.id FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.comment_id IS NULL"
        " GROUP BY s.id HAVING SUM(v.vote = 1) <> MAX(s.upvotes) OR SUM(v.vote = 0) <> MAX(s.downvotes)"
    )
    assert not rows


@pytest.mark.parametrize("id", list(CATALOGUE))
def test_template_runs_and_some_parameters_find_rows(direct: Direct, id: str) -> None:
    template, sample = CATALOGUE[id], Sample(TINY, 1)
    found = 0
    for _ in range(40 if template.draws else 1):
        parameters = sample.of(template)
        rows = direct.read(id, parameters)
        found += len(rows)
        if template.compare is Compare.ONE_OF and rows:
            assert rows[0] in direct.query(template.allowed, parameters * 2)
    # Nothing is merged; a vote, ribbon or parent of three random entities is as good as never there.
    assert found or id in ("S3", "S4", "S8", "S9", "S10", "U5", "W3", "W7")


@pytest.mark.parametrize("variant", ["D", "N"])
def test_pages_of_the_stream_run_and_their_writes_are_seen(direct: Direct, variant: str) -> None:
    before = scalar(direct, "SELECT COUNT(*) FROM read_ribbons")
    written = 0
    for (kind, page), _ in zip(PageStream(TINY, variant, seed=11), range(60), strict=False):
        _, writes = run_page(page, direct.read, direct.write)
        written += kind == "story" and writes
    ribbons = scalar(direct, "SELECT COUNT(*) FROM read_ribbons WHERE updated_at > '2026-01-15'")
    assert ribbons and scalar(direct, "SELECT COUNT(*) FROM read_ribbons") - before <= written


def test_front_pages_of_both_variants_give_51_stories_in_order(direct: Direct) -> None:
    stories = direct.read("F1-D", ())
    assert len(stories) == 51 and [row[11] for row in stories] == sorted(row[11] for row in stories)
    assert len(set(direct.read("F1a-N", ()))) == 51


def test_loading_by_inserts_gives_the_same_rows(sample: Loaded, database: str, direct: Direct) -> None:
    rows = direct.query("SELECT `key`, `value` FROM keystores ORDER BY `key`")
    direct.connection.select_db(database)
    direct.query(f"CREATE TABLE keystores LIKE `{sample.database}`.keystores")
    for statement in inserts(Chunk("keystores", ("key", "value"), [tuple(row) for row in rows])):
        direct.query(statement)
    assert direct.query("SELECT `key`, `value` FROM keystores ORDER BY `key`") == rows


def test_no_cache_of_the_sample_loses_its_trust(sample: Loaded, direct: Direct, tmp_path: Path) -> None:
    """Pages of both variants, with their writes; the caches as `make run` makes them."""
    with (
        ProxyProcess(sample.server.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0) as proxy,
        proxy.wait_ready() as client,
    ):
        made = create_caches(client, CATALOGUE.values(), sample.database)
        wait_until_current(client, direct.connection)
        cached = Cached(client, sample.database, made)
        for number in range(60):
            for variant in ("D", "N"):
                _, page = next(PageStream(TINY, variant, seed=100 + number))
                run_page(page, cached.read, direct.write)
        counters = client.status().counters
        doubted = {cache.name: cache.why for cache in client.caches() if cache.why}
        print({name: count for name, count in counters.items() if "trust" in name}, dict(cached.served.most_common(5)))
        assert counters["trust_agrees"] > 100
        assert not counters["trust_differs"] and not counters["caches_distrusted"] and not doubted
