"""Times operators on the device at hand, and turns the times into what is reached of its peaks."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stoker.errors import UserError
from stoker.plan.hardware import Fraction, Gpu


@dataclass(frozen=True)
class Sample:
    """One measurement.

    Attributes:
        kind: As in `stoker.plan.trace.log.Op`.
        dtype: Type of the arithmetic.
        flops: Of one call.
        nbytes: Read and written by one call.
        seconds: Median of one call.
    """

    kind: str
    dtype: str
    flops: float
    nbytes: float
    seconds: float


@dataclass(frozen=True)
class Profile:
    """What was measured on one device."""

    device: str
    samples: tuple[Sample, ...]

    def save(self, path: Path) -> None:
        """Write as JSON, aside first."""
        aside = path.with_suffix(path.suffix + ".part")
        aside.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        aside.replace(path)

    def rate(self, kind: str, dtype: str) -> float | None:
        """Operations per second of a kind: the median over its shapes; None if it was not measured."""
        rates = [s.flops / s.seconds for s in self.samples if s.kind == kind and s.dtype == dtype and s.flops]
        return statistics.median(rates) if rates else None

    def bandwidth(self) -> float:
        """Bytes per second of large elementwise operators: the median."""
        rates = [s.nbytes / s.seconds for s in self.samples if s.kind == "elementwise" and s.nbytes > 1 << 22]
        return statistics.median(rates)

    def bandwidth_of(self, kind: str) -> float | None:
        """Bytes per second of a kind that memory binds; None if it was not measured."""
        rates = [s.nbytes / s.seconds for s in self.samples if s.kind == kind and s.nbytes]
        return statistics.median(rates) if rates else None

    def overhead(self) -> float:
        """Seconds of an operator on almost nothing, by the operators of a long chain forward and backward."""
        return statistics.median(s.seconds / s.flops for s in self.samples if s.kind == "overhead")

    def fractions(self, gpu: Gpu) -> dict[str, Fraction]:
        """What replaces the table for a GPU: measured over the datasheet, a tenth to both sides."""
        found = {"memory": self.bandwidth() / gpu.bandwidth, "launch_us": self.overhead() * 1e6}
        half = self.rate("gemm", "bfloat16") or self.rate("gemm", "float16")
        plain = self.rate("gemm", "float32")
        if half and "float16" in gpu.flops:
            found["gemm"] = half / gpu.flops["float16"]
        if plain:
            found["gemm_fp32"] = plain / gpu.flops["float32"]
        for kind in ("attention", "attention_backward"):
            rate = self.rate(kind, "bfloat16")
            if rate and "bfloat16" in gpu.flops:
                found[kind] = rate / gpu.flops["bfloat16"]
        source = f"measured on {self.device}"
        return {name: Fraction(v, 0.9 * v, 1.1 * v, source) for name, v in found.items()}


def read_profile(path: Path) -> Profile:
    """Read what `Profile.save` wrote.

    Raises:
        UserError: If it is missing or no profile.
    """
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Profile(raw["device"], tuple(Sample(**sample) for sample in raw["samples"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is no profile of `stoker plan calibrate`: {error}") from None


def cpu_as_gpu(profile: Profile) -> Gpu:
    """A CPU in the planner's terms, every peak as measured."""
    plain = profile.rate("gemm", "float32") or 1e10
    conv = profile.rate("conv", "float32") or plain
    depthwise = profile.rate("depthwise_conv", "float32") or plain / 4
    backward = profile.rate("conv_backward", "float32") or conv
    depthwise_backward = profile.rate("depthwise_conv_backward", "float32") or depthwise
    overhead_us = profile.overhead() * 1e6
    measured: Mapping[str, float] = {
        "memory": 1.0, "gemm_fp32": 1.0, "gemm": 1.0, "conv": conv / plain, "grouped_conv": conv / plain,
        "conv_backward": backward / plain, "depthwise_conv_backward": depthwise_backward / plain,
        "depthwise_conv": depthwise / plain, "rnn": 0.5, "attention": 0.5, "attention_backward": 0.5,
        "memory_norm": (profile.bandwidth_of("norm") or profile.bandwidth()) / profile.bandwidth(),
        "kernel_us": overhead_us, "launch_us": 0.0, "foreach_us": 0.0,
    }  # fmt: skip
    efficiency = {n: Fraction(v, 0.9 * v, 1.1 * v, f"measured on {profile.device}") for n, v in measured.items()}
    return Gpu(
        name=profile.device,
        architecture="cpu",
        capability=(0, 0),
        sms=None,
        memory_gib=0.0,
        bandwidth=profile.bandwidth(),
        flops={"float32": plain},
        tdp_watts=None,
        fabric="gloo",
        efficiency=efficiency,
        source=f"measured on {profile.device}",
    )


def measure(device: str) -> Profile:
    """Time about thirty shapes on `cpu` or `cuda`.

    Raises:
        UserError: If there is no such device.
    """
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("this machine has no usable GPU: write --device cpu, or run it where the GPU is")
    if device not in ("cpu", "cuda"):
        raise UserError(f"--device {device} is not known: write cpu or cuda")
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU with {torch.get_num_threads()} threads"
    samples = [replace(sample, seconds=_time(call, device)) for sample, call in _cases(device)]
    return Profile(name, tuple(samples))


def _time(call: Callable[[], Any], device: str) -> float:
    import torch

    # the time of one thread is its CPU time: what others do on the machine does not count
    clock = time.process_time if device == "cpu" and torch.get_num_threads() == 1 else time.perf_counter

    def once(repeats: int) -> float:
        started = clock()
        for _ in range(repeats):
            call()
        if device == "cuda":
            torch.cuda.synchronize()
        return (clock() - started) / repeats

    once(2)
    repeats = max(1, min(200, int(0.04 / max(once(1), 1e-7))))
    return statistics.median(once(repeats) for _ in range(5))


def _cases(device: str) -> list[tuple[Sample, Callable[[], Any]]]:
    import torch
    from torch.nn import functional as F

    big = device == "cuda"
    made: list[tuple[Sample, Callable[[], Any]]] = []

    def add(kind: str, dtype: torch.dtype, flops: float, nbytes: float, call: Callable[[], Any]) -> None:
        made.append((Sample(kind, str(dtype).removeprefix("torch."), flops, nbytes, 0.0), call))

    types = (torch.float32, torch.bfloat16) if big else (torch.float32,)
    for dtype in types:
        for m, n, k in _GEMMS:
            scale = 4 if big else 1
            a = torch.randn(m * scale, k * scale, device=device, dtype=dtype)
            b = torch.randn(k * scale, n * scale, device=device, dtype=dtype)
            add("gemm", dtype, 2.0 * m * n * k * scale**3, 0.0, lambda a=a, b=b: a @ b)
    for count in (16, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24):
        x = torch.randn(count, device=device)
        y = torch.randn(count, device=device)
        add("elementwise", torch.float32, float(count), 12.0 * count, lambda x=x, y=y: x + y)
        add("elementwise", torch.float32, float(count), 8.0 * count, lambda x=x: torch.relu(x))
    for channels, size in ((16, 48), (64, 24), (256, 12)):
        image = torch.randn(8, channels, size, size, device=device, requires_grad=True)
        norm = torch.nn.BatchNorm2d(channels, device=device)
        # forward reads twice and writes once, backward reads two tensors twice and writes one
        add("norm", torch.float32, 0.0, 8.0 * 4 * image.numel(), lambda i=image, n=norm: n(i).backward(i))
    add("overhead", torch.float32, float(_CHAIN * 2), 0.0, _chain(device))
    for channels, size in ((32, 48), (64, 24), (128, 12), (256, 6)):
        image = torch.randn(32 if big else 8, channels, size, size, device=device)
        for groups, kind in ((1, "conv"), (channels, "depthwise_conv")):
            weight = torch.randn(channels, channels // groups, 3, 3, device=device)
            flops = 2.0 * image.numel() * 9 * channels / groups
            _add_convolution(add, kind, flops, image, weight, groups)
    if big:
        heads = torch.randn(4, 16, 2048, 128, device=device, dtype=torch.bfloat16)
        flops = 4.0 * 4 * 16 * 2048 * 2048 * 128
        add("attention", torch.bfloat16, flops, 0.0, lambda h=heads: F.scaled_dot_product_attention(h, h, h))
    return made


def _add_convolution(add: Callable[..., None], kind: str, flops: float, image: Any, weight: Any, groups: int) -> None:
    """Forward and backward pass of one convolution; the backward pass makes both gradients."""
    import torch
    from torch.nn import functional as F

    backward = torch.ops.aten.convolution_backward
    gradient = torch.randn_like(image)
    settings = (None, (1, 1), (1, 1), (1, 1), False, (0, 0), groups, (True, True, False))
    add(kind, torch.float32, flops, 0.0, lambda: F.conv2d(image, weight, padding=1, groups=groups))
    add(
        f"{kind}_backward",
        torch.float32,
        2 * flops,
        0.0,
        lambda: backward(gradient, image, weight, *settings),
    )


_CHAIN = 200


def _chain(device: str) -> Callable[[], None]:
    """A chain of tiny operators and its backward pass: two operators per link."""
    import torch

    start = torch.ones(4, device=device, requires_grad=True)

    def run() -> None:
        x = start
        for _ in range(_CHAIN):
            x = x.neg()
        x.sum().backward()

    return run


_GEMMS = (
    (128, 128, 128),
    (256, 256, 256),
    (512, 512, 512),
    (256, 1024, 256),
    (512, 2048, 512),
    (64, 1024, 1024),
)
