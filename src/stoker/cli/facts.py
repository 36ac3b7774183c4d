"""`stoker facts`: shows the tables that plan, doctor and bench decide by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from stoker.facts.catalog import Table

Format = Literal["text", "json", "csv"]


def facts(
    table: Annotated[str | None, typer.Argument(help="The table; without it, the list of tables.")] = None,
    filter_: Annotated[
        str, typer.Option("--filter", metavar="TEXT", help="Only rows that hold this text anywhere.")
    ] = "",
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="Only rows with this value; may be given several times."),
    ] = None,
    columns: Annotated[str, typer.Option(metavar="A,B", help="The columns to show; `all` for every one.")] = "",
    sources: Annotated[bool, typer.Option("--sources", help="Show where each row comes from.")] = False,
    format_: Annotated[Format, typer.Option("--format", help="How to print.")] = "text",
) -> None:
    """Show the sourced tables: GPUs, drivers, CUDA, torch, Xid codes, links and more.

    An empty cell is unknown, never zero.
    """
    from stoker.facts.catalog import TABLES, find_table, select

    if table is None:
        _print_tables(TABLES, format_)
        return
    chosen = find_table(table)
    rows = select(chosen, text=filter_, where=[_pair(item) for item in where or ()])
    names = _columns(chosen, columns, everything=format_ != "text")
    _print(f"{chosen.title} ({len(rows)} of {len(chosen.rows)} rows)", names, rows, format_)
    if sources and format_ == "text":
        _print_sources(names[0], rows)


def _pair(item: str) -> tuple[str, str]:
    from stoker.errors import UserError

    column, equals, value = item.partition("=")
    if not equals:
        raise UserError(f"--where {item}: write column=value, such as --where capability=8.0")
    return column.strip(), value.strip()


def _columns(table: Table, asked: str, *, everything: bool) -> list[str]:
    from stoker.facts.catalog import find_column

    if asked == "all" or (everything and not asked):
        return list(table.all_columns)
    return [find_column(table, name.strip()) for name in asked.split(",")] if asked else list(table.columns)


def _print_tables(tables: Mapping[str, Table], format_: Format) -> None:
    rows = [
        {"table": table.name, "rows": str(len(table.rows)), "what it holds": table.title} for table in tables.values()
    ]
    _print("tables of `stoker facts TABLE`", ["table", "rows", "what it holds"], rows, format_)


def _print(title: str, names: Sequence[str], rows: Sequence[Mapping[str, str]], format_: Format) -> None:
    if format_ == "json":
        import json

        chosen = [{name: row[name] or None for name in names} for row in rows]
        typer.echo(json.dumps(chosen, indent=2, ensure_ascii=False))
    elif format_ == "csv":
        import csv
        import sys

        writer = csv.DictWriter(sys.stdout, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        _print_text(title, names, rows)


def _print_text(title: str, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """A table no wider than the terminal: long cells wrap, lists break after a comma."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in names:
        heading = name.replace("_", " ")
        shown.add_column(heading, overflow="fold", min_width=min(12, max(map(len, heading.split()))))
    for row in rows:
        shown.add_row(*(Text(row[name].replace("|", ", ")) for name in names))
    Console(highlight=False).print(shown)


def _print_sources(key: str, rows: Sequence[Mapping[str, str]]) -> None:
    """Each source once, with the rows that it stands for."""
    rows_of: dict[str, list[str]] = {}
    for row in rows:
        rows_of.setdefault(row["source"], []).append(row[key])
    for source, keys in rows_of.items():
        shown = ", ".join(dict.fromkeys(keys)) if len(keys) <= 6 else f"{len(keys)} rows"
        typer.echo(f"{shown}: {source}")
