"""The rest of the machine: clock, stuck processes, reboots that wait, and what the BMC says."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.doctor.checks.base import Found, Limits, check, fail, info, seen, warn
from stoker.host.snapshot import Snapshot


@check("clock", needs=("services.clock_synchronized",))
def clock(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Munge, TLS and the comparison of logs need clocks that agree."""
    services = machine.services
    if services.clock_synchronized is False:
        yield warn(
            "clock-not-synchronized", "Nothing keeps the clock right.", seen("timedatectl show", services.clock_line)
        )
    elif services.clock_offset_s is not None and abs(services.clock_offset_s) > limits["seconds"]:
        yield warn(
            "clock-not-synchronized",
            f"The clock is {services.clock_offset_s:+.2f} s off.",
            seen("chronyc tracking", f"System time {services.clock_offset_s:+.6f} s"),
        )


@check("stuck-processes", needs=("processes.stuck",))
def stuck_processes(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """A process in state D waits in the kernel and cannot be ended."""
    waiting = [
        one
        for one in machine.processes.stuck
        if one.state == "D"
        and (one.seconds or 0) > limits["seconds"]
        and not one.name.startswith(("kworker", "jbd2", "usb-storage"))
    ]
    in_driver = [
        one
        for one in waiting
        if one.waits_in.startswith(("nv", "os_", "rm_", "_nv", "uvm")) or one.name.startswith("nvidia")
    ]
    if in_driver:
        yield fail(
            "nvidia-smi-hangs",
            f"{len(in_driver)} processes hang inside the NVIDIA driver.",
            *(seen("ps", f"{one.pid} D {one.waits_in} {one.name}") for one in in_driver[:3]),
        )
    elif waiting:
        yield info(
            "process-stuck-in-kernel",
            f"{len(waiting)} processes wait in the kernel.",
            *(seen("ps", f"{one.pid} D {one.waits_in} {one.name}") for one in waiting[:3]),
        )
    dead = [one for one in machine.processes.stuck if one.state == "Z"]
    if len(dead) > limits["zombies"]:
        yield info(
            "zombie-processes",
            f"{len(dead)} processes are dead and were not collected.",
            *(seen("ps", f"{one.pid} Z {one.name}") for one in dead[:2]),
        )


@check("reboot", needs=("system.os_id",))
def reboot(machine: Snapshot) -> Iterator[Found]:
    """A package manager that asks for a reboot has changed what a running system still uses."""
    if machine.system.reboot_required:
        yield info("reboot-required", "The package manager asks for a reboot.", seen("/run/reboot-required", "exists"))


@check("fans-and-power", needs=("bmc.sensors",))
def fans_and_power(machine: Snapshot) -> Iterator[Found]:
    """A failed fan or supply shows first at the BMC."""
    bad = [
        one
        for one in machine.bmc.sensors
        if one.status in ("cr", "nr") or "ailure" in one.reading or "lost" in one.reading.lower()
    ]
    if bad:
        yield fail(
            "fan-or-supply-failed",
            f"The BMC reports {bad[0].name} as faulty.",
            *(seen("ipmitool sdr", f"{one.name} {one.status} {one.reading}") for one in bad[:4]),
        )


@check("bmc-events", needs=("bmc.events",))
def bmc_events(machine: Snapshot) -> Iterator[Found]:
    """The machine's own log of hardware events."""
    words = ("Uncorrectable", "Critical", "Failure detected", "Non-recoverable", "Predictive Failure", "AC lost")
    bad = [line for line in machine.bmc.events if any(word in line for word in words) and "Deasserted" not in line]
    if bad:
        yield warn(
            "bmc-hardware-event",
            f"The event log of the BMC holds {len(bad)} serious events.",
            *(seen("ipmitool sel elist", line) for line in bad[-3:]),
        )
