"""The pages of two sites of one application, which ask the same database: found by their links, and compared."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from integration.applications.application import Part
from integration.applications.sites import Page, Site, SiteFailed

PORT = "PORT"  # stands for a site's own in a path or a text


def at(site: Site, path: str) -> str:
    """A path as this site has it."""
    return path.replace(PORT, str(site.port))


def neutral(site: Site, text: str) -> str:
    """A text without what only tells of which site it is."""
    # Ids have digits, too.
    return re.sub(rf"(?:(?<=%3a)|(?<![0-9a-f])){site.port}(?![0-9a-f])", PORT, text)


def links(site: Site, path: str, page: Page) -> list[str]:
    """Paths of the same site that the page leads to."""
    found = page.links(site.url + at(site, path))
    return [neutral(site, link.removeprefix(site.url) or "/") for link in found if link.startswith(site.url)]


def crawl(site: Site, part: Part, most: int) -> list[str]:
    """Up to so many paths that can be reached, in the order in which they are found. Raises SiteFailed."""
    seen: list[str] = []
    found = set(part.starts)
    queue = list(part.starts)
    while queue and len(seen) < most:
        path = queue.pop(0)
        seen.append(path)
        page = site.get(at(site, path))
        if page.status >= 500:
            raise SiteFailed(f"{path} was answered with {page.status}: {site.said()}")
        for link in links(site, path, page):
            if link not in found and part.has(link):
                found.add(link)
                queue.append(link)
    return seen


@dataclass(slots=True)
class Round:
    """All pages once, from one site. `seconds`: of all together."""

    seconds: float = 0.0
    texts: dict[str, str] = field(default_factory=dict)


def visit(site: Site, paths: list[str]) -> Round:
    found = Round()
    for path in paths:
        page = site.get(at(site, path))
        found.seconds += page.seconds
        found.texts[path] = f"{page.status} {neutral(site, page.text)}"
    return found


def different(one: Round, other: Round, noise: re.Pattern[str]) -> dict[str, str]:
    """Where pages differ, by their paths: the first lines that do. `noise`: what is left out."""
    out = {}
    for path, text in one.texts.items():
        pair = [noise.sub("", each).split("\n") for each in (text, other.texts[path])]
        if pair[0] != pair[1]:
            first, second = next((both for both in zip(*pair, strict=False) if both[0] != both[1]), ("", "more lines"))
            at = next((at for at, both in enumerate(zip(first, second, strict=False)) if both[0] != both[1]), 0)
            out[path] = f"{first[max(0, at - 60) : at + 100]!r} became {second[max(0, at - 60) : at + 100]!r}"
    return out
