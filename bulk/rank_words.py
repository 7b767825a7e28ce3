"""Texts and numbers of a ranking, short enough to be read."""

from __future__ import annotations

from bulk.ranking import Ranking


def cut(text: str, width: int) -> str:
    """On one line, with an end that says that there is more."""
    line = "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))
    return line if len(line) <= width else line[: width - 1] + "\u2026"


def key_shown(key: str) -> str:
    """A key of one parameter without its brackets."""
    inner = key[1:-1]
    return inner if inner and inner[0] not in '[{"' and "," not in inner else key


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def headline(ranking: Ranking) -> str:
    if ranking.oldest is None or ranking.newest is None:
        return "the access logs have no reads"
    proxies = f"{len(ranking.proxies)} prox{'y' if len(ranking.proxies) == 1 else 'ies'}"
    until = ranking.newest.strftime("%Y-%m-%d %H:%M")
    return f"{ranking.rows:,} rows of {proxies}, {ranking.oldest.strftime('%Y-%m-%d %H:%M')} to {until} UTC"
