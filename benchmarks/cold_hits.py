"""What a hit over MySQL's protocol costs between the statements of an application. It has used the processor's caches
for its own work since the last one, and Upwell's code and data come from memory again.

In this process: a proxy on a loop in a thread, and a client. Before each hit the client does nothing, or reads through
more memory than a cache has. Processor time of the proxy's thread, less what it takes to ask for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from benchmarks.bench import Bench
from benchmarks.calls import proxy_and_reader
from benchmarks.result import Figure, Result, Sheet
from integration.support.proxy_thread import Beside

HITS, ROUNDS = 150, 5
WALKED, LINE = 64 << 20, 64  # bytes of the memory that is read, and of a line of a cache


def run(bench: Bench) -> Result:
    memory = memoryview(bytearray(WALKED))
    ways: dict[str, Callable[[], object]] = {
        "at once": lambda: None,
        "behind others' work": lambda: bytes(memory[::LINE]),
    }
    result = Result("cold_hits")
    sheet = Sheet("a hit, microseconds of the proxy's processor time", ("hit", *ways))
    result.sheets.append(sheet)
    with proxy_and_reader(bench.server, bench.folder / "cold_hits") as (beside, reader):
        for kind, read in (("prepared", reader.execute), ("text", reader.text)):
            reader.hold(read)
            spent: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(ROUNDS):
                for way, before in ways.items():
                    spent[way].append(of_each(beside, read, before) - of_each(beside, None, before))
            found = {way: median(times) for way, times in spent.items()}
            sheet.rows.append((kind, *found.values()))
            cold, warm = found["behind others' work"], found["at once"]
            result.figures.append(Figure(f"{kind}: CPU of a hit behind others' work, to one at once", cold / warm, "x"))
    return result


def of_each(beside: Beside, read: Callable[[int], bytes] | None, before: Callable[[], object]) -> float:
    """Microseconds of the proxy's thread, with a hit in between or with none."""
    spent = 0.0
    for _ in range(HITS):
        before()
        began = beside.call(time.thread_time)
        if read is not None:
            read(1)
        spent += beside.call(time.thread_time) - began
    return spent / HITS * 1e6
