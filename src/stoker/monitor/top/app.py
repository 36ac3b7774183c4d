"""The live view: lays out the rows, and reads the keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Static

from stoker.monitor.top.rows import (
    GPU_COLUMNS,
    MARK,
    ORDERS,
    PROCESS_COLUMNS,
    RUN_COLUMNS,
    Cell,
    Column,
    finding_lines,
    gpu_rows,
    process_rows,
    run_rows,
)
from stoker.monitor.view import Screen, Words
from stoker.monitor.view.screen import Level

REFRESH_SECONDS = 1.0
"""How often it looks whether there is a new sample."""
MAX_FINDINGS = 5
"""More would push the GPUs out of a terminal of 24 lines."""

DARK, LIGHT = "textual-dark", "textual-light"
_STYLES: Mapping[str, Mapping[Level, str]] = {
    DARK: {"": "", "good": "#58cfa4", "calm": "#8fbfff", "warn": "bold #efc25f", "bad": "bold #ff9a83"},
    LIGHT: {"": "", "good": "#00704f", "calm": "#245a9c", "warn": "bold #845a00", "bad": "bold #b02a14"},
}
"""The colours of the page, which can be read on their ground."""

_COLUMNS: Mapping[str, Sequence[Column]] = {"gpus": GPU_COLUMNS, "runs": RUN_COLUMNS, "processes": PROCESS_COLUMNS}

Table = DataTable[Text]


class TopApp(App[None]):
    """GPUs, runs and processes of a machine.

    Args:
        look: Gives the newest screen; None before the first sample. Called about once a second.
        words: The texts.
        refresh: Seconds between two looks.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head, #findings { height: auto; padding: 0 1; }
    #head { text-wrap: nowrap; text-overflow: ellipsis; }
    VerticalScroll { scrollbar-size-vertical: 0; }
    #findings { margin-bottom: 1; }
    DataTable { height: auto; margin-bottom: 1; background: $background; }
    DataTable > .datatable--header { background: $panel; text-style: bold; }
    """

    def __init__(self, look: Callable[[], Screen | None], words: Words, *, refresh: float = REFRESH_SECONDS) -> None:
        super().__init__()
        self._look = look
        self._words = words
        self._refresh_seconds = refresh
        self._order = 0
        self._shown: Screen | None = None
        for key in ("quit", "sort", "theme"):
            self.bind(key[0], key, description=words(f"key.{key}"))

    def compose(self) -> ComposeResult:
        """Head, findings and three tables, one below the other."""
        yield Static(self._words("key.waiting"), id="head")
        with VerticalScroll():
            yield Static(id="findings")
            for name in _COLUMNS:
                table = Table(id=name, cursor_type="none")
                table.can_focus = False  # so that the arrow keys scroll all of it
                yield table
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Make the columns, and begin to look."""
        self.theme = DARK
        for name, columns in _COLUMNS.items():
            for column in columns:
                self._table(name).add_column(self._heading(column), width=column.width, key=column.key)
        self._update()
        self.set_interval(self._refresh_seconds, self._update)

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._order = (self._order + 1) % len(ORDERS)
        for column in GPU_COLUMNS:
            self._table("gpus").columns[column.key].label = self._heading(column)  # type: ignore[index]
        self._show()

    def action_theme(self) -> None:
        """From dark to light and back."""
        self.theme = LIGHT if self.theme == DARK else DARK
        self._show()

    def _update(self) -> None:
        screen = self._look()
        if screen is not None and screen != self._shown:
            self._shown = screen
            self._show()

    def _show(self) -> None:
        screen, order = self._shown, ORDERS[self._order]
        if screen is None:
            return
        self.query_one("#head", Static).update(self._head(screen))
        lines = [self._text(cell) for cell in finding_lines(screen, self._words, MAX_FINDINGS)]
        self.query_one("#findings", Static).update(Text("\n").join(lines))
        self._fill("gpus", gpu_rows(screen, order))
        self._fill("runs", run_rows(screen))
        self._fill("processes", process_rows(screen, order))

    def _head(self, screen: Screen) -> Text:
        """Machine, verdict, whether it is simulated, and when."""
        line = Text()
        if screen.simulated:
            line.append(f" {self._words('page.simulated').upper()} ", f"reverse {self._style('warn')}").append(" ")
        verdict = Cell(MARK[screen.verdict.level] + screen.verdict.text, screen.verdict.level)
        line.append(screen.host, "bold").append("  ").append(self._text(verdict))
        return line.append(f"  {screen.taken}  {screen.what}", "dim")

    def _fill(self, name: str, rows: Sequence[Sequence[Cell]]) -> None:
        """New rows in place of the old; a table without rows is not shown."""
        table = self._table(name)
        table.clear()
        for cells in rows:
            table.add_row(*(_set(self._text(cell), column) for cell, column in zip(cells, _COLUMNS[name], strict=True)))
        table.display = bool(rows)

    def _heading(self, column: Column) -> Text:
        label = self._words(f"column.{column.key}")
        return _set(Text(f"{label} ▼" if column.key == ORDERS[self._order] and self._order else label), column)

    def _text(self, cell: Cell) -> Text:
        return Text(cell.text, self._style(cell.level))

    def _style(self, level: Level) -> str:
        return _STYLES[self.theme][level]

    def _table(self, name: str) -> Table:
        return self.query_one(f"#{name}", DataTable)


def _set(text: Text, column: Column) -> Text:
    """Text that fits its column: cut with a sign, figures to the right."""
    text.justify = "right" if column.right else "left"
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
