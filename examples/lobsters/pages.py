"""The site's traffic: an endless stream of pages in the mix that its operator measured, the same for the same seed.

A page is a generator: it yields reads and writes one by one and is sent the rows of each read. So the same pages run
against any reader, synchronous or not, and against MySQL for the writes. Rows are sequences in the order of the
query's columns. Every page is of a logged-in user; all draws are independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from random import Random
from typing import Any

from examples.lobsters.data import EPOCH, SPAN_SECONDS, Shape, draws_of, hotness, slug
from examples.lobsters.histogram import FOLDER
from examples.lobsters.queries import CATALOGUE, Parameters

# Positions in `SELECT *` of the tables.
STORY_ID, STORY_CREATED, STORY_USER, STORY_UP, STORY_DOWN = 0, 1, 2, 8, 9
COMMENT_ID, COMMENT_STORY, COMMENT_USER = 0, 4, 5
COMMENT_UP, COMMENT_DOWN = 9, 10
TAGGING_TAG, FILTER_TAG = 2, 4
# Positions in the queries of variant N.
N_STORY_USER, N_COMMENT_USER, N_COMMENT_STORY = 4, 2, 3

Rows = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Read:
    """A template of the catalogue with its parameters; lists are never empty."""

    id: str
    parameters: Parameters


@dataclass(frozen=True, slots=True)
class Write:
    """A statement for MySQL, in the driver's `%s` form."""

    sql: str
    parameters: tuple[Any, ...]


Page = Generator[Read | Write, Rows, None]

KINDS = {
    ("GET", "/stories/X"): "story",
    ("GET", "/"): "front",
    ("GET", "/u/X"): "user",
    ("GET", "/comments[/X]"): "comments",
    ("GET", "/recent[/X]"): "recent",
    ("POST", "/comments/X/upvote"): "comment_up",
    ("POST", "/comments/X/downvote"): "comment_down",
    ("POST", "/stories/X/upvote"): "story_up",
    ("POST", "/stories/X/downvote"): "story_down",
    ("POST", "/comments"): "comment",
    ("POST", "/comments/X"): "reply",
    ("POST", "/stories"): "submit",
    ("POST", "/login"): "login",
    ("POST", "/logout"): "logout",
}


def read_mix() -> dict[str, int]:
    """Requests of each kind of page, as counted on the site."""
    mix: dict[str, int] = {}
    for line in (FOLDER / "requests.dat").read_text().splitlines():
        count, _, method, path = line.split()
        mix[KINDS[method, path]] = int(count)
    return mix


def distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))


class PageStream:
    """Pages of one variant, "D" or "N". `writes=False` leaves out the pages that write and the ribbons;
    `ribbons=False` only the ribbons.

    Invariants: 1. which pages come, for whom and about what depends on the arguments only, never on rows.
    """

    def __init__(self, shape: Shape, variant: str, seed: int = 1, *, writes: bool = True, ribbons: bool = True) -> None:
        if variant not in ("D", "N"):
            raise ValueError(f"variant {variant!r} is neither D nor N")
        self.shape, self.variant = shape, variant
        self.ribbons = ribbons and writes
        self._random, self._draws = Random(seed), draws_of(shape)
        mix = {kind: count for kind, count in read_mix().items() if writes or kind in Builder.READS}
        self._kinds = list(mix)
        self._weights = list(accumulate(mix.values()))
        self._came: Counter[str] = Counter()
        self.number = 0

    def __iter__(self) -> Iterator[tuple[str, Page]]:
        return self

    def __next__(self) -> tuple[str, Page]:
        """The kind of the next page, and the page."""
        self.number += 1
        kind = self._kind()
        # A seed for each page: what a page draws while it runs does not move the pages after it.
        builder = Builder(self, self._random.getrandbits(64), EPOCH + timedelta(seconds=SPAN_SECONDS + self.number))
        return kind, builder.page(kind)

    def draws(self, seed: int) -> tuple[Random, Any]:
        return Random(seed), self._draws

    def _kind(self) -> str:
        return self._random.choices(self._kinds, cum_weights=self._weights)[0]


class EvenStream(PageStream):
    """The same mix, but each kind comes at even distances: a few pages of it are like many. Which kind comes does not
    depend on the seed."""

    def _kind(self) -> str:
        """The one that is furthest behind its part of all pages."""
        parts = zip(self._kinds, pairwise((0, *self._weights)), strict=True)
        behind = {
            kind: (end - begin) * self.number - self._came[kind] * self._weights[-1] for kind, (begin, end) in parts
        }
        kind = max(behind, key=behind.__getitem__)
        self._came[kind] += 1
        return kind


class Builder:
    """One page: the acting user, the time, and the steps of each kind of page."""

    READS = frozenset({"story", "front", "user", "comments", "recent"})

    def __init__(self, stream: PageStream, seed: int, now: datetime) -> None:
        self._random, self._draws = stream.draws(seed)
        self._shape, self._ribbons = stream.shape, stream.ribbons
        self._natural = stream.variant == "N"
        self._now = now
        self._user = self._draws.user.draw(self._random) + 1

    def page(self, kind: str) -> Page:
        steps: dict[str, Callable[[], Page]] = {
            "story": self._story,
            "front": self._front,
            "user": self._profile,
            "comments": self._comments,
            "recent": self._recent,
            "story_up": lambda: self._story_vote(1),
            "story_down": lambda: self._story_vote(0),
            "comment_up": lambda: self._comment_vote(1),
            "comment_down": lambda: self._comment_vote(0),
            "comment": lambda: self._comment(reply=False),
            "reply": lambda: self._comment(reply=True),
            "submit": self._submit,
            "login": self._login,
            "logout": lambda: iter_nothing(),
        }
        return steps[kind]()

    def _pick(self, natural: str, denormalised: str) -> str:
        return natural if self._natural else denormalised

    # -- pages that read ----------------------------------------------------------------------------------------------

    def _story(self) -> Page:
        user = self._user
        stories = yield Read(self._pick("S1-N", "S1-D"), (slug(self._draws.story.draw(self._random)),))
        story, author = stories[0][0], stories[0][N_STORY_USER if self._natural else STORY_USER]
        yield Read("S2", (author,))
        ribbons = yield Read("S3", (user, story))
        if self._ribbons:
            yield self._ribbon(story, ribbons)
        yield Read("S4", (story,))
        comments = yield Read(self._pick("S5-N", "S5-D"), (story,))
        if comments:
            commenter = N_COMMENT_USER if self._natural else COMMENT_USER
            yield Read("S6", (distinct(row[commenter] for row in comments),))
            ids = tuple(row[COMMENT_ID] for row in comments)
            yield Read("C5", (user, ids)) if self._natural else Read("S7-D", (ids,))
        for template in ("S8", "S9", "S10"):
            yield Read(template, (user, story))
        taggings = yield Read("S11", (story,))
        if taggings:
            yield Read("S12", (distinct(row[TAGGING_TAG] for row in taggings),))
        yield from self._notifications()

    def _ribbon(self, story: int, ribbons: Rows) -> Write:
        if ribbons:
            return Write("UPDATE read_ribbons SET updated_at = %s WHERE id = %s", (self._now, ribbons[0][0]))
        return Write(
            "INSERT INTO read_ribbons (created_at, updated_at, user_id, story_id) VALUES (%s, %s, %s, %s)",
            (self._now, self._now, self._user, story),
        )

    def _notifications(self) -> Page:
        yield Read(self._pick("NT1-N", "NT1-D"), (self._user,))
        yield Read("NT2", (f"user:{self._user}:unread_messages",))

    def _front(self) -> Page:
        yield from self._list("F1a-N", "F1b-N", "F1-D")

    def _recent(self) -> Page:
        yield from self._list("R1a-N", "R1b-N", "R1-D")

    def _list(self, natural_ids: str, natural_stories: str, denormalised: str) -> Page:
        user = self._user
        if self._natural:
            ids = tuple(row[0] for row in (yield Read(natural_ids, ())))
            stories = yield Read(natural_stories, (ids,))
            authors = distinct(row[N_STORY_USER] for row in stories)
        else:
            stories = yield Read(denormalised, ())
            ids = tuple(row[STORY_ID] for row in stories)
            authors = distinct(row[STORY_USER] for row in stories)
            yield Read("F2-D", (user,))
        filters = yield Read("F3", (user,))
        if self._natural:
            yield Read("F4-N", (ids,))
        elif filters:
            yield Read("F4-D", (ids, distinct(row[FILTER_TAG] for row in filters)))
        if authors:
            yield Read("S6", (authors,))
        yield Read("F6", (ids,))
        yield Read("F7", (ids,))
        taggings = yield Read("F8", (ids,))
        if taggings:
            yield Read("S12", (distinct(row[TAGGING_TAG] for row in taggings),))
        for template in ("F10", "F11", "F12"):
            yield Read(template, (user, ids))
        yield from self._notifications()

    def _profile(self) -> Page:
        name = f"user{self._draws.user.draw(self._random) + 1}"
        shown = (yield Read("U1", (name,)))[0][0]
        if self._natural:
            tags = yield Read("U2a-N", (shown,))
            if tags:
                yield Read("U2b-N", (tags[0][0],))
            yield Read("U3-N", (shown,))
        else:
            yield Read("U2-D", (shown,))
            yield Read("NT2", (f"user:{shown}:stories_submitted",))
            yield Read("NT2", (f"user:{shown}:comments_posted",))
        yield Read("U5", (shown,))
        yield from self._notifications()

    def _comments(self) -> Page:
        if self._natural:
            newest = yield Read("C1a-N", ())
            comments = yield Read("C1b-N", (tuple(row[0] for row in newest),))
            story_of, user_of = N_COMMENT_STORY, N_COMMENT_USER
        else:
            comments = yield Read("C1-D", ())
            story_of, user_of = COMMENT_STORY, COMMENT_USER
        ids = tuple(row[COMMENT_ID] for row in comments)
        about = distinct(row[story_of] for row in comments)
        yield Read("C2", (self._user, about))
        yield Read("S6", (distinct(row[user_of] for row in comments),))
        stories = yield Read(self._pick("R1b-N", "C4-D"), (about,))
        yield Read("C5", (self._user, ids))
        authors = distinct(row[N_STORY_USER if self._natural else STORY_USER] for row in stories)
        if authors:
            yield Read("S6", (authors,))
        yield from self._notifications()

    # -- pages that write ---------------------------------------------------------------------------------------------

    def _story_vote(self, up: int) -> Page:
        short_id = slug(self._draws.story.draw(self._random))
        if self._natural:
            story, author = (yield Read("W1-N", (short_id,)))[0]
            row: Sequence[Any] = ()
        else:
            row = (yield Read("S1-D", (short_id,)))[0]
            story, author = row[STORY_ID], row[STORY_USER]
        mine = yield Read("S8", (self._user, story))
        if not self._natural:
            yield from self._score_reads(story)
        if mine:
            return  # who has voted already changes nothing here
        sql = "INSERT INTO votes (user_id, story_id, vote) VALUES (%s, %s, %s)"
        yield Write(sql, (self._user, story, up))
        if not self._natural:
            yield karma(author, up)
            yield self._story_counters(row, up)

    def _score_reads(self, story: int) -> Page:
        """What the site reads in variant D to compute a story's hotness."""
        yield Read("W5-D", (story,))
        yield Read("W6-D", (story,))
        yield Read("S4", (story,))

    def _story_counters(self, story: Sequence[Any], up: int) -> Write:
        score = story[STORY_UP] - story[STORY_DOWN] + (1 if up else -1)
        return Write(
            "UPDATE stories SET upvotes = upvotes + %s, downvotes = downvotes + %s, hotness = %s WHERE id = %s",
            (up, 1 - up, hotness(score, story[STORY_CREATED]), story[STORY_ID]),
        )

    def _comment_vote(self, up: int) -> Page:
        rows = yield Read("W2", (slug(self._draws.comment.draw(self._random)),))
        comment, story, author = (rows[0][i] for i in (COMMENT_ID, COMMENT_STORY, COMMENT_USER))
        mine = yield Read("W3", (self._user, story, comment))
        stories: Rows = ()
        if not self._natural:
            stories = yield Read("W4-D", (story,))
            yield from self._score_reads(story)
        if mine:
            return
        sql = "INSERT INTO votes (user_id, story_id, comment_id, vote) VALUES (%s, %s, %s, %s)"
        yield Write(sql, (self._user, story, comment, up))
        if not self._natural:
            yield karma(author, up)
            sql = "UPDATE comments SET upvotes = upvotes + %s, downvotes = downvotes + %s WHERE id = %s"
            yield Write(sql, (up, 1 - up, comment))
            yield self._story_counters(stories[0], up)  # the site moves the story's counters, too

    def _comment(self, reply: bool) -> Page:
        short_id = slug(self._draws.commented_story.draw(self._random))
        rows = yield Read(self._pick("W1-N", "S1-D"), (short_id,))
        story, author = rows[0][0], rows[0][1 if self._natural else STORY_USER]
        yield Read("S2", (author,))
        parent = None
        if reply:
            replied = yield Read("W7", (story, slug(self._draws.comment.draw(self._random))))
            parent = replied[0][COMMENT_ID] if replied else None
        fresh = self._fresh_slug(self._shape.comments)
        while (yield Read("W8", (fresh,))):
            fresh = self._fresh_slug(self._shape.comments)
        yield Read("W3", (self._user, story, 0))
        if not self._natural:
            yield from self._score_reads(story)
            yield Read("S5-D", (story,))
        sql = (
            "INSERT INTO comments (created_at, updated_at, short_id, story_id, user_id, parent_comment_id, comment,"
            " upvotes, confidence, markeddown_comment) VALUES (%s, %s, %s, %s, %s, %s, %s, 1, 0.3784, %s)"
        )
        texts = "moar benchmarking", "<p>moar benchmarking</p>"
        yield Write(sql, (self._now, self._now, fresh, story, self._user, parent, *texts))
        sql = (
            "INSERT INTO votes (user_id, story_id, comment_id, vote)"
            " SELECT %s, story_id, id, 1 FROM comments WHERE short_id = %s"
        )
        yield Write(sql, (self._user, fresh))
        if not self._natural:
            yield Write("UPDATE stories SET comments_count = comments_count + 1 WHERE id = %s", (story,))
            heat = hotness(rows[0][STORY_UP] - rows[0][STORY_DOWN], rows[0][STORY_CREATED])
            yield Write("UPDATE stories SET hotness = %s WHERE id = %s", (heat, story))
            yield count_up(f"user:{self._user}:comments_posted")

    def _submit(self) -> Page:
        tags = yield Read("W10", (("test", "tag1"),))
        fresh = self._fresh_slug(self._shape.stories)
        while (yield Read("W9", (fresh,))):
            fresh = self._fresh_slug(self._shape.stories)
        if not self._natural:
            yield Read("NT2", (f"user:{self._user}:stories_submitted",))
        yield Read("S8", (self._user, 0))
        columns = "created_at, user_id, title, description, short_id, upvotes, hotness, markeddown_description"
        heat = hotness(1, self._now)
        values = (self._now, self._user, f"Article {fresh}", "to infinity", fresh, 1, heat, "<p>to infinity</p>")
        yield Write(f"INSERT INTO stories ({columns}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", values)
        sql = "INSERT INTO taggings (story_id, tag_id) SELECT id, %s FROM stories WHERE short_id = %s"
        yield Write(sql, (tags[0][0], fresh))
        sql = "INSERT INTO votes (user_id, story_id, vote) SELECT user_id, id, 1 FROM stories WHERE short_id = %s"
        yield Write(sql, (fresh,))
        if not self._natural:
            yield count_up(f"user:{self._user}:stories_submitted")

    def _login(self) -> Page:
        name = f"user{self._user}"
        if not (yield Read("W11", (name,))):
            yield Write("INSERT INTO users (username) VALUES (%s)", (name,))

    def _fresh_slug(self, used: int) -> str:
        return slug(self._random.randrange(used, 36**6))


def karma(author: int, up: int) -> Write:
    return Write("UPDATE users SET karma = karma + %s WHERE id = %s", (1 if up else -1, author))


def count_up(key: str) -> Write:
    sql = "INSERT INTO keystores (`key`, `value`) VALUES (%s, 1) ON DUPLICATE KEY UPDATE `value` = `value` + 1"
    return Write(sql, (key,))


def iter_nothing() -> Page:
    """A page without reads or writes."""
    yield from ()


def run_page(page: Page, read: Callable[[str, Parameters], Rows], write: Callable[[Write], None]) -> tuple[int, int]:
    """Runs a page to its end, one statement after the other; (reads, writes)."""
    reads = writes = 0
    rows: Rows = ()
    try:
        step = next(page)
        while True:
            if isinstance(step, Read):
                assert step.id in CATALOGUE
                rows = read(step.id, step.parameters)
                reads += 1
            else:
                write(step)
                rows = ()
                writes += 1
            step = page.send(rows)
    except StopIteration:
        return reads, writes
