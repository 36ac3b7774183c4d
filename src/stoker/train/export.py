"""The trained weights as one file."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

from stoker._version import __version__
from stoker.train.run_folder import disk_errors
from stoker.train.world import World


def save_weights(model: nn.Module, path: Path, world: World) -> None:
    """Write the consolidated weights; every rank must call it, rank 0 writes.

    Weights that share memory (tied embeddings) are written once, under their first name; loading the file
    into the same model with `strict=False` restores all.

    Raises:
        RunError: The disk is full or gone.
    """
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if not world.is_first:
        return
    aside = path.with_name(f".{path.name}.partial")
    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(
            _unshared({name: value for name, value in weights.items() if isinstance(value, Tensor)}),
            aside,
            metadata={"format": "pt", "stoker": __version__},
        )
        aside.replace(path)


def _unshared(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensor once; views of one memory that are not the same tensor each as a copy."""
    seen: set[tuple[int, tuple[int, ...], tuple[int, ...]]] = set()
    memories: set[int] = set()
    kept: dict[str, Tensor] = {}
    for name, weight in weights.items():
        key = weight.data_ptr(), tuple(weight.shape), weight.stride()
        if weight.numel() and key in seen:
            continue
        memory = weight.untyped_storage().data_ptr()
        kept[name] = weight.contiguous().clone() if memory in memories else weight.contiguous()
        seen.add(key)
        memories.add(memory)
    return kept
