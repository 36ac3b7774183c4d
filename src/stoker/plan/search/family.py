"""How a search makes the workload of each layout and shape that it tries."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from stoker.plan.layout import Layout
from stoker.plan.models.config import TransformerConfig, read_config
from stoker.plan.search.space import Cuts, Shape
from stoker.plan.trace.run import Source
from stoker.plan.workload import Checkpointing


class Family(Protocol):
    """One model in every layout and shape."""

    @property
    def name(self) -> str:
        """What to call it."""
        ...

    @property
    def cuts(self) -> Cuts:
        """How it may be cut."""
        ...

    @property
    def layers(self) -> int | None:
        """Its equal layers, where fewer of them can be built; None where the depth is fixed."""
        ...

    @property
    def checkpointings(self) -> tuple[Checkpointing, ...]:
        """What may be computed again; the first is none."""
        ...

    def source(self, layout: Layout, shape: Shape, layers: int | None = None) -> Source:
        """How to make the workload, with so many layers."""
        ...


@dataclass(frozen=True)
class ModelFamily:
    """A model as `load_workload` finds it.

    Attributes:
        target: Path of a config.json, `module:callable` or the name of a torchvision model.
        options: Further arguments of `load_workload`.
        changes: Fields of the workload to set, such as the optimizer.
    """

    target: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    changes: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        """The name in the config, or the target."""
        return self.target if self.config is None else self.config.name

    @property
    def config(self) -> TransformerConfig | None:
        """The shape of a language model; None for anything else."""
        path = Path(self.target)
        return read_config(path) if path.suffix == ".json" or path.is_dir() else None

    @property
    def cuts(self) -> Cuts:
        """Over heads, feed-forward columns and vocabulary; between layers."""
        config = self.config
        if config is None:
            return Cuts()
        divided = (config.heads, config.feed_forward, config.vocabulary)
        return Cuts(tuple(n for n in (1, 2, 4, 8) if all(size % n == 0 for size in divided)), config.layers)

    @property
    def layers(self) -> int | None:
        """Of a language model."""
        return None if self.config is None else self.config.layers

    @property
    def checkpointings(self) -> tuple[Checkpointing, ...]:
        """Nothing, most, or everything but the inputs of blocks."""
        return ("none", "full") if self.config is None else ("none", "selective", "full")

    def source(self, layout: Layout, shape: Shape, layers: int | None = None) -> Source:
        """Plain values only."""
        del layout
        arguments = {"target": self.target, "micro_batch": shape.micro_batch, "layers": layers, **self.options}
        changes = {
            "precision": shape.precision,
            "checkpointing": shape.checkpointing,
            "accumulation": shape.accumulation,
            **self.changes,
        }
        return Source("stoker.plan.workload:load_workload", arguments, changes)
