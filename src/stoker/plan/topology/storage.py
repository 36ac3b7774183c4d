"""What training asks of the storage, and the three tiers that hold the data: NVMe, Ceph, and an object store.

NVMe in the servers is hot: every epoch but the first reads it. Ceph is warm: it fills the NVMe, and keeps
serving what does not fit there. The object store (any S3) is cold: it keeps the data and fills Ceph. Figures of
drives and of redundancy are in storage.csv.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from stoker.errors import Mistake, UserError
from stoker.finding import Finding
from stoker.plan.hardware import table
from stoker.plan.topology.model import Drives, Server
from stoker.plan.topology.network import total_gb_s

USUAL_DRIVE_TB = 3.84
"""Of the drives to buy where a server has none: the size in a DGX A100 and DGX H100."""


@dataclass(frozen=True)
class Data:
    """A data set and how fast it is read. GB are 10^9 bytes.

    Attributes:
        gb: Size of the data set.
        bytes_per_sample: Mean size of a sample as it is stored.
        samples_per_second: Of the whole job.
        epochs: How often it is read.
    """

    gb: float
    bytes_per_sample: float
    samples_per_second: float
    epochs: int

    @property
    def gb_s(self) -> float:
        """What the whole job reads, GB/s."""
        return self.samples_per_second * self.bytes_per_sample / 1e9

    @property
    def hours(self) -> float:
        """How long the whole run reads."""
        return self.gb * self.epochs / self.gb_s / 3600


@dataclass(frozen=True)
class Tier:
    """One tier.

    Attributes:
        name: `NVMe`, `Ceph` or `S3`.
        holds_gb: Of the data set; on NVMe, in each server.
        raw_tb: Drives to buy for it, 10^12 bytes: with copies or parity, and room; on NVMe, in each server.
        read_gb_s: What it must deliver at its busiest; on NVMe, in each server.
        why: How the figures come about.
    """

    name: str
    holds_gb: float
    raw_tb: float
    read_gb_s: float
    why: str


@dataclass(frozen=True)
class StoragePlan:
    """Data rate and tiers.

    Attributes:
        per_server_gb_s: What each server reads on average.
        per_gpu_gb_s: What each GPU is fed on average.
        hours: How long the run reads.
        from_warm_tb: What Ceph delivers over the run, of `read_tb` in all.
        nvme_drives: Drives that each server needs for the hot tier, for size and for rate.
    """

    data: Data
    servers: int
    per_server_gb_s: float
    per_gpu_gb_s: float
    hours: float
    read_tb: float
    from_warm_tb: float
    nvme_drives: int
    tiers: tuple[Tier, ...]
    findings: tuple[Finding, ...]


def read_data(
    *,
    dataset_gb: float | None,
    samples: int | None,
    bytes_per_sample: float | None,
    samples_per_second: float | None,
    epochs: int,
) -> Data | None:
    """The data set from what was given of it; None if nothing was.

    Raises:
        UserError: Too little was given, or the three sizes contradict each other.
    """
    sizes = (dataset_gb, samples, bytes_per_sample)
    if not any((*sizes, samples_per_second)):
        if epochs > 1:
            raise UserError("--epochs is how often the data is read: give its size and --samples-per-second too")
        return None
    mistakes: list[Mistake] = []
    if samples_per_second is None:
        mistakes.append(Mistake("give --samples-per-second too: `stoker plan speed` says how many"))
    if sum(size is not None for size in sizes) < 2:
        mistakes.append(Mistake("give two of --dataset-gb, --samples and --bytes-per-sample"))
    if mistakes or samples_per_second is None:
        raise UserError(*mistakes)
    if dataset_gb is None:
        dataset_gb = (samples or 0) * (bytes_per_sample or 0) / 1e9
    elif bytes_per_sample is None:
        bytes_per_sample = dataset_gb * 1e9 / (samples or 1)
    elif samples is not None and not math.isclose(samples * bytes_per_sample, dataset_gb * 1e9, rel_tol=0.01):
        product = samples * bytes_per_sample / 1e9
        raise UserError(f"--samples times --bytes-per-sample is {product:g} GB, --dataset-gb says {dataset_gb:g}")
    return Data(dataset_gb, bytes_per_sample or 0.0, samples_per_second, epochs)


def plan_storage(server: Server, servers: int, data: Data, *, fill_hours: float = 24.0) -> StoragePlan:
    """Size the tiers.

    Each epoch deals the samples out anew, so a server comes to need any of them: the hot tier of each server
    holds the whole data set if it can. A server has read a sample after e epochs with probability
    1 - (1 - 1/servers)^e; what it has not read yet, or has no room for, comes from Ceph.

    Args:
        server: The server; its drives are the hot tier, if it has any.
        servers: How many of them train together.
        data: The data set.
        fill_hours: In how many hours the object store must fill Ceph.
    """
    kept = min(1.0, _room_gb(server.drives, data) / data.gb)
    per_server = data.gb_s / servers
    busiest = per_server * constant("headroom")
    drives = _drives_needed(server.drives, data, busiest)
    return StoragePlan(
        data=data,
        servers=servers,
        per_server_gb_s=per_server,
        per_gpu_gb_s=per_server / server.gpus,
        hours=data.hours,
        read_tb=data.gb * data.epochs / 1000,
        from_warm_tb=_from_warm_gb(data, servers, kept) / 1000,
        nvme_drives=drives,
        tiers=_tiers(data, servers, kept, fill_hours),
        findings=tuple(_check(server, busiest, kept, drives)),
    )


def _room_gb(drives: Drives | None, data: Data) -> float:
    """What the hot tier of a server holds; the whole data set where the drives are still to be bought."""
    return data.gb if drives is None else drives.count * drives.tb * 1000 * constant("nvme_fill")


def _drives_needed(drives: Drives | None, data: Data, busiest_gb_s: float) -> int:
    size_tb = USUAL_DRIVE_TB if drives is None else drives.tb
    for_size = data.gb / constant("nvme_fill") / 1000 / size_tb
    return max(math.ceil(for_size), math.ceil(busiest_gb_s / constant("nvme_read_gb_s")))


def _from_warm_gb(data: Data, servers: int, kept: float) -> float:
    unread = 1 - 1 / servers
    return sum(1 - kept * (1 - unread**epoch) for epoch in range(data.epochs)) * data.gb


def _tiers(data: Data, servers: int, kept: float, fill_hours: float) -> tuple[Tier, ...]:
    headroom, copies, ceph_fill = constant("headroom"), constant("ceph_copies"), constant("ceph_fill")
    object_fill = constant("object_fill")
    hot = Tier(
        name="NVMe",
        holds_gb=data.gb * kept,
        raw_tb=data.gb * kept / constant("nvme_fill") / 1000,
        read_gb_s=data.gb_s / servers * headroom,
        why=f"in each server: its mean rate and {headroom - 1:.0%} more",
    )
    warm = Tier(
        name="Ceph",
        holds_gb=data.gb,
        raw_tb=data.gb * copies / ceph_fill / 1000,
        read_gb_s=data.gb_s * headroom,
        why=f"{copies:g} copies, {ceph_fill:.0%} full: the first epoch comes from it",
    )
    cold = Tier(
        name="S3",
        holds_gb=data.gb,
        raw_tb=data.gb * constant("object_overhead") / object_fill / 1000,
        read_gb_s=data.gb / (fill_hours * 3600),
        why=f"12 data and 4 parity shards, {object_fill:.0%} full: fills Ceph in {fill_hours:g} h",
    )
    return hot, warm, cold


def constant(name: str) -> float:
    """A figure of storage.csv."""
    return next(float(row["value"]) for row in table("storage") if row["name"] == name)


def _check(server: Server, needed_gb_s: float, kept: float, nvme_drives: int) -> Iterator[Finding]:
    """The drives hold and deliver, and so does the network to the warm tier."""
    if server.drives is None:
        title = (
            f"the server's file names no drives: the hot tier needs {nvme_drives} of {USUAL_DRIVE_TB} TB in each server"
        )
        yield Finding("unknown", "storage.drives", title, area="storage")
    else:
        have = server.drives.count * constant("nvme_read_gb_s")
        if have < needed_gb_s:
            title = f"{server.drives.count} NVMe drives read {have:.1f} GB/s, {needed_gb_s:.1f} are needed"
            fix = (f"fit {nvme_drives} drives", "store samples smaller, or decode less often")
            yield Finding("fail", "storage.nvme_rate", title, fix=fix, area="storage")
        if kept < 1:
            title = f"the drives of a server hold {kept:.0%} of the data: the rest comes from Ceph in every epoch"
            fix = (f"fit {nvme_drives} drives of {server.drives.tb:g} TB in each server",)
            yield Finding("warn", "storage.nvme_size", title, fix=fix, area="storage")
    network = total_gb_s(server, "storage") or total_gb_s(server, "cluster")
    if network is None or not server.nics:
        title = f"the rate of the network to the storage is not known: {needed_gb_s:.1f} GB/s are needed"
        yield Finding("unknown", "storage.network", title, area="storage")
    elif network < needed_gb_s:
        title = f"the network of a server carries {network:.1f} GB/s, the first epoch needs {needed_gb_s:.1f}"
        fix = ("fill the NVMe before the run starts, or add ports for storage",)
        yield Finding("warn", "storage.network", title, fix=fix, area="storage")
    else:
        title = f"the network of a server carries {network:.1f} GB/s to the storage, {needed_gb_s:.2g} are needed"
        yield Finding("ok", "storage.network", title, area="storage")
