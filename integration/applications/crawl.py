"""The pages of two sites of one application, which ask the same database: found by their links, and compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from integration.applications.sites import Page, Site

PORT = "PORT"  # stands for a site's own in a path or a text


def at(site: Site, path: str) -> str:
    """A path as this site has it."""
    return path.replace(PORT, str(site.port))


def neutral(site: Site, text: str) -> str:
    """A text without what only tells of which site it is."""
    return text.replace(str(site.port), PORT)


def links(site: Site, path: str, page: Page) -> list[str]:
    """Paths of the same site that the page leads to."""
    found = page.links(site.url + at(site, path))
    return [neutral(site, link.removeprefix(site.url) or "/") for link in found if link.startswith(site.url)]


def crawl(site: Site, start: str, most: int, wanted: Callable[[str], bool]) -> list[str]:
    """Up to so many paths that can be reached, in the order in which they are found."""
    seen: list[str] = []
    found = {start}
    queue = [start]
    while queue and len(seen) < most:
        path = queue.pop(0)
        seen.append(path)
        for link in links(site, path, site.get(at(site, path))):
            if link not in found and wanted(link):
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


def different(one: Round, other: Round) -> dict[str, str]:
    """Where pages differ, by their paths: the first lines that do."""
    out = {}
    for path, text in one.texts.items():
        if text != other.texts[path]:
            pairs = zip(text.split("\n"), other.texts[path].split("\n"), strict=False)
            line = next((pair for pair in pairs if pair[0] != pair[1]), ("", "more lines"))
            out[path] = f"{line[0][:200]!r} became {line[1][:200]!r}"
    return out
