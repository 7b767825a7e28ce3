"""What object-relational mappers send has MySQL's answers through Upwell, with no fewer hits than were reached once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from integration.orm_statements.judge import play
from integration.orm_statements.run import World, judged, told, world
from integration.orm_statements.script import SCRIPTS, Bound, Header, Script, Step, read
from integration.servers.mysql_server import Server

# Of each script: how many of its deterministic SELECTs are hits when they are asked again.
HITS = {
    "activerecord": 156,
    "activerecord_prepared": 156,
    "django": 120,
    "drizzle": 18,
    "eloquent": 145,
    "hibernate": 127,
    "hibernate_prepared": 125,
    "knex": 24,
    "prisma": 97,
    "prisma_join": 81,
    "sequelize": 93,
    "sqlalchemy": 139,
    "typeorm": 33,
}


@pytest.fixture(scope="module")
def here(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(mysql, tmp_path_factory.mktemp("upwell"), f"t{os.getpid()}_orm") as found:
        yield found


def test_each_script_is_judged() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.jsonl")} == set(HITS)


@pytest.mark.parametrize("name", HITS)
def test_answers_are_those_of_mysql_and_as_many_are_hits(name: str, here: World) -> None:
    found = judged(read(SCRIPTS / f"{name}.jsonl"), here, HITS[name])
    assert not found.wrong, "\n".join(found.wrong)
    assert found.asked >= len(found.script.steps)
    assert found.hits >= HITS[name], "\n".join(told(found, each=True))


def test_a_row_that_differs_is_told(here: World, mysql: Server) -> None:
    direct, through = here.places()
    mysql.execute(f"UPDATE {through.database}.tags SET name = 'another' WHERE id = 1")
    step = Step("SELECT name FROM tags WHERE id = ? OR name = 'never'", (Bound("LONG", 1),))
    played = play(Script("one", Header("nothing", "by hand"), (step,)), direct, through, ())
    assert played.wrong and all(wrong.startswith("rows") and "another" in wrong for wrong in played.wrong)
