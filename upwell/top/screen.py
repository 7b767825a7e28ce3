"""The screen of `upwell top`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import quote

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.message import Message
from textual.screen import Screen
from textual.widgets import ContentSwitcher, DataTable, Footer, RichLog, Static

from upwell.failed import Failed
from upwell.printable import one_line
from upwell.top.feed import Away, Follower, Place, Refused, look
from upwell.top.state import LINES, Json, State
from upwell.top.words import (
    CACHES,
    QUERIES,
    SORTED_BY,
    Column,
    amount,
    cut,
    detail,
    fitting,
    head,
    ordered,
    read_line,
    share,
    spark,
    totals,
)

MOST_ROWS = 500  # of a table; more are not drawn
WIDE = 60  # letters of the terminal: then numbers of rows are told
FEW_ROWS = 16  # of the terminal: then no lines are drawn
TITLES = {"hits": "hits/s", "misses": "misses/s", "passed": "passes/s", "hit_rate": "hit rate"}
VIEWS = {"caches": "1 caches", "queries": "2 passing", "reads": "3 no hits"}
TABLES = {"caches": CACHES, "queries": QUERIES}


class Told(Message):
    """An event of a stream, from the thread that follows it."""

    def __init__(self, kind: str, data: Any) -> None:
        super().__init__()
        self.kind, self.data = kind, data


class Rows(DataTable[Text]):
    """A table that is filled anew with each look. `columns_of`: all that it may have; `sorted_by`: the title of one."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=True)
        self.columns_of = TABLES[id]
        self.sorted_by = SORTED_BY[id]
        self.reverse = False
        self.names: list[str] = []  # of the rows, in their order
        self._drawn: list[tuple[str, int]] = []

    def fill(self, rows: Iterable[Json], name: str, state: State) -> None:
        """`name`: of the member that names a row."""
        chosen = fitting(self.columns_of, self.size.width - 2)
        self._head(chosen)
        sorting = next(column for column in self.columns_of if column.title == self.sorted_by)
        drawn = ordered(list(rows), sorting, state, reverse=self.reverse)[:MOST_ROWS]
        cells = [[self._cell(row, column, width, state) for column, width in chosen] for row in drawn]
        names = [str(row[name]) for row in drawn]
        if names == self.names:
            for at, line in enumerate(cells):
                for place, cell in enumerate(line):
                    if self.get_cell_at((at, place)) != cell:  # type: ignore[arg-type]
                        self.update_cell_at((at, place), cell)  # type: ignore[arg-type]
            return
        chosen_name = self.chosen
        top = self.scroll_y
        self.clear()
        self.add_rows(cells)
        self.names = names
        if chosen_name in names:
            self.move_cursor(row=names.index(chosen_name), scroll=False)
        self.scroll_to(y=top, animate=False)

    def _head(self, chosen: list[tuple[Column, int]]) -> None:
        marked = [(f"{column.title}{self._mark(column)}", width) for column, width in chosen]
        if marked == self._drawn:
            return
        chosen_name = self.chosen
        self.clear(columns=True)
        for (column, width), (title, _) in zip(chosen, marked, strict=True):
            self.add_column(Text(title, justify="left" if column.is_text else "right"), width=width)
        self._drawn, self.names = marked, [chosen_name] if chosen_name else []

    def _mark(self, column: Column) -> str:
        if column.title != self.sorted_by:
            return ""
        return "▲" if self.reverse is not column.is_text else "▼"

    @staticmethod
    def _cell(row: Json, column: Column, width: int, state: State) -> Text:
        text = cut(column.text(column.value(row, state)), width)
        return Text(text, justify="left" if column.is_text else "right", no_wrap=True)

    @property
    def chosen(self) -> str:
        """The name of the row with the cursor; "" where there is none."""
        return self.names[self.cursor_row] if 0 <= self.cursor_row < len(self.names) else ""

    @property
    def _shown(self) -> list[str]:
        return [column.title for column, _ in fitting(self.columns_of, self.size.width - 2)]

    def sort_next(self) -> None:
        shown = self._shown
        at = shown.index(self.sorted_by) + 1 if self.sorted_by in shown else 0
        self.sorted_by = shown[at % len(shown)]

    def sort_at(self, place: int) -> None:
        """By the column there; the other way round where it is sorted by that."""
        title = self._shown[place]
        self.reverse = title == self.sorted_by and not self.reverse
        self.sorted_by = title


class Detail(Screen[None]):
    """One cache, or one query."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,backspace,enter", "app.pop_screen", "back")]

    def __init__(self, name: str, lines: Any) -> None:
        super().__init__()
        self.title_of, self._lines = name, lines

    def compose(self) -> ComposeResult:
        yield Static(Text(cut(one_line(self.title_of), 200), style="bold", no_wrap=True), id="title")
        with VerticalScroll():
            yield Static(id="detail")
        yield Footer()

    def on_mount(self) -> None:
        self.draw()

    def draw(self) -> None:
        wide = max(len(title) for title, _ in self._lines())
        text = Text()
        for title, line in self._lines():
            text.append(title.ljust(wide + 2), style="bold").append(f"{line}\n")
        self.query_one("#detail", Static).update(text)


class Top(App[None]):
    """`fault`: why it has ended, where that is not because somebody wanted it."""

    CSS = """
    #head { height: 1; text-style: bold; }
    #head.wrong { background: $error; color: $text; }
    #totals, #lines { height: auto; }
    #views { height: 1; }
    #title { height: 1; }
    ContentSwitcher { height: 1fr; }
    DataTable, RichLog { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
        Binding("1", "view('caches')", "caches", show=False),
        Binding("2", "view('queries')", "passing", show=False),
        Binding("3,m", "view('reads')", "no hits", show=False),
        Binding("s", "sort", "sort"),
        Binding("r", "reverse", "reverse"),
        Binding("h", "hour", "hour"),
        Binding("p", "pause", "pause"),
    ]
    ENABLE_COMMAND_PALETTE = False
    TITLE = "upwell top"

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.state = State()
        self.fault = ""
        self._place = place
        self._hour = self._paused = False
        self._followers = [Follower(place, "/v1/live", self._tell), Follower(place, "/v1/reads", self._tell_reads)]

    def show(self) -> None:
        """Until somebody ends it. Raises Failed."""
        self.run()
        if self.fault:
            raise Failed(self.fault, 2)

    def _tell(self, kind: str, data: Any) -> None:
        with suppress(RuntimeError):  # the screen is gone
            self.post_message(Told(kind, data))

    def _tell_reads(self, kind: str, data: Any) -> None:
        """Their stream may be refused while the other one goes on: there are few of them."""
        self._tell(f"reads {kind}" if kind in ("lost", "begun") else kind, data)

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="totals")
        yield Static(id="lines")
        yield Static(id="views")
        with ContentSwitcher(initial="caches"):
            yield Rows("caches")
            yield Rows("queries")
            yield RichLog(id="reads", max_lines=MOST_ROWS, wrap=False, highlight=False, markup=False)
        yield Footer()

    def on_mount(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)  # the terminal is put back, too
        for follower in self._followers:
            follower.start()
        self.query_one("#caches").focus()
        self.draw()

    def on_unmount(self) -> None:
        for follower in self._followers:
            follower.close()

    def on_told(self, told: Told) -> None:
        if told.kind == "refused":
            self.fault = told.data
            self.exit()
            return
        self.state.take(told.kind, told.data)
        if self._paused:
            return
        if told.kind != "reads":
            self.draw()
        elif self._view == "reads":
            self._log_reads(told.data["reads"])

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.draw)

    # -- what is drawn -------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        state, width = self.state, self.size.width
        if isinstance(self.screen, Detail):
            self.screen.draw()
        base = self.screen_stack[0]
        line = base.query_one("#head", Static)
        line.update(Text(head(state, str(self._place), width), no_wrap=True))
        line.set_class(bool(state.lost), "wrong")
        base.query_one("#views", Static).update(self._views(width))
        if not state.overview:
            return
        shown = totals(state, width, max(1, self.size.height // 4))
        base.query_one("#totals", Static).update(Text("\n".join(shown), no_wrap=True))
        base.query_one("#lines", Static).update(Text("\n".join(self._lines(width)), no_wrap=True))
        view = self._view
        if view == "caches":
            base.query_one("#caches", Rows).fill(state.overview["caches"].values(), "name", state)
        elif view == "queries":
            base.query_one("#queries", Rows).fill(state.overview.get("queries", ()), "query", state)

    def _lines(self, width: int) -> list[str]:
        if self.size.height < FEW_ROWS:
            return []
        found = []
        for name in LINES:
            values = self.state.line(name, hour=self._hour)
            last = self.state.last(name, hour=self._hour)
            told = "-" if last is None else share(last) if name == "hit_rate" else amount(last)
            drawn = spark(values[-(width - 17) :] if not self._hour else values, width - 17, name == "hit_rate" and 1.0)
            found.append(f"{TITLES[name]:9} {told:>6} {drawn}")
        return found

    def _views(self, width: int) -> Text:
        text = Text(no_wrap=True)
        current, seen = self._view, self.state.overview
        counts = {"caches": len(seen.get("caches", ())), "queries": len(seen.get("queries", ()))}
        for view, title in VIEWS.items():
            told = f"{title} ({amount(counts[view])})" if view in counts and width >= WIDE else title
            text.append(f" {told} ", style="reverse" if view == current else "").append(" ")
        if self._paused:
            text.append("paused", style="bold")
        elif current == "queries" and "queries" not in seen and seen:
            text.append("shown with the token (--token-file)")
        elif current == "reads" and self.state.reads_away:
            text.append(f"not told: {one_line(self.state.reads_away.rpartition(' says: ')[2])}", style="bold")
        elif current == "reads" and self.state.reads_lost:
            text.append(f"{amount(self.state.reads_lost)} more came at once")
        elif self._hour:
            text.append("the last hour")
        return text

    def _log_reads(self, reads: Iterable[Json]) -> None:
        log = self.screen_stack[0].query_one("#reads", RichLog)
        for read in reads:
            log.write(Text(read_line(read), style="yellow" if read["outcome"] == "miss" else "", no_wrap=True))

    # -- keys ----------------------------------------------------------------------------------------------------------

    @property
    def _view(self) -> str:
        return self.screen_stack[0].query_one(ContentSwitcher).current or ""

    @property
    def _rows(self) -> Rows | None:
        """The table that is shown."""
        if isinstance(self.screen, Detail) or self._view not in TABLES:
            return None
        return self.query_one(f"#{self._view}", Rows)

    def action_view(self, view: str) -> None:
        if isinstance(self.screen, Detail):
            self.pop_screen()
        self.screen_stack[0].query_one(ContentSwitcher).current = view
        self.screen_stack[0].query_one(f"#{view}").focus()
        if view == "reads":
            self.screen_stack[0].query_one("#reads", RichLog).clear()
            self._log_reads(self.state.reads)
        self.call_after_refresh(self.draw)

    def action_sort(self) -> None:
        if (rows := self._rows) is not None:
            rows.sort_next()
            self.draw()

    def action_reverse(self) -> None:
        if (rows := self._rows) is not None:
            rows.reverse = not rows.reverse
            self.draw()

    def action_hour(self) -> None:
        self._hour = not self._hour
        self.draw()

    def action_pause(self) -> None:
        self._paused = not self._paused
        self.draw()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """A click on a column's title."""
        if (rows := self._rows) is not None:
            rows.sort_at(event.column_index)
            self.draw()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        rows = self._rows
        if rows is None or not rows.chosen:
            return
        name = rows.chosen
        if rows.id == "queries":
            self.push_screen(Detail("a query that MySQL answers", lambda: self._query(name)))
            return
        plan = ""
        self.push_screen(Detail(f"cache {name}", lambda: detail(self.state, name, plan)))

        def fetch() -> None:
            nonlocal plan
            try:
                plan = str(look(self._place, f"/v1/caches/{quote(name, safe='')}/plan")["text"])
            except (Away, Refused) as error:
                plan = str(error)

        self.run_worker(fetch, thread=True)

    def _query(self, text: str) -> list[tuple[str, str]]:
        found = [query for query in self.state.overview.get("queries", ()) if query["query"] == text]
        shown = [("query", one_line(text))]
        for query in found:
            shown += [
                ("database", query["database"]),
                ("reads", f"{query['count']:,}"),
                ("MySQL took", f"{query['total_ms'] / 1e3:,.1f} s, {query['p50_us']:,.0f} us (p50)"),
                ("can be cached", query["cacheable"]),
                ("why", one_line(query["reason"])),
            ]
            if query["cacheable"] == "yes" and not query["reason"].startswith("cached as"):
                shown.append(("caches it", f"CREATE CACHE FROM {one_line(text)}"))
        return shown
