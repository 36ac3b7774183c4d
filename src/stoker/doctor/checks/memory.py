"""Main memory, shared memory, locked memory, and limits that runs hit."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.doctor.checks.base import Found, Limits, check, fail, fine, info, seen, unsure, warn
from stoker.host.snapshot import Snapshot

GIB = 2**30
LIMITS_FILE = "/proc/self/limits"


def gib(size: float) -> str:
    """Bytes for sentences."""
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / 2**20:.0f} MiB"


@check("shared-memory", needs=("disks.mounts",))
def shared_memory(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Ranks and data loaders exchange data in /dev/shm."""
    shm = machine.disks.mount("/dev/shm")
    if shm is None:
        yield fail("container-shm-too-small", "There is no /dev/shm.", seen("/proc/self/mounts", "no line of /dev/shm"))
        return
    if shm.size is None or shm.free is None:
        yield unsure("df did not say how large /dev/shm is")
        return
    text = seen("df /dev/shm", f"{gib(shm.size)} in all, {gib(shm.free)} free")
    if shm.size < limits["least_bytes"]:
        make = fail if machine.container.kind else warn
        yield make("container-shm-too-small", f"/dev/shm has {gib(shm.size)}.", text)
    elif shm.free < shm.size * limits["free"]:
        yield warn(
            "container-shm-too-small", f"/dev/shm is nearly full: {gib(shm.free)} of {gib(shm.size)} are free.", text
        )


@check("locked-memory", needs=("memory.limits",))
def locked_memory(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """RDMA registers buffers as locked memory."""
    limit = machine.memory.limits.memlock
    if not machine.network.ports:
        yield fine("There is no RDMA card that would need locked memory.")
    elif limit is not None and 0 <= limit < limits["bytes"]:
        yield warn(
            "memlock-limit-too-low",
            f"The limit on locked memory is {limit // 1024} KiB.",
            seen(LIMITS_FILE, f"Max locked memory {limit}"),
        )


@check("open-files", needs=("memory.limits",))
def open_files(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Data loaders and NCCL open many files and sockets."""
    limit = machine.memory.limits.files
    if limit is not None and 0 <= limit < limits["least"]:
        yield info(
            "too-many-open-files", f"A process may open {limit} files.", seen(LIMITS_FILE, f"Max open files {limit}")
        )
    used, most = machine.processes.files, machine.processes.files_max
    if used and most and used > most * limits["used"]:
        yield warn(
            "too-many-open-files",
            f"{used} of {most} file handles of the machine are in use.",
            seen("/proc/sys/fs/file-nr", f"{used} 0 {most}"),
        )


@check("process-limit", needs=("memory.limits",))
def process_limit(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Loader workers and threads count against the limits on processes."""
    tasks, most = machine.processes.tasks, machine.processes.tasks_max
    if tasks and most and tasks > most * limits["used"]:
        yield warn(
            "process-limit-near",
            f"{tasks} of {most} threads of the machine are in use.",
            seen("/proc/loadavg, /proc/sys/kernel/pid_max", f"{tasks} of {most}"),
        )
    limit = machine.memory.limits.processes
    if limit is not None and 0 <= limit < limits["least"]:
        yield info(
            "process-limit-near",
            f"A user may have {limit} processes and threads.",
            seen(LIMITS_FILE, f"Max processes {limit}"),
        )


@check("stack-size", needs=("memory.limits",))
def stack_size(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """An unlimited stack makes glibc give new threads 2 MiB, which can be too little for NCCL's."""
    limit = machine.memory.limits.stack
    if limit is not None and (limit < 0 or limit < limits["least_bytes"]):
        shown = "unlimited" if limit < 0 else str(limit)
        yield info(
            "stack-limit-unusual",
            f"The stack limit is {shown}; NCCL is known to work with 8 MiB.",
            seen(LIMITS_FILE, f"Max stack size {shown}"),
        )


@check("remove-ipc", needs=("memory.remove_ipc",))
def remove_ipc(machine: Snapshot) -> Iterator[Found]:
    """Systemd removes a user's shared memory at logout, also that of jobs that go on."""
    if machine.memory.remove_ipc:
        yield info(
            "nccl-shm-removed-by-logind",
            "systemd removes a user's shared memory when the last session ends.",
            seen("logind.conf", machine.memory.remove_ipc_line),
        )


@check("memory-size", needs=("gpu", "memory.total"))
def memory_size(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Checkpoints and offloading pass through main memory."""
    mib = sum(gpu.memory_total_mib or 0 for gpu in machine.gpus.devices)
    total = machine.memory.cgroup_limit or machine.memory.total
    if total is not None and mib and total < mib * 2**20 * limits["of_gpu_memory"]:
        yield info(
            "memory-smaller-than-gpus",
            f"Main memory ({gib(total)}) is smaller than the memory of the GPUs ({gib(mib * 2**20)}).",
            seen("/proc/meminfo", f"MemTotal {total // 1024} kB"),
        )


@check("memory-free", needs=("memory.total",))
def memory_free(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Little memory left, or swap in use, ends in the out-of-memory killer or in crawling."""
    total, available = machine.memory.total, machine.memory.available
    if total and available is not None and available < total * limits["free"]:
        yield warn(
            "memory-nearly-full",
            f"{gib(available)} of {gib(total)} of main memory are available.",
            seen("/proc/meminfo", f"MemAvailable {available // 1024} kB"),
        )
    swap = machine.memory.swap_used
    if swap and swap > limits["swap_bytes"]:
        yield info(
            "memory-swapped", f"{gib(swap)} are swapped out.", seen("/proc/meminfo", f"swap in use {swap // 1024} kB")
        )
    if machine.memory.oom_kills:
        yield warn(
            "host-ram-oom-kill",
            f"The out-of-memory killer ended {machine.memory.oom_kills} processes of this control group.",
            seen("/sys/fs/cgroup/memory.events", f"oom_kill {machine.memory.oom_kills}"),
        )


@check("huge-pages", needs=("memory.total",))
def huge_pages(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Reserved huge pages are lost to everything that does not ask for them."""
    pages, size, total = machine.memory.huge_pages, machine.memory.huge_page_size, machine.memory.total
    if pages and size and total and pages * size > total * limits["of_memory"]:
        yield warn(
            "huge-pages-reserved",
            f"{gib(pages * size)} of {gib(total)} are reserved as huge pages.",
            seen("/proc/meminfo", f"HugePages_Total {pages}"),
        )
