"""The plain data that a screen is laid out from: everything decided, everything written out, nothing coloured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["", "good", "calm", "warn", "bad"]
"""How something stands: nothing to say, well, worth knowing, needs a look, is broken."""


@dataclass(frozen=True, kw_only=True)
class Trend:
    """The last hour of a value.

    Attributes:
        values: Equally spaced, the oldest first; NaN is a gap.
        low: Lower end of the scale, in the values' unit.
        high: Upper end of the scale.
        colour: Index into the palette.
        title: The line in words.
    """

    values: Sequence[float]
    low: float
    high: float
    colour: int
    title: str


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One present value.

    Attributes:
        name: What is measured, as the texts and the history call it.
        label: The same for people.
        text: The value with its unit; a dash where it was not measured.
        note: What it is to be compared with, such as `of 80 GiB`.
        level: How it stands.
        value: The value as `/metrics` has it; None where it was not measured, or is derived from several.
        series: Name and labels of the series in `/metrics`; empty where there is none.
        trend: The last hour; None where none is kept.
    """

    name: str
    label: str
    text: str
    note: str = ""
    level: Level = ""
    value: float | None = None
    series: str = ""
    trend: Trend | None = None


@dataclass(frozen=True)
class Badge:
    """A word on how something stands."""

    text: str
    level: Level = ""


@dataclass(frozen=True, kw_only=True)
class GpuView:
    """One GPU: what stands in its row, and all else that is known of it."""

    uuid: str
    index: str
    name: str
    model: str
    badges: tuple[Badge, ...]
    main: tuple[Reading, ...]
    more: tuple[Reading, ...]


@dataclass(frozen=True, kw_only=True)
class RunView:
    """One run with the GPUs that it uses.

    Attributes:
        anchor: Tells runs apart in the page: letters, digits and dashes.
        progress: Share that is done; None where the end is not known.
        progress_text: Step, of how many, and the time that is left.
        steps: Step and of how many, short.
    """

    anchor: str
    name: str
    folder: str
    badges: tuple[Badge, ...]
    what: str
    progress: float | None
    progress_text: str
    steps: str
    readings: tuple[Reading, ...]
    gpus: tuple[GpuView, ...]


@dataclass(frozen=True, kw_only=True)
class ProcessView:
    """A process that holds memory of a GPU."""

    gpu: str
    pid: str
    name: str
    user: str
    memory: str
    place: str
    """Container or Slurm job."""
    run: str


@dataclass(frozen=True, kw_only=True)
class FindingView:
    """What is wrong, what shows it, and what mends it.

    Attributes:
        anchor: Tells findings apart in the page, also when others come and go.
        mark: How grave it is, in a word.
    """

    anchor: str
    level: Level
    mark: str
    title: str
    evidence: tuple[str, ...]
    meaning: str
    fix: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Screen:
    """All that a screen shows.

    Attributes:
        what: GPUs and driver in a line.
        verdict: The machine in a word.
        taken: When the sample was taken, for people.
        taken_iso: The same for programs.
        summary: The machine's totals.
        unseen: Sentences on what could not be seen.
        free: GPUs that no run uses.
    """

    host: str
    simulated: bool
    what: str
    verdict: Badge
    taken: str
    taken_iso: str
    summary: tuple[Reading, ...] = ()
    findings: tuple[FindingView, ...] = ()
    unseen: tuple[str, ...] = ()
    runs: tuple[RunView, ...] = ()
    free: tuple[GpuView, ...] = ()
    host_readings: tuple[Reading, ...] = ()
    processes: tuple[ProcessView, ...] = field(default=())

    @property
    def gpus(self) -> tuple[GpuView, ...]:
        """All GPUs, in the order of their index."""
        found = {gpu.uuid: gpu for run in self.runs for gpu in run.gpus} | {gpu.uuid: gpu for gpu in self.free}
        return tuple(sorted(found.values(), key=lambda gpu: (len(gpu.index), gpu.index)))
