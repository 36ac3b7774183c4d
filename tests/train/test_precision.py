from __future__ import annotations

from typing import Any

import pytest
import torch

from stoker.errors import UserError
from stoker.train.precision import choose_precision

CPU = torch.device("cpu")


def test_auto_on_the_cpu() -> None:
    found = choose_precision("auto", CPU)
    assert (found.format, found.model_dtype, found.make_scaler()) == ("fp32", None, None)
    assert "CPU" in found.reason


def test_fp64_converts_the_model() -> None:
    assert choose_precision("fp64", CPU).model_dtype == torch.float64


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("fp64", torch.float32), ("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)],
)
def test_autocast(name: Any, dtype: torch.dtype) -> None:
    layer = torch.nn.Linear(2, 2)
    precision = choose_precision(name, CPU)
    with precision.autocast():
        assert layer(torch.ones(1, 2)).dtype == dtype
    assert (precision.make_scaler() is not None) == (name == "fp16")


def test_tf32_needs_a_gpu() -> None:
    with pytest.raises(UserError, match="tf32 needs an NVIDIA GPU since Ampere; write fp32, or auto"):
        choose_precision("tf32", CPU)


def test_a_device_without_autocast() -> None:
    with pytest.raises(UserError, match="bf16 cannot be used on a meta device"):
        choose_precision("bf16", torch.device("meta"))


@pytest.mark.parametrize(
    ("bf16", "capability", "hip", "wanted"),
    [(True, (9, 0), None, "bf16"), (False, (7, 0), None, "fp16"), (False, (6, 1), None, "fp32"),
     (False, (9, 0), "6.3", "fp32")],
)  # fmt: skip
def test_auto_on_gpus(bf16: bool, capability: tuple[int, int], hip: Any, wanted: str, monkeypatch: Any) -> None:
    """Simulated: what torch says of the GPU is given."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert choose_precision("auto", torch.device("cuda", 0)).format == wanted


def test_tf32_on_gpus(monkeypatch: Any) -> None:
    """Simulated likewise; the switches are torch's own and are there on any machine."""
    matmul: Any = torch.backends.cuda.matmul
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    assert choose_precision("tf32", torch.device("cuda", 0)).format == "tf32"
    assert matmul.fp32_precision == "tf32"
    choose_precision("fp32", torch.device("cuda", 0))
    assert matmul.fp32_precision == "ieee"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    with pytest.raises(UserError, match="since Ampere"):
        choose_precision("tf32", torch.device("cuda", 0))
