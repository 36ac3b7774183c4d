"""`stoker plan memory` and `plan speed` from the command line, their pages, and `stoker train --plan`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stoker.cli.main import app
from stoker.errors import UserError
from tests.browser import CHROMIUM, Browser, browser
from tests.pictures import keep_png
from tests.plan.test_trace import LLAMA
from tests.report.test_html import Page

MODEL = """
import torch
from torch import nn

def small(micro_batch):
    return nn.Linear(512, 512), torch.randn(micro_batch, 512), lambda output: output.square().mean()

class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)
    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else x

def branching(micro_batch):
    return Branch(), torch.randn(micro_batch, 16), lambda output: output.sum()
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path / "model.py"


def test_memory_as_a_page_beside_the_text(model: Path, tmp_path: Path, command: Callable[..., Any]) -> None:
    page = tmp_path / "memory.html"
    code, out, err = command("plan", "memory", f"{model}:small", "--gpu", "L4", "--html", page)
    assert code == 0
    assert out.startswith("fits:")
    bars = {line.split()[0]: line.count("█") for line in out.splitlines() if line.startswith("  ")}
    assert bars["context"] > 30  # next to a model of one MiB
    assert err == f"the page is {page}\n"
    seen = Page(page.read_text())
    assert [one for one in seen.fetched if not one.startswith("data:")] == []
    assert "Memory over time" in seen.text
    assert "model.py:small fits L4, layout single, bf16, 1 sample in a forward pass" in seen.text
    assert "context_gib: 0.5 GiB: " in seen.text
    assert "nccl_gib" not in seen.text  # one GPU has no communicator


def test_memory_over_time_as_data(model: Path, command: Callable[..., Any]) -> None:
    plan = json.loads(command("plan", "memory", f"{model}:small", "--gpu", "L4", "--format", "json").out)
    phases = {(row["step"], row["phase"]): row for row in plan["timeline"]}
    assert {step for step, _ in phases} == {1, 2}
    top = max(phases.values(), key=lambda row: row["in_use"])
    assert f"{top['phase']} of step {top['step']}" == plan["peak"]
    assert top["parameters"] == plan["categories"]["parameters"]
    assert max(row["reserved"] for row in phases.values()) == plan["reserved"]


def test_the_link_between_gpus_can_be_another(model: Path, command: Callable[..., Any]) -> None:
    def plan(*words: str) -> dict[str, Any]:
        asked = ["--gpu", "A100 80GB", "--gpus", 2, "--layout", "ddp", "--format", "json"]
        return json.loads(command("plan", "speed", f"{model}:small", *asked, *words).out)

    usual, slow = plan(), plan("--link", "pcie4-nop2p")
    assert slow["step_seconds"]["expected"] > usual["step_seconds"]["expected"]
    assert [line for line in slow["assumptions"] if line.startswith("pcie4-nop2p: 10 GB/s per GPU: ")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--link", "ib-400"],
            "no link 'ib-400' between the GPUs of a node is in the table: write one of gloo, nvlink1",
        ),
        (["--network", "pcie4"], "no link 'pcie4' between nodes is in the table: write one of efa-400, ethernet-10"),
    ],
)
def test_a_link_in_the_wrong_place(words: list[str], said: str, model: Path, command: Callable[..., Any]) -> None:
    code, out, err = command("plan", "speed", f"{model}:small", "--gpu", "L4", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_speed_as_a_page_beside_json(model: Path, tmp_path: Path, command: Callable[..., Any]) -> None:
    page = tmp_path / "speed.html"
    words = ["--gpu", "L4", "--gpus", 4, "--layout", "ddp", "--gpu-hours-between-failures", 800, "--format", "json"]
    code, out, err = command("plan", "speed", f"{model}:small", *words, "--html", page)
    assert code == 0
    plan = json.loads(out)
    assert plan["goodput"]["hours_between_failures"] == 200
    assert list(plan["timeline"]["busy_seconds"]) == ["compute", "copies (4)"]
    (asked,) = [size for size in plan["scaling"]["sizes"] if size["gpus"] == 4]
    assert asked["step_seconds"] == plan["step_seconds"]
    assert err == f"the page is {page}\n"
    seen = Page(page.read_text())
    assert [one for one in seen.fetched if not one.startswith("data:")] == []
    assert "Computing and communication over time" in seen.text
    assert "16 GPUs" in seen.text
    assert "1 single fits" in seen.text
    assert "its own trace" in seen.text
    assert "formula" in seen.text
    assert "the batch of a step grows with the GPUs" in seen.text
    assert "ib-400: " in seen.text  # assumed for the sizes that leave the machine
    assert page.stat().st_size < 1_000_000


def test_without_a_page_no_other_number_of_gpus_is_planned(model: Path, command: Callable[..., Any]) -> None:
    plan = json.loads(command("plan", "speed", f"{model}:small", "--gpu", "L4", "--format", "json").out)
    assert plan["scaling"] is None


def test_an_estimate_has_no_time_line(model: Path, tmp_path: Path, command: Callable[..., Any]) -> None:
    page = tmp_path / "memory.html"
    words = ["--gpu", "L4", "--html", page, "--format", "json"]
    code, out, _ = command("plan", "memory", f"{model}:branching", *words)
    assert code == 0
    assert json.loads(out)["timeline"] is None
    seen = Page(page.read_text())
    assert "this is a closed-form estimate, not a trace" in seen.text
    assert "an estimate closed form, no time line" in seen.text
    assert "Memory over time" not in seen.text


def test_what_does_not_fit_has_a_page_and_exit_code_1(model: Path, tmp_path: Path, command: Callable[..., Any]) -> None:
    page = tmp_path / "memory.html"
    words = ["--gpu", "L4", "--micro-batch", 60_000_000, "--html", page]
    assert command("plan", "memory", f"{model}:small", *words).code == 1
    assert "model.py:small does not fit" in Page(page.read_text()).text


def test_a_pipeline_on_a_page(tmp_path: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.plan.scaling.MOST", 8)  # each size is traced
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    page = tmp_path / "speed.html"
    words = ["--layout", "pp=2,tp=2", "--gpus", 4, "--accumulation", 8, "--html", page]
    assert command("plan", "speed", tmp_path, *words).code == 0
    seen = Page(page.read_text())
    assert "stage 0 stage 1" in seen.text
    assert "tensor parallel (2), busy" in seen.text
    assert "micro-batches are shown" in seen.text
    assert "pipeline bubble" in seen.text


@pytest.mark.parametrize("verb", ["memory", "speed"])
def test_a_page_that_cannot_be_written(
    verb: str, model: Path, tmp_path: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said before anything is traced."""
    monkeypatch.setattr("stoker.plan.memory.plan_memory", None)
    code, out, err = command("plan", verb, f"{model}:small", "--html", tmp_path / "none" / "page.html")
    assert (code, out) == (2, "")
    assert f"cannot write {tmp_path / 'none' / 'page.html'}: there is no folder {tmp_path / 'none'}; make it" in err
    code, _, err = command("plan", verb, f"{model}:small", "--html", tmp_path)
    assert code == 2
    assert f"cannot write {tmp_path}: it is a folder" in err


@pytest.fixture
def run_file(points: str, tmp_path: Path) -> Path:
    run = tmp_path / "run.yaml"
    run.write_text(f"task: {points}\nduration: 2 steps\nbatch: {{global_size: 8}}\noutput: {tmp_path / 'out'}\n")
    return run


def test_a_dry_run_is_planned_and_leaves_nothing(run_file: Path, command: Callable[..., Any]) -> None:
    code, out, err = command("train", run_file, "--plan", "--dry-run")
    assert code == 0
    assert "fits" in out + err
    assert "samples/s" in out + err
    assert not (run_file.parent / "out").exists()


def test_a_run_is_planned_and_then_trained(run_file: Path, command: Callable[..., Any]) -> None:
    code, out, err = command("train", run_file, "--plan")
    assert code == 0
    said = out + err
    assert said.index("fits:") < said.index("The run folder is")
    folder = run_file.parent / "out"
    plan = json.loads((folder / "plan.json").read_text())
    assert (plan["kind"], plan["processes"], plan["memory"]["verdict"]) == ("cpu", 1, "fits")
    assert plan["speed"]["step_seconds"]["expected"] > 0
    assert "predicted and measured" in said.lower()
    assert "Predicted and measured" in Page((folder / "report.html").read_text()).text


def test_what_cannot_be_planned_is_trained_all_the_same(
    run_file: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise UserError("this strategy is not planned")

    monkeypatch.setattr("stoker.forecast.run.forecast", refuse)
    code, out, err = command("train", run_file, "--plan")
    assert code == 0
    assert "no plan: this strategy is not planned" in out + err
    folder = run_file.parent / "out"
    assert not (folder / "plan.json").exists()
    assert (folder / "model" / "model.safetensors").exists()


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of a ResNet-50."""
    folder = tmp_path_factory.mktemp("pages")
    words = ["resnet50", "--gpu", "A100 80GB", "--gpus", "8", "--layout", "ddp", "--micro-batch", "64"]
    found = {verb: folder / f"{verb}.html" for verb in ("memory", "speed")}
    for verb, page in found.items():
        assert CliRunner().invoke(app, ["plan", verb, *words, "--html", str(page)]).exit_code == 0
    return found


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize(("verb", "height"), [("memory", 1000), ("speed", 1490)])
def test_it_asks_nobody_and_fits_a_phone(verb: str, height: int, tab: Browser, pages: dict[str, Path]) -> None:
    address = pages[verb].as_uri()
    for width, dark in ((360, True), (820, False)):
        tab.show(width=width, height=900, mobile=width < 500, dark=dark)
        tab.open(address)
        assert tab.complaints == []
        assert [one for one in tab.requests if one != address and not one.startswith("data:")] == []
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert tab.run(OVERLAPS) == []
    keep_png(f"plan-{verb}.png", tab.picture(height=height))


OVERLAPS = """[...document.querySelectorAll('svg.chart')].flatMap(chart => {
  const boxes = [...chart.querySelectorAll('text')].map(one => [one.textContent, one.getBoundingClientRect()]);
  return boxes.flatMap(([name, one], index) => boxes.slice(index + 1)
    .filter(([, other]) => one.left < other.right && other.left < one.right
      && one.top + 4 < other.bottom && other.top + 4 < one.bottom)
    .map(([other]) => [name, other]));
})"""
"""Pairs of texts of a chart that lie on each other; the space above and below letters does not count."""


@pytest.mark.slow
@needs_browser
def test_memory_is_read_where_a_reader_points(tab: Browser, pages: dict[str, Path]) -> None:
    tab.show(width=820, height=1400)
    tab.open(pages["memory"].as_uri())
    legend = "[...document.querySelectorAll('.legend output')].map(one => Number(one.textContent))"
    at = "document.querySelector('.panel .at').textContent"
    top, resting = tab.run(legend), tab.run(at)
    assert resting == "at the peak"
    tab.run("document.querySelector('.plot').focus()")
    tab.call("Input.dispatchKeyEvent", type="keyDown", key="End")
    assert tab.run(at) == "step 2, optimizer"
    *layers, reserved = tab.run(legend)
    assert sum(layers) < sum(top[:-1])  # most is in use at the peak
    assert reserved >= sum(layers)
    tab.call("Input.dispatchKeyEvent", type="keyDown", key="Home")
    assert tab.run(at) == "setup"
    tab.call("Input.dispatchKeyEvent", type="keyDown", key="Escape")
    assert (tab.run(legend), tab.run(at)) == (top, resting)


@pytest.mark.slow
@needs_browser
def test_curves_over_gpus_are_read_together_where_a_reader_points(tab: Browser, pages: dict[str, Path]) -> None:
    """Their lower axis is logarithmic: the place that is pointed at is that of the dot."""
    tab.show(width=820, height=3000)
    tab.open(pages["speed"].as_uri())
    dot = "document.querySelectorAll('.panel .line circle')[2]"
    x, y = tab.run(f"(box => [box.x + box.width / 2, box.y + box.height / 2])({dot}.getBoundingClientRect())")
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + 5, y=y)
    assert tab.run("[...document.querySelectorAll('.panel .at')].map(one => one.textContent)") == ["4 GPUs"] * 2
    guide = float(tab.run("document.querySelector('.panel .guide').getAttribute('x1')"))
    assert guide == pytest.approx(float(tab.run(f"{dot}.getAttribute('cx')")), abs=0.1)
    expected, even, share = tab.run("[...document.querySelectorAll('.panel output')].map(one => one.textContent)")
    assert float(expected.replace(",", "")) < float(even.replace(",", ""))
    assert 50 < float(share) < 100
