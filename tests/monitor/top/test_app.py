from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest
from rich.text import Text
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from stoker.monitor.demo.machine import DemoMachine
from stoker.monitor.demo.player import Player
from stoker.monitor.demo.scenario import read_scenario
from stoker.monitor.model import GpuProcess
from stoker.monitor.top.app import DARK, LIGHT, TopApp
from stoker.monitor.view import Language, Screen, screen_of, words_of
from stoker.monitor.watch import Watch
from tests.monitor.samples import TIME, gpu, machine, moment, run
from tests.pictures import keep_text

Check = Callable[[TopApp, Pilot[None]], Awaitable[None]]


def demo(language: Language = "en") -> Screen:
    player, watch = Player(read_scenario(), begin=TIME), Watch()
    for second in range(-900, 1, 10):
        watch.take(player.sample(second), second)
    assert watch.moment is not None
    return screen_of(watch.moment, words_of(language))


def shown(check: Check, look: Callable[[], Screen | None], *, language: Language = "en", lines: int = 40) -> None:
    async def go() -> None:
        app = TopApp(look, words_of(language), refresh=0.02)
        async with app.run_test(size=(80, lines)) as pilot:
            await pilot.pause()
            await check(app, pilot)

    asyncio.run(go())


def cells(app: TopApp, name: str) -> list[list[str]]:
    table: DataTable[Text] = app.query_one(f"#{name}", DataTable)
    return [[cell.plain for cell in table.get_row_at(row)] for row in range(table.row_count)]


def plain(app: TopApp, name: str) -> str:
    return str(app.query_one(f"#{name}", Static).render())


def test_gpus_runs_and_processes_are_shown() -> None:
    screen = demo()

    async def check(app: TopApp, pilot: Pilot[None]) -> None:
        gpus = cells(app, "gpus")
        assert [row[0] for row in gpus] == list("01234567")
        assert [row[-1] for row in gpus] == [
            "llama3-8b-sft",
            "llama3-8b-sft",
            "▲ slowed down",
            "llama3-8b-sft",
            "◆ hung",
            "◆ hung",
            "▲ idle, memory held",
            "idle",
        ]
        assert [row[:2] for row in cells(app, "runs")] == [["llama3-8b-sft", "running"], ["vit-l16-pretrain", "◆ hung"]]
        assert [row[0] for row in cells(app, "processes")] == list("0123456")
        assert "SIMULATED" in plain(app, "head")
        assert "hangs" in plain(app, "findings")

    shown(check, lambda: screen)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_everything_fits_80_columns(language: Language) -> None:
    screen = demo(language)

    async def check(app: TopApp, pilot: Pilot[None]) -> None:
        for table in app.query(DataTable):
            assert table.virtual_size.width <= 80, table.id

    shown(check, lambda: screen, language=language)


def test_s_sorts_by_the_next_column_and_says_so() -> None:
    screen = demo()

    async def check(app: TopApp, pilot: Pilot[None]) -> None:
        orders: list[str] = []
        for _ in range(5):
            orders.append("".join(row[0] for row in cells(app, "gpus")))
            await pilot.press("s")
        assert orders[0] == "01234567"
        assert orders[1][:2] == "45", "the busiest first"
        assert orders[3][0] == "2", "the hottest first"
        assert "".join(row[0] for row in cells(app, "gpus")) == "01234567", "and round again"
        await pilot.press("s")
        labels = [str(column.label) for column in app.query_one("#gpus", DataTable).columns.values()]
        assert [label for label in labels if "▼" in label] == ["Use ▼"]

    shown(check, lambda: screen)


def test_t_changes_between_light_and_dark() -> None:
    async def check(app: TopApp, pilot: Pilot[None]) -> None:
        assert app.theme == DARK
        await pilot.press("t")
        assert app.theme == LIGHT
        await pilot.press("t")
        assert app.theme == DARK

    screen = demo()
    shown(check, lambda: screen)


def test_q_ends_it() -> None:
    async def check(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("q")
        await pilot.pause()
        assert app.return_code == 0

    screen = demo()
    shown(check, lambda: screen)


def test_it_waits_for_the_first_sample_and_follows_new_ones() -> None:
    words = words_of("en")
    screens: list[Screen | None] = [None]

    async def check(app: TopApp, pilot: Pilot[None]) -> None:
        assert "Waiting" in plain(app, "head")
        assert cells(app, "gpus") == []
        screens[0] = screen_of(moment(machine(gpu(power_watts=111), runs=(run(),))), words)
        await pilot.pause(0.1)
        assert cells(app, "gpus")[0][5] == "111 W"
        screens[0] = screen_of(moment(machine(gpu(power_watts=222))), words)
        await pilot.pause(0.1)
        assert cells(app, "gpus")[0][5] == "222 W"
        assert not app.query_one("#runs", DataTable).display, "a table without rows is not shown"

    shown(check, lambda: screens[0])


def test_names_are_text_and_no_markup() -> None:
    name = "[red]evil[/red][@click=app.quit]x[/]"
    processes = (GpuProcess(pid=1, process=name, user=name, memory_bytes=1e9),)
    sample = machine(gpu(processes=processes), runs=(run(run=name, state="failed", since_step_seconds=None),))
    screen = screen_of(moment(sample), words_of("en"))

    async def check(app: TopApp, pilot: Pilot[None]) -> None:
        assert cells(app, "processes")[0][3] == name
        assert cells(app, "runs")[0][0] == name
        assert name in plain(app, "findings")

    shown(check, lambda: screen)


def test_many_findings_leave_room_for_the_gpus() -> None:
    screen = screen_of(moment(machine(*(gpu(index, lost=True) for index in range(8)))), words_of("en"))

    async def check(app: TopApp, pilot: Pilot[None]) -> None:
        assert plain(app, "findings").splitlines()[-1] == "+ 4"
        assert app.query_one("#gpus", DataTable).region.bottom <= 24

    shown(check, lambda: screen, lines=24)


def test_picture_of_the_documentation() -> None:
    """Without the addresses of fonts, which the picture would ask another host for."""
    known = DemoMachine(lambda: 0.0, begin=TIME).watched().moment
    assert known is not None
    screen = screen_of(known, words_of("en"))

    async def check(app: TopApp, pilot: Pilot[None]) -> None:
        picture = app.export_screenshot(title="stoker monitor top --demo")
        picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
        assert not re.search(r"(?:src|href|url)\W{1,3}https?:", picture)
        keep_text("monitor-top.svg", picture)

    shown(check, lambda: screen, lines=33)
