from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from stoker import Task
from stoker.data.batches import Position
from stoker.errors import RunError
from stoker.train.checkpoint import (
    CheckpointStore,
    Progress,
    Saver,
    load_into,
    restore_random_state,
    state_of,
    take_random_state,
)
from stoker.train.checkpoint.store import FileRecord, problem_of, step_of
from stoker.train.optimizer import make_optimizer
from stoker.train.ranks import Ranks
from stoker.train.spec.model import OPTIMIZERS, OptimizerSection
from stoker.train.step import Trainee
from stoker.train.world import World

CPU = torch.device("cpu")
WORLD = World(Ranks(), CPU)


def trainee(name: str = "adamw", width: int = 4) -> Trainee:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, width, bias=False), nn.Linear(width, 1, bias=False))
    optimizer = make_optimizer(OptimizerSection(name=name, lr=0.05), model, CPU)
    return Trainee(Task(), model, model, optimizer, None)


def make_steps(one: Trainee, steps: range) -> None:
    for step in steps:
        inputs = torch.randn(5, 3, generator=torch.Generator().manual_seed(step))
        one.module(inputs).square().sum().backward()
        one.optimizer.step()
        one.optimizer.zero_grad()


def save(one: Trainee, store: CheckpointStore, step: int, *, asynchronous: bool = False, keep: int = 9) -> None:
    saver = Saver(store, WORLD, keep=keep, asynchronous=asynchronous)
    saver.save(state_of(one, WORLD), Progress(Position(step, 0, step)))
    saver.wait()
    saver.close()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_continues_bit_for_bit(name: str, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    whole = trainee(name)
    make_steps(whole, range(3))
    save(whole, store, 3)
    make_steps(whole, range(3, 6))
    resumed = trainee(name)
    make_steps(resumed, range(50, 51))  # it stands somewhere else before it loads
    assert load_into(store.final(3), resumed, WORLD).position == Position(3, 0, 3)
    make_steps(resumed, range(3, 6))
    for ours, theirs in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_what_is_saved_is_the_state_when_save_was_called(tmp_path: Path) -> None:
    store, one = CheckpointStore(tmp_path), trainee()
    make_steps(one, range(2))
    before = {name: value.clone() for name, value in one.model.state_dict().items()}
    saver = Saver(store, WORLD, keep=1, asynchronous=True)
    saver.save(state_of(one, WORLD), Progress(Position(2)))
    make_steps(one, range(2, 40))
    saver.wait()
    saver.close()
    other = trainee()
    load_into(store.final(2), other, WORLD)
    assert all(torch.equal(value, before[name]) for name, value in other.model.state_dict().items())


def test_a_state_before_the_first_step_makes_none_up(tmp_path: Path) -> None:
    """As when the first steps were all skipped for fp16 overflows."""
    store, one = CheckpointStore(tmp_path), trainee()
    save(one, store, 0)
    other = trainee()
    load_into(store.final(0), other, WORLD)
    assert not other.optimizer.state


@pytest.mark.parametrize(
    ("other", "key"), [(trainee(width=5), "model.0.weight has shape"), (trainee("sgd"), "exp_avg")]
)
def test_another_model_or_optimizer_is_fatal_and_named(other: Trainee, key: str, tmp_path: Path) -> None:
    store, one = CheckpointStore(tmp_path), trainee()
    make_steps(one, range(2))
    save(one, store, 2)
    with pytest.raises(RunError, match=f"another model or optimizer: .*{key}"):
        load_into(store.final(2), other, WORLD)


def test_older_checkpoints_go(tmp_path: Path) -> None:
    store, one = CheckpointStore(tmp_path), trainee()
    make_steps(one, range(1))
    for step in (1, 2, 3, 4):
        save(one, store, step, keep=2)
    assert [step_of(folder) for folder in store.complete()] == [4, 3]
    assert {path.name for path in tmp_path.iterdir()} == {"step-00000003", "step-00000004"}


def test_damage_is_seen_and_passed_over(tmp_path: Path) -> None:
    store, one = CheckpointStore(tmp_path), trainee()
    make_steps(one, range(1))
    for step in range(1, 6):
        save(one, store, step)
    data = next((store.final(5) / "state").glob("*.distcp"))
    content = data.read_bytes()
    data.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])  # one bit
    (store.final(4) / "progress.json").write_text("{}")
    (store.final(3) / "state" / ".metadata").unlink()
    (store.final(2) / "manifest.json").write_text("{")
    newest, problems = store.newest_valid()
    assert newest == store.final(1)
    for words, problem in zip(
        ["has changed since", "bytes instead of", "is missing", "manifest cannot be read"], problems, strict=True
    ):
        assert words in problem


def test_what_an_interrupted_save_left_is_no_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    (store.start(7) / "state").mkdir()
    assert store.complete() == []
    store.clean()
    assert list(tmp_path.iterdir()) == []


def test_saving_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    store, one = CheckpointStore(tmp_path), trainee()
    make_steps(one, range(1))
    save(one, store, 1)
    make_steps(one, range(1, 2))
    save(one, store, 1)
    other = trainee()
    load_into(store.final(1), other, WORLD)
    assert torch.equal(other.model[0].weight, one.model[0].weight)  # pyright: ignore[reportIndexIssue]


def test_manifest_says_what_sha256sum_says(tmp_path: Path) -> None:
    store, one = CheckpointStore(tmp_path), trainee()
    make_steps(one, range(1))
    save(one, store, 1)
    folder = store.final(1)
    files = json.loads((folder / "manifest.json").read_text())["files"]
    assert {file["path"] for file in files} == {"progress.json", "state/.metadata", "state/__0_0.distcp"}
    assert all(FileRecord.of(folder / file["path"], folder) == FileRecord(**file) for file in files)
    assert problem_of(folder) is None


def test_generators_continue_where_they_were() -> None:
    random.gauss(0, 1), np.random.randn()  # leaves a second value behind in both
    state = take_random_state(CPU)
    drawn = torch.rand(3), random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn()
    torch.rand(9), random.random(), np.random.rand()
    restore_random_state(state, CPU)
    again = torch.rand(3), random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn()
    assert torch.equal(drawn[0], again[0])
    assert drawn[1:] == again[1:]


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text('{"format": 99, "torch": "9"}')
    with pytest.raises(RunError, match="another format"):
        Progress.read(tmp_path)
