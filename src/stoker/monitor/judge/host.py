"""What is wrong with the machine around its GPUs, and with looking at it."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.monitor.judge.limits import SHM_FULL_RATIO, Limits
from stoker.monitor.judge.verdict import Proof, Verdict
from stoker.monitor.model import MachineSample
from stoker.monitor.watch import HOST


def judge_host(sample: MachineSample, limits: Limits) -> Iterator[Verdict]:
    """All that is wrong with the machine itself."""
    yield from _driver(sample)
    yield from _missing(sample)
    yield from _full(sample, limits)


def _driver(sample: MachineSample) -> Iterator[Verdict]:
    if not sample.exporter.nvml_up and (sample.gpus or sample.host.gpus_on_bus):
        proof = Proof("exporter.nvml_up", 0.0)
        yield Verdict(
            cause="driver-silent", severity="fail", subject=HOST, proofs=(proof,), said=sample.exporter.nvml_error
        )


def _missing(sample: MachineSample) -> Iterator[Verdict]:
    on_bus = sample.host.gpus_on_bus
    if on_bus is not None and sample.exporter.nvml_up and on_bus > len(sample.gpus):
        proofs = (Proof("host.gpus_on_bus", on_bus), Proof("exporter.gpus_seen", float(len(sample.gpus))))
        values = {"missing": f"{on_bus - len(sample.gpus):.0f}"}
        yield Verdict(cause="gpus-missing", severity="fail", subject=HOST, proofs=proofs, values=values)


def _full(sample: MachineSample, limits: Limits) -> Iterator[Verdict]:
    host = sample.host
    size, used = host.shm_size_bytes, host.shm_used_bytes
    if size and used is not None and used >= SHM_FULL_RATIO * size:
        proofs = (Proof("host.shm_used_bytes", used), Proof("host.shm_size_bytes", size))
        yield Verdict(cause="shm-full", severity="warn", subject=HOST, quantity="shm_used_bytes", proofs=proofs)
    for disk in host.filesystems:
        if disk.available_bytes < limits.disk_free_ratio * disk.size_bytes:
            labels = {"mount": disk.mount}
            proofs = (
                Proof("host.filesystems.available_bytes", disk.available_bytes, labels),
                Proof("host.filesystems.size_bytes", disk.size_bytes, labels),
            )
            yield Verdict(
                cause="host-disk-filling", severity="warn", subject=HOST, proofs=proofs, values={"mount": disk.mount}
            )
