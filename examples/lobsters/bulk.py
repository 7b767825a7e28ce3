"""Every cache of the sample filled by Spark, and then compared with MySQL: `make demo SPARK=on`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from upwell.client import Client
from upwell.errors import CannotFill
from upwell.wire import Audited, Progress

HEAD = "Caches filled with all their keys by Spark, and audited"
LONGEST = 34  # letters of a title
MOST = 4  # caches in the table, those with the most rows


@dataclass(frozen=True)
class Filled:
    """`last`: what its fill told at the end; `audited`: likewise of its audit, None if it holds nothing."""

    title: str
    last: Progress
    audited: Audited | None


def fill_all(
    client: Client, titles: Mapping[str, str], tell: Callable[[str], None]
) -> tuple[list[Filled], dict[str, str]]:
    """Fills the caches of these names, and audits them: (what was filled, why others were not)."""
    last: dict[str, Progress] = {}
    left: dict[str, str] = {}
    for number, (name, title) in enumerate(titles.items(), 1):
        tell(f"filling {number} of {len(titles)}: {title}")
        try:
            last[name] = list(client.cache(name).fill(by="spark"))[-1]
        except CannotFill as error:
            left[name] = str(error)
    audited: dict[str, Audited] = {}
    for number, name in enumerate(last, 1):
        tell(f"auditing {number} of {len(last)}: {titles[name]}")
        audited[name] = list(client.audit(name))[-1]
    return [Filled(titles[name], one, audited.get(name)) for name, one in last.items()], left


def lines(found: list[Filled], left: Mapping[str, str]) -> list[str]:
    """At most 80 columns."""
    ordered = sorted(found, key=lambda one: -one.last.rows)
    shown = [HEAD, f"{'':<{LONGEST}}{'keys':>10}{'rows':>12}{'s':>7}{'audit s':>9}{'differ':>8}"]
    for one in ordered[:MOST]:
        audited = one.audited
        title = one.title if len(one.title) <= LONGEST - 1 else one.title[: LONGEST - 2] + "…"
        compared = f"{audited.seconds:>9.1f}{len(audited.different):>8}" if audited is not None else f"{'-':>9}{'-':>8}"
        shown.append(f"{title:<{LONGEST}}{one.last.held:>10,}{one.last.rows:>12,}{one.last.seconds:>7.1f}{compared}")
    keys, rows = sum(one.last.held for one in found), sum(one.last.rows for one in found)
    seconds = sum(one.last.seconds for one in found)
    audit_seconds = sum(one.audited.seconds for one in found if one.audited is not None)
    different = sum(len(one.audited.different) for one in found if one.audited is not None)
    name = f"all {len(found)} of them"
    shown.append(f"{name:<{LONGEST}}{keys:>10,}{rows:>12,}{seconds:>7.1f}{audit_seconds:>9.1f}{different:>8}")
    if left:
        shown.append(f"{len(left)} others have keys that cannot be listed (`upwell fill CACHE --all` says why)")
    return shown
