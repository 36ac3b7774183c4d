"""What one operator costs: floating point operations, bytes, and what kind of kernel it is.

Counted from the shapes of its arguments. Where torch's own counter is off, this one is not: causal attention
counts half, and the backward pass of a grouped convolution counts twice its forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from stoker.plan.trace.log import Cost, Kind, foreach_kernels

_HALF = (torch.float16, torch.bfloat16)


_GEMMS = frozenset(["_int_mm", "_scaled_mm", "addmm", "addmv", "baddbmm", "bmm", "mm", "mv"])
_COPIES = frozenset(
    [
        "_chunk_cat",
        "_foreach_copy_",
        "_to_copy",
        "all_gather_copy_in",
        "cat",
        "chunk_cat",
        "clone",
        "constant_pad_nd",
        "contiguous",
        "copy",
        "copy_",
        "fill_copy",
        "flip",
        "repeat",
        "roll",
        "select_backward",
        "slice_backward",
        "slice_scatter",
        "split_with_sizes_copy",
        "stack",
    ]
)
_FILLS = frozenset(
    [
        "arange",
        "bernoulli_",
        "fill_",
        "full",
        "full_like",
        "new_full",
        "new_ones",
        "new_zeros",
        "normal_",
        "ones",
        "ones_like",
        "rand",
        "randint",
        "randn",
        "uniform_",
        "zero_",
        "zeros",
        "zeros_like",
    ]
)
_NOTHING = frozenset(
    [
        "_local_scalar_dense",
        "_unsafe_view",
        "detach_",
        "device",
        "empty",
        "empty_like",
        "empty_strided",
        "is_same_size",
        "lift_fresh",
        "new_empty",
        "new_empty_strided",
        "record_stream",
        "resize_",
        "set_",
        "sym_size",
    ]
)
_GATHERS = frozenset(
    [
        "_embedding_bag",
        "argsort",
        "embedding",
        "gather",
        "index",
        "index_add",
        "index_add_",
        "index_put",
        "index_put_",
        "index_select",
        "nonzero",
        "scatter",
        "scatter_add",
        "sort",
        "take",
        "topk",
    ]
)
_BATCH_NORMS = frozenset(
    [
        "_batch_norm_with_update",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_functional",
        "batch_norm",
        "cudnn_batch_norm",
        "native_batch_norm",
    ]
)
_REDUCTIONS = frozenset(
    [
        "_log_softmax",
        "_log_softmax_backward_data",
        "amax",
        "amin",
        "argmax",
        "cumsum",
        "linalg_vector_norm",
        "max",
        "mean",
        "min",
        "nll_loss_forward",
        "prod",
        "std",
        "sum",
        "var",
        "var_mean",
    ]
)


def cost(name: str, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Cost | None:
    """Cost of one call; None for operators that run no kernel.

    Args:
        name: Name of the overload packet without its namespace, such as `mm`.
        args: Positional arguments.
        kwargs: Keyword arguments.
        out: What the call returned.
    """
    if name in _NOTHING:
        return None
    inputs = _tensors((args, kwargs))
    outputs = _tensors(out)
    read, written = sum(map(_bytes, inputs)), sum(map(_bytes, outputs))
    dtype = _compute_type(inputs or outputs)
    if name in _GEMMS:
        shape = _gemm_shape(name, args)
        return Cost("gemm", 2.0 * math.prod(shape), read, written, dtype, 1, shape)
    if name in ("convolution", "convolution_backward", "cudnn_convolution", "_slow_conv2d_forward"):
        return _convolution(name, args, out, read, written, dtype)
    if "attention" in name:
        return _attention(name, args, kwargs, read, written, dtype)
    if "rnn" in name or "lstm" in name or "gru" in name:
        return _recurrent(name, args, outputs, read, written, dtype)
    if name.startswith(("_foreach", "_fused", "_amp_foreach")):
        shape = _foreach_shape(args)
        return Cost("foreach", 0.0, read, written, dtype, foreach_kernels(shape), shape)
    if name in _GATHERS:
        touched = written + sum(_bytes(t) for t in inputs if not t.is_floating_point())
        return Cost("gather", 0.0, touched, written, dtype, 1, ())
    if name == "embedding_dense_backward":
        return Cost("gather", 0.0, _bytes(inputs[0]), written, dtype, 3, ())
    if name in _BATCH_NORMS:
        # the statistics need one pass over the input, the normalisation another
        return Cost("norm", 0.0, 2 * read, written, dtype, 2, ())
    if "batch_norm" in name and "backward" in name:
        return Cost("norm", 0.0, 2 * read, written, dtype, 2, ())
    if "norm" in name and name.startswith(("native_", "_fused_rms", "rms_norm")):
        # backward, one kernel for the input and one for the weights each read everything
        passes = 2 if "backward" in name else 1
        return Cost("norm", 0.0, passes * read, written, dtype, passes, ())
    if name in _COPIES:
        return Cost("copy", 0.0, read if name != "copy_" else read / 2, written, dtype, 1, ())
    if name in _FILLS:
        return Cost("fill", 0.0, 0.0, written, dtype, 1, ())
    elements = max((t.numel() for t in (*inputs, *outputs)), default=0)
    kind: Kind = "reduction" if name in _REDUCTIONS else "elementwise"
    return Cost(kind, float(elements), read, written, dtype, 1, ())


def _tensors(tree: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    _collect(tree, found)
    return found


def _collect(tree: Any, found: list[torch.Tensor]) -> None:
    if isinstance(tree, torch.Tensor):
        if not any(tree is other for other in found[:8]):  # an input that is given twice is read once
            found.append(tree)
    elif isinstance(tree, list | tuple):
        for item in tree:
            _collect(item, found)
    elif isinstance(tree, dict):
        for item in tree.values():
            _collect(item, found)


def _bytes(tensor: torch.Tensor) -> float:
    """Bytes that a kernel moves for this tensor: an expanded dimension is read once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride else min(size, 1)
    return float(count * tensor.element_size())


def _compute_type(tensors: Sequence[torch.Tensor]) -> str:
    """The widest floating point type among the inputs that is not a stray fp32 scalar or statistic."""
    for tensor in tensors:
        if tensor.dtype in _HALF:
            return str(tensor.dtype).removeprefix("torch.")
    return str(tensors[0].dtype).removeprefix("torch.") if tensors else "float32"


def _gemm_shape(name: str, args: Sequence[Any]) -> tuple[int, ...]:
    first, second = (args[1], args[2]) if name in ("addmm", "baddbmm", "addmv") else (args[0], args[1])
    batch = first.shape[0] if first.dim() == 3 else 1
    columns = second.shape[-1] if second.dim() > 1 else 1
    return int(first.shape[-2]), int(columns), int(first.shape[-1]), int(batch)


def _convolution(name: str, args: Sequence[Any], out: Any, read: float, written: float, dtype: str) -> Cost:
    backward = name == "convolution_backward"
    weight = args[2] if backward else args[1]
    groups = int(args[9 if backward else 8]) if len(args) > 8 else 1
    transposed = bool(args[7 if backward else 6]) if len(args) > 7 else False
    result = args[0] if backward else out
    spatial = args[1] if transposed and backward else args[0] if transposed else result
    pixels = int(spatial.shape[0] * math.prod(spatial.shape[2:]))
    per_pixel = math.prod(weight.shape[2:]) * int(weight.shape[1])
    rows = int(weight.shape[0])
    passes = sum(bool(wanted) for wanted in args[10][:2]) if backward else 1
    kind: Kind = "conv"
    if groups > 1:
        kind = "depthwise_conv" if int(weight.shape[1]) == 1 else "grouped_conv"
    shape = (pixels, rows // groups, per_pixel, groups)
    return Cost(
        kind,
        2.0 * pixels * rows * per_pixel * passes,
        read * max(passes, 1),
        written,
        dtype,
        max(passes, 1),
        shape,
    )


def layout_copies(name: str, args: Sequence[Any], out: Any) -> Cost | None:
    """Transpositions that cuDNN puts around a convolution whose images are laid out channels first.

    Its tensor core kernels want channels last: every input is read and written once more, every output too
    (NVIDIA deep learning performance guide, "tensor layouts"). Named `layout`, so that a GPU whose
    convolutions do not run on tensor cores is not charged for them.
    """
    if name not in ("convolution", "convolution_backward"):
        return None
    image = args[1] if name == "convolution_backward" else args[0]
    if image.dim() != 4 or image.size(1) <= 4 or image.is_contiguous(memory_format=torch.channels_last):
        return None
    moved = [t for t in (*_tensors(args), *_tensors(out)) if t.dim() == 4]
    nbytes = sum(map(_bytes, moved))
    return Cost("copy", 0.0, nbytes, nbytes, _compute_type(moved), len(moved), ())


def _attention(name: str, args: Sequence[Any], kwargs: dict[str, Any], read: float, written: float, dtype: str) -> Cost:
    backward = "backward" in name
    query, key = (args[1], args[2]) if backward else (args[0], args[1])
    causal = bool(kwargs.get("is_causal", False)) or any(value is True for value in args[-5:])
    if not backward and "efficient" in name:
        causal = bool(args[6]) if len(args) > 6 else causal
    elif not backward:
        causal = bool(args[4]) if len(args) > 4 else causal
    if query.dim() < 4:
        return Cost("attention", 0.0, read, written, dtype, 1, ())
    batch, heads, length, size = query.shape[-4:]
    flops = 4.0 * batch * heads * length * key.shape[-2] * size * (0.5 if causal else 1.0)
    shape = (int(length), int(key.shape[-2]), int(size), int(batch * heads))
    if backward:
        # five matrix products instead of two: the scores are computed again (Dao 2022, arXiv 2205.14135)
        return Cost("attention_backward", 2.5 * flops, read, written, dtype, 3, shape)
    return Cost("attention", flops, read, written, dtype, 1, shape)


def _recurrent(
    name: str, args: Sequence[Any], outputs: Sequence[torch.Tensor], read: float, written: float, dtype: str
) -> Cost:
    """Every weight is multiplied with every time step: 2 flops per weight, sample and step."""
    tensors = _tensors(args)
    matrices = [t for t in tensors if t.dim() == 2]
    sequences = [t for t in (*tensors, *outputs) if t.dim() == 3]
    rows = max((t.shape[0] * t.shape[1] for t in sequences), default=1)
    weights = sum(t.numel() for t in matrices)
    factor = 2.0 if "backward" in name else 1.0
    steps = max((int(t.shape[0]) for t in sequences), default=1)
    return Cost("rnn", 2.0 * weights * rows * factor, read, written, dtype, steps, ())


def _foreach_shape(args: Sequence[Any]) -> tuple[int, int, int]:
    """Chunks and tensors of one list, and the lists that are worked on together."""
    lists = [value for value in args if isinstance(value, list | tuple) and value]
    tensors = _tensors(lists[0]) if lists else []
    return sum(math.ceil(t.numel() / 65536) for t in tensors), len(tensors), len(lists)
