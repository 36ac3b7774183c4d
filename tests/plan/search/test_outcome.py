from __future__ import annotations

import json

from rich.console import Console

from stoker.plan.layout import Layout
from stoker.plan.search.outcome import Found, Goal, best, unbeaten
from stoker.plan.search.text import hours_text, sentences, table_of
from tests.plan.search.options import option

NOW = Goal(64, 1e6)
FAST = option(hours=1.0, servers=4)
SLOW = option(hours=3.0)
LARGE = option(hours=0.5, verdict="does not fit")


def test_without_a_deadline_the_fastest_that_fits() -> None:
    assert best([SLOW, FAST, LARGE], NOW) is FAST
    assert best([LARGE], NOW) is None


def test_with_a_deadline_the_cheapest_in_time() -> None:
    assert best([SLOW, FAST, LARGE], Goal(64, 1e6, 5.0)) is SLOW  # 24 against 32 GPU hours
    assert best([SLOW, FAST, LARGE], Goal(64, 1e6, 2.0)) is FAST
    assert best([SLOW, FAST, LARGE], Goal(64, 1e6, 0.1)) is FAST  # none is in time: the fastest


def test_prices_decide_where_all_have_one() -> None:
    dear, cheap = option(hours=1.0, price=10.0), option(gpu="A100 80GB", hours=2.0, price=1.0)
    assert best([dear, cheap], Goal(64, 1e6, 5.0)) is cheap
    unpriced = option(gpu="A100 80GB", hours=2.0)
    assert best([dear, unpriced], Goal(64, 1e6, 5.0)) is dear  # by GPU hours


def test_figures_of_an_option() -> None:
    one = option(hours=2.0, price=2.5)
    assert (one.gpu_hours, one.cost) == (16.0, 40.0)
    assert one.energy_kwh == 16 * 700 / 1000
    row = json.loads(json.dumps(one.to_json()))
    assert (row["layout"], row["micro_batch"], row["runs_in_train"]) == ("fsdp2=8", 1, False)


def test_unbeaten_options() -> None:
    frugal = option(hours=3.0, gib=10.0)
    worse = option(hours=4.0, gib=50.0)
    assert unbeaten([FAST, SLOW, frugal, worse, LARGE]) == [FAST, frugal]
    assert unbeaten([SLOW, SLOW]) == [SLOW, SLOW]


def test_what_is_said() -> None:
    plain = option(hours=2.0, layout=Layout(replicate=8))
    said = "\n".join(sentences(Found((SLOW, FAST, plain), 9, ("something",)), NOW))
    assert "take 4 servers of 8 x H100 SXM5 80GB: fsdp2=32" in said
    assert "the best of those is ddp=8 on 8 x H100" in said
    assert "note: something" in said
    assert "neither fits" in "\n".join(sentences(Found((SLOW,), 1, ()), NOW))
    late = "\n".join(sentences(Found((SLOW,), 1, ()), Goal(64, 1e6, 0.1)))
    assert "nothing meets the deadline of 6 min: the fastest takes 3 h" in late
    assert sentences(Found((LARGE,), 1, ()), NOW)[0].startswith("nothing fits")


def test_the_table() -> None:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(table_of(Found((SLOW, FAST, LARGE), 3, ()), NOW))
    lines = console.export_text().splitlines()
    assert lines[1].startswith(">  32 x H100")
    assert "does not fit" in lines[-1]
    assert "cost" not in lines[0]


def test_long_times() -> None:
    assert hours_text(47) == "47 h"
    assert hours_text(480) == "20 d"
