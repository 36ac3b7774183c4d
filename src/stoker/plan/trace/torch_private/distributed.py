"""A process group that talks to nobody, meshes and DTensor under fake tensors."""

# This package exists to touch what is private, so that no other has to.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import functools
from typing import Any

import torch.distributed as dist
from torch._subclasses.fake_tensor import unset_fake_temporarily


def fake_process_group(world_size: int) -> None:
    """Start a process group of `world_size` ranks of which only the first exists.

    One of that size is kept: DTensor remembers groups by name, from one trace of a process to the next.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        if dist.get_world_size() == world_size:
            return
        dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world_size)
    _make_meshes_real()
    _mark_sharding_propagation()


def _make_meshes_real() -> None:
    """Run the methods of DeviceMesh outside the fake mode: a mesh is a real CPU tensor that is read."""
    from torch.distributed.device_mesh import DeviceMesh

    names = (
        "__init__",
        "__getitem__",
        "_flatten",
        "_concatenate",
        "_get_slice_mesh_layout",
        "_create_sub_mesh",
        "_unflatten",
        "get_coordinate",
    )
    for name in names:
        member = DeviceMesh.__dict__.get(name)
        if member is None or getattr(member, "outside_fake_mode", False):
            continue
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member

        @functools.wraps(function)
        def outside(*args: Any, _function: Any = function, **kwargs: Any) -> Any:
            with unset_fake_temporarily():
                return _function(*args, **kwargs)

        kind = type(member) if isinstance(member, staticmethod | classmethod) else None
        wrapped: Any = kind(outside) if kind else outside
        wrapped.outside_fake_mode = True
        setattr(DeviceMesh, name, wrapped)


_propagating = 0


def inside_sharding_propagation() -> bool:
    """Whether DTensor is working out a shape right now: its tensors of global shape are never allocated."""
    return _propagating > 0


def _mark_sharding_propagation() -> None:
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    propagator: Any = ShardingPropagator
    original = propagator._propagate_tensor_meta_non_cached
    if getattr(original, "marked", False):
        return

    @functools.wraps(original)
    def marked(*args: Any, **kwargs: Any) -> Any:
        global _propagating
        _propagating += 1
        try:
            return original(*args, **kwargs)
        finally:
            _propagating -= 1

    setattr(marked, "marked", True)  # noqa: B010 - a function has no declared attributes
    propagator._propagate_tensor_meta_non_cached = marked


def group_ranks(group: Any) -> tuple[int, ...]:
    """Global ranks of a process group given as object, boxed object or name; empty if unknown."""
    if isinstance(group, str):
        resolve: Any = dist.distributed_c10d._resolve_process_group
        group = resolve(group)
    elif not isinstance(group, dist.ProcessGroup):
        try:
            group = dist.ProcessGroup.unbox(group)
        except (RuntimeError, TypeError):
            return ()
    return tuple(dist.get_process_group_ranks(group))
