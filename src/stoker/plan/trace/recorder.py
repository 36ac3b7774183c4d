"""Writes down what a training step does: every allocation, operator, collective and stream dependency."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Generator
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from stoker.plan.trace import cpu_kernels
from stoker.plan.trace import torch_private as private
from stoker.plan.trace.log import Collective, Cost, Memory, Op, Phase, Role, Sync, Tensor, Trace
from stoker.plan.trace.opcost import cost, layout_copies

_COLLECTIVES = {
    "allreduce": "all_reduce",
    "all_reduce": "all_reduce",
    "_allgather_base": "all_gather",
    "allgather": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "send": "send",
    "recv": "recv",
}


class _Watch(weakref.ref[torch.UntypedStorage]):
    """A weak reference to a storage that knows which tensor it was."""

    __slots__ = ("key", "tensor")

    key: int
    tensor: int


class Recorder(TorchDispatchMode):
    """Sits on top of the fake tensor mode and fills a `Trace`.

    Set `phase` and `step` as the step goes on; call `name_storage` for tensors whose role is known.
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self.trace = Trace(device=device, steps=0)
        self.device = device
        self.step = 0
        self.module = 0
        self._phase: Phase = "setup"
        self._live: dict[int, _Watch] = {}
        self._fake_mode: Any = None
        self._work_events: dict[int, int] = {}
        self._next_work = 1 << 40  # far above the numbers that fake events get

    @property
    def phase(self) -> Phase:
        """Part of the step that runs now."""
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._phase = phase
        self.trace.marks.append((self.step, phase, len(self.trace.memory)))

    @contextlib.contextmanager
    def recording(self) -> Generator[Recorder]:
        """Record everything in this block; to be entered inside the fake tensor mode."""
        self._fake_mode = private.active_fake_mode()
        private.on_stream_event(lambda kind, stream, event: self._sync(kind, stream, event))
        with private.watch_storage_resize(self._resized), self:
            yield self
        private.on_stream_event(None)

    def watch_module(self, name: str, module: torch.nn.Module) -> list[Any]:
        """Attribute to this module what happens inside its forward pass; returns the hooks."""
        self.trace.modules.append(name)
        number, outer = len(self.trace.modules) - 1, list[int]()

        def enter(_module: Any, _args: Any) -> None:
            outer.append(self.module)
            self.module = number

        def leave(_module: Any, _args: Any, _out: Any) -> None:
            self.module = outer.pop() if outer else 0

        first = module.register_forward_pre_hook(enter)
        return [first, module.register_forward_hook(leave, always_call=True)]

    def mark(self, name: str) -> None:
        """Remember that a part of the step ended here, as an event on the default stream."""
        event = self._next_work
        self._next_work += 1
        self.trace.ends.append((self.step, name, event))
        self.trace.events.append(Sync("record", 0, event))

    # ---------------------------------------------------------------------------------- memory

    def name_storage(self, tensor: torch.Tensor, role: Role) -> None:
        """Say what a tensor serves as; it is added if it has not been seen."""
        local = getattr(tensor, "_local_tensor", tensor)
        if private.device_of(local).type != self.device:
            return
        self._add(local)
        watch = self._live.get(private.storage_key(local.untyped_storage()))
        if watch is not None:
            self.trace.tensors[watch.tensor].role = role

    def _add(self, tensor: torch.Tensor) -> None:
        if private.device_of(tensor).type != self.device:
            return
        storage = tensor.untyped_storage()
        key = private.storage_key(storage)
        if key in self._live:
            return
        self._allocate(storage, key, storage.nbytes(), "")

    def _allocate(self, storage: torch.UntypedStorage, key: int, nbytes: int, role: Role) -> None:
        number = len(self.trace.tensors)
        stream = private.current_stream()
        self.trace.tensors.append(Tensor(nbytes, self._phase, self.step, self.module, stream, role))
        watch = _Watch(storage, self._released)
        watch.key, watch.tensor = key, number
        self._live[key] = watch
        if nbytes:
            self.trace.memory.append(Memory(number, nbytes, stream))

    def _release(self, number: int) -> None:
        tensor = self.trace.tensors[number]
        if tensor.freed is None and tensor.nbytes:
            tensor.freed = (self._phase, self.step)
            self.trace.memory.append(Memory(number, 0, tensor.stream))

    def _released(self, watch: Any) -> None:
        if self._live.get(watch.key) is watch:
            del self._live[watch.key]
            self._release(watch.tensor)

    def _resized(self, storage: torch.UntypedStorage, before: int) -> None:
        key = private.storage_key(storage)
        watch = self._live.get(key)
        after = storage.nbytes()
        if watch is None or after == before:
            return
        self._release(watch.tensor)
        role = self.trace.tensors[watch.tensor].role
        self._allocate(storage, key, after, role or "gathered")

    # ------------------------------------------------------------------------------- operators

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        asked = private.device_asked(func, args)
        if asked is not None:
            if self.step == 0 and self._phase == "forward" and not private.inside_sharding_propagation():
                self._add(args[0])
            return asked
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # let it come back as operators on its local tensors
        kwargs = kwargs or {}
        if func.namespace == "_c10d_functional" and "wait_tensor" in func._schema.name:
            self._wait_for(args[0])
            return args[0]
        if self.step == 0 and self._phase == "forward" and not private.inside_sharding_propagation():
            self._add_all(args)  # tensors that were there before, such as targets that a closure holds
        out = func(*args, **kwargs)
        if private.inside_sharding_propagation() or private.active_fake_mode() is not self._fake_mode:
            return out
        name = func._schema.name.split("::")[1]
        inside = 0
        if self.device == "cpu" and name in cpu_kernels.RECURRENT:
            out, inside = cpu_kernels.with_real_workspace(func, args, out)
        elif self.device == "cpu" and name in cpu_kernels.CONVOLUTIONS:
            inside = cpu_kernels.inside_convolution(func, args)
        self._add_all(out)
        self._pass_through(inside)
        if func.namespace in ("c10d", "_c10d_functional"):
            self._collective(func, args, kwargs, out)
        elif not private.is_view(func):
            self._operator(f"{func.namespace}.{name}", cost(name, args, kwargs, out))
            self._operator("layout", layout_copies(name, args, out))
        return out

    def _operator(self, name: str, priced: Cost | None) -> None:
        if priced is not None and (priced.read or priced.written):
            stream = private.current_stream()
            self.trace.events.append(Op(name, priced, stream, self._phase, self.step, self.module))

    def _add_all(self, tree: Any) -> None:
        if isinstance(tree, torch.Tensor):
            self._add(tree)
        elif isinstance(tree, list | tuple):
            for item in tree:
                self._add_all(item)

    # ------------------------------------------------------------------ streams and collectives

    def _sync(self, kind: Any, stream: int, event: int) -> None:
        self.trace.events.append(Sync(kind, stream, event))

    def _collective(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        name = func._schema.name.split("::")[1].rstrip("_").removesuffix("_coalesced")
        op = _COLLECTIVES.get(name)
        if op is None:
            return
        given = {a.name: v for a, v in zip(func._schema.arguments, args, strict=False)} | kwargs
        group = given.get("process_group", given.get("group_name"))
        ranks = private.group_ranks(group)
        functional = func.namespace == "_c10d_functional"
        nbytes = max(_total_bytes(args), _total_bytes(out) if functional else 0)
        asynchronous = functional or bool(given.get("asyncOp", False))
        if self.device == "cpu" and op in ("all_gather", "reduce_scatter"):
            self._pass_through(nbytes)  # gloo gathers and scatters by way of a copy of the whole
        self.collective(op, nbytes, ranks, asynchronous=asynchronous, result=out if functional else None)

    def _pass_through(self, nbytes: int) -> None:
        """Memory taken and given back at once."""
        if not nbytes:
            return
        number = len(self.trace.tensors)
        self.trace.tensors.append(Tensor(nbytes, self._phase, self.step, self.module, 0, "gathered"))
        self.trace.memory.append(Memory(number, nbytes, 0))
        self._release(number)

    def collective(
        self, op: str, nbytes: int, ranks: tuple[int, ...], *, asynchronous: bool, result: Any = None
    ) -> int:
        """Write down a collective; returns the event of its end, 0 if the stream waits for it anyway."""
        stream = private.current_stream()
        event = 0
        stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
        own_stream = stream
        if asynchronous:
            # the communicator's own stream starts once the current stream has come this far
            start, event = self._next_work, self._next_work + 1
            self._next_work += 2
            own_stream = -1 - stride
            self.trace.events += [Sync("record", stream, start), Sync("wait", own_stream, start)]
        self.trace.events.append(
            Collective(op, nbytes, max(1, len(ranks)), stride, own_stream, event, self._phase, self.step)
        )
        if asynchronous:
            self.trace.events.append(Sync("record", own_stream, event))
            for tensor in result if isinstance(result, list | tuple) else [result]:
                if isinstance(tensor, torch.Tensor):
                    self._work_events[private.storage_key(tensor.untyped_storage())] = event
        return event

    def wait(self, event: int) -> None:
        """Hold the current stream until the collective with this event has ended."""
        if event:
            self.trace.events.append(Sync("wait", private.current_stream(), event))

    def _wait_for(self, tensor: torch.Tensor) -> None:
        self.wait(self._work_events.pop(private.storage_key(tensor.untyped_storage()), 0))


def _total_bytes(tree: Any) -> int:
    """Bytes of the larger side: the whole of what is gathered, scattered or reduced."""
    if isinstance(tree, torch.Tensor):
        return tree.numel() * tree.element_size()
    if isinstance(tree, list | tuple):
        return max((_total_bytes(item) for item in tree), default=0)
    return 0
