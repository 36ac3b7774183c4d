from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from stoker.errors import UserError
from stoker.train.optimizer import make_optimizer
from stoker.train.spec.model import OPTIMIZERS, OptimizerSection

CPU = torch.device("cpu")


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 1))


def make(module: nn.Module | None = None, **fields: Any) -> torch.optim.Optimizer:
    return make_optimizer(OptimizerSection.model_validate(fields), module or model(), CPU)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_makes_a_step(name: str) -> None:
    module = nn.Linear(4, 2, bias=False) if name == "muon" else model()
    optimizer = make(module, name=name, lr=0.1)
    before = [weight.detach().clone() for weight in module.parameters()]
    module(torch.randn(3, 4)).square().sum().backward()
    optimizer.step()
    assert any(not torch.equal(old, new) for old, new in zip(before, module.parameters(), strict=True))


def test_norms_and_biases_do_not_decay_unless_asked_for() -> None:
    decaying, others = make(weight_decay=0.1).param_groups
    assert [tuple(weight.shape) for weight in decaying["params"]] == [(8, 4), (1, 8)]
    assert (decaying["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    assert len(others["params"]) == 4
    (everything,) = make(weight_decay=0.1, decay_all=True).param_groups
    assert (len(everything["params"]), everything["weight_decay"]) == (6, 0.1)


def test_the_fastest_implementation_is_taken() -> None:
    assert make(name="adamw").param_groups[0]["fused"] is True
    assert not make(name="adamw", implementation="loop").param_groups[0]["fused"]
    assert make(name="adamw", implementation="foreach").param_groups[0]["foreach"] is True
    assert "fused" not in make(name="rmsprop").param_groups[0]


def test_a_class_of_one_s_own() -> None:
    assert type(make(name="torch.optim.sgd:SGD", options={"momentum": 0.9})) is torch.optim.SGD


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": "rprop", "weight_decay": 0.1}, "rprop has no weight decay"),
        ({"name": "sgd", "options": {"momentun": 0.9}}, "sgd refuses its options"),
        ({"name": "adam", "options": {"betas": [2, 3]}}, "adam refuses its options"),
        ({"name": "rmsprop", "implementation": "fused"}, "rmsprop has no fused implementation"),
        ({"name": "muon"}, "muon takes 2-D parameters only"),
        ({"name": "nowhere:Best"}, "cannot be imported"),
    ],
)
def test_mistakes_are_sentences(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make(**fields)


def test_a_model_without_anything_to_train() -> None:
    with pytest.raises(UserError, match="no trainable parameter"):
        make(nn.ReLU())
