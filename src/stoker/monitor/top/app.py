"""The live view: lays out the rows, and reads the keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Static

from stoker.monitor.top.rows import (
    GPU_COLUMNS,
    ORDERS,
    PROCESS_COLUMNS,
    RUN_COLUMNS,
    Column,
    finding_lines,
    gpu_rows,
    head_line,
    process_rows,
    run_rows,
)
from stoker.monitor.view import Screen, Words

REFRESH_SECONDS = 1.0
"""How often it looks whether there is a new sample."""
MAX_FINDINGS = 5
"""More would push the GPUs out of a terminal of 24 lines."""

DARK, LIGHT = "textual-dark", "textual-light"

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

    def _update(self) -> None:
        screen = self._look()
        if screen is not None and screen != self._shown:
            self._shown = screen
            self._show()

    def _show(self) -> None:
        screen, order = self._shown, ORDERS[self._order]
        if screen is None:
            return
        self.query_one("#head", Static).update(head_line(screen, self._words))
        lines = finding_lines(screen, self._words)
        more = [Text(f"+ {len(lines) - MAX_FINDINGS + 1}", "dim")] if len(lines) > MAX_FINDINGS else []
        shown = lines[: MAX_FINDINGS - 1] + more if more else lines
        self.query_one("#findings", Static).update(Text("\n").join(shown))
        self._fill("gpus", gpu_rows(screen, order))
        self._fill("runs", run_rows(screen))
        self._fill("processes", process_rows(screen, order))

    def _fill(self, name: str, rows: Sequence[Sequence[Text]]) -> None:
        """New rows in place of the old; a table without rows is not shown."""
        table = self._table(name)
        table.clear()
        for cells in rows:
            table.add_row(*(_set(cell, column) for cell, column in zip(cells, _COLUMNS[name], strict=True)))
        table.display = bool(rows)

    def _heading(self, column: Column) -> Text:
        label = self._words(f"column.{column.key}")
        return _set(Text(f"{label} ▼" if column.key == ORDERS[self._order] and self._order else label), column)

    def _table(self, name: str) -> Table:
        return self.query_one(f"#{name}", DataTable)


def _set(text: Text, column: Column) -> Text:
    """Text that fits its column: cut with a sign, figures to the right."""
    shown = text.copy()
    shown.justify = "right" if column.right else "left"
    shown.no_wrap, shown.overflow = True, "ellipsis"
    return shown
