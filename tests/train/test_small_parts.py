"""Ranks, task names, signals, files: the small rooms of the engine."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from stoker.errors import RunError, UserError
from stoker.train.export import save_weights
from stoker.train.find_task import find_task
from stoker.train.parallel import choose_strategy
from stoker.train.precision import choose_precision
from stoker.train.ranks import Ranks, first_host, read_ranks
from stoker.train.run_folder import JsonLines, RunFolder, disk_errors
from stoker.train.signals import StopFlag
from stoker.train.spec.model import ParallelSection, TaskSection
from stoker.train.task import to_device
from stoker.train.world import World

CPU = torch.device("cpu")


def test_torchrun_s_variables() -> None:
    environ = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "a",
               "MASTER_PORT": "7"}  # fmt: skip
    assert read_ranks(environ) == Ranks(5, 8, 1, 4, "a", 7)


def test_srun_s_variables() -> None:
    environ = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "7", "SLURM_LOCALID": "1", "SLURM_NODEID": "1",
               "SLURM_STEP_TASKS_PER_NODE": "4,3", "SLURM_STEP_NODELIST": "gpu[07-08]",
               "SLURM_JOB_ID": "41003"}  # fmt: skip
    assert read_ranks(environ) == Ranks(5, 7, 1, 3, "gpu07", 21003)
    assert read_ranks({**environ, "SLURM_STEP_NUM_TASKS": "1"}) is None, "one task is no distributed run"
    assert read_ranks({}) is None
    with pytest.raises(UserError, match="cannot be read"):
        read_ranks({"RANK": "x", "WORLD_SIZE": "2"})


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [("gpu1", "gpu1"), ("gpu1,gpu2", "gpu1"), ("gpu[003-006,010],login1", "gpu003"), ("rack[1,3]-gpu", "rack1-gpu")],
)
def test_the_first_host(nodelist: str, host: str) -> None:
    assert first_host(nodelist) == host


def test_tasks_are_found_by_name_file_and_module(tmp_path: Path) -> None:
    (tmp_path / "mine_for_test.py").write_text(
        "import stoker\nclass Mine(stoker.Task):\n    def __init__(self, width=1, depth=1): self.width = width\n"
        "def other(): return 3\n"
    )
    for use in ("mine_for_test.py:Mine", "mine_for_test:Mine", f"{tmp_path}/mine_for_test.py:Mine"):
        assert find_task(TaskSection(use=use, options={"width": 4}), tmp_path).width == 4  # pyright: ignore
    for use, options, sentence in [
        ("image-classificatoin", {}, "did you mean 'image-classification'"),
        ("mine_for_test.py:Mien", {}, "did you mean 'Mine'"),
        ("nowhere.py:Mine", {}, "the file does not exist"),
        ("no_such_module_here:Mine", {}, "there is no module"),
        (
            "mine_for_test.py:Mine",
            {"widht": 4},
            "unknown option of mine_for_test.py:Mine 'widht': did you mean 'width'",
        ),
        ("mine_for_test.py:other", {}, "gives a int, not a stoker Task"),
        ("mine_for_test.py:other", {"a": 1}, "takes no options"),
        ("image-classification", {}, "needs the option 'root'"),
    ]:
        with pytest.raises(UserError, match=sentence):
            find_task(TaskSection(use=use, options=options), tmp_path)


def test_a_signal_only_raises_a_flag() -> None:
    with StopFlag() as flag:
        assert not flag.raised
        os.kill(os.getpid(), signal.SIGUSR1)
        assert flag.raised
        assert flag.reason == "SIGUSR1"
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_outside_of_the_main_thread_signals_are_left_alone() -> None:
    found: list[bool] = []

    def work() -> None:
        with StopFlag() as flag:
            found.append(flag.raised)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]


def test_lines_are_kept_and_torn_ones_dropped(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    lines = JsonLines(file)
    for step in range(1, 6):
        lines.append({"step": step})
    lines.flush()
    with file.open("a") as stream:
        stream.write('{"step": 6, "lo')
    JsonLines(file).keep(lambda row: row["step"] <= 3)
    assert [json.loads(line)["step"] for line in file.read_text().splitlines()] == [1, 2, 3]


def test_the_first_failure_stays(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.record_failure(ValueError("the cause"), rank=1, step=3)
    folder.record_failure(RuntimeError("connection closed"), rank=0, step=3)
    told = json.loads(folder.failure.read_text())
    assert (told["rank"], told["message"]) == (1, "the cause")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["failure.json"]


def test_disk_errors_are_sentences(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot be written: Not a directory"):
        RunFolder(tmp_path / "file" / "run").create()
    with pytest.raises(RunError, match="is full: free some space"), disk_errors(tmp_path):
        raise OSError(28, "No space left on device")


def test_tied_weights_stand_once_in_the_file(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    save_weights(model, tmp_path / "model" / "model.safetensors", World(Ranks(), CPU))
    found = load_file(tmp_path / "model" / "model.safetensors")
    assert list(found) == ["0.weight"]
    assert torch.equal(found["0.weight"], model[0].weight)


def test_precision_on_the_cpu() -> None:
    assert choose_precision("auto", CPU).format == "fp32"
    assert choose_precision("fp64", CPU).model_dtype == torch.float64
    assert choose_precision("fp16", CPU).make_scaler() is not None
    assert choose_precision("bf16", CPU).make_scaler() is None
    with pytest.raises(UserError, match="tf32 needs an NVIDIA GPU since Ampere"):
        choose_precision("tf32", CPU)


def test_strategies_that_do_not_fit() -> None:
    alone, two = World(Ranks(), CPU), World(Ranks(world_size=2), CPU)
    assert choose_strategy(ParallelSection(), alone, static_graph=False).name == "single"
    assert choose_strategy(ParallelSection(strategy="ddp"), alone, static_graph=False).name == "single"
    assert choose_strategy(ParallelSection(), two, static_graph=False).name == "ddp"
    with pytest.raises(UserError, match="single is for one process, but there are 2"):
        choose_strategy(ParallelSection(strategy="single"), two, static_graph=False)
    strategy = choose_strategy(ParallelSection(strategy="dp"), alone, static_graph=False)
    assert "ddp is faster" in strategy.describe()
    with pytest.raises(UserError, match="two or more CUDA devices"):
        strategy.wrap(nn.Linear(1, 1))


def test_nested_batches_are_moved() -> None:
    Pair = namedtuple("Pair", "first second")
    batch = {"a": [torch.ones(2), (torch.tensor(3), "text")], "b": Pair(torch.zeros(1), None)}
    moved = to_device(batch, CPU, dtype=torch.float64)
    assert moved["a"][0].dtype == torch.float64
    assert moved["a"][1][0].dtype == torch.int64
    assert moved["a"][1][1] == "text"
    assert isinstance(moved["b"], Pair)
