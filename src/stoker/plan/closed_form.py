"""Memory without a trace: from the number of parameters and the activations of one forward pass."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import RunError
from stoker.plan.layout import Layout
from stoker.plan.trace.outline import Outline
from stoker.plan.trace.process import EndedError
from stoker.plan.trace.run import Source, ask_outline
from stoker.plan.workload import OptimizerName, Precision, Workload

_STATE_BYTES: Mapping[OptimizerName, int] = {
    "adamw": 8, "adamw-fused": 8, "adamw-loop": 8, "adam": 8, "sgd": 4, "adafactor": 0,
}  # fmt: skip
"""Bytes per parameter of the optimizer's fp32 state: two moments for Adam, one for SGD with momentum."""


def measure_outline(source: Source) -> Outline:
    """Measure a model in another process.

    Raises:
        RunError: If even building it fails.
    """
    try:
        return ask_outline(source)
    except (EndedError, TimeoutError) as error:
        raise RunError(f"the model cannot even be built on fake tensors: {error}") from None


def estimate(outline: Outline, workload: Workload, layout: Layout) -> dict[str, float]:
    """Bytes per GPU by category.

    Parameters, gradients and optimizer state in the types of mixed precision, divided over shards
    (Rajbhandari et al. 2020, arXiv 1910.02054, section 3); one gathered block in compute and one in flight;
    activations as
    the forward pass keeps them, a tenth with full checkpointing (assumption: about one tensor per block).
    """
    split = layout.shard * layout.tensor * layout.pipeline
    width = 2 if workload.precision.endswith("-pure") else 4
    held = outline.parameters * width / split
    gradients = outline.trainable * width / split
    states = outline.trainable * _STATE_BYTES[workload.optimizer] * (width / 4) / split
    gathered = 2 * outline.largest * _compute_width(workload.precision) / 4 / layout.tensor if layout.shard > 1 else 0
    buckets = gradients if layout.is_ddp and not workload.bucket_view else 0
    activations = float(outline.activations or 0) / layout.tensor
    if workload.checkpointing == "full":
        activations /= 10
    return {
        "parameters": held,
        "gradients": gradients,
        "optimizer": states,
        "activations": activations,
        "temporaries": 0.1 * activations,
        "collectives": gathered + buckets,
    }


def _compute_width(precision: Precision) -> int:
    return 2 if precision not in ("fp32", "tf32") else 4
