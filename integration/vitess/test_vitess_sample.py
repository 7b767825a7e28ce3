"""The sample on a keyspace of two shards: what vtgate answers is cached, and each hit is vtgate's answer.

The judge is vtgate: the same text with the same literals, by the same driver.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from examples.lobsters.data import Shape
from examples.lobsters.direct import Direct
from examples.lobsters.keyspace import VSCHEMA
from examples.lobsters.load import connect
from examples.lobsters.measure import draw_keys, same
from examples.lobsters.pages import PageStream, run_page
from examples.lobsters.proxy_process import ROOT
from examples.lobsters.queries import CATALOGUE, Parameters, Sample
from integration.servers.existing_vitess import ExistingVitess
from integration.servers.mysql_server import Server
from integration.support.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.lobsters import sample_in, shards_of
from integration.vitess.proxy import VitessProxy, proxy_before
from integration.vitess.shop import SHARDED

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it

SHAPE = Shape("two shards", 120, 200, 500, 3_000)
KEYS = 24
SEED = 11
REFUSED = {
    "NT1-N": "VT12001: unsupported: correlated subquery is only supported for EXISTS",
    "U3-N": "VT12001: unsupported: correlated subquery is only supported for EXISTS",
}
# Held as whole answers: comments' ids are not known to be unique across shards, and a shown column of theirs is of any
# row of its group then; vtgate adds karma up as a DOUBLE. The front page is held so on MySQL, too.
EVICTED = {"S5-N", "C1b-N", "F1a-N", "X1-N", "U5"}
ACCEPTED = tuple(id for id in CATALOGUE if id not in REFUSED)
WRITES = frozenset({"story", "story_up", "story_down", "comment_up", "comment_down", "comment", "reply"})
WRITTEN = 25  # pages; others need ids that no shard repeats


@pytest.fixture(scope="module")
def sample(vitess: Cluster) -> Iterator[ExistingVitess]:
    with sample_in(vitess, SHARDED, SHAPE) as server:
        yield server


@pytest.fixture
def direct(sample: ExistingVitess) -> Iterator[Direct]:
    with closing(Direct(connect(sample, SHARDED))) as reader:
        yield reader


def keys_of(id: str) -> list[Parameters]:
    return draw_keys(CATALOGUE[id], Sample(SHAPE, SEED), KEYS)


def test_the_rows_are_on_both_shards(sample: ExistingVitess, direct: Direct) -> None:
    for table in json.loads(VSCHEMA.read_text())["tables"]:
        ((rows,),) = direct.query(f"SELECT COUNT(*) FROM `{table}`")
        by_shard = shards_of(direct.connection, table, SHARDED)
        assert sum(by_shard.values()) == rows and (rows < 10 or all(by_shard.values())), (table, by_shard)


@pytest.mark.parametrize("id", list(CATALOGUE))
def test_vtgate_refuses_what_is_listed_and_nothing_else(direct: Direct, id: str) -> None:
    if id not in REFUSED:
        for key in keys_of(id)[:2]:
            direct.read(id, key)
        return
    with pytest.raises(pymysql.err.MySQLError) as refused:
        direct.read(id, keys_of(id)[0])
    assert refused.value.args[1] == REFUSED[id]


def told(cursor: pymysql.cursors.Cursor) -> list[tuple[object, object]]:
    """Names and types of the columns."""
    return [(column[0], column[1]) for column in cursor.description or ()]


def by_mysql(
    through: Direct, direct: Direct, id: str, key: Parameters, expected: Sequence[tuple[Any, ...]]
) -> tuple[str, str]:
    """How the second read was served, and what is different of it. Requires: `direct` has just read the same."""
    through.read(id, key)
    seen = through.read(id, key)
    ours = told(through._cursor)
    ((served, _, why, *_),) = through.query("EXPLAIN LAST STATEMENT")
    if served != "hit":
        return str(served), str(why)
    if ours != (theirs := told(direct._cursor)):
        return str(served), f"columns {ours} instead of {theirs}"
    if not same(CATALOGUE[id], direct, key, expected, seen):
        return str(served), f"{list(seen)[:3]} instead of {list(expected)[:3]}"
    return str(served), "" if types_of(seen) <= types_of(expected) or id == "U2-D" else "values of other types"


def types_of(rows: Sequence[Sequence[Any]]) -> set[tuple[type, ...]]:
    return {tuple(map(type, row)) for row in rows}


async def compare(proxy: VitessProxy, direct: Direct) -> tuple[int, dict[str, str]]:
    """How many answers were compared, and what was wrong of each query: a line."""
    compared, wrong = 0, {}
    with closing(await asyncio.to_thread(proxy.session)) as session:
        through = Direct(session)
        for id in ACCEPTED:
            cache = proxy.client.cache(CATALOGUE[id].cache_name)
            for key in keys_of(id):
                await cache.get(*key)
                found = await cache.get(*key)
                expected = await asyncio.to_thread(direct.read, id, key)
                served, different = await asyncio.to_thread(by_mysql, through, direct, id, key, expected)
                if served != "hit" or different:
                    wrong[id] = f"{key} by MySQL's protocol: {served} {different}"
                if found.served != "hit":
                    wrong[id] = f"{key}: {found.served} {found.why}"
                elif not await asyncio.to_thread(same, CATALOGUE[id], direct, key, expected, found):
                    wrong[id] = f"{key}: {list(found)[:3]} instead of {list(expected)[:3]}"
                compared += 2
    return compared, wrong


def write(direct: Direct, seed: int) -> int:
    """Votes, comments and ribbons, as the sample's pages write them."""
    written = 0
    for kind, page in PageStream(SHAPE, "D", seed):
        if kind in WRITES:
            written += run_page(page, direct.read, direct.write)[1] > 0
        if written == WRITTEN:
            break
    return written


def test_what_vtgate_answers_is_cached_and_each_hit_is_vtgates_answer(
    vitess: Cluster, sample: ExistingVitess, direct: Direct, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path, check="false") as proxy:
            evicted = set()
            for id in ACCEPTED:
                cache = await proxy.client.create_cache(CATALOGUE[id].sql, name=CATALOGUE[id].cache_name)
                assert (cache.state, cache.why) == ("ready", ""), id
                evicted |= {id} if cache.mode == "evict" else set()
            assert evicted == EVICTED
            for seed in (0, 1):
                if seed:
                    assert await asyncio.to_thread(write, direct, seed) == WRITTEN
                    await proxy.caught_up()
                compared, wrong = await compare(proxy, direct)
                assert not wrong and compared > 1_500

    run(scenario, 900)


def test_what_vtgate_refuses_is_not_cached_and_its_refusal_is_the_answer(
    vitess: Cluster, sample: ExistingVitess, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path) as proxy:
            for id, said in REFUSED.items():
                with pytest.raises(Exception, match="correlated subquery"):
                    await proxy.client.create_cache(CATALOGUE[id].sql, name=CATALOGUE[id].cache_name)
                with closing(await asyncio.to_thread(proxy.session)) as session:
                    with pytest.raises(pymysql.err.MySQLError) as refused:
                        await asyncio.to_thread(Direct(session).read, id, keys_of(id)[0])
                    assert refused.value.args[1] == said

    run(scenario)


def test_make_run_serves_the_keyspace_and_measures_the_sample_that_is_there(
    sample: ExistingVitess, tmp_path: Path
) -> None:
    command = (sys.executable, "-m", "examples.lobsters.run", "--demo", "--quick", f"--pictures={tmp_path}")
    environment = {**os.environ, "UPSTREAM": sample.url}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("not cached")]
    assert [line.split()[2] for line in told] == list(REFUSED) and all("correlated" in line for line in told)
    assert re.search(
        r"^[\d,]+ answers of both ports compared, [\d,]+ held ones audited: equal$", done.stdout, re.MULTILINE
    )
    assert re.search(r"^Pages by .* vtgate alone +with Upwell", done.stdout, re.MULTILINE), done.stdout


def test_the_sample_is_not_loaded_into_a_mysql_that_is_given(mysql: Server) -> None:
    command = (sys.executable, "-m", "examples.lobsters.run", "--demo", "--load")
    environment = {**os.environ, "UPSTREAM": mysql.url}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 3 and "--load is for a keyspace of Vitess" in done.stderr
