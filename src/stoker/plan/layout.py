"""How ranks are arranged: data parallel copies, shards, tensor and pipeline parallel groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stoker.errors import Mistake, UserError

Schedule = Literal["1f1b", "gpipe", "interleaved"]

_NAMES = ("single", "ddp", "fsdp2", "fsdp", "hsdp", "tp", "pp", "interleave", "schedule", "reshard")


@dataclass(frozen=True)
class Layout:
    """Ranks of each kind; their product is the number of GPUs.

    Ranks of a tensor parallel group are neighbours, then come the shards, then the copies, then the stages:
    the group that talks most stays inside a node.

    Attributes:
        replicate: Copies of the model (DDP; HSDP together with `shard`).
        shard: Ranks that share one copy (FSDP2).
        tensor: Ranks that share each matrix.
        pipeline: Stages.
        schedule: Order of micro-batches in the pipeline.
        interleave: Model chunks per stage in the interleaved schedule.
        reshard: Whether FSDP2 frees the gathered weights between forward and backward.
    """

    replicate: int = 1
    shard: int = 1
    tensor: int = 1
    pipeline: int = 1
    schedule: Schedule = "1f1b"
    interleave: int = 1
    reshard: bool = True

    @property
    def ranks(self) -> int:
        """GPUs that the layout takes."""
        return self.replicate * self.shard * self.tensor * self.pipeline

    @property
    def data_ranks(self) -> int:
        """Ranks that see different samples."""
        return self.replicate * self.shard

    @property
    def is_ddp(self) -> bool:
        """Whether whole copies are kept equal by averaging gradients, without shards."""
        return self.shard == 1 and self.replicate > 1

    def group_name(self, ranks: int, stride: int) -> str:
        """What the ranks of a group are to each other, by how many they are and how far apart neighbours lie.

        >>> Layout(replicate=2, shard=4, tensor=8).group_name(4, 8)
        'shards (4)'
        """
        inner = self.tensor * self.shard
        groups = {
            (self.tensor, 1): "tensor parallel",
            (self.replicate, inner): "copies",
            (self.shard, self.tensor): "shards",
            (self.pipeline, inner * self.replicate): "stages",
        }
        return f"{groups.get((ranks, stride), 'ranks')} ({ranks})"

    def __str__(self) -> str:
        parts: list[str] = []
        if self.shard > 1 and self.replicate > 1:
            parts.append(f"hsdp={self.replicate}x{self.shard}")
        elif self.shard > 1:
            parts.append(f"fsdp2={self.shard}")
        elif self.replicate > 1:
            parts.append(f"ddp={self.replicate}")
        if self.tensor > 1:
            parts.append(f"tp={self.tensor}")
        if self.pipeline > 1:
            parts.append(f"pp={self.pipeline}")
            if self.schedule != "1f1b":
                parts.append(f"schedule={self.schedule}")
            if self.interleave > 1:
                parts.append(f"interleave={self.interleave}")
        if not self.reshard:
            parts.append("reshard=no")
        return ",".join(parts) or "single"


def parse_layout(text: str, gpus: int | None = None) -> Layout:
    """Read a layout such as `fsdp2=8,tp=2`, `ddp=8`, `hsdp=4x8`, `fsdp2=16,tp=8,pp=8` or `single`.

    A name without a number, such as `ddp`, takes the GPUs that the other parts leave over.

    Raises:
        UserError: If it cannot be read or does not come to the number of GPUs.
    """
    values: dict[str, str] = {}
    mistakes: list[Mistake] = []
    for part in filter(None, (piece.strip() for piece in text.lower().split(","))):
        name, _, value = part.partition("=")
        name = "fsdp2" if name == "fsdp" else name
        if name not in _NAMES:
            mistakes.append(Mistake(f"unknown part {part!r}: write one of {', '.join(_NAMES)}", "--layout"))
        elif name in values:
            mistakes.append(Mistake(f"{name} is given twice", "--layout"))
        values[name] = value
    if "ddp" in values and "fsdp2" in values:
        mistakes.append(Mistake("ddp and fsdp2 together are hsdp: write hsdp=COPIESxSHARDS", "--layout"))
    sizes = {name: _size(name, values, mistakes) for name in ("ddp", "fsdp2", "tp", "pp", "interleave")}
    copies, shards = _hybrid(values.get("hsdp"), mistakes)
    schedule = values.get("schedule", "interleaved" if "interleave" in values else "1f1b")
    if schedule not in ("1f1b", "gpipe", "interleaved"):
        mistakes.append(Mistake(f"unknown schedule {schedule!r}: write 1f1b, gpipe or interleaved", "--layout"))
    if mistakes:
        raise UserError(*mistakes)
    rest = max(1, (gpus or 1) // ((sizes["tp"] or 1) * (sizes["pp"] or 1)))
    fill = {name: (rest if name in values and sizes[name] is None else sizes[name]) for name in sizes}
    layout = Layout(
        replicate=copies or fill["ddp"] or 1,
        shard=shards or fill["fsdp2"] or 1,
        tensor=fill["tp"] or 1,
        pipeline=fill["pp"] or 1,
        schedule=schedule,  # pyright: ignore[reportArgumentType] - checked above
        interleave=fill["interleave"] or (2 if schedule == "interleaved" else 1),
        reshard=values.get("reshard", "yes") not in ("no", "false", "0"),
    )
    if gpus is not None and layout.ranks != gpus:
        raise UserError(
            Mistake(f"{layout} takes {layout.ranks} GPUs, but --gpus says {gpus}: make the two agree", "--layout")
        )
    return layout


def _size(name: str, values: dict[str, str], mistakes: list[Mistake]) -> int | None:
    value = values.get(name, "")
    if not value:
        return None
    if not value.isdigit() or int(value) < 1:
        mistakes.append(Mistake(f"{name}={value} is no number of ranks: write for example {name}=8", "--layout"))
        return None
    return int(value)


def _hybrid(value: str | None, mistakes: list[Mistake]) -> tuple[int | None, int | None]:
    if value is None:
        return None, None
    copies, _, shards = value.partition("x")
    if not (copies.isdigit() and shards.isdigit() and int(copies) and int(shards)):
        mistakes.append(Mistake(f"hsdp={value} is not COPIESxSHARDS: write for example hsdp=4x8", "--layout"))
        return None, None
    return int(copies), int(shards)
