"""The catalogue of `queries.sql` as templates, and parameters for them drawn with the site's skew."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from random import Random

from examples.lobsters.data import TAGS, Shape, draws_of, slug

FILE = Path(__file__).with_name("queries.sql")

Parameter = int | str | tuple[int, ...] | tuple[str, ...]
Parameters = tuple[Parameter, ...]

PAGES = {
    "S": "story",
    "F": "front page",
    "R": "recent",
    "U": "user",
    "C": "comments",
    "NT": "nearly all",
    "W": "pages that write",
    "X": "none",
}


class Compare(Enum):
    """How two answers to a template are equal."""

    ORDERED = "ordered"  # the query's order is total, or there is one row at most
    BAG = "bag"  # MySQL may give the rows in any order, or orders ties as it likes
    ONE_OF = "one_of"  # MySQL may give any of the rows of `allowed`


@dataclass(frozen=True, slots=True)
class Template:
    """A read of the catalogue.

    `steps`: the page steps that send it. `draws`: names of Sample's draws, one a parameter. `allowed`: for
    Compare.ONE_OF the query whose rows are all right; its parameters are this query's, twice.
    """

    id: str
    steps: tuple[str, ...]
    draws: tuple[str, ...]
    compare: Compare
    title: str
    sql: str
    allowed: str = ""

    @property
    def variants(self) -> str:
        return self.id[-1] if self.id[-2:] in ("-D", "-N") else "DN"

    @property
    def page(self) -> str:
        prefix = re.match(r"[A-Z]+", self.id)
        return PAGES[prefix.group() if prefix else "X"]

    @property
    def cache_name(self) -> str:
        return "lobsters_" + self.id.lower().replace("-", "_")


def parse(text: str) -> dict[str, Template]:
    """Templates by id from the text of `queries.sql`. Raises ValueError on an entry that is not well-formed."""
    found: dict[str, Template] = {}
    for entry in re.split(r"^-- (?=[A-Z]+[0-9]+[a-z]?(?:-[DN])? \|)", text, flags=re.MULTILINE)[1:]:
        head, _, body = entry.partition("\n")
        id, steps, draws, compare, title = (part.strip() for part in head.split("|"))
        sql, _, allowed = (" ".join(part.split()).rstrip(";") for part in body.partition("-- allowed"))
        if not sql.startswith("SELECT") or id in found or (compare == Compare.ONE_OF.value) != bool(allowed):
            raise ValueError(f"entry {head!r} is not well-formed, or is there twice")
        found[id] = Template(id, _words(steps), _words(draws), Compare(compare), title, sql, allowed)
    return found


def _words(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split())


CATALOGUE = parse(FILE.read_text())


def of_variant(variant: str) -> list[Template]:
    """The templates that pages of variant "D" or "N" send."""
    return [template for template in CATALOGUE.values() if variant in template.variants and template.steps]


class Sample:
    """Parameters for single templates. `of(template)` gives the next ones; the same seed gives the same sequence."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self._random = Random(seed)
        self._draws = draws_of(shape)
        self._by_name: dict[str, Callable[[], Parameter]] = {
            "user": self.user,
            "users": lambda: _distinct(self.user, 20),
            "username": lambda: f"user{self.user()}",
            "story": self.story,
            "stories": lambda: _distinct(self.story, 51),
            "short_id": lambda: slug(self.story() - 1),
            "comment": self.comment,
            "comments": lambda: _distinct(self.comment, 40),
            "comment_short_id": lambda: slug(self.comment() - 1),
            "tag": self.tag,
            "tags": lambda: _distinct(self.tag, 3),
            "tag_names": lambda: tuple(f"tag{tag}" for tag in _distinct(self.tag, 3)),
            "counter": self.counter,
        }

    def of(self, template: Template) -> Parameters:
        drawn: list[Parameter] = []
        for name in template.draws:
            drawn.append(drawn[-1] if name == "same" else self._by_name[name]())
        return tuple(drawn)

    def user(self) -> int:
        return self._draws.user.draw(self._random) + 1

    def story(self) -> int:
        return self._draws.story.draw(self._random) + 1

    def comment(self) -> int:
        return self._draws.comment.draw(self._random) + 1

    def tag(self) -> int:
        return self._random.randrange(TAGS) + 1

    def counter(self) -> str:
        kind = self._random.choice(("unread_messages", "stories_submitted", "comments_posted"))
        return f"user:{self.user()}:{kind}"


def _distinct(draw: Callable[[], int], count: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(draw() for _ in range(count)))
