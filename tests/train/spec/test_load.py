from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.errors import UserError
from stoker.train.spec import RunSpec, load_spec, parse_spec
from stoker.train.spec.load import all_keys, nearest_key
from stoker.train.spec.model import OPTIMIZERS, checkpoint_stride

LEAST = {"task": "digits.py:Digits", "duration": "2 epochs"}


def mistakes_in(text: str, folder: Path, *overrides: str) -> list[str]:
    file = folder / "run.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        load_spec(file, overrides)
    return [str(mistake).replace(str(folder) + "/", "") for mistake in caught.value.mistakes]


def test_all_mistakes_are_told_at_once_with_their_place(tmp_path: Path) -> None:
    text = """\
task: digits.py:Digits
duration: 20 epoks
batch:
  global_sise: 12
  micro_size: big
optimizer:
  name: adamm
  lr: fast
precision: bf61
epochs: 3
gradient: 5
"""
    found = mistakes_in(text, tmp_path, "checkpoint.evry=never", "foo", "seed=[1")
    expected = [
        ("run.yaml:2", "duration: '20 epoks' is not understood", "'20 epochs'"),
        ("run.yaml:4", "unknown key 'batch.global_sise'", "did you mean 'batch.global_size'?"),
        ("run.yaml:5", "batch.micro_size: 'big'", "write 'auto' or a whole number"),
        ("run.yaml:7", "unknown optimizer 'adamm'", "did you mean 'adam"),
        ("run.yaml:8", "optimizer.lr: 'fast'", "write a number"),
        ("run.yaml:9", "precision: 'bf61'", "did you mean 'bf16'?"),
        ("run.yaml:10", "unknown key 'epochs'", "duration: 20 epochs"),
        ("run.yaml:11", "gradient is a section", ""),
        ("command line (checkpoint.evry=never)", "unknown key 'checkpoint.evry'", "did you mean 'checkpoint.every'?"),
        ("command line", "'foo' is not an override", "key.path=value"),
        ("command line", "'seed=[1'", "not valid YAML"),
    ]
    assert len(found) == len(expected), found
    for where, what, remedy in expected:
        assert any(line.startswith(f"{where}: ") and what in line and remedy in line for line in found), (where, found)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("task: a:b\nduration: 1 epoch\nseed: 1\nseed: 2\n", "run.yaml:4: seed stands twice (first at run.yaml:3)"),
        ("task: [a\n", "run.yaml:2: this is not valid YAML"),
        ("- 1\n- 2\n", "run.yaml: a run file is a mapping of sections"),
        ("", "run.yaml: task is missing"),
    ],
)
def test_files_that_are_no_run_file(text: str, sentence: str, tmp_path: Path) -> None:
    assert any(mistake.startswith(sentence) for mistake in mistakes_in(text, tmp_path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        load_spec(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="is a folder"):
        load_spec(tmp_path)
    (tmp_path / "run.yaml").write_bytes(b"\xff\xd8\xff\xe0 JFIF")
    with pytest.raises(UserError, match="cannot be read"):
        load_spec(tmp_path / "run.yaml")
    (tmp_path / "run.yaml").write_bytes(b"\x7fELF\x00\x01\x02")
    with pytest.raises(UserError, match="not valid YAML"):
        load_spec(tmp_path / "run.yaml")


def test_command_line_over_file_over_default(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump({**LEAST, "seed": 5, "optimizer": {"lr": 0.5, "name": "sgd"}}))
    spec = load_spec(file, ["optimizer.lr=1e-3", "optimizer.options.momentum=0.9", "task.options.width=3"]).spec
    assert (spec.seed, spec.optimizer.name, spec.optimizer.lr, spec.batch.global_size) == (5, "sgd", 1e-3, 32)
    assert spec.optimizer.options == {"momentum": 0.9}
    assert spec.task.options == {"width": 3}
    assert spec.output == "runs/run"


def test_the_settled_spec_can_be_read_again(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(LEAST))
    spec = load_spec(file, ["schedule.warmup=5 %", "evaluate.every=never", "gradient.clip_norm=1"]).spec
    assert spec.task.use == f"{tmp_path}/digits.py:Digits"
    again = tmp_path / "again" / "spec.yaml"
    again.parent.mkdir()
    again.write_text(yaml.safe_dump(spec.model_dump(mode="json")))
    assert load_spec(again).spec == spec


def test_numbers_as_everybody_means_them() -> None:
    options = parse_spec(LEAST, overrides=["optimizer.options={eps: 1e-8, betas: [0.9, 0.95]}"]).optimizer.options
    assert options == {"eps": 1e-8, "betas": [0.9, 0.95]}


WRONG: list[tuple[str, Any, str]] = [
    ("seed", "5", "write a whole number"),
    ("seed", 1.5, "write a whole number"),
    ("seed", -1, "write a number greater than or equal to 0"),
    ("seed", 2**63, "write a number less than 9223372036854775808"),
    ("deterministic", "yes", "write true or false"),
    ("deterministic", 1, "write true or false"),
    ("task", 5, "task is a section"),
    ("task.use", 5, "write text"),
    ("task.options", [1], "write a mapping"),
    ("duration", 20, "write '20 epochs'"),
    ("duration", "0 epochs", "must be more than 0"),
    ("duration", "5 %", "write '20 epochs'"),
    ("duration", "1e999 steps", "write '20 epochs'"),
    ("duration", "never", "write '20 epochs'"),
    ("batch", [1, 2], "batch is a section"),
    ("batch.global_size", True, "write a whole number"),
    ("batch.global_size", 0, "write a number greater than or equal to 1"),
    ("batch.micro_size", 0, "write 'auto' or a number greater than or equal to 1"),
    ("batch.micro_size", 64, "larger than global_size 32: write at most 32"),
    ("data.workers", -1, "write 'auto' or a number greater than or equal to 0"),
    ("data.last_batch", "dorp", "did you mean 'drop'?"),
    ("optimizer.lr", 0, "write a number greater than 0"),
    ("optimizer.lr", float("inf"), "write a finite number"),
    ("optimizer.lr", float("nan"), "write a finite number"),
    ("optimizer.lr", True, "write a number"),
    ("optimizer.options", "momentum", "write a mapping"),
    ("schedule.warmup", "150 %", "write at most 100 %"),
    ("schedule.warmup", "2 hours", "write '500 steps', '20 epochs' or '5 %'"),
    ("schedule.final", 2, "write a number less than or equal to 1"),
    ("schedule.drop_every", "2 hours", "write '20 epochs' or '500 steps'"),
    ("memory.activation_checkpointing", "every 0", "write 'none', 'full' or 'every 2'"),
    ("gradient.clip_norm", 0, "write a number greater than 0"),
    ("evaluate.every", "3 tokens", "or 'never'"),
    ("checkpoint.keep", 0, "write a number greater than or equal to 1"),
    ("checkpoint.resume", False, "write text"),
    ("version", 2, "write 1"),
    ("output", 5, "write text"),
]


@pytest.mark.parametrize(("key", "value", "remedy"), WRONG)
def test_a_wrong_value_is_named_with_what_to_write(key: str, value: Any, remedy: str) -> None:
    tree: dict[str, Any] = {**LEAST, "task": {"use": "digits.py:Digits"}}
    *sections, field = key.split(".")
    node = tree
    for section in sections:
        node = node.setdefault(section, {})
    node[field] = value
    with pytest.raises(UserError) as caught:
        parse_spec(tree)
    (mistake,) = caught.value.mistakes
    assert key.split(".")[0] in mistake.message
    assert remedy in mistake.message
    assert mistake.where == "spec"


def test_an_override_below_a_plain_value() -> None:
    """It neither hides the file's mistake nor is it lost without a word."""
    with pytest.raises(UserError) as caught:
        parse_spec({**LEAST, "optimizer": "adamw", "seed": 3}, overrides=["optimizer.lr=1", "seed.x.y=2"])
    assert [str(mistake) for mistake in caught.value.mistakes] == [
        "command line: optimizer.lr cannot be set: optimizer is no section but a value",
        "command line: seed.x.y cannot be set: seed is no section but a value",
        "spec: optimizer is a section: write its fields below it, indented",
    ]


def test_overrides_make_sections_and_keep_the_short_task() -> None:
    spec = parse_spec({**LEAST, "evaluate": None}, overrides=["task.options.a.b=1", "evaluate.every=never"])
    assert (spec.task.use, spec.task.options) == ("digits.py:Digits", {"a": {"b": 1}})
    assert spec.evaluate.every.unit == "never"


def test_the_last_override_of_a_key_wins() -> None:
    assert parse_spec(LEAST, overrides=["seed=1", "seed=2"]).seed == 2


@pytest.mark.parametrize("text", ["2020-13-45", "\x00", "&a [*a]", "!!int x"])
def test_an_override_that_is_no_yaml(text: str) -> None:
    with pytest.raises(UserError, match="the value is not valid YAML; quote it"):
        parse_spec(LEAST, overrides=[f"seed={text}"])


def test_what_is_given_is_left_alone() -> None:
    given: dict[str, Any] = {**LEAST, "optimizer": {"options": {"betas": [0.9, 0.95]}}}
    parse_spec(given, overrides=["optimizer.options.betas=[0, 0]", "seed=4"])
    assert given == {**LEAST, "optimizer": {"options": {"betas": [0.9, 0.95]}}}


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("batch_size", "batch.global_size"),
        ("lr", "optimizer.lr"),
        ("optimiser.lr", "optimizer.lr"),
        ("batch.micro", "batch.micro_size"),
        ("num_workers", "data.workers"),
        ("clip_norm", "gradient.clip_norm"),
        ("xyzzy", None),
    ],
)
def test_the_nearest_key(key: str, meant: str | None) -> None:
    assert nearest_key(key) == meant


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(
    keys=st.dictionaries(st.sampled_from([*RunSpec.model_fields, "epochs", ""]), _VALUES, max_size=6),
    words=st.lists(
        st.text(max_size=12) | st.builds("{}={}".format, st.sampled_from(all_keys()), st.text()), max_size=2
    ),
)
@settings(max_examples=150, deadline=None)
def test_anything_is_a_spec_or_a_mistake(keys: dict[str, Any], words: list[str]) -> None:
    with contextlib.suppress(UserError):  # and no other exception
        assert isinstance(parse_spec({**LEAST, **keys}, overrides=words), RunSpec)


def test_optimizers_are_those_of_torch() -> None:
    """Left out: LBFGS wants a closure, SparseAdam sparse gradients; Optimizer is the base class."""
    offered = {name.lower() for name in torch.optim.__all__ if isinstance(getattr(torch.optim, name), type)}
    assert set(OPTIMIZERS) == offered - {"lbfgs", "sparseadam", "optimizer"}


@pytest.mark.parametrize(("setting", "stride"), [("none", 0), ("full", 1), ("every 3", 3)])
def test_activation_checkpointing_settings(setting: str, stride: int) -> None:
    assert checkpoint_stride(setting) == stride


def test_every_key_is_listed_once() -> None:
    keys = all_keys()
    assert len(keys) == len(set(keys))
    assert {"batch", "batch.global_size", "output"} <= set(keys)
