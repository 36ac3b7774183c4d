"""The simulated machines by name, and what each is."""

from __future__ import annotations

from collections.abc import Callable

from tests.doctor.machines.build import Machine
from tests.doctor.machines.smi import Card


def _buses(count: int, first: int = 0x07, step: int = 0x08) -> list[str]:
    return [f"0000:{first + step * number:02x}:00.0" for number in range(count)]


def _all(way: str, count: int, nics: int = 0, near: str = "PXB") -> list[list[str]]:
    """Every GPU reaches every other one so; GPU n has NIC n near it."""
    return [[way] * count + [near if nic == gpu else "SYS" for nic in range(nics)] for gpu in range(count)]


def a100_nvswitch() -> Machine:
    """8 x A100 SXM behind 6 NVSwitches, two sockets, 8 InfiniBand cards: healthy."""
    machine = Machine()
    machine.processors("AMD EPYC 7742 64-Core Processor", 2, 64, nodes=2)
    machine.memory(2048)
    machine.cards = [
        Card(bus, "NVIDIA A100-SXM4-80GB", "NVIDIA", "Ampere", "20b2", 81920, 400, hbm=41, nvlinks=12, node=number // 4,
             current_generation=4, state="P0")
        for number, bus in enumerate(_buses(8))
    ]  # fmt: skip
    machine.install_driver()
    machine.put_cards()
    machine.put_switches(6, "1af1")
    names = machine.put_nics(8, "101b", "200")
    machine.modules.append("nvidia_peermem")
    machine.smi()
    machine.topo(_all("NV12", 8, nics=8), "OK", names, ["0-63"] * 4 + ["64-127"] * 4)
    return machine


def h100_eight_nics() -> Machine:
    """8 x H100 SXM with 8 x 400 Gb/s InfiniBand and temperature margins in place of degrees: healthy."""
    machine = Machine()
    machine.processors("Intel(R) Xeon(R) Platinum 8480C", 2, 56, nodes=2)
    machine.memory(2048)
    machine.cards = [
        Card(bus, "NVIDIA H100 80GB HBM3", "NVIDIA", "Hopper", "2330", 81559, 700, generation=5, current_generation=5,
             state="P0", temperature=41, margin=46, hbm=48, clock=345, clock_max=1980, fabric="Completed", nvlinks=18,
             nvlink_speed="26.562 GB/s", node=number // 4)
        for number, bus in enumerate(_buses(8))
    ]  # fmt: skip
    machine.install_driver()
    machine.put_cards()
    machine.put_switches(4, "22a3")
    names = machine.put_nics(8, "1021", "400")
    machine.smi()
    machine.topo(_all("NV18", 8, nics=8, near="PIX"), "OK", names, ["0-55"] * 4 + ["56-111"] * 4)
    return machine


def rtx3090_pcie() -> Machine:
    """4 x RTX 3090 without bridges: GeForce has no peer-to-peer over PCIe, and an old VBIOS no resizable BAR."""
    machine = Machine()
    machine.cards = [
        Card(bus, "NVIDIA GeForce RTX 3090", "GeForce", "Ampere", "2204", 24576, 350, ecc="N/A", slowdown=95, bar1=256,
             clock_max=2100, nvlinks=4, nvlink_speed="<inactive>")
        for bus in _buses(4)
    ]  # fmt: skip
    machine.install_driver()
    machine.put_cards(iommu="DMA-FQ")
    machine.smi()
    machine.topo(_all("NODE", 4), "CNS")
    return machine


def rtx4090_pair() -> Machine:
    """2 x RTX 4090 at 8 lanes each, as boards for desktops give them: nothing is wrong."""
    machine = Machine()
    machine.memory(128)
    machine.cards = [
        Card(bus, "NVIDIA GeForce RTX 4090", "GeForce", "Ada Lovelace", "2684", 24564, 450, ecc="Disabled",
             slowdown=None,
             width=8, slot_width=8, bar1=32768, clock_max=3105)
        for bus in _buses(2)
    ]  # fmt: skip
    machine.install_driver()
    machine.put_cards()
    machine.smi()
    machine.topo(_all("PHB", 2), "CNS")
    return machine


def t4_vm() -> Machine:
    """1 x T4 passed through to a virtual machine, with a driver of a branch that ended."""
    machine = Machine(driver="535.274.02")
    machine.flavour = "proprietary"
    machine.commands["systemd-detect-virt_--vm"] = "kvm\n"
    machine.codes.pop("systemd-detect-virt_--vm")
    machine.unreadable["run:ipmitool_fan"] = ["missing", "ipmitool is not installed"]
    machine.python("2.6.0+cu124", "12.4")
    machine.memory(64)
    machine.cards = [
        Card(
            "0000:05:00.0",
            "Tesla T4",
            "NVIDIA",
            "Turing",
            "1eb8",
            15360,
            70,
            generation=3,
            slowdown=96,
            remap=False,
            bar1=256,
        )
    ]
    machine.install_driver()
    machine.put_cards()
    machine.lists["/sys/class/iommu"] = []
    machine.smi("12.2")
    machine.topo([["X"]], "OK")
    return machine


def gpu_fallen_off() -> Machine:
    """4 x A100 PCIe, one of which fell off the bus: nvidia-smi only says so."""
    machine = Machine()
    machine.cards = [
        Card(bus, "NVIDIA A100-PCIE-40GB", "NVIDIA", "Ampere", "20f1", 40960, 250, hbm=35, current_generation=4)
        for bus in _buses(4)
    ]
    machine.install_driver()
    machine.put_cards()
    lost = machine.cards[2].bus
    machine.smi_fails(f"Unable to determine the device handle for GPU2: {lost.upper()}: Unknown Error\n", 255)
    machine.commands["nvidia-smi_--version"] = f"DRIVER version      : {machine.driver}\nCUDA Version        : 13.0\n"
    machine.log += [
        f"[Mon Nov 30 09:41:12 2026] NVRM: GPU at PCI:{lost[:-2]}: GPU-00000002-0000-0000-0000-000000000000",
        f"[Mon Nov 30 09:41:12 2026] NVRM: Xid (PCI:{lost[:-2]}): 79, pid=42, name=python, GPU has fallen off the bus.",
        f"[Mon Nov 30 09:41:12 2026] NVRM: GPU {lost}: GPU has fallen off the bus.",
    ]
    return machine


def driver_mismatch() -> Machine:
    """2 x RTX A6000 after an unattended upgrade: new libraries, old kernel module."""
    machine = Machine(driver="580.82.07")
    machine.cards = [
        Card(bus, "NVIDIA RTX A6000", "NVIDIA RTX", "Ampere", "2230", 49140, 300, slowdown=98, bar1=65536)
        for bus in _buses(2)
    ]
    machine.install_driver(library="580.95.05")
    machine.put_cards()
    machine.smi_fails("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95\n", 18)
    machine.file(
        "/etc/apt/apt.conf.d/20auto-upgrades",
        'APT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "1";\n',
    )
    machine.file(
        "/etc/apt/apt.conf.d/50unattended-upgrades", 'Unattended-Upgrade::Package-Blacklist {\n//  "linux-";\n};\n'
    )
    machine.file("/var/log/apt/history.log", APT_HISTORY)
    return machine


_FROM_TO = "580.82.07-0ubuntu0.24.04.1, 580.95.05-0ubuntu0.24.04.1"
APT_HISTORY = f"""
Start-Date: 2026-11-28  06:12:33
Commandline: /usr/bin/unattended-upgrade
Upgrade: libnvidia-compute-580:amd64 ({_FROM_TO}), nvidia-utils-580:amd64 ({_FROM_TO})
End-Date: 2026-11-28  06:13:02
"""


def secure_boot_unsigned() -> Machine:
    """1 x RTX 4000 Ada: Secure Boot is on and DKMS built a module without a signature."""
    machine = Machine()
    machine.cards = [
        Card(
            "0000:01:00.0",
            "NVIDIA RTX 4000 Ada Generation",
            "NVIDIA RTX",
            "Ada Lovelace",
            "27b2",
            20475,
            130,
            slowdown=None,
        )
    ]
    machine.install_driver(loaded=False, signer="")
    machine.put_cards(driver="")
    machine.units.pop("nvidia-persistenced")
    machine.files.pop("/var/run/cdi/nvidia.yaml")
    machine.commands["mokutil_--sb-state"] = "SecureBoot enabled\n"
    machine.file("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    machine.file("/sys/module/module/parameters/sig_enforce", "Y\n")
    machine.log.append("[Mon Nov 30 06:00:14 2026] Loading of unsigned module is rejected")
    message = (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        "Make sure that the latest NVIDIA driver is installed and running.\n"
    )
    machine.smi_fails(message, 9)
    return machine


def container_without_devices() -> Machine:
    """A docker container on a host with 4 GPUs, started without --gpus and with the default /dev/shm."""
    machine = Machine()
    machine.cards = [
        Card(bus, "NVIDIA L40S", "NVIDIA", "Ada Lovelace", "26b9", 46068, 350, slowdown=None) for bus in _buses(4)
    ]
    machine.install_driver()
    machine.put_cards()
    machine.dev = ["null", "shm", "zero"]
    machine.lists["/"].append(".dockerenv")
    machine.lists["/usr/lib/x86_64-linux-gnu"] = ["libc.so.6"]
    machine.lists["/usr/bin"] = ["bash", "python3"]
    machine.lists.pop("/lib/modules")
    machine.mounts(shm=64 * 2**20, root="overlay / overlay rw,relatime 0 0")
    for name in (
        "nvidia-smi_-q", "nvidia-smi_--version", "nvidia-smi_topo_-m", "nvidia-smi_topo_-p2p_r",
        "nvidia-smi_topo_-p2p_w", "nvidia-smi_nvlink_-s", "nv-fabricmanager_--version", "modinfo_nvidia",
        "dkms_status", "ipmitool_fan",
    ):  # fmt: skip
        machine.unreadable[f"run:{name}"] = ["missing", f"{name.partition('_')[0]} is not installed"]
    machine.unreadable["run:dmesg_-T"] = ["denied", "operation not permitted"]
    machine.unreadable["run:systemctl_show"] = ["missing", "systemctl is not installed"]
    machine.unreadable["run:timedatectl_show"] = ["missing", "timedatectl is not installed"]
    machine.packages.clear()
    machine.files.pop("/etc/docker/daemon.json")
    machine.files.pop("/var/run/cdi/nvidia.yaml")
    machine.commands.pop("nvidia-ctk_--version")
    return machine


def link_at_x4() -> Machine:
    """2 x L40S, one of which trained to 4 lanes of 16; both rest, so their links are slow, as they should be."""
    machine = Machine()
    machine.cards = [
        Card(bus, "NVIDIA L40S", "NVIDIA", "Ada Lovelace", "26b9", 46068, 350, slowdown=None, bar1=65536)
        for bus in _buses(2)
    ]
    machine.cards[1].width = 4
    machine.install_driver()
    machine.put_cards()
    machine.smi()
    machine.topo(_all("NODE", 2), "OK")
    return machine


def thermal_throttling() -> Machine:
    """4 x A100 PCIe under load, one of which is too hot and has lowered its clocks."""
    machine = Machine()
    machine.cards = [
        Card(bus, "NVIDIA A100-PCIE-40GB", "NVIDIA", "Ampere", "20f1", 40960, 250, hbm=62, temperature=66,
             current_generation=4, state="P0", use=99, clock=1380, reasons=("SW Power Cap",),
             processes=((4000 + number, "/opt/venv/bin/python", 31000),))
        for number, bus in enumerate(_buses(4))
    ]  # fmt: skip
    hot = machine.cards[3]
    hot.temperature, hot.hbm, hot.clock, hot.state = 93, 90, 630, "P2"
    hot.reasons = ("HW Slowdown", "HW Thermal Slowdown")
    machine.install_driver()
    machine.put_cards()
    machine.smi()
    machine.topo(_all("NODE", 4), "OK")
    return machine


MACHINES: dict[str, Callable[[], Machine]] = {
    "8xA100-NVSwitch": a100_nvswitch,
    "4x3090-PCIe": rtx3090_pcie,
    "2x4090": rtx4090_pair,
    "8xH100-8-NICs": h100_eight_nics,
    "T4-in-a-VM": t4_vm,
    "GPU-fallen-off-the-bus": gpu_fallen_off,
    "driver-mismatch": driver_mismatch,
    "Secure-Boot-unsigned-module": secure_boot_unsigned,
    "container-without-devices": container_without_devices,
    "link-at-x4": link_at_x4,
    "thermal-throttling": thermal_throttling,
}
