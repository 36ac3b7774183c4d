"""Times operators on the device at hand, and turns the times into what is reached of its peaks."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stoker.errors import UserError
from stoker.host.malloc import keep_freed_memory
from stoker.plan.hardware import Fraction, Gpu
from stoker.plan.measured import Measured, Timed


@dataclass(frozen=True)
class Sample:
    """One measurement.

    Attributes:
        kind: As in `stoker.plan.trace.log.Op`.
        dtype: Type of the arithmetic.
        flops: Of one call.
        nbytes: Read and written by one call.
        seconds: Median of one call.
        name: The operator as in `stoker.plan.trace.log.Op`, where it was timed by itself.
        shape: As in `stoker.plan.trace.log.Cost`.
    """

    kind: str
    dtype: str
    flops: float
    nbytes: float
    seconds: float
    name: str = ""
    shape: tuple[int, ...] = ()


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
        samples = (Sample(**sample) for sample in raw["samples"])
        return Profile(raw["device"], tuple(replace(sample, shape=tuple(sample.shape)) for sample in samples))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is no profile of `stoker plan calibrate`: {error}") from None


def cpu_as_gpu(profile: Profile) -> Gpu:
    """A CPU in the planner's terms, every peak as measured, and every operator as timed by itself."""
    plain = profile.rate("gemm", "float32") or 1e10
    operators = [s for s in profile.samples if s.name and s.kind != "around"]
    named = [Timed(s.name, s.kind, s.flops, s.nbytes, s.shape, s.seconds) for s in operators]
    around = {s.name: s.seconds / s.flops for s in profile.samples if s.kind == "around"}
    measured: Mapping[str, float] = {
        "memory": 1.0, "gemm_fp32": 1.0, "gemm": 1.0, "conv": 1.0, "grouped_conv": 1.0, "depthwise_conv": 0.25,
        "rnn": 0.5, "attention": 0.5, "attention_backward": 0.5,
        "kernel_us": profile.overhead() * 1e6, "launch_us": 0.0, "foreach_us": 0.0,
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
        measured=Measured(named, around) if named else None,
    )


def measure(device: str) -> Profile:
    """Time some twenty shapes on `cuda`, or some hundreds of small operators on `cpu`.

    A CPU is timed as `stoker train` uses it: this process keeps the memory it has freed from here on.

    Raises:
        UserError: If there is no such device.
    """
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("this machine has no usable GPU: write --device cpu, or run it where the GPU is")
    if device not in ("cpu", "cuda"):
        raise UserError(f"--device {device} is not known: write cpu or cuda")
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU with {torch.get_num_threads()} threads"
    if device == "cpu":
        keep_freed_memory()
        return Profile(name, tuple(_cpu_samples()))
    samples = [replace(sample, seconds=_time(call, device)) for sample, call in _gpu_cases()]
    return Profile(name, tuple(samples))


def _cpu_samples() -> Iterator[Sample]:
    from stoker.plan.calibrate_cpu import around, calls, parts

    yield Sample("overhead", "float32", float(_CHAIN * 2), 0.0, _time(_chain("cpu"), "cpu"))
    for phase, part in parts().items():
        seconds, operators = around(part, lambda run: _time(run, "cpu", span=0.02))
        yield Sample("around", "float32", float(operators), 0.0, seconds, phase)
    for call in calls():
        cost = call.cost
        seconds = _time(call.run, "cpu", span=0.01, rounds=3)
        yield Sample(cost.kind, cost.dtype, cost.flops, cost.read + cost.written, seconds, call.name, cost.shape)


def _time(call: Callable[[], Any], device: str, *, span: float = 0.04, rounds: int = 5) -> float:
    """Seconds of one call: the median of some rounds that take about `span` seconds each."""
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
    repeats = max(1, min(200, int(span / max(once(1), 1e-7))))
    return statistics.median(once(repeats) for _ in range(rounds))


def _gpu_cases() -> list[tuple[Sample, Callable[[], Any]]]:
    import torch
    from torch.nn import functional as F

    made: list[tuple[Sample, Callable[[], Any]]] = []

    def add(kind: str, dtype: torch.dtype, flops: float, nbytes: float, call: Callable[[], Any]) -> None:
        made.append((Sample(kind, str(dtype).removeprefix("torch."), flops, nbytes, 0.0), call))

    for dtype in (torch.float32, torch.bfloat16):
        for m, n, k in _GEMMS:
            a = torch.randn(m, k, device="cuda", dtype=dtype)
            b = torch.randn(k, n, device="cuda", dtype=dtype)
            add("gemm", dtype, 2.0 * m * n * k, 0.0, lambda a=a, b=b: a @ b)
    for count in (16, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24):
        x = torch.randn(count, device="cuda")
        y = torch.randn(count, device="cuda")
        add("elementwise", torch.float32, float(count), 12.0 * count, lambda x=x, y=y: x + y)
        add("elementwise", torch.float32, float(count), 8.0 * count, lambda x=x: torch.relu(x))
    add("overhead", torch.float32, float(_CHAIN * 2), 0.0, _chain("cuda"))
    heads = torch.randn(4, 16, 2048, 128, device="cuda", dtype=torch.bfloat16)
    flops = 4.0 * 4 * 16 * 2048 * 2048 * 128
    add("attention", torch.bfloat16, flops, 0.0, lambda h=heads: F.scaled_dot_product_attention(h, h, h))
    return made


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
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (1024, 4096, 1024),
    (2048, 8192, 2048),
    (256, 4096, 4096),
)
