# ruff: noqa: E501 - a case is a line
"""Every check finds what it is for: each case changes one thing of a healthy simulated machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stoker.doctor.build import read_causes
from stoker.doctor.checks.base import CHECKS
from stoker.doctor.checks.run import examine
from stoker.doctor.checks.show import render_text
from stoker.host.plain import from_plain, to_plain
from stoker.host.probes.bmc import Sensor
from stoker.host.probes.boot import DkmsModule
from stoker.host.probes.disks import Mount, Raid
from stoker.host.probes.network import Gid, Interface
from stoker.host.probes.processes import Process
from stoker.host.probes.python import PythonEnvironment
from stoker.host.probes.services import Service
from stoker.host.probes.settings import Setting
from stoker.host.probes.slurm import GresLine
from stoker.host.probes.upgrades import Change
from stoker.host.snapshot import Snapshot, read_snapshot
from stoker.host.tree import Tree
from tests.doctor.machines.catalogue import MACHINES

Change_ = Callable[[Snapshot], Snapshot]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Snapshot]:
    """Machines without a finding, by the letter that a case names."""
    names = {"a": "8xA100-NVSwitch", "h": "8xH100-8-NICs", "x": "link-at-x4", "g": "2x4090"}
    found = {
        key: read_snapshot(Tree(MACHINES[name]().write(tmp_path_factory.mktemp(key)))) for key, name in names.items()
    }
    found["x"] = card(1, width=16)(found["x"])
    return found


def part(section: str, **values: Any) -> Change_:
    """Change fields of a section."""
    return lambda one: replace(one, **{section: replace(getattr(one, section), **values)})


def gpu(number: int = 1, **values: Any) -> Change_:
    """Change fields of a GPU."""

    def change(one: Snapshot) -> Snapshot:
        devices = [replace(gpu, **values) if gpu.index == number else gpu for gpu in one.gpus.devices]
        return replace(one, gpus=replace(one.gpus, devices=tuple(devices)))

    return change


def card(number: int = 1, **values: Any) -> Change_:
    """Change fields of a card on the bus."""

    def change(one: Snapshot) -> Snapshot:
        address = one.pci.gpus()[number].address
        devices = [replace(device, **values) if device.address == address else device for device in one.pci.devices]
        return replace(one, pci=replace(one.pci, devices=tuple(devices)))

    return change


def bridges(**values: Any) -> Change_:
    def change(one: Snapshot) -> Snapshot:
        devices = [replace(device, **values) if device.role == "bridge" else device for device in one.pci.devices]
        return replace(one, pci=replace(one.pci, devices=tuple(devices)))

    return change


def port(number: int = 1, **values: Any) -> Change_:
    def change(one: Snapshot) -> Snapshot:
        ports = [replace(port, **values) if at == number else port for at, port in enumerate(one.network.ports)]
        return replace(one, network=replace(one.network, ports=tuple(ports)))

    return change


def unit(name: str, **values: Any) -> Change_:
    def change(one: Snapshot) -> Snapshot:
        units = dict(one.services.units or {})
        units[name] = replace(units.get(name, Service(name, "active", enabled="enabled")), **values)
        return replace(one, services=replace(one.services, units=units))

    return change


def without_gpus(**values: Any) -> Change_:
    """No GPU answers."""
    return lambda one: replace(
        one,
        gpus=replace(one.gpus, devices=(), **values),
        unknown=one.unknown | {"gpus.devices": values.get("error", "x")},
    )


def setting(name: str, value: str) -> Change_:
    def change(one: Snapshot) -> Snapshot:
        settings = (*one.settings.settings, Setting(name, value, "environment"))
        return replace(one, settings=replace(one.settings, settings=settings))

    return change


def log(*lines: str) -> Change_:
    return lambda one: replace(one, kernel_log=replace(one.kernel_log, lines=(*one.kernel_log.lines, *lines)))


def mount(path: str, **values: Any) -> Change_:
    def change(one: Snapshot) -> Snapshot:
        others = tuple(mount for mount in one.disks.mounts if mount.path != path)
        made = replace(Mount(path, "/dev/sdx1", "ext4", "rw", 10**12, 10**11, 10**6, 10**5), **values)
        return replace(one, disks=replace(one.disks, mounts=(*others, made)))

    return change


def matrix(name: str, cells: Callable[[str, str, str], str]) -> Change_:
    """Change the cells of a matrix of topo."""

    def change(one: Snapshot) -> Snapshot:
        found = getattr(one.links, name)
        rows = {row: {to: cells(row, to, cell) for to, cell in columns.items()} for row, columns in found.rows.items()}
        return replace(one, links=replace(one.links, **{name: replace(found, rows=rows)}))

    return change


def python(**values: Any) -> Change_:
    environment = PythonEnvironment(executable="/opt/venv/bin/python", prefix="/opt/venv")
    return part("python", environments=(replace(environment, **values),))


def unknown(**reasons: str) -> Change_:
    return lambda one: replace(
        one, unknown=one.unknown | {key.replace("__", "."): value for key, value in reasons.items()}
    )


def both(*changes: Change_) -> Change_:
    def change(one: Snapshot) -> Snapshot:
        for each in changes:
            one = each(one)
        return one

    return change


KERNEL = "6.8.0-87-generic"
SLURM = part("slurm", version="24.11.5", gres_path="/etc/slurm/gres.conf", constrain_devices=True, state="IDLE")
CONTAINER = part("container", kind="docker")
TREMBLING = {"CRC FLIT Error": 3}
HISTORY = Change("2026-11-28 06:12", "upgrade", "nvidia-utils-580", "1", "2", "unattended-upgrade", "history.log", 4)

CASES: list[tuple[str, str, str, str, Change_]] = [
    # check, cause, state, machine, change
    ("driver-running", "nvidia-driver-not-installed", "fail", "g", both(without_gpus(), part("modules", loaded=(), nvidia=None), part("driver", loaded="", libraries={}, packages=()))),
    ("driver-running", "nvidia-driver-not-loaded", "fail", "g", both(without_gpus(), part("modules", loaded=()))),
    ("driver-running", "no-devices-found", "fail", "g", without_gpus(error="No devices were found")),
    ("driver-running", "nvidia-smi-hangs", "fail", "g", without_gpus(error="nvidia-smi did not answer within 20 s")),
    ("driver-library", "driver-library-mismatch", "fail", "g", part("driver", libraries={"libcuda.so": ("580.105.08",)})),
    ("driver-library", "driver-libraries-of-two-versions", "warn", "g", part("driver", libraries={"libcuda.so": ("580.95.05", "570.1.2")})),
    ("nouveau", "nouveau-bound-gpu", "fail", "g", card(driver="nouveau")),
    ("nouveau", "nova-core-bound-gpu", "fail", "g", card(driver="nova_core")),
    ("nouveau", "gpu-bound-to-vfio", "info", "g", card(driver="vfio-pci")),
    ("secure-boot", "secure-boot-rejects-module", "fail", "g", both(part("secure_boot", enabled=True), part("modules", loaded=()), log("kernel: Loading of module with unavailable key is rejected"), lambda one: replace(one, modules=replace(one.modules, nvidia=replace(one.modules.nvidia, signer=""))))),
    ("dkms", "dkms-module-missing", "fail", "g", both(part("modules", loaded=()), part("dkms", modules=(DkmsModule("nvidia", "580.95.05", state="added", line="nvidia/580.95.05: added"),)))),
    ("next-kernel", "driver-missing-for-next-kernel", "warn", "g", part("system", kernels=(KERNEL, "6.8.0-101-generic"))),
    ("kernel-headers", "kernel-headers-missing", "warn", "g", part("dkms", headers=False)),
    ("module-flavour", "gpu-unsupported-by-open-module", "fail", "g", card(device="15f8")),
    ("module-flavour", "open-kernel-module-required", "fail", "g", both(card(device="2b85"), part("driver", flavour="proprietary"))),
    ("driver-branch", "driver-branch-ended", "warn", "g", part("driver", loaded="470.256.02")),
    ("driver-knows-card", "driver-release-does-not-support-gpu", "fail", "g", both(card(device="2b85"), part("driver", loaded="550.54.15"))),
    ("driver-upgrades", "driver-upgraded-unattended", "warn", "g", part("upgrades", unattended=True, changes=(HISTORY,))),
    ("persistence", "persistence-mode-off", "warn", "g", gpu(persistence=False)),
    ("fabric-manager", "fabric-manager-not-running", "fail", "a", unit("nvidia-fabricmanager", active="failed")),
    ("fabric-manager", "fabric-manager-needless", "warn", "g", unit("nvidia-fabricmanager", active="failed")),
    ("fabric-manager-version", "fabric-manager-version-mismatch", "fail", "a", part("services", fabric_manager="570.1.2")),
    ("fabric-state", "fabric-manager-not-running", "fail", "h", gpu(fabric_state="In Progress")),
    ("imex", "imex-not-running", "warn", "a", unit("nvidia-imex", active="failed")),
    ("gpu-count", "gpu-fallen-off-bus", "fail", "a", part("gpus", lost={"0000:07:00.0": "GPU is lost"})),
    ("gpu-count", "rm-init-adapter-failed", "fail", "a", lambda one: replace(one, gpus=replace(one.gpus, devices=one.gpus.devices[1:]))),
    ("gpu-answers", "gpu-reports-err", "fail", "a", gpu(broken=("Fan Speed",))),
    ("recovery-action", "xid-154-recovery-action", "fail", "a", gpu(recovery_action="Reset")),
    ("ecc-errors", "uncorrectable-ecc-error", "fail", "a", gpu(ecc_volatile=2)),
    ("ecc-errors", "xid-172-sram-uncorrectable", "fail", "a", gpu(sram_threshold_exceeded=True)),
    ("ecc-mode", "ecc-disabled", "warn", "a", gpu(ecc=False, ecc_pending=False)),
    ("ecc-mode", "ecc-change-pending", "info", "a", gpu(ecc_pending=False)),
    ("row-remap", "row-remap-failed", "fail", "a", gpu(remap_failure=True)),
    ("row-remap", "row-remap-pending-reset", "fail", "a", gpu(remap_pending=True)),
    ("retired-pages", "row-remap-pending-reset", "fail", "a", gpu(retired_pending=True)),
    ("retired-pages", "row-remap-failed", "fail", "a", gpu(retired_pages=60)),
    ("memory-repair", "row-remap-failed", "fail", "a", gpu(unrepairable=True)),
    ("memory-repair", "row-remap-pending-reset", "fail", "a", gpu(repair_pending=True)),
    ("temperature", "gpu-thermal-throttling", "warn", "h", gpu(margin_c=4.0)),
    ("temperature", "gpu-thermal-throttling", "warn", "a", gpu(temperature_c=94.0)),
    ("memory-temperature", "gpu-thermal-throttling", "warn", "a", gpu(memory_temperature_c=96.0)),
    ("clock-events", "power-brake-asserted-by-server", "fail", "a", gpu(clock_reasons=("hw_slowdown", "hw_power_brake"))),
    ("clock-events", "power-brake-asserted-by-server", "fail", "a", gpu(clock_reasons=("hw_slowdown",))),
    ("clock-events", "gpu-thermal-throttling", "warn", "a", gpu(clock_reasons=("sw_thermal_slowdown",))),
    ("thermal-limit", "thermal-limit-lowered-by-platform", "fail", "a", gpu(max_operating_c=45.0)),
    ("power-limit", "power-limit-lowered", "warn", "a", gpu(power_limit_w=300.0)),
    ("clocks", "clocks-low-under-load", "warn", "a", gpu(utilization=100.0, clock_sm_mhz=600.0, clock_reasons=())),
    ("gpus-alike", "gpus-differ", "info", "a", gpu(name="NVIDIA A100-PCIE-40GB")),
    ("gpus-alike", "gpus-differ", "info", "a", gpu(vbios="92.00.19.00.01")),
    ("compute-mode", "compute-mode-not-default", "info", "a", gpu(compute_mode="Exclusive_Process")),
    ("compute-mode", "compute-mode-not-default", "fail", "a", gpu(compute_mode="Prohibited")),
    ("mig", "mig-change-pending", "warn", "a", gpu(mig_pending=True)),
    ("mig", "mig-without-instances", "fail", "a", gpu(mig=True, mig_pending=True)),
    ("gpu-memory-held", "gpu-memory-held-by-nobody", "warn", "a", gpu(memory_used_mib=30000.0)),
    ("pcie-width", "pcie-link-degraded", "warn", "a", card(width=8)),
    ("pcie-width", "pcie-slot-narrow", "info", "a", both(bridges(width_max=4), card(0, width=4), card(width=4))),
    ("pcie-generation", "pcie-link-degraded", "warn", "a", gpu(generation=1, utilization=90.0, performance_state="P0")),
    ("pcie-generation", "pcie-slot-slow", "info", "a", gpu(host_generation_max=3, device_generation_max=4)),
    ("pcie-errors", "pcie-link-degraded", "warn", "a", card(correctable=5000)),
    ("pcie-errors", "pcie-link-degraded", "fail", "a", card(uncorrectable=1)),
    ("pcie-errors", "pcie-link-degraded", "warn", "a", gpu(replays=100000)),
    ("pci-windows", "pci-bar-allocation-failed", "fail", "a", card(unassigned=(1,))),
    ("pci-windows", "bar1-small", "info", "a", gpu(bar1_total_mib=256.0)),
    ("p2p", "nvlink-p2p-refused", "fail", "a", matrix("p2p_read", lambda row, to, cell: "NS" if {row, to} == {"GPU0", "GPU1"} else cell)),
    ("p2p", "p2p-refused", "warn", "x", matrix("p2p_read", lambda row, to, cell: cell if row == to else "CNS")),
    ("acs", "p2p-broken-by-iommu-acs", "warn", "a", bridges(redirects=True)),
    ("iommu", "iommu-translates", "warn", "a", part("pci", iommu_types=("DMA-FQ",))),
    ("sockets", "gpu-pair-spans-sockets", "info", "x", matrix("topology", lambda row, to, cell: cell if row == to else "SYS")),
    ("nvlink", "nvlink-links-inactive", "fail", "a", lambda one: replace(one, links=replace(one.links, nvlinks=tuple(replace(link, speed_gb_s=None) if (link.gpu, link.link) == (2, 3) else link for link in one.links.nvlinks)))),
    ("nvlink-errors", "nvlink-errors", "warn", "a", lambda one: replace(one, links=replace(one.links, nvlinks=tuple(replace(link, errors=TREMBLING) for link in one.links.nvlinks[:1])))),
    ("gpu-nic", "gpu-far-from-nic", "warn", "a", matrix("topology", lambda row, to, cell: "SYS" if row == "GPU2" and to.startswith("NIC") else cell)),
    ("numa", "gpu-without-numa-node", "warn", "a", card(numa=None)),
    ("rdma-ports", "rdma-port-not-active", "fail", "a", port(state="INIT")),
    ("rdma-ports", "rdma-port-not-active", "warn", "a", port(state="DOWN", physical="Polling")),
    ("rdma-rate", "rdma-port-slow", "warn", "a", port(rate=100.0)),
    ("rdma-errors", "nic-fabric-event", "warn", "a", port(counters={"link_downed": 4})),
    ("roce-addresses", "roce-gid-index-wrong", "warn", "a", port(layer="Ethernet", gids=(Gid(0, "fe80::1", "RoCE v2"), Gid(1, "fe80::1", "IB/RoCE v1")))),
    ("gpudirect", "gpudirect-rdma-not-enabled", "warn", "a", both(part("modules", loaded=("nvidia",)), part("driver", flavour="proprietary"))),
    ("interfaces", "no-usable-network-interface-in-container", "info", "a", part("network", interfaces=(Interface("docker0", "up", virtual=True),))),
    ("interface-speed", "interface-slow", "warn", "a", part("network", interfaces=(Interface("eno1", "up", speed=100, addresses=("10.0.0.1/24",)),))),
    ("container-devices", "container-without-gpu-devices", "fail", "a", part("container", kind="docker", nodes=())),
    ("container-devices", "container-no-driver-on-host", "fail", "a", both(CONTAINER, part("modules", loaded=()), part("driver", loaded=""))),
    ("container-devices", "container-lost-gpu-after-daemon-reload", "fail", "a", both(CONTAINER, lambda one: replace(one, container=replace(one.container, nodes=tuple(replace(node, opens=False, reason="operation not permitted") for node in one.container.nodes))))),
    ("container-libraries", "libnvidia-ml-missing-in-container", "fail", "a", both(CONTAINER, part("driver", libraries={}))),
    ("container-toolkit", "nvidia-container-toolkit-missing", "warn", "a", both(part("container", toolkit=""), part("driver", packages=()))),
    ("container-toolkit", "nvidia-container-toolkit-missing", "warn", "a", part("container", runtimes=(), cdi=None)),
    ("container-toolkit", "docker-settings-broken", "fail", "a", part("container", daemon_json_error="Expecting value")),
    ("container-daemon-reload", "container-lost-gpu-after-daemon-reload", "info", "a", part("container", cdi=None)),
    ("cdi", "cdi-device-unresolvable", "warn", "a", part("container", cdi={"/etc/cdi/nvidia.yaml": ("nvidia.com/gpu=0", "nvidia.com/gpu=all")})),
    ("container-toolkit-version", "container-toolkit-old", "info", "a", part("container", toolkit="1.14.6")),
    ("slurm-node", "slurm-node-drained", "fail", "a", both(SLURM, part("slurm", state="IDLE+DRAIN", reason="Kill task failed"))),
    ("slurm-node", "slurm-node-drained", "fail", "a", both(SLURM, unit("slurmd", active="failed"))),
    ("slurm-node", "slurm-gres-count-lower-than-configured", "fail", "a", both(SLURM, part("slurm", state="DOWN+DRAIN", reason="gres/gpu count reported lower than configured (7 < 8)"))),
    ("slurm-gpus", "slurm-gres-device-file-missing", "fail", "a", both(SLURM, part("slurm", gres=(GresLine("Name=gpu File=/dev/nvidia8", 1, files=("/dev/nvidia8",)),)))),
    ("slurm-gpus", "slurm-gres-count-lower-than-configured", "fail", "a", both(SLURM, part("slurm", configured=9))),
    ("slurm-cgroup", "slurm-cgroup-v2-plugin-missing", "fail", "a", both(SLURM, part("slurm", version="21.08.5"))),
    ("slurm-cgroup", "slurm-devices-unconstrained", "warn", "a", both(SLURM, part("slurm", constrain_devices=False))),
    ("slurm-memlock", "memlock-limit-too-low", "warn", "a", unit("slurmd", memlock=65536)),
    ("torch-build", "torch-is-cpu-build", "fail", "a", python(torch="2.11.0+cpu")),
    ("torch-driver", "driver-too-old-for-cuda", "fail", "a", both(python(torch="2.11.0+cu130", torch_cuda="13.0"), part("driver", loaded="535.274.02"))),
    ("torch-architectures", "torch-wheel-lacks-gpu-arch", "fail", "a", both(python(torch="2.6.0+cu124", torch_cuda="12.4"), card(device="2b85"))),
    ("torchvision", "torch-torchvision-version-mismatch", "fail", "a", python(torch="2.6.0+cu124", torch_cuda="12.4", packages={"torchvision": "0.14.0"})),
    ("cuda-libraries", "cuda-wheel-libs-conflict", "warn", "a", python(packages={"nvidia-cudnn-cu12": "9", "nvidia-cudnn-cu13": "9"})),
    ("python-packages", "python-packages-broken", "warn", "a", python(leftovers=("/opt/venv/lib/~orch",))),
    ("library-path", "ld-library-path-shadows-wheel-libs", "warn", "a", both(python(torch="2.11.0", packages={"nvidia-nccl-cu13": "2.28"}), setting("LD_LIBRARY_PATH", "/usr/local/cuda-11.8/lib64"))),
    ("nvml-package", "pynvml-twice", "info", "a", python(packages={"pynvml": "11.5.0", "nvidia-ml-py": "13.580.65"})),
    ("variable-names", "variable-misspelt", "warn", "a", setting("NCCL_SOCKET_IFNAMES", "eno1")),
    ("variable-names", "variable-unknown", "info", "a", setting("NCCL_ZZZ_QQQ", "1")),
    ("variable-past", "variable-of-the-past", "warn", "a", setting("NCCL_IB_CUDA_SUPPORT", "1")),
    ("variable-past", "variable-of-the-past", "info", "a", setting("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")),
    ("variable-leftovers", "variable-left-over", "warn", "a", setting("NCCL_P2P_DISABLE", "1")),
    ("nccl-tuning", "nccl-tuning-pinned", "info", "a", setting("NCCL_ALGO", "Ring")),
    ("nccl-levels", "nccl-level-invalid", "fail", "a", setting("NCCL_P2P_LEVEL", "NVLINK")),
    ("nccl-levels", "nccl-level-number", "info", "a", setting("NCCL_P2P_LEVEL", "3")),
    ("nccl-interface", "nccl-socket-ifname-wrong", "fail", "a", setting("NCCL_SOCKET_IFNAME", "ib0")),
    ("nccl-hca", "nccl-hca-wrong", "fail", "a", setting("NCCL_IB_HCA", "mlx4")),
    ("nccl-hca", "nccl-hca-wrong", "fail", "a", both(port(state="DOWN"), setting("NCCL_IB_HCA", "=mlx5_1:1"))),
    ("nccl-gid-index", "roce-gid-index-wrong", "fail", "a", setting("NCCL_IB_GID_INDEX", "3")),
    ("nccl-gid-index", "nccl-gid-index-pinned", "info", "a", setting("NCCL_IB_GID_INDEX", "0")),
    ("visible-devices", "visible-devices-wrong", "fail", "a", setting("CUDA_VISIBLE_DEVICES", "0,8")),
    ("visible-devices", "visible-devices-wrong", "fail", "a", setting("CUDA_VISIBLE_DEVICES", "0,0")),
    ("visible-devices", "visible-devices-wrong", "warn", "a", setting("CUDA_VISIBLE_DEVICES", "")),
    ("allocator-settings", "allocator-settings-invalid", "fail", "a", setting("PYTORCH_ALLOC_CONF", "expandable_segments=True")),
    ("shared-memory", "container-shm-too-small", "warn", "a", mount("/dev/shm", kind="tmpfs", size=2**26, free=2**26)),
    ("shared-memory", "container-shm-too-small", "fail", "a", both(CONTAINER, mount("/dev/shm", kind="tmpfs", size=2**26, free=2**26))),
    ("shared-memory", "container-shm-too-small", "warn", "a", mount("/dev/shm", kind="tmpfs", size=2**36, free=2**20)),
    ("locked-memory", "memlock-limit-too-low", "warn", "a", lambda one: replace(one, memory=replace(one.memory, limits=replace(one.memory.limits, memlock=65536)))),
    ("open-files", "too-many-open-files", "info", "a", lambda one: replace(one, memory=replace(one.memory, limits=replace(one.memory.limits, files=1024)))),
    ("open-files", "too-many-open-files", "warn", "a", part("processes", files=95, files_max=100)),
    ("process-limit", "process-limit-near", "warn", "a", part("processes", tasks=90, tasks_max=100)),
    ("process-limit", "process-limit-near", "info", "a", lambda one: replace(one, memory=replace(one.memory, limits=replace(one.memory.limits, processes=1024)))),
    ("stack-size", "stack-limit-unusual", "info", "a", lambda one: replace(one, memory=replace(one.memory, limits=replace(one.memory.limits, stack=-1)))),
    ("remove-ipc", "nccl-shm-removed-by-logind", "info", "a", part("memory", remove_ipc=True, remove_ipc_line="RemoveIPC=yes")),
    ("memory-size", "memory-smaller-than-gpus", "info", "a", part("memory", total=2**36)),
    ("memory-free", "memory-nearly-full", "warn", "a", part("memory", available=2**30)),
    ("memory-free", "memory-swapped", "info", "a", part("memory", swap_used=2**35)),
    ("memory-free", "host-ram-oom-kill", "warn", "a", part("memory", oom_kills=1)),
    ("huge-pages", "huge-pages-reserved", "warn", "a", part("memory", huge_pages=800000)),
    ("cpu-affinity", "process-pinned-to-one-core", "warn", "a", part("cpu", allowed="3")),
    ("cpu-affinity", "process-may-use-some-cpus", "info", "a", part("cpu", allowed="0-15,64-79")),
    ("cpu-quota", "num-workers-exceeds-cpus", "warn", "a", part("cpu", quota=4.0)),
    ("numa-affinity", "process-on-one-numa-node", "info", "a", part("cpu", allowed="0-63")),
    ("cpu-governor", "cpu-saves-power", "info", "a", part("cpu", governor="powersave")),
    ("numa-balancing", "numa-balancing-on", "info", "a", part("cpu", numa_balancing=True)),
    ("disk-space", "disk-full", "fail", "a", mount("/data", free=10**6)),
    ("disk-space", "disk-full", "warn", "a", mount("/data", free=10**10)),
    ("inodes", "disk-full", "warn", "a", mount("/data", inodes_free=100)),
    ("read-only", "storage-io-error", "fail", "a", mount("/data", options="ro,relatime")),
    ("network-mounts", "network-mount-silent", "fail", "a", both(mount("/nfs", kind="nfs4", size=None, free=None), unknown(disks__network_mounts="df did not answer within 5 s"))),
    ("raid", "raid-degraded", "warn", "a", part("disks", raids=(Raid("md0", "active", 2, 1, "[2/1] [U_]"),))),
    ("xid", "xid-74-nvlink-error", "fail", "a", log("NVRM: Xid (PCI:0000:07:00): 74, pid=1, NVLink: fatal error detected on link 3")),
    ("sxid", "nvswitch-sxid", "fail", "a", log("nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up")),
    ("sxid", "nvswitch-sxid", "warn", "a", log("nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error")),
    ("oom-kills", "host-ram-oom-kill", "warn", "a", log("Out of memory: Killed process 4242 (python) total-vm:1kB")),
    ("hung-tasks", "process-stuck-in-kernel", "warn", "a", log("INFO: task python:4242 blocked for more than 120 seconds.")),
    ("storage-errors", "storage-io-error", "fail", "a", log("blk_update_request: I/O error, dev nvme1n1, sector 2048")),
    ("nccl-crash", "nccl-crashed", "warn", "a", log("python[4242]: segfault at 8 ip 00007f sp 00007f error 4 in libnccl.so.2[7f0000+1000]")),
    ("pcie-log", "pcie-link-degraded", "warn", "a", log(*["pcieport 0000:06:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer"] * 6)),
    ("machine-checks", "machine-check", "warn", "a", log("[Hardware Error]: Corrected error, no action required.")),
    ("machine-checks", "machine-check", "fail", "a", log("[Hardware Error]: Uncorrected error")),
    ("firmware-windows", "pci-bar-allocation-failed", "warn", "a", log("pci 0000:07:00.0: BAR 1: can't assign; no space")),
    ("clock", "clock-not-synchronized", "warn", "a", part("services", clock_synchronized=False, clock_line="NTPSynchronized=no")),
    ("clock", "clock-not-synchronized", "warn", "a", part("services", clock_offset_s=-2.0)),
    ("stuck-processes", "nvidia-smi-hangs", "fail", "a", part("processes", stuck=(Process(42, "D", "nv_ioctl", 600, "python"),))),
    ("stuck-processes", "process-stuck-in-kernel", "info", "a", part("processes", stuck=(Process(42, "D", "rpc_wait_bit", 600, "ls"),))),
    ("stuck-processes", "zombie-processes", "info", "a", part("processes", stuck=(Process(42, "Z", "-", 600, "python"),) * 101)),
    ("reboot", "reboot-required", "info", "a", part("system", reboot_required=True)),
    ("fans-and-power", "fan-or-supply-failed", "fail", "a", part("bmc", sensors=(Sensor("PS2 Status", "cr", "Power Supply AC lost"),))),
    ("bmc-events", "bmc-hardware-event", "warn", "a", part("bmc", events=("1 | 11/30/2026 | Memory | Uncorrectable ECC | Asserted",))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "cause", "state", "machine", "change"), CASES, ids=[f"{c[0]}-{c[1]}-{n}" for n, c in enumerate(CASES)]
)
def test_a_check_finds_what_it_is_for(
    name: str, cause: str, state: str, machine: str, change: Change_, healthy: dict[str, Snapshot]
) -> None:
    before = examine(healthy[machine], [name]).of("fail", "warn")
    assert before == (), "the healthy machine has this finding already"
    changed = change(healthy[machine])
    found = [one.finding for one in examine(changed, [name]).verdicts if one.finding.cause]
    assert (cause, state) in [(one.cause, one.state) for one in found]
    for one in found:
        assert one.title.endswith(".")
        assert one.evidence
        assert [step for step in (*one.fix, one.confirm) if re.search(r"\{[a-z_]+\}", step)] == [], (
            "a placeholder is left"
        )
        assert one.fix or one.state == "info"
    assert from_plain(Snapshot, to_plain(changed)) == changed


@pytest.mark.parametrize("number", range(2))
def test_every_fault_that_the_log_reader_knows_in_a_kernel_log_ends_in_a_fix(
    number: int, healthy: dict[str, Snapshot]
) -> None:
    """Each sample of the hardware and driver causes, as if it stood in the kernel's log."""
    found: set[str] = set()
    for cause in read_causes():
        samples = [sample for sample in cause["positive"] if isinstance(sample, str)]
        if cause["family"] not in ("hardware", "driver") or len(samples) <= number:
            continue
        changed = log(*samples[number].splitlines())(healthy["a"])
        for one in examine(changed, ["xid"]).of("fail", "warn", "info"):
            found.add(one.finding.cause)
            assert [step for step in one.finding.fix if re.search(r"\{[a-z_]+\}", step)] == [], one.finding.cause
            assert one.finding.fix
    assert len(found) > 50


def test_what_a_machine_says_cannot_steer_the_terminal(healthy: dict[str, Snapshot]) -> None:
    """A bundle can come from anywhere."""
    changed = setting("NCCL_SOCKET_IFNAME", "eth\x1b[2J\x07")(healthy["a"])
    changed = unknown(memory__limits="no\x1b]0;x\x07")(changed)
    text = render_text(examine(changed))
    assert "NCCL_SOCKET_IFNAME=eth names no interface" in text
    assert not set("\x1b\x07") & set(text)


def test_every_check_has_a_case() -> None:
    by_itself = {"gpu-processes"}  # in the simulated machine with thermal throttling
    assert {case[0] for case in CASES} | by_itself == set(CHECKS)
