from __future__ import annotations

import inspect

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from stoker.errors import UserError
from stoker.train import compat


@pytest.mark.parametrize("version", ["2.11.0", "2.14.1+cu130", "3.0.0a0+git1234", "2.100.0"])
def test_versions_that_will_do(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    compat.require_torch()


@pytest.mark.parametrize("version", ["2.10.1+cpu", "1.13.0"])
def test_versions_that_are_too_old(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(UserError, match=r"is too old: stoker needs 2\.11 or newer"):
        compat.require_torch()


def test_the_loss_scale_before_and_after_its_first_use() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    assert float(compat.loss_scale(scaler)) == 8.0
    scaler.scale(torch.ones(1))
    found = compat.loss_scale(scaler)
    assert float(found) == 8.0
    scaler.update(2.0)
    assert float(found) == 8.0, "a step's scale must not change when the next one's does"


def test_products_in_place() -> None:
    tensors = [torch.ones(2), torch.full((3, 1), 2.0)]
    compat.multiply_all(tensors, torch.tensor(0.5))
    assert [tensor.flatten()[0].item() for tensor in tensors] == [0.5, 1.0]


def test_the_keyword_for_buffers_is_one_of_ddp_s() -> None:
    (name,) = compat.no_buffer_sync()
    assert name in inspect.signature(DistributedDataParallel.__init__).parameters
