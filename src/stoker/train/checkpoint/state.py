"""What a checkpoint holds, and putting it back. A state that does not fit is fatal and says which key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from stoker.data.batches import Position
from stoker.errors import RunError
from stoker.train.checkpoint.random_state import restore_random_state, take_random_state
from stoker.train.step import Trainee
from stoker.train.world import World

FORMAT = 1


@dataclass
class Progress:
    """How far a run is.

    Attributes:
        position: In steps and in the data.
        samples: Trained on so far, over all ranks.
        weight: Items trained on so far (`Loss.weight`).
        seconds: Training time so far.
        world_size: Ranks that saved.
        scaler: State of the fp16 loss scale.
        spec: The resolved spec that the run had.
    """

    position: Position = field(default_factory=Position)
    samples: int = 0
    weight: float = 0.0
    seconds: float = 0.0
    world_size: int = 1
    scaler: dict[str, float] | None = None
    spec: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> str:
        """As written into `progress.json`."""
        return json.dumps({"format": FORMAT, "torch": torch.__version__, **asdict(self)}, indent=1)

    @classmethod
    def read(cls, folder: Path) -> Progress:
        """From a checkpoint folder.

        Raises:
            RunError: It was written by a newer stoker.
        """
        value: dict[str, Any] = json.loads((folder / "progress.json").read_text())
        if value.pop("format") != FORMAT:
            raise RunError(f"{folder} was written in another format; resume it with the stoker that wrote it")
        value.pop("torch")
        position = Position(**value.pop("position"))
        return cls(position, **value)


def state_of(trainee: Trainee, world: World) -> dict[str, Any]:
    """Everything that is tensors: weights, buffers, optimizer state, and this rank's generators."""
    state: dict[str, Any] = {
        "model": get_model_state_dict(trainee.model),
        "ranks": {str(world.rank): take_random_state(world.device)},
    }
    if trainee.optimizer.state:  # asking for it before the first step would make one up
        found = get_optimizer_state_dict(trainee.model, trainee.optimizer)
        state["optimizer"] = {"state": found["state"]}  # its settings stand in the spec
    return state


@torch.no_grad()
def first_broken(model: nn.Module) -> str | None:
    """Name of the first parameter with a value that is no finite number; None if there is none."""
    named = [(name, weight) for name, weight in model.named_parameters() if weight.is_floating_point()]
    if not named:
        return None
    sound: list[bool] = torch.stack([weight.isfinite().all() for _, weight in named]).tolist()  # waits once
    return next((name for (name, _), good in zip(named, sound, strict=True) if not good), None)


def load_into(folder: Path, trainee: Trainee, world: World) -> Progress:
    """Restore everything from a checkpoint folder.

    With the number of ranks that saved, generators continue too; with another one they keep the seeds they have.

    Raises:
        RunError: The checkpoint is of another model or optimizer; names the keys.
    """
    progress = Progress.read(folder)
    reader = dcp.FileSystemReader(folder / "state")
    saved = reader.read_metadata().state_dict_metadata
    state: dict[str, Any] = {"model": get_model_state_dict(trainee.model)}
    optimizer = None
    if any(key.startswith("optimizer.") for key in saved):
        optimizer = get_optimizer_state_dict(trainee.model, trainee.optimizer)
        state["optimizer"] = {"state": optimizer["state"]}
    if progress.world_size == world.size:
        state["ranks"] = {str(world.rank): take_random_state(world.device)}
    _check_fit(folder, _tensors(state), saved)
    dcp.load(state, storage_reader=reader, process_group=world.saving, no_dist=world.size == 1)
    set_model_state_dict(trainee.model, state["model"])
    if optimizer is not None:  # with the settings of this run: its spec may say otherwise than the one that saved
        set_optimizer_state_dict(trainee.model, trainee.optimizer, {**optimizer, **state["optimizer"]})
    if "ranks" in state:
        restore_random_state(state["ranks"][str(world.rank)], world.device)
    _restore_scaler(trainee, progress)
    return progress


def _restore_scaler(trainee: Trainee, progress: Progress) -> None:
    if trainee.scaler is not None and progress.scaler is not None:
        trainee.scaler.load_state_dict(progress.scaler)


def _tensors(state: Mapping[str, Any], prefix: str = "") -> dict[str, Tensor]:
    """All tensors of a nested state by their dotted name, as torch.distributed.checkpoint names them."""
    found: dict[str, Tensor] = {}
    for key, value in state.items():
        name = f"{prefix}{key}"
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, Mapping):
            found |= _tensors(value, f"{name}.")
    return found


def _check_fit(folder: Path, wanted: Mapping[str, Tensor], saved: Mapping[str, Any]) -> None:
    """Compare names and shapes before anything is overwritten."""
    problems: list[str] = []
    for name, tensor in wanted.items():
        found = saved.get(name)
        if found is None:
            problems.append(f"{name} is not in the checkpoint")
        elif isinstance(found, TensorStorageMetadata) and found.size != tensor.shape:
            problems.append(f"{name} has shape {list(found.size)} there and {list(tensor.shape)} here")
    problems += [
        f"{name} is in the checkpoint but not in this run"
        for name in saved
        if name.startswith(("model.", "optimizer.state.")) and name not in wanted
    ]
    if problems:
        more = f", and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise RunError(
            f"{folder} is a checkpoint of another model or optimizer: {'; '.join(problems[:5])}{more}. "
            "Use the settings it was made with, or another output folder."
        )
