"""Cards side by side, from one trace of a small model."""

from __future__ import annotations

import pytest

from stoker.errors import UserError
from stoker.plan import compare as compare_module
from stoker.plan.compare import Choice, compare, fastest_first, parse_choices
from stoker.plan.compare_text import notes, to_html, to_text
from stoker.plan.hardware import find_gpu
from stoker.plan.layout import Layout
from stoker.plan.memory import plan_memory
from stoker.plan.speed import plan_speed
from stoker.plan.trace.run import Failure, Reply, Source

MODEL = """
import torch
from torch import nn

def wide(micro_batch):
    width = 8192
    layers = [layer for _ in range(4) for layer in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers), torch.randn(micro_batch, width), lambda output: output.square().mean()
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "wide.py"
    path.write_text(MODEL)
    return Source("stoker.plan.workload:load_workload", {"target": f"{path}:wide", "micro_batch": 1024})


@pytest.fixture(scope="module")
def compared(source):
    """Two traces: what is compared, and how often `plan_memory` was asked."""
    choices = parse_choices(
        ["H100 SXM", "RTX 4090", "MI300X", "V100 SXM2 32GB", "RTX 3080"], 1, "ddp", ["RTX 4090=1800"]
    )
    asked = []

    def counted(*arguments):
        asked.append(arguments[2].name)
        return plan_memory(*arguments)

    patch = pytest.MonkeyPatch()
    patch.setattr(compare_module, "plan_memory", counted)
    found = compare(lambda _: source, choices)
    patch.undo()
    return found, asked


def by_label(compared):
    return {one.label: one for one in compared[0]}


def test_one_trace_serves_all_cards_of_a_generation(compared):
    """V100 has neither bfloat16 nor flash attention: it is traced by itself."""
    assert compared[1] == ["H100 SXM5 80GB", "Tesla V100 SXM2 32GB"]


def test_a_card_has_the_figures_of_its_own_trace(source, compared):
    gpu = find_gpu("RTX 4090")
    held, reply = plan_memory(source, Layout(), gpu)
    mine = by_label(compared)["GeForce RTX 4090"]
    assert mine.memory_bytes == held.device_bytes
    assert mine.verdict == held.verdict == "fits"
    weights = 4 * (8192 * 8192 + 8192) * 4
    assert mine.memory_bytes > 4 * weights  # weights, gradients and two states
    assert mine.samples_per_second == plan_speed(reply.traces, Layout(), gpu).samples_per_second


def test_per_watt_and_per_price(compared):
    card = by_label(compared)["GeForce RTX 4090"]
    rate = card.samples_per_second.expected
    assert card.watts == 450
    assert card.per_kilowatt.expected == pytest.approx(rate / 0.45)
    assert card.per_thousand.expected == pytest.approx(rate / 1.8)
    assert card.per_thousand.low < card.per_thousand.expected < card.per_thousand.high
    assert by_label(compared)["H100 SXM5 80GB"].per_thousand is None  # no price was given: unknown, not zero


def test_a_card_that_is_too_small_has_a_verdict_but_no_rate(source):
    big = Source(source.factory, {**source.arguments, "micro_batch": 400_000})
    (none,) = compare(lambda _: big, [Choice(find_gpu("RTX 4090"), Layout())])
    assert (none.verdict, none.samples_per_second, none.per_kilowatt) == ("does not fit", None, None)


def test_a_card_that_cannot_run_it_says_why(compared):
    """torch refuses bfloat16 autocast below 8.0."""
    old = by_label(compared)["Tesla V100 SXM2 32GB"]
    assert old.verdict is None
    assert "bfloat16" in old.trouble
    assert fastest_first(compared[0])[-1] == old


def test_without_any_trace_there_is_nothing_to_compare(source, monkeypatch):
    reply = Reply([], Failure("operator", "aten::mine has no fake kernel", ""))
    monkeypatch.setattr(compare_module, "plan_memory", lambda *arguments: (None, reply))
    with pytest.raises(UserError, match="without a trace: aten::mine has no fake kernel"):
        compare(lambda _: source, [Choice(find_gpu("RTX 4090"), Layout())])


def test_fastest_first(compared):
    rates = [one.samples_per_second.expected for one in fastest_first(compared[0]) if one.samples_per_second]
    assert rates == sorted(rates, reverse=True)
    assert len(rates) >= 3


def test_the_text_has_a_row_and_a_bar_for_each(compared):
    text = to_text(fastest_first(compared[0]), "what it is")
    for one in compared[0]:
        assert text.count(one.label) >= 2
    assert "per 1000 spent" in text
    assert "not known" not in text  # the bars are of the rate, which is known for all that run
    assert to_text(compared[0], "x", unicode=False).isascii()


def test_the_page_opens_offline_and_has_a_chart_for_each_measure(compared):
    page = to_html(compared[0], "Cards for <wide>", "what")
    assert page.count("<svg") == 3
    assert "Cards for &lt;wide&gt;" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "src=" not in page
    assert "GeForce RTX 4090: gemm: " in page  # what was assumed


def test_a_board_with_two_devices_counts_once():
    """An MI250X module of 560 W shows two devices."""
    choices = parse_choices(["8xMI250X", "3xMI250X", "2xL4"], 1, "ddp", [])
    assert [choice.watts for choice in choices] == [4 * 560, 2 * 560, 2 * 72]


def test_notes_name_what_is_left_out(compared):
    found = "\n".join(notes(compared[0]))
    assert "boards alone" in found
    assert "prices are of the cards alone" in found
    assert "Tesla V100 SXM2 32GB: " in found


def test_words_become_choices():
    choices = parse_choices(["H100 SXM", "4xRTX 4090", "2 x L40S"], 8, "ddp", ["rtx4090=1800", "H100 SXM = 28e3"])
    assert [(choice.label, str(choice.layout)) for choice in choices] == [
        ("8 x H100 SXM5 80GB", "ddp=8"),
        ("4 x GeForce RTX 4090", "ddp=4"),
        ("2 x L40S", "ddp=2"),
    ]
    assert [choice.price for choice in choices] == [28000, 1800, None]
    assert [str(choice.layout) for choice in parse_choices(["L4"], 1, "fsdp2", [])] == ["single"]


@pytest.mark.parametrize(
    ("cards", "gpus", "layout", "prices", "sentences"),
    [
        (["H100 SXM", "Voodoo 2"], 1, "ddp", [], ["no GPU 'Voodoo 2'"]),
        (["H100 SXM"], 8, "ddp=4", [], ["takes 4 GPUs, but --gpus says 8"]),
        (["H100 SXM"], 1, "ddp", ["RTX 4090=1800"], ["GeForce RTX 4090 has a price but is not compared"]),
        (["H100 SXM"], 1, "ddp", ["H100 SXM", "H100 SXM=-5"], ["write CARD=PRICE", "write CARD=PRICE"]),
    ],
)
def test_mistakes_in_words(cards, gpus, layout, prices, sentences):
    with pytest.raises(UserError) as error:
        parse_choices(cards, gpus, layout, prices)
    found = [str(mistake) for mistake in error.value.mistakes]
    assert len(found) == len(sentences)
    assert all(sentence in said for sentence, said in zip(sentences, found, strict=True))
