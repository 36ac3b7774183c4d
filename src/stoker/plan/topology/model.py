"""A server as its file describes it: what hangs on which uplink of which processor, and what links the GPUs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Number = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(gt=0)]
Use = Literal["cluster", "storage"]


class Part(BaseModel):
    """A section of the file: unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Processors(Part):
    """The processors.

    Attributes:
        sockets: How many.
        link: What joins them: a row of `stoker facts links`, such as `inter-CPU link AMD EPYC`.
        source: Where this is from: a text, or a key of `sources`.
    """

    sockets: Count = 1
    link: str = ""
    source: str = ""


class Pair(Part):
    """Two GPUs that are linked directly: their numbers, and by how many links."""

    gpus: tuple[Number, Number]
    links: Count


class Fabric(Part):
    """NVLink (or its kin) between the GPUs.

    Attributes:
        links_per_gpu: Links that leave a GPU; the rate of each follows from `stoker facts gpus`.
        switches: NVSwitches that join all GPUs; 0 where `pairs` are linked directly, by bridges or traces.
        pairs: The pairs that are linked directly.
        source: As in `Processors`.
    """

    links_per_gpu: Count
    switches: Number = 0
    pairs: tuple[Pair, ...] = ()
    source: str = ""


class Uplink(Part):
    """One PCIe link of a processor, with what hangs on it: one slot, or several below a switch.

    Attributes:
        name: As the maker calls it, such as `slot 3` or `PCIe switch 0`.
        pcie_gen: Generation of the link to the processor.
        lanes: Its width.
        slot_lanes: Width of each slot below the switch; that of the link if there is no switch.
        switch: Whether a PCIe switch sits below it. Peers below one switch reach each other without the
            processor, if the driver lets them.
        socket: The processor, from 0.
        numa: Its NUMA node.
        gpus: Numbers of the GPUs below, as nvidia-smi counts them.
        nics: Names of the network cards below, as in `nic`.
        source: As in `Processors`.
    """

    name: str
    pcie_gen: Count
    lanes: Count = 16
    slot_lanes: Count = 16
    switch: bool = False
    socket: Number = 0
    numa: Number = 0
    gpus: tuple[Number, ...] = ()
    nics: tuple[str, ...] = ()
    source: str = ""


class Nic(Part):
    """A network port.

    Attributes:
        gbit_s: Rate of the port, Gb/s; left out if not known.
        use: `cluster` for the traffic between GPUs, `storage` for data.
        source: As in `Processors`.
    """

    name: str
    gbit_s: Rate | None = None
    use: Use = "cluster"
    source: str = ""


class Drives(Part):
    """NVMe drives for data: how many, and TB (10^12 bytes) each."""

    count: Count
    tb: Rate
    source: str = ""


class Server(Part):
    """A server.

    Attributes:
        name: What to call it.
        gpu: The model, as in `stoker facts gpus`.
        gpus: How many.
        processors: The processors.
        fabric: NVLink between the GPUs; left out where there is none.
        uplinks: `[[uplink]]`: the PCIe links of the processors.
        nics: `[[nic]]`: the network ports.
        drives: NVMe drives for data, if any.
        notes: What a reader should know.
        sources: Sources by a short key, so that a long one is written once.
    """

    name: str
    gpu: str
    gpus: Count
    processors: Processors = Processors()
    fabric: Fabric | None = None
    uplinks: tuple[Uplink, ...] = Field(default=(), validation_alias="uplink")
    nics: tuple[Nic, ...] = Field(default=(), validation_alias="nic")
    drives: Drives | None = None
    notes: tuple[str, ...] = ()
    sources: dict[str, str] = {}

    def uplink_of(self, gpu: int) -> Uplink:
        """The uplink that a GPU hangs on."""
        return next(uplink for uplink in self.uplinks if gpu in uplink.gpus)

    def uplink_of_nic(self, name: str) -> Uplink | None:
        """The uplink that a network port hangs on; None if the file does not say."""
        return next((uplink for uplink in self.uplinks if name in uplink.nics), None)

    def links_between(self, one: int, other: int) -> int:
        """NVLinks that carry the traffic of a pair: all of a GPU's through switches, those of the pair without."""
        if self.fabric is None:
            return 0
        if self.fabric.switches:
            return self.fabric.links_per_gpu
        return sum(pair.links for pair in self.fabric.pairs if set(pair.gpus) == {one, other})

    def cited(self) -> tuple[str, ...]:
        """The source of each part, in full, each once."""
        parts = (self.processors, self.fabric, *self.uplinks, *self.nics, self.drives)
        keys = (part.source for part in parts if part is not None and part.source)
        return tuple(dict.fromkeys(self.sources.get(key, key) for key in keys))
