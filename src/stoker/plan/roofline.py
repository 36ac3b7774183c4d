"""How long an operator takes on a GPU: the larger of arithmetic and memory time, with tiles and launches.

A matrix product writes a tile when it is done with it, and nothing else on its multiprocessor hides that: the
fewer products a tile sums up, the more it counts. On an A100, 64 x (2048 x 256) x (256 x 2048) runs at 130 TFLOP/s
and 64 x (2048 x 2048) x (2048 x 256), the same arithmetic with an eighth of the output, at 219
(EleutherAI/cookbook benchmarks/sizing/sample_results/transformer.out).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from stoker.plan.hardware import Gpu
from stoker.plan.trace.log import Cost, Op

Side = Literal["value", "low", "high"]

_QUANTITIES = {"float8_e4m3fn": "gemm_fp8", "float32": "gemm_tf32"}
"""What products in these types reach, where they run on tensor cores; half precision is `gemm`."""

_TENSOR_KINDS = ("gemm", "conv", "grouped_conv", "attention", "attention_backward", "rnn")


@dataclass
class Roofline:
    """Prices operators on one GPU.

    Args:
        gpu: The GPU.
        tf32: Whether fp32 matrix products run in TF32; convolutions do by default where the GPU has it.
        side: Which end of the range of efficiencies to take.
    """

    gpu: Gpu
    tf32: bool = False
    side: Side = "value"
    _seen: dict[tuple[str, Cost, bool], float] = field(default_factory=dict[tuple[str, Cost, bool], float])

    def seconds(self, op: Op) -> float:
        """Time that the kernels of an operator occupy the GPU."""
        key = (op.name, op.cost, op.phase == "optimizer")
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = self._price(op)
        return found

    def launch_seconds(self, op: Op) -> float:
        """Time that the host needs to put an operator on the stream."""
        per = self._reached("foreach_us") if op.cost.kind == "foreach" else self._reached("launch_us")
        return per * 1e-6 * (1 + 0.3 * (op.cost.kernels - 1))

    def _reached(self, quantity: str) -> float:
        fraction = self.gpu.reached(quantity)
        if quantity.endswith("_us"):  # a low overhead is the good end
            return {"value": fraction.value, "low": fraction.high, "high": fraction.low}[self.side]
        return getattr(fraction, self.side)

    def _price(self, op: Op) -> float:
        if op.name == "layout" and self._tensor_peak(op.cost._replace(kind="conv")) is None:
            return 0.0
        if self.gpu.measured is not None:
            return self.gpu.measured.seconds(op) / self._reached("memory")
        reading, writing = (
            moved / (self._reached("memory") * self.gpu.bandwidth) for moved in (op.cost.read, op.cost.written)
        )
        arithmetic = op.cost.flops / self._rate(op) if op.cost.flops else 0.0
        busy = max(arithmetic, reading) + writing if op.cost.kind == "gemm" else max(arithmetic, reading + writing)
        return busy + op.cost.kernels * self._reached("kernel_us") * 1e-6

    def _rate(self, op: Op) -> float:
        """Floating point operations per second that this kind of operator reaches."""
        peaks = self.gpu.flops
        if op.cost.kind not in _TENSOR_KINDS:
            if op.cost.kind == "depthwise_conv":
                return self._share(op) * peaks["float32"]
            return peaks["float32"]  # elementwise arithmetic never binds before memory does
        plain = peaks["float32"] * self._reached("gemm_fp32")
        peak = self._tensor_peak(op.cost)
        if peak is None:
            return plain * (self._share(op) if op.cost.kind in ("conv", "grouped_conv", "rnn") else 1.0)
        if op.cost.kind in ("attention", "attention_backward"):
            return peak * self._reached(op.cost.kind)
        gemm = peak * self._reached(_QUANTITIES.get(op.cost.dtype, "gemm"))
        if op.cost.kind in ("conv", "grouped_conv", "rnn"):
            gemm *= self._share(op)
        return max(gemm * tile_share(op.cost.shape, self.gpu.sms, op.cost.kind), 1.0)

    def _share(self, op: Op) -> float:
        """What the kind reaches relative to a matrix product."""
        return self._reached(op.cost.kind)

    def _tensor_peak(self, cost: Cost) -> float | None:
        """Peak of the tensor cores for the type; None where the operator runs on the fp32 units."""
        if cost.dtype in ("float16", "bfloat16"):
            return self.gpu.flops.get(cost.dtype)
        if cost.dtype == "float8_e4m3fn":
            return self.gpu.flops.get("float8")
        allowed = self.tf32 or cost.kind in ("conv", "grouped_conv")
        return self.gpu.flops.get("tf32") if allowed and cost.dtype == "float32" else None


def tile_share(shape: tuple[int, ...], sms: int | None, kind: str) -> float:
    """Share of the arithmetic that is useful: matrices are padded to tiles, and tiles fill waves of SMs.

    128 x 128 tiles are the common choice of cuBLAS and cuDNN, 64 x 64 where few of those would fill the GPU
    (NVIDIA deep learning performance guide, "tile quantization" and "wave quantization").
    """
    if len(shape) != 4 or not sms:
        return 1.0
    m, n, _, batch = shape
    del kind
    best = 0.0
    for rows, columns, speed in ((128, 256, 1.0), (128, 128, 1.0), (128, 64, 0.85), (64, 64, 0.7)):
        tiles = math.ceil(m / rows) * math.ceil(n / columns) * batch
        waves = math.ceil(tiles / sms)
        useful = m * n * batch / (waves * sms * rows * columns)
        best = max(best, speed * useful)
    return min(1.0, best)
