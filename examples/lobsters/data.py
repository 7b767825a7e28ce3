"""The sample's rows: the same for the same seed, set and Python, on every machine.

Sizes and skew are the real site's (`histogram.py`). Four deviations from the published benchmark, so that there is
something to cache: (a) the historic votes are there, half for stories and half for comments, 4.2 % and 7.9 % of them
down; (b) comments are spread over stories as on the site, not three each; (c) 100 tags, one to three a story; (d) the
tables that the benchmark leaves empty have rows. `faithful=True` gives the benchmark's own data, without a to d.

All times are derived from `EPOCH`: nothing depends on the clock.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from random import Random

from examples.lobsters.histogram import Histogram

EPOCH = datetime(2026, 1, 1)
SPAN_SECONDS = 14 * 86_400  # stories, comments and ribbons are spread over this time from EPOCH on
SEED = 7
TAGS = 100
HOTNESS_WINDOW_SECONDS = 22 * 3600

Cell = int | str | None
Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Numbers of entities of a set."""

    name: str
    users: int
    stories: int
    comments: int
    votes: int

    def share_of(self, count: int) -> int:
        """What is `count` in the set `std`, scaled like this set's votes; at least 1."""
        return max(1, count * self.votes // 1_000_000)


SETS = {
    "tiny": Shape("tiny", 580, 4_000, 12_000, 60_000),
    "mid": Shape("mid", 1_450, 10_000, 30_000, 250_000),
    "std": Shape("std", 5_797, 40_650, 121_270, 1_000_000),
    "users10": Shape("users10", 57_970, 40_650, 121_270, 1_000_000),
}


def shape_of(scale: str) -> Shape:
    """The set of that name, or `std` times a number. Raises ValueError, saying what would be accepted."""
    if scale in SETS:
        return SETS[scale]
    names = ", ".join(SETS)
    try:
        factor = float(scale)
    except ValueError:
        raise ValueError(f"SCALE={scale!r} is neither one of {names} nor a number") from None
    if not 0.01 <= factor <= 50:
        raise ValueError(f"SCALE={scale!r} is not between 0.01 and 50 (times the set std), nor one of {names}")
    std = SETS["std"]
    return Shape(
        f"{factor:g}",
        round(std.users * factor),
        round(std.stories * factor),
        round(std.comments * factor),
        round(std.votes * factor),
    )


@dataclass(frozen=True, slots=True)
class Draws:
    """The four samplers of a set; each gives 0-based entities."""

    user: Histogram
    story: Histogram
    comment: Histogram
    commented_story: Histogram


@cache
def draws_of(shape: Shape) -> Draws:
    return Draws(
        Histogram("votes_per_user", shape.users),
        Histogram("votes_per_story", shape.stories),
        Histogram("votes_per_comment", shape.comments),
        Histogram("comments_per_story", shape.stories),
    )


def slug(number: int) -> str:
    """Six characters in base 36, as the site's short ids."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    for _ in range(6):
        number, digit = divmod(number, 36)
        text = digits[digit] + text
    return text


def instant(seconds: int) -> str:
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


def hotness(score: int, created_at: datetime) -> Decimal:
    """Smaller is hotter: the logarithm of the score plus the age in windows, negated."""
    order = math.log10(max(abs(score), 1)) * (score > 0) - math.log10(max(abs(score), 1)) * (score < 0)
    age = (created_at - EPOCH).total_seconds() / HOTNESS_WINDOW_SECONDS
    return Decimal(f"{0.0 - (order + age):.10f}")


def confidence(up: int, down: int) -> str:
    """Lower bound of the share of up-votes (Wilson), 19 digits as the column holds."""
    count = up + down
    if not count:
        return "0"
    z = 1.281551565545
    share = up / count
    middle = share + z * z / (2 * count)
    spread = z * math.sqrt((share * (1 - share) + z * z / (4 * count)) / count)
    return f"{max(0.0, (middle - spread) / (1 + z * z / count)):.19f}"


class Dataset:
    """The rows of one set, table by table: `for table, columns, rows in dataset.tables()`.

    The tables must be read one after the other, in the order in which they come: they share one random source.

    Invariants: 1. the votes of a story or comment equal its denormalised counters. 2. no user votes twice for a thing.
    """

    def __init__(self, shape: Shape, seed: int = SEED, faithful: bool = False) -> None:
        self.shape = shape
        self.faithful = faithful
        self._random = Random(seed)
        self._draws = draws_of(shape)
        draws, random = self._draws, self._random
        self.story_user = [user + 1 for user in draws.user.draws(random, shape.stories)]
        self.comment_user = [user + 1 for user in draws.user.draws(random, shape.comments)]
        if faithful:
            self.comment_story = [i % shape.stories + 1 for i in range(shape.comments)]
        else:
            self.comment_story = [s + 1 for s in draws.commented_story.draws(random, shape.comments)]
        self._vote()

    def tables(self) -> Iterator[tuple[str, tuple[str, ...], int, Iterator[Row]]]:
        """(table, columns, about how many rows, rows), the largest first."""
        shape = self.shape
        yield "votes", ("user_id", "story_id", "comment_id", "vote"), len(self.vote_user), self._votes()
        columns = "id created_at updated_at short_id story_id user_id parent_comment_id comment upvotes downvotes"
        names = (*columns.split(), "confidence", "markeddown_comment")
        yield "comments", names, shape.comments, self._comments()
        columns = "id created_at user_id title description short_id upvotes downvotes hotness"
        names = (*columns.split(), "markeddown_description", "comments_count")
        yield "stories", names, shape.stories, self._stories()
        yield "taggings", ("story_id", "tag_id"), shape.stories, self._taggings()
        yield "users", ("id", "username", "karma"), shape.users, self._users()
        yield "tags", ("id", "tag", "hotness_mod"), 1 if self.faithful else TAGS, self._tags()
        yield "keystores", ("key", "value"), shape.users * 3, self._keystores()
        if not self.faithful:
            yield from self._otherwise_empty()

    def _vote(self) -> None:
        """Fills the vote columns: first the authors' own, then the historic ones, without a repeated pair."""
        stories, comments = self.shape.stories, self.shape.comments
        self.vote_user = array("I", self.story_user + self.comment_user)
        self.vote_story = array("I", [*range(1, stories + 1), *self.comment_story])
        self.vote_comment = array("I", [0] * stories + list(range(1, comments + 1)))  # 0: a vote for the story
        self.vote_up = bytearray(b"\1" * len(self.vote_user))
        if self.faithful:
            return
        extra = max(0, self.shape.votes - len(self.vote_user))
        for_stories = extra // 2
        self._vote_for(self._draws.story, for_stories, self.story_user, 0.042, comment=False)
        self._vote_for(self._draws.comment, extra - for_stories, self.comment_user, 0.079, comment=True)

    def _vote_for(self, things: Histogram, count: int, authors: list[int], down: float, comment: bool) -> None:
        random = self._random
        seen = {author << 32 | thing for thing, author in enumerate(authors, 1)}
        wanted = min(count, things.size * (self.shape.users - 1))
        while wanted:
            users = self._draws.user.draws(random, wanted)
            for user, drawn in zip(users, things.draws(random, wanted), strict=True):
                user, thing = user + 1, drawn + 1
                pair = user << 32 | thing
                if pair in seen:
                    continue
                seen.add(pair)
                wanted -= 1
                self.vote_user.append(user)
                self.vote_story.append(self.comment_story[drawn] if comment else thing)
                self.vote_comment.append(thing if comment else 0)
                self.vote_up.append(random.random() >= down)

    def _votes(self) -> Iterator[Row]:
        for user, story, comment, up in zip(
            self.vote_user, self.vote_story, self.vote_comment, self.vote_up, strict=True
        ):
            yield user, story, comment or None, up

    def _tallies(self, comments: bool) -> tuple[list[int], list[int]]:
        """Up-votes and down-votes by id (index 0 unused), of comments or of stories."""
        tallies = [[0] * (len(self.comment_user if comments else self.story_user) + 1) for _ in range(2)]
        down, up = tallies
        for story, comment, is_up in zip(self.vote_story, self.vote_comment, self.vote_up, strict=True):
            if bool(comment) == comments:
                tallies[is_up][comment or story] += 1
        return up, down

    def _stories(self) -> Iterator[Row]:
        up, down = self._tallies(comments=False)
        comments = Counter(self.comment_story)
        step = SPAN_SECONDS / self.shape.stories
        for i, user in enumerate(self.story_user):
            story, seconds = i + 1, int(i * step)
            heat = hotness(up[story] - down[story], EPOCH + timedelta(seconds=seconds))
            text = f"Base article {i}", "to infinity", slug(i)
            counters = up[story], down[story], f"{heat:f}"
            yield story, instant(seconds), user, *text, *counters, "<p>to infinity</p>", comments[story]

    def _comments(self) -> Iterator[Row]:
        up, down = self._tallies(comments=True)
        random, step = self._random, SPAN_SECONDS / self.shape.comments
        earlier: dict[int, list[int]] = {}
        for i, (story, user) in enumerate(zip(self.comment_story, self.comment_user, strict=True)):
            comment, when = i + 1, instant(int(i * step))
            siblings = earlier.setdefault(story, [])
            parent = random.choice(siblings) if siblings and random.random() < 0.5 else None
            siblings.append(comment)
            place = slug(i), story, user, parent, "moar benchmarking"
            counters = up[comment], down[comment], confidence(up[comment], down[comment])
            yield comment, when, when, *place, *counters, "<p>moar benchmarking</p>"

    def _users(self) -> Iterator[Row]:
        karma = [0] * (self.shape.users + 1)
        for story, comment, up in zip(self.vote_story, self.vote_comment, self.vote_up, strict=True):
            author = self.comment_user[comment - 1] if comment else self.story_user[story - 1]
            karma[author] += 1 if up else -1
        for user in range(1, self.shape.users + 1):
            yield user, f"user{user}", karma[user]

    def _tags(self) -> Iterator[Row]:
        if self.faithful:
            yield 1, "test", "0"
            return
        for tag in range(1, TAGS + 1):
            yield tag, f"tag{tag}", self._random.choice(("0", "0", "0", "0.25", "-0.25"))

    def _taggings(self) -> Iterator[Row]:
        random, tags = self._random, range(1, TAGS + 1)
        for story in range(1, self.shape.stories + 1):
            chosen = [1] if self.faithful else random.sample(tags, random.choice((1, 1, 2, 2, 3)))
            for tag in chosen:
                yield story, tag

    def _keystores(self) -> Iterator[Row]:
        for user, count in sorted(Counter(self.story_user).items()):
            yield f"user:{user}:stories_submitted", count
        for user, count in sorted(Counter(self.comment_user).items()):
            yield f"user:{user}:comments_posted", count
        if not self.faithful:
            for user in range(1, self.shape.users + 1):
                yield f"user:{user}:unread_messages", 0

    def _otherwise_empty(self) -> Iterator[tuple[str, tuple[str, ...], int, Iterator[Row]]]:
        """Deviation d: the tables that no page writes, and the ribbons of earlier visits."""
        share, random, draws = self.shape.share_of, self._random, self._draws
        hidden, saved, ribbons = share(10_000), share(20_000), share(30_000)
        pairs = self._pairs(hidden + saved + ribbons)
        now = instant(0)
        stamps = "created_at", "updated_at"
        yield "hidden_stories", ("user_id", "story_id"), hidden, iter(pairs[:hidden])
        rows = ((now, now, *pair) for pair in pairs[hidden : hidden + saved])
        yield "saved_stories", (*stamps, "user_id", "story_id"), saved, rows
        rows = ((now, instant(random.randrange(14) * 86_400), *pair) for pair in pairs[hidden + saved :])
        yield "read_ribbons", (*stamps, "user_id", "story_id"), ribbons, rows
        users, tags, count = range(1, self.shape.users + 1), range(1, TAGS + 1), share(3_000)
        rows = ((now, now, random.choice(users), random.choice(tags)) for _ in range(count))
        yield "tag_filters", (*stamps, "user_id", "tag_id"), count, rows
        count = share(2_000)
        rows = ((draws.story.draw(random) + 1, draws.user.draw(random) + 1, "better title") for _ in range(count))
        yield "suggested_titles", ("story_id", "user_id", "title"), count, rows
        some = ((draws.story.draw(random) + 1, random.choice(tags), draws.user.draw(random) + 1) for _ in range(count))
        yield "suggested_taggings", ("story_id", "tag_id", "user_id"), count, some
        hats = ((now, now, draws.user.draw(random) + 1, 1, "maintainer") for _ in range(share(60)))
        yield "hats", (*stamps, "user_id", "granted_by_user_id", "hat"), share(60), hats

    def _pairs(self, count: int) -> list[Row]:
        """`count` different (user, story), in random order."""
        random, draws = self._random, self._draws
        pairs: dict[Row, None] = {}
        while len(pairs) < count:
            missing = count - len(pairs)
            users, stories = draws.user.draws(random, missing), draws.story.draws(random, missing)
            pairs.update(dict.fromkeys((user + 1, story + 1) for user, story in zip(users, stories, strict=True)))
        result = list(pairs)
        random.shuffle(result)
        return result
