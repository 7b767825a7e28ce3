"""When nobody writes and the proxy has everything: what each cache answers equals what MySQL answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from examples.lobsters.cached import Cached, Made, wait_until_current
from examples.lobsters.direct import Direct
from examples.lobsters.load import DATABASE as SAMPLE
from examples.lobsters.load import connect
from examples.lobsters.measure import same
from examples.lobsters.queries import CATALOGUE
from integration.hammer import own
from integration.hammer.disturb import RECOVERY, Scene
from integration.hammer.judge import Finding
from integration.hammer.readers import Asked
from integration.hammer.tables import DATABASE, GROUPS, VERSIONED, keys_of, nothing, the_group
from integration.hammer.tables import key_twice as twice
from upwell.rows import Answer

Rows = Sequence[Sequence[Any]]


def at_rest(scene: Scene, made: Made, asked: Asked) -> None:
    """Compares every versioned key, and the sample's keys that were read last, with MySQL.

    Requires: no writer is running. Raises TimeoutError where the proxy does not reach MySQL's position.
    """
    scene.until(scene.follows, "the proxy follows MySQL", RECOVERY)
    with connect(scene.server, DATABASE) as connection:
        wait_until_current(scene.client, connection, RECOVERY)
        scene.until(lambda: all(c.state == "ready" for c in scene.client.caches()), "every cache is planned", RECOVERY)
        direct = Direct(connection)
        for name, versioned in VERSIONED.items():
            equal = in_order if "ORDER BY" in versioned.sql else as_bag
            for parameters in every_key(name):
                wanted = direct.query(versioned.sql, driver_values(parameters))
                compare(scene, name, parameters, wanted, scene.client.cache(name).get, equal)
        for name, sql in own.CACHES.items():
            for parameters in own.every_key(name):
                wanted = direct.query(sql, driver_values(parameters))
                compare(scene, name, parameters, wanted, scene.client.cache(name).get, as_bag)
    cached = Cached(scene.client, SAMPLE, made)
    with connect(scene.server, SAMPLE) as connection:
        direct = Direct(connection)
        for id, parameters in asked.all():
            if id in made.names:

                def equal(wanted: Rows, got: Rows, id: str = id, parameters: Any = parameters) -> bool:
                    return same(CATALOGUE[id], direct, parameters, wanted, got)

                compare(scene, id, parameters, direct.read(id, parameters), cached.cache(id).get, equal)


def compare(
    scene: Scene,
    cache: str,
    parameters: tuple[Any, ...],
    wanted: Rows,
    get: Callable[..., Answer],
    equal: Callable[[Rows, Rows], bool],
) -> None:
    """A key as it is found, and if it was a hole as it was filled."""
    for _ in range(2):
        answer = get(*parameters)
        scene.tally[f"at rest {answer.served}"] += 1
        if not equal(wanted, answer):
            extra = Counter(map(tuple, answer)) - Counter(map(tuple, wanted))
            missing = Counter(map(tuple, wanted)) - Counter(map(tuple, answer))
            scene.findings.append(
                Finding(
                    "at rest",
                    f"cache {cache}, parameters {parameters!r}: {answer.served} at {answer.position!r}\n"
                    f"  too many {dict(extra)}\n  missing {dict(missing)}\n"
                    f"  got {list(map(tuple, answer))}\n  wanted {list(map(tuple, wanted))}",
                )
            )
        if answer.served == "hit":
            return


def every_key(name: str) -> Iterator[tuple[Any, ...]]:
    ask = VERSIONED[name].ask
    if ask is nothing:
        yield ()
        return
    for group in range(GROUPS):
        if ask is the_group:
            yield (group,)
        elif "IN (?)" in VERSIONED[name].sql:
            yield (list(keys_of(group)),)
        else:
            for key in keys_of(group):
                yield (key, key) if ask is twice else (key,)


def driver_values(parameters: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in parameters)


def in_order(wanted: Rows, got: Rows) -> bool:
    return list(map(tuple, wanted)) == list(map(tuple, got))


def as_bag(wanted: Rows, got: Rows) -> bool:
    return Counter(map(tuple, wanted)) == Counter(map(tuple, got))
