"""Runs the training steps that are traced: builds the model on fake tensors, lays it out, steps twice."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from stoker.errors import UserError
from stoker.plan import pipeline
from stoker.plan.layout import Layout
from stoker.plan.trace import torch_private as private
from stoker.plan.trace.apply import apply_checkpointing, build_fake, repeated_blocks, shard
from stoker.plan.trace.buckets import GradientBuckets
from stoker.plan.trace.formats import half_type, hidden_type, use_float8, weight_type
from stoker.plan.trace.log import Facts, Trace
from stoker.plan.trace.recorder import Recorder
from stoker.plan.workload import Piece, Workload, make_optimizer

DIMENSIONS = ("pp", "replicate", "shard", "tp")
"""Of the device mesh, outermost first."""

MOST_TRACED = 2
"""Micro-batches of an accumulating step that are traced: those after the second repeat it."""


@dataclass
class _Rank:
    """Everything that one traced rank holds."""

    workload: Workload
    layout: Layout
    recorder: Recorder
    chunks: list[nn.Module]
    groups: dict[str, tuple[int, ...]]
    stage: int
    buckets: list[GradientBuckets]
    optimizer: torch.optim.Optimizer | None = None
    updated: list[nn.Parameter] = field(default_factory=list[nn.Parameter])

    @property
    def device(self) -> str:
        return self.recorder.device

    def parameters(self) -> Iterator[nn.Parameter]:
        for chunk in self.chunks:
            yield from chunk.parameters()


def trace_step(workload: Workload, layout: Layout, device: str, *, stage: int = 0, steps: int = 2) -> Trace:
    """Trace some steps of one rank; the shims of `torch_private` must be in place.

    Args:
        workload: What is trained.
        layout: How ranks are arranged.
        device: `cuda` or `cpu`: whose allocations are traced.
        stage: Stage of the pipeline that the rank belongs to.
        steps: Steps; the first creates the optimizer state, the second is as all others.
    """
    started = time.perf_counter()
    workload = _as_sharded(workload, layout)
    private.reset_streams()
    recorder = Recorder(device)
    recorder.trace.steps = steps
    mesh = _make_mesh(layout, device)
    with private.FakeTensorMode(allow_non_fake_inputs=True):
        rank = _set_up(workload, layout, recorder, mesh, stage)
        with _naming(rank), recorder.recording():
            _hold_state(rank)
            for step in range(steps):
                recorder.step = step
                _step(rank)
            recorder.phase = "setup"
    trace = recorder.trace
    trace.sort_releases()
    trace.facts = _facts(rank)
    trace.seconds = time.perf_counter() - started
    return trace


def _as_sharded(workload: Workload, layout: Layout) -> Workload:
    """FSDP2 takes contiguous weights only (torch/distributed/fsdp/_fully_shard/_fsdp_param.py): no channels last."""
    if layout.shard == 1 or not workload.channels_last:
        return workload
    note = "FSDP2 takes no weights in channels-last order: they and the images are planned channels first"
    return workload.with_(channels_last=False, notes=(*workload.notes, note))


def _facts(rank: _Rank) -> Facts:
    workload, layout = rank.workload, rank.layout
    traced, nbytes = min(workload.accumulation, MOST_TRACED), 0
    if layout.pipeline > 1:
        traced = _traced_micro_batches(layout, rank.stage, workload.accumulation)
        if workload.hidden is not None:
            nbytes = math.prod(workload.hidden(workload.micro_batch)) * hidden_type(workload.precision).itemsize
    return Facts(
        name=workload.name,
        samples_unit=workload.samples_unit,
        micro_batch=workload.micro_batch,
        accumulation=workload.accumulation,
        traced_micro_batches=traced,
        tokens_per_sample=workload.tokens_per_sample,
        precision=workload.precision,
        optimizer=workload.optimizer,
        hidden_bytes=nbytes,
        notes=workload.notes,
    )


@functools.cache
def _make_mesh(layout: Layout, device: str) -> Any:
    """The device mesh, pipeline outermost and tensor parallel innermost; None for one rank.

    Made once per process: DTensor remembers the groups of the first mesh and asks for them by name. The rank
    that is traced is always the first: which stage it has is said when the model is built.
    """
    if layout.ranks == 1:
        return None
    from torch.distributed.device_mesh import init_device_mesh

    private.fake_process_group(layout.ranks)
    sizes = (layout.pipeline, layout.replicate, layout.shard, layout.tensor)
    return init_device_mesh(device, sizes, mesh_dim_names=DIMENSIONS)


def _set_up(workload: Workload, layout: Layout, recorder: Recorder, mesh: Any, stage: int) -> _Rank:
    group = _tensor_group(mesh) if layout.tensor > 1 and workload.pieces else None
    _check_cuts(workload, layout)
    pieces = layout.pipeline * layout.interleave
    chunks: list[nn.Module] = []
    total = 0
    for number in range(layout.interleave):
        piece = Piece(stage + number * layout.pipeline, pieces, group)
        chunk = build_fake(workload, piece, recorder.device)
        chunk.to(recorder.device)
        chunk.train()
        if layout.tensor > 1 and not workload.pieces and workload.parallelize is not None:
            workload.parallelize(chunk, mesh["tp"])
        if workload.channels_last:
            chunk.to(memory_format=torch.channels_last)
        chunk.to(dtype=weight_type(workload.precision))
        if workload.precision == "fp8" and not use_float8(chunk):
            raise UserError(f"precision fp8: {workload.name} has no linear layer that it could run in eight bits")
        total += sum(p.numel() for p in chunk.parameters())
        apply_checkpointing(chunk, workload.checkpointing)
        if layout.shard > 1:
            data = mesh["replicate", "shard"] if layout.replicate > 1 else mesh["shard"]
            shard(chunk, data, layout, workload.precision)
        chunks.append(chunk)
    recorder.trace.parameters = total * layout.tensor * layout.pipeline
    groups = {} if mesh is None else {name: private.group_ranks(mesh[name].get_group()) for name in DIMENSIONS}
    return _Rank(workload, layout, recorder, chunks, groups, stage, [])


def _check_cuts(workload: Workload, layout: Layout) -> None:
    if layout.pipeline > 1 and not workload.pieces:
        raise UserError(f"--layout {layout}: {workload.name} cannot be cut into stages; leave out pp")
    if layout.tensor > 1 and not workload.pieces and workload.parallelize is None:
        raise UserError(f"--layout {layout}: {workload.name} does not say how to cut its matrices; leave out tp")


def _tensor_group(mesh: Any) -> Any:
    return mesh["tp"].get_group()


def _hold_state(rank: _Rank) -> None:
    recorder = rank.recorder
    recorder.phase = "setup"
    for chunk in rank.chunks:
        for parameter in chunk.parameters():
            recorder.name_storage(parameter, "parameter")
        for buffer in chunk.buffers():
            recorder.name_storage(buffer, "buffer")
        if rank.layout.is_ddp:
            view = rank.workload.bucket_view
            rank.buckets.append(GradientBuckets(chunk, rank.groups["replicate"], recorder, as_view=view))
    held = {id(p): getattr(p, "_local_tensor", p) for p in rank.parameters()}
    recorder.trace.parameter_bytes = sum(t.numel() * t.element_size() for t in held.values())
    parameters = list(rank.parameters())
    rank.updated = [_shard_of(p) for p in parameters] if _by_element(rank.workload) else parameters
    rank.optimizer = _make_optimizer(rank)


def _by_element(workload: Workload) -> bool:
    """Whether the optimizer does the same to a shard as to a DTensor: then it need not be asked how to shard it."""
    return workload.make_optimizer is None and workload.optimizer != "adafactor"


def _shard_of(parameter: nn.Parameter) -> nn.Parameter:
    """The shard that this rank holds, as a parameter of its own; the parameter itself if it is not sharded."""
    local = getattr(parameter, "_local_tensor", None)
    return parameter if local is None else nn.Parameter(local.detach(), parameter.requires_grad)


def _make_optimizer(rank: _Rank) -> torch.optim.Optimizer:
    own = rank.workload.make_optimizer
    if own is not None and len(rank.chunks) == 1:
        return own(rank.chunks[0], rank.device)
    return make_optimizer(rank.workload.optimizer, rank.updated, on_gpu=rank.device == "cuda")


def _step(rank: _Rank) -> None:
    if rank.layout.pipeline > 1:
        _pipeline_passes(rank)
    else:
        _plain_passes(rank)
    _update(rank)


def _plain_passes(rank: _Rank) -> None:
    workload, recorder, model = rank.workload, rank.recorder, rank.chunks[0]
    micro_batches = min(workload.accumulation, MOST_TRACED)
    for number in range(micro_batches):
        last = number == micro_batches - 1
        for buckets in rank.buckets:
            buckets.active = last
            buckets.start()
        recorder.phase = "input"
        data = _make_batch(rank)
        recorder.phase = "forward"
        with _autocast(rank):
            loss = workload.loss(model, data)
        if not workload.keep_batch:
            del data
        if workload.precision == "fp16":
            loss = loss * torch.ones((), device=rank.device)
        if workload.accumulation > 1:
            loss = loss / workload.accumulation
        recorder.phase = "backward"
        loss.backward()
        if last:
            for buckets in rank.buckets:
                buckets.finish()
        recorder.mark(f"micro-batch {number}")
        del loss


def _make_batch(rank: _Rank) -> Any:
    with torch.device(rank.device):
        data = rank.workload.batch(rank.workload.micro_batch)
    moved = _to_device(data, rank)
    for tensor in _leaves(moved):
        rank.recorder.name_storage(tensor, "input")
    return moved


def _to_device(data: Any, rank: _Rank) -> Any:
    if isinstance(data, torch.Tensor):
        moved = data.to(rank.device)
        if rank.workload.channels_last and moved.dim() == 4:
            moved = moved.contiguous(memory_format=torch.channels_last)
        return moved
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(_to_device(item, rank) for item in data))
    if isinstance(data, list | tuple):
        return type(data)(_to_device(item, rank) for item in data)
    if isinstance(data, dict):
        return {key: _to_device(item, rank) for key, item in data.items()}
    return data


def _leaves(data: Any) -> Iterator[torch.Tensor]:
    if isinstance(data, torch.Tensor):
        yield data
    elif isinstance(data, list | tuple):
        for item in data:
            yield from _leaves(item)
    elif isinstance(data, dict):
        yield from _leaves(list(data.values()))


def _autocast(rank: _Rank) -> contextlib.AbstractContextManager[Any]:
    half = half_type(rank.workload.precision)
    if half is None or rank.layout.shard > 1:  # FSDP2 casts by its own policy
        return contextlib.nullcontext()
    return torch.autocast(rank.device, dtype=half)


def _pipeline_passes(rank: _Rank) -> None:
    """Run the slots of this stage; activations come into buffers as in torch.distributed.pipelining."""
    workload, layout, recorder = rank.workload, rank.layout, rank.recorder
    micro_batches = _traced_micro_batches(layout, rank.stage, workload.accumulation)
    slots = pipeline.order(layout.schedule, rank.stage, layout.pipeline, micro_batches, layout.interleave)
    last_backward = {slot.chunk: number for number, slot in enumerate(slots) if slot.direction == "B"}
    held: dict[tuple[int, int], tuple[torch.Tensor | None, torch.Tensor]] = {}
    for number, slot in enumerate(slots):
        if slot.direction == "F":
            held[slot.chunk, slot.micro_batch] = _pass_forward(rank, slot)
        else:
            given, result = held.pop((slot.chunk, slot.micro_batch))
            final = number == last_backward[slot.chunk]
            _pass_backward(rank, slot, given, result, final=final)
            del given, result
        recorder.mark(f"{slot.direction}{slot.chunk}.{slot.micro_batch}")


def _traced_micro_batches(layout: Layout, stage: int, micro_batches: int) -> int:
    """As many as it takes until a stage holds as many as it ever will; those after repeat it."""
    if layout.schedule == "gpipe":
        return micro_batches
    if layout.interleave > 1:
        return min(micro_batches, 2 * layout.pipeline)
    return min(micro_batches, max(4, layout.pipeline - stage + 1))


def _receive(rank: _Rank, *, needs_grad: bool) -> torch.Tensor:
    hidden = rank.workload.hidden
    if hidden is None:
        raise ValueError("a workload without a hidden shape cannot be cut into stages")
    shape = hidden(rank.workload.micro_batch)
    buffer = torch.empty(
        shape, dtype=hidden_type(rank.workload.precision), device=rank.device, requires_grad=needs_grad
    )
    rank.recorder.name_storage(buffer, "input")
    rank.recorder.collective("recv", buffer.numel() * buffer.element_size(), rank.groups["pp"], asynchronous=False)
    return buffer


def _pass_forward(rank: _Rank, slot: pipeline.Slot) -> tuple[torch.Tensor | None, torch.Tensor]:
    workload, recorder = rank.workload, rank.recorder
    chunk = rank.chunks[slot.chunk]
    number = rank.stage + slot.chunk * rank.layout.pipeline
    last = number == rank.layout.pipeline * rank.layout.interleave - 1
    recorder.phase = "input"
    data = _make_batch(rank) if number == 0 or last else None
    given = None if number == 0 else _receive(rank, needs_grad=True)
    recorder.phase = "forward"
    with _autocast(rank):
        if last:
            result = workload.loss(_Given(chunk, given), data) / workload.accumulation
        else:
            result = chunk(_first(data) if given is None else given)
    return given, result


def _first(data: Any) -> Any:
    return data[0] if isinstance(data, list | tuple) else data


class _Given(nn.Module):
    """A model that is called with the activations received rather than with the batch."""

    def __init__(self, module: nn.Module, given: torch.Tensor | None) -> None:
        super().__init__()
        self.module, self.given = module, given

    def forward(self, inputs: Any) -> Any:
        """The inputs count only on the first stage."""
        return self.module(inputs if self.given is None else self.given)


def _pass_backward(
    rank: _Rank, slot: pipeline.Slot, given: torch.Tensor | None, result: torch.Tensor, *, final: bool
) -> None:
    del given
    chunk: Any = rank.chunks[slot.chunk]
    if rank.layout.shard > 1:
        chunk.set_is_last_backward(final)
        chunk.set_reshard_after_backward(final)
        chunk.set_requires_gradient_sync(final)
    if rank.buckets:
        rank.buckets[slot.chunk].active = final
        rank.buckets[slot.chunk].start()
    rank.recorder.phase = "backward"
    gradient = None if result.dim() == 0 else _receive(rank, needs_grad=False)
    torch.autograd.backward([result], [gradient] if gradient is not None else None)
    if rank.buckets and final:
        rank.buckets[slot.chunk].finish()


def _update(rank: _Rank) -> None:
    workload, recorder, optimizer = rank.workload, rank.recorder, rank.optimizer
    if optimizer is None:
        return
    parameters = list(rank.parameters())
    for parameter in parameters:
        if parameter.grad is not None:
            recorder.name_storage(parameter.grad, "gradient")
    recorder.phase = "optimizer"
    if workload.precision == "fp16":
        _unscale(parameters, rank.device)
    if workload.rescale:
        gradients = [p.grad for p in parameters if p.grad is not None]
        private.multiply_all(gradients, torch.ones((), device=rank.device))
    if workload.clip is not None:
        nn.utils.clip_grad_norm_(parameters, workload.clip, foreach=rank.device == "cuda")
    for parameter, own in zip(parameters, rank.updated, strict=True):
        if own is not parameter and parameter.grad is not None:
            own.grad = getattr(parameter.grad, "_local_tensor", parameter.grad)
    optimizer.step()
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor):
                recorder.name_storage(value, "optimizer")
    optimizer.zero_grad(set_to_none=not workload.keep_gradients)
    if not workload.keep_gradients:
        for parameter in parameters:
            parameter.grad = None
    recorder.mark("step")


def _unscale(parameters: list[nn.Parameter], device: str) -> None:
    """What GradScaler does to the gradients, without reading back whether any was infinite."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    local = [getattr(g, "_local_tensor", g) for g in gradients]
    found, scale = torch.zeros((), device=device), torch.ones((), device=device)
    private.unscale(local, found, scale)


@contextlib.contextmanager
def _naming(rank: _Rank) -> Generator[None]:
    """Tell the recorder which block runs, by hooks on the repeated blocks and the children of the model."""
    recorder, handles = rank.recorder, []
    for position, chunk in enumerate(rank.chunks):
        wanted = {id(m) for m in (*repeated_blocks(chunk), *chunk.children())}
        prefix = f"{position}." if len(rank.chunks) > 1 else ""
        for name, module in chunk.named_modules():
            if id(module) in wanted:
                handles += recorder.watch_module(prefix + name, module)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
