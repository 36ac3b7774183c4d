"""`stoker plan memory` and `plan speed` from the command line, their pages, and `stoker train --plan`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import CHROMIUM, Browser, browser
from tests.pictures import keep_png
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
    assert "fits on L4" in seen.text


def test_speed_as_a_page_beside_json(model: Path, tmp_path: Path, command: Callable[..., Any]) -> None:
    page = tmp_path / "speed.html"
    words = ["--gpu", "L4", "--gpus", 4, "--layout", "ddp", "--gpu-hours-between-failures", 800, "--format", "json"]
    code, out, err = command("plan", "speed", f"{model}:small", *words, "--html", page)
    assert code == 0
    plan = json.loads(out)
    assert plan["goodput"]["hours_between_failures"] == 200
    assert err == f"the page is {page}\n"
    seen = Page(page.read_text())
    assert "Computing and communication over time" in seen.text
    assert "16 GPUs" in seen.text


def test_an_estimate_has_no_time_line(model: Path, tmp_path: Path, command: Callable[..., Any]) -> None:
    page = tmp_path / "memory.html"
    code, out, _ = command("plan", "memory", f"{model}:branching", "--gpu", "L4", "--html", page)
    assert code == 0
    assert "this is a closed-form estimate, not a trace" in out
    seen = Page(page.read_text())
    assert "this is a closed-form estimate, not a trace" in seen.text
    assert "Memory over time" not in seen.text


def test_a_page_that_cannot_be_written(model: Path, tmp_path: Path, command: Callable[..., Any]) -> None:
    code, _, err = command("plan", "memory", f"{model}:small", "--gpu", "L4", "--html", tmp_path / "none" / "page.html")
    assert code == 2
    assert f"cannot write {tmp_path / 'none' / 'page.html'}: No such file or directory" in err


def test_a_run_is_planned_before_it_trains(tmp_path: Path, command: Callable[..., Any]) -> None:
    (tmp_path / "task.py").write_text(
        "import torch\nfrom torch import nn\nfrom torch.utils.data import TensorDataset\nfrom stoker import make_task\n"
        "def points():\n"
        "    data = TensorDataset(torch.randn(64, 16), torch.randn(64, 1))\n"
        "    return make_task(lambda: nn.Linear(16, 1), data, nn.functional.mse_loss)\n"
    )
    run = tmp_path / "run.yaml"
    run.write_text(f"task: task.py:points\nduration: 2 steps\nbatch: {{global_size: 8}}\noutput: {tmp_path / 'out'}\n")
    code, out, err = command("train", run, "--plan", "--dry-run")
    assert code == 0
    assert "fits" in out + err
    assert "samples/s" in out + err
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")
@pytest.mark.parametrize(("verb", "height"), [("memory", 1010), ("speed", 1240)])
def test_pictures_of_the_documentation(
    verb: str, height: int, tab: Browser, tmp_path: Path, command: Callable[..., Any]
) -> None:
    page = tmp_path / "page.html"
    words = ["--gpu", "A100 80GB", "--gpus", 8, "--layout", "ddp", "--micro-batch", 64]
    assert command("plan", verb, "resnet50", *words, "--html", page).code == 0
    for width, dark in ((390, True), (820, False)):
        tab.show(width=width, height=900, mobile=width < 500, dark=dark)
        tab.open(page.as_uri())
        assert tab.complaints == []
        assert [one for one in tab.requests if one != page.as_uri() and not one.startswith("data:")] == []
        assert tab.run("document.documentElement.scrollWidth") <= width
    keep_png(f"plan-{verb}.png", tab.picture(height=height))
