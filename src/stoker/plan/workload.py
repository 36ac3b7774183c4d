"""What is to be planned: a model, a batch, a loss, an optimizer, and how they are run."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from stoker.errors import UserError

if TYPE_CHECKING:
    import torch
    from torch import nn

Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "bf16-pure", "fp16-pure"]
Checkpointing = Literal["none", "full", "selective", "selective-layer"]
OptimizerName = Literal["adamw", "adamw-fused", "adamw-loop", "adam", "sgd", "adafactor"]

PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "fp16", "fp8", "bf16-pure", "fp16-pure")
CHECKPOINTINGS: tuple[Checkpointing, ...] = ("none", "full", "selective", "selective-layer")
OPTIMIZERS: tuple[OptimizerName, ...] = ("adamw", "adamw-fused", "adamw-loop", "adam", "sgd", "adafactor")


def format_of(precision: str) -> str:
    """Number format that most matrix products have, as the tables of GPUs name it."""
    names = {"fp32": "float32", "tf32": "tf32", "fp16": "float16", "fp16-pure": "float16", "fp8": "float8"}
    return names.get(precision, "bfloat16")


@dataclass(frozen=True)
class Piece:
    """Which part of a model to build.

    Attributes:
        stage: Stage of the pipeline, from 0.
        stages: Stages of the pipeline, times chunks per stage.
        tensor_group: Process group of the tensor parallel ranks; None for whole matrices.
    """

    stage: int = 0
    stages: int = 1
    tensor_group: Any = None

    @property
    def first(self) -> bool:
        """Whether this piece takes the batch."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """Whether this piece ends in the loss."""
        return self.stage == self.stages - 1


@dataclass(frozen=True)
class Workload:
    """One training step of one model, whatever it runs on.

    Attributes:
        name: What to call it.
        build: Makes the model, or the `Piece` of it.
        batch: Makes the batch of one micro-batch of that many samples.
        loss: Loss of a model on a batch: `loss(model, batch)`. In a pipeline, the model takes the activations
            of the stage before, and every stage but the last returns activations: see `stages`.
        samples_unit: What a sample is called.
        tokens_per_sample: Tokens in a sample; None where a sample is no sequence.
        micro_batch: Samples per rank and forward pass.
        accumulation: Micro-batches per step; in a pipeline, the micro-batches that flow through it.
        optimizer: Which one.
        precision: fp32, tf32 (fp32 with TF32 products), bf16 and fp16 (autocast, or the mixed precision of
            FSDP2), fp8 (bf16 with the products of linear layers in float8), or weights and all else in one type
            (bf16-pure, fp16-pure).
        checkpointing: Which activations are computed again.
        clip: Largest gradient norm; None for no clipping.
        channels_last: Whether images and weights of convolutions are laid out channels last.
        keep_gradients: Whether gradients are set to zero rather than dropped between steps.
        bucket_view: Whether DDP keeps gradients in its buckets (`gradient_as_bucket_view`).
        pieces: Whether `build` can make one stage of a pipeline and one shard of tensor parallelism.
        hidden: Shape of the activations between stages for a micro-batch; None without pipeline.
        depth: Blocks that the model repeats, over all stages; 0 where that is not known.
        build_at: As `build`, for a model with another number of blocks: what a trace of a deep model is made from.
        parallelize: Shards the matrices over a mesh of tensor parallel ranks, where `pieces` is not set.
        make_optimizer: Makes the optimizer of a model on a device (`cuda` or `cpu`); None for the one that
            `optimizer` names.
        keep_batch: Whether the batch is held until the next one is there, rather than dropped after the
            forward pass.
        rescale: Whether gradients are multiplied by a factor that is known only after the backward pass.
        notes: What is assumed.
    """

    name: str
    build: Callable[[Piece], nn.Module]
    batch: Callable[[int], Any]
    loss: Callable[[nn.Module, Any], torch.Tensor]
    samples_unit: str = "samples"
    tokens_per_sample: int | None = None
    micro_batch: int = 1
    accumulation: int = 1
    optimizer: OptimizerName = "adamw"
    precision: Precision = "bf16"
    checkpointing: Checkpointing = "none"
    clip: float | None = None
    channels_last: bool = False
    keep_gradients: bool = False
    bucket_view: bool = False
    pieces: bool = False
    hidden: Callable[[int], tuple[int, ...]] | None = None
    depth: int = 0
    build_at: Callable[[int, Piece], nn.Module] | None = None
    parallelize: Callable[[nn.Module, Any], None] | None = None
    make_optimizer: Callable[[nn.Module, str], torch.optim.Optimizer] | None = None
    keep_batch: bool = False
    rescale: bool = False
    notes: tuple[str, ...] = field(default=())

    def with_(self, **changes: Any) -> Workload:
        """The same with some things changed."""
        return replace(self, **changes)

    def at_depth(self, depth: int) -> Workload:
        """The same with another number of repeated blocks.

        Raises:
            ValueError: If it cannot be built at another depth.
        """
        if self.build_at is None:
            raise ValueError(f"{self.name} cannot be built at another depth")
        return replace(self, depth=depth, build=functools.partial(self.build_at, depth))


def load_workload(
    target: str,
    *,
    micro_batch: int = 1,
    image_size: int = 224,
    sequence: int | None = None,
    layers: int | None = None,
) -> Workload:
    """Find the workload that a target on the command line names.

    Args:
        target: `module:callable`, `path.py:callable`, the path of a config.json in the style of Hugging
            Face, or the name of a torchvision model.
        micro_batch: Samples per rank and forward pass.
        image_size: Height and width of images for torchvision models.
        sequence: Tokens per sample for language models; the longest the model allows by default.
        layers: Layers of a language model, where not as many as its config says.

    Raises:
        UserError: If there is no such thing.
    """
    if target.endswith(".json") or Path(target).is_dir():
        from stoker.plan.models.config import read_config
        from stoker.plan.models.language import language_workload

        config = read_config(Path(target))
        if layers is not None:
            config = replace(config, layers=layers)
        return language_workload(config, micro_batch=micro_batch, sequence=sequence)
    if ":" in target:
        return callable_workload(target, micro_batch=micro_batch)
    from stoker.plan.models.vision import vision_workload

    return vision_workload(target, micro_batch=micro_batch, image_size=image_size)


def callable_workload(target: str, *, micro_batch: int) -> Workload:
    """Workload of a callable that returns `(model, inputs, loss)`.

    `inputs` is what the model is called with (a tensor, a tuple or a dict), `loss` takes what the model
    returns and gives a scalar. A callable with a parameter `micro_batch` gets it; one without fixes its own
    batch. It may also return a `Workload`.

    Raises:
        UserError: If it cannot be imported or returns something else.
    """
    function = import_callable(target)
    takes_size = "micro_batch" in inspect.signature(function).parameters

    def call(size: int) -> Any:
        return function(micro_batch=size) if takes_size else function()

    if "return" in getattr(function, "__annotations__", {}) and "Workload" in str(function.__annotations__["return"]):
        made = call(micro_batch)
        if isinstance(made, Workload):
            return made
    made_once: list[tuple[Any, Any, Any]] = []

    def build(_piece: Piece) -> nn.Module:
        made = call(micro_batch)
        if not (isinstance(made, tuple) and len(made) == 3):
            raise UserError(f"{target} must return (model, inputs, loss), not {type(made).__name__}")
        made_once[:] = [made]
        return made[0]

    def batch(_size: int) -> Any:
        # the callable makes model and inputs together: each step gets a copy, as from a data loader
        _, inputs, loss = made_once[0]
        return _copy(inputs), loss

    def loss(model: nn.Module, data: Any) -> torch.Tensor:
        inputs, loss_of = data
        return loss_of(_call_model(model, inputs))

    notes = () if takes_size else (f"{target} has no parameter micro_batch: its own batch was planned",)
    return Workload(name=target, build=build, batch=batch, loss=loss, micro_batch=micro_batch, notes=notes)


def _copy(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _copy(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(_copy(value) for value in data)
    return data.clone() if hasattr(data, "clone") else data


def _call_model(model: nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, dict):
        return model(**inputs)
    if isinstance(inputs, tuple):
        return model(*inputs)
    return model(inputs)


def import_callable(target: str) -> Callable[..., Any]:
    """Import `module:name` or `path.py:name`.

    Raises:
        UserError: If the module, the file or the name does not exist.
    """
    place, _, name = target.rpartition(":")
    try:
        if place.endswith(".py"):
            module = _import_file(Path(place))
        else:
            sys.path.insert(0, str(Path.cwd()))
            module = importlib.import_module(place)
    except (ImportError, FileNotFoundError) as error:
        raise UserError(f"cannot import {place!r}: {error}; write module:callable or path.py:callable") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise UserError(f"{place} has no callable {name!r}")
    return function


def _import_file(path: Path) -> Any:
    if not path.exists():
        raise FileNotFoundError(f"the file does not exist: {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def make_optimizer(name: OptimizerName, parameters: Iterable[nn.Parameter], *, on_gpu: bool) -> torch.optim.Optimizer:
    """The optimizer by name, in the implementation that torch chooses on the device (foreach on GPUs)."""
    import torch

    held = list(parameters)
    if name in ("adamw", "adam"):
        kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
        return kind(held, lr=1e-4, foreach=on_gpu)
    if name == "adamw-fused":
        return torch.optim.AdamW(held, lr=1e-4, fused=True)
    if name == "adamw-loop":
        return torch.optim.AdamW(held, lr=1e-4, foreach=False)
    if name == "adafactor":
        from stoker.plan.models.adafactor import Adafactor

        return Adafactor(held)
    return torch.optim.SGD(held, lr=0.1, momentum=0.9, foreach=on_gpu)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        UserError: If the file is missing or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no JSON object")
    return content
