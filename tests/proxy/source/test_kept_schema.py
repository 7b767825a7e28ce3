"""What the schema was a moment ago: when the source is asked again, and for what."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from proxy.source.kept_schema import LONGEST, KeptSchema
from sqltypes.schema import SchemaSnapshot, View

NAMES = [("d", name) for name in "abc"]


class Source:
    """Has all names but `c`, each as it is now: of this version. Spells them in upper case where names are folded."""

    def __init__(self, *, folds: bool = False) -> None:
        self.version, self.folds = 0, folds
        self.asked: list[set[tuple[str, str]]] = []
        self.meanwhile: list[object] = []  # what is done while it is asked

    async def snapshot(self, names: Iterable[tuple[str, str]]) -> SchemaSnapshot:
        wanted, version = set(names), self.version
        self.asked.append(wanted)
        await asyncio.sleep(0)
        if self.meanwhile:
            self.meanwhile.pop()()  # type: ignore[operator]
        there = [View(schema, name, f"SELECT {version}") for schema, name in wanted if name.lower() != "c"]
        spelled = {(one.schema, one.name.upper() if self.folds else one.name): one for one in there}
        return SchemaSnapshot(dict(spelled), (9, 7, version), int(self.folds))


def of(snapshot: SchemaSnapshot) -> dict[str, str]:
    return {name: str(getattr(relation, "definition", relation)) for (_, name), relation in snapshot.relations.items()}


def test_each_relation_is_asked_for_once_though_it_is_absent() -> None:
    async def scenario() -> None:
        source = Source()
        kept = KeptSchema(source)
        for wanted in ((), NAMES[:1], NAMES, NAMES[1:], NAMES[2:]):
            assert set(of(await kept.snapshot(wanted))) == {name for _, name in wanted} - {"c"}
            kept.check_invariants()
        assert source.asked == [set(), {("d", "a")}, {("d", "b"), ("d", "c")}]

    asyncio.run(scenario())


def test_a_ddl_statement_makes_all_of_it_old_also_while_the_source_is_asked() -> None:
    async def scenario() -> None:
        source = Source()
        kept = KeptSchema(source)
        await kept.snapshot(NAMES)

        def defined() -> None:
            source.version += 1
            kept.forget()

        source.meanwhile = [defined]
        found = await kept.snapshot([*NAMES, ("d", "e")])
        assert found.server_version == (9, 7, 1) and "SELECT 0" not in of(found).values()
        assert source.asked[1:] == [{("d", "e")}, {*NAMES, ("d", "e")}]
        defined()
        assert set(of(await kept.snapshot(NAMES)).values()) == {"SELECT 2"}

    asyncio.run(scenario())


def test_it_is_asked_again_after_a_while_though_nothing_has_changed() -> None:
    async def scenario() -> None:
        source, now = Source(), 0.0
        kept = KeptSchema(source, lambda: now)
        for now in (0.0, LONGEST / 2, LONGEST, LONGEST + 1, LONGEST + 2, 2 * LONGEST + 2):  # noqa: B007
            await kept.snapshot(NAMES)
        assert len(source.asked) == 3

    asyncio.run(scenario())


def test_names_in_another_case_are_the_same_where_the_source_folds_them() -> None:
    async def scenario() -> None:
        kept = KeptSchema(Source(folds=True))
        for name in ("a", "A"):
            assert list((await kept.snapshot([("d", name)])).relations) == [("d", "A")]
            kept.check_invariants()

    asyncio.run(scenario())


@given(st.lists(st.one_of(st.just("defined"), st.just("later"), st.sets(st.sampled_from(NAMES))), max_size=20))
def test_what_is_told_is_what_the_source_has_though_asked_side_by_side(steps: list[str | set[tuple[str, str]]]) -> None:
    async def scenario() -> None:
        source, now = Source(), 0.0
        kept = KeptSchema(source, lambda: now)

        async def one(wanted: set[tuple[str, str]]) -> None:
            least = source.version
            found = await kept.snapshot(wanted)
            assert set(of(found)) == {name for _, name in wanted} - {"c"}
            assert all(int(sql.split()[1]) >= least for sql in of(found).values())
            kept.check_invariants()

        running = []
        for step in steps:
            if step == "defined":
                source.version += 1
                kept.forget()
            elif step == "later":
                now += LONGEST / 2
            else:
                assert isinstance(step, set)
                running.append(asyncio.create_task(one(step)))
            if len(running) % 2:
                await asyncio.sleep(0)
        await asyncio.gather(*running)

    asyncio.run(scenario())
