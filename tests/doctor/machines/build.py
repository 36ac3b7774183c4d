"""Write simulated machines as trees that `stoker doctor --root` reads.

`python -m tests.doctor.machines.build NAME DIR` writes one.
All of it is simulated: no file was taken from a real machine. The forms are those of the tools and of the kernel.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.doctor.machines.smi import Card, nvlink, p2p, query, topology

TAKEN = "2026-11-30T12:00:00+00:00"
SPEEDS = {1: "2.5 GT/s PCIe", 2: "5.0 GT/s PCIe", 3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}
UBUNTU = ("ubuntu", "24.04", "Ubuntu 24.04.3 LTS", "debian")


class Machine:
    """A healthy Ubuntu server of one socket without GPUs; the methods add and change parts."""

    def __init__(self, *, kernel: str = "6.8.0-87-generic", driver: str = "580.95.05") -> None:
        self.files: dict[str, str] = {}
        self.commands: dict[str, str] = {}
        self.errors: dict[str, str] = {}
        self.index: dict[str, object] = {"taken": TAKEN, "environment": {"PATH": "/usr/bin:/bin"}}
        self.links: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}
        self.codes: dict[str, int] = {}
        self.opens: list[str] = []
        self.unreadable: dict[str, list[str]] = {}
        self.kernel, self.driver = kernel, driver
        self.flavour = "open"
        self.cards: list[Card] = []
        self.modules = ["nvme", "ext4", "mlx5_core"]
        self.log = [f"[Mon Nov 30 06:00:00 2026] Linux version {kernel} (buildd@lcy02)"]
        self.units: dict[str, str] = {"chrony": "active", "docker": "active"}
        self.packages: dict[str, str] = {}
        self.dev = ["null", "shm", "zero"]
        self._system()
        self.processors("AMD EPYC 7443P 24-Core Processor", 1, 24)

    def _system(self) -> None:
        ident, version, name, like = UBUNTU
        self.file("/etc/os-release", f'PRETTY_NAME="{name}"\nID={ident}\nID_LIKE={like}\nVERSION_ID="{version}"\n')
        self.file("/proc/sys/kernel/osrelease", self.kernel + "\n")
        self.file("/proc/sys/kernel/hostname", "sim\n")
        self.file("/proc/sys/kernel/arch", "x86_64\n")
        self.file("/proc/sys/kernel/numa_balancing", "0\n")
        self.file("/proc/sys/kernel/pid_max", "4194304\n")
        self.file("/proc/sys/kernel/threads-max", "2061445\n")
        self.file("/proc/sys/fs/file-nr", "3392\t0\t9223372036854775807\n")
        self.file("/proc/loadavg", "0.10 0.12 0.09 2/812 40211\n")
        self.file("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/nvme0n1p2 ro iommu=pt\n")
        self.file("/proc/uptime", "21600.00 99999.00\n")
        self.file("/proc/mdstat", "Personalities :\nunused devices: <none>\n")
        self.file("/proc/self/limits", LIMITS)
        self.file("/sys/module/module/parameters/sig_enforce", "N\n")
        self.file("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
        self.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
        self.file("/etc/systemd/logind.conf", "[Login]\nRemoveIPC=no\n")
        self.lists["/run"] = ["systemd"]
        self.lists["/run/systemd"] = ["system"]
        self.lists["/"] = ["bin", "boot", "dev", "etc", "proc", "run", "sys", "usr"]
        self.lists["/lib/modules"] = [self.kernel]
        self.lists[f"/lib/modules/{self.kernel}"] = ["build", "kernel", "modules.dep", "updates"]
        self.lists[f"/lib/modules/{self.kernel}/build"] = ["Makefile", "include"]
        self.lists["/usr/bin"] = ["bash", "docker", "python3"]
        self.lists["/usr/local/bin"] = []
        self.lists["/sys/class/net"] = ["eno1", "lo"]
        self.lists["/sys/class/infiniband"] = []
        self.lists["/sys/class/iommu"] = []
        self.lists["/sys/firmware"] = ["acpi", "dmi", "efi"]
        self.file("/sys/class/net/eno1/operstate", "up\n")
        self.file("/sys/class/net/eno1/speed", "10000\n")
        self.file("/sys/class/net/eno1/mtu", "1500\n")
        self.file("/sys/class/net/eno1/carrier", "1\n")
        self.commands["ip_-j_address"] = json.dumps(
            [{"ifname": "eno1", "addr_info": [{"local": "10.0.0.5", "prefixlen": 24, "scope": "global"}]}]
        )
        self.commands["mokutil_--sb-state"] = "SecureBoot disabled\n"
        self.commands["systemd-detect-virt_--vm"] = "none\n"
        self.codes["systemd-detect-virt_--vm"] = 1
        self.commands["timedatectl_show"] = "Timezone=Etc/UTC\nLocalRTC=no\nNTP=yes\nNTPSynchronized=yes\n"
        self.commands["ps"] = (
            "    PID STAT WCHAN                            ELAPSED COMMAND\n"
            "      1 Ss   do_epoll_wait                      21600 systemd\n"
        )
        self.commands["ipmitool_fan"] = "FAN1             | 41h | ok  | 29.1 | 8400 RPM\n"
        self.commands["ipmitool_power"] = "PS1 Status       | C8h | ok  | 10.1 | Presence detected\n"
        self.commands["ipmitool_sel"] = (
            "   1 | 11/30/2026 | 05:58:01 | System Boot Initiated #0x01 | Initiated by power up | Asserted\n"
        )
        self.unreadable["run:chronyc_-n_tracking"] = ["missing", "chronyc is not installed"]
        self.unreadable["run:slurmd_-V"] = ["missing", "slurmd is not installed"]
        self.memory(256)
        self.mounts()
        self.python("2.11.0+cu130", "13.0")

    def file(self, path: str, text: str) -> None:
        self.files[path] = text

    def processors(self, model: str, sockets: int, cores: int, nodes: int = 1) -> None:
        """Cores are those of one socket; a core has one thread here."""
        total = sockets * cores
        blocks = [
            f"processor\t: {cpu}\n"
            f"model name\t: {model}\n"
            f"physical id\t: {cpu // cores}\n"
            f"core id\t\t: {cpu % cores}\n"
            "flags\t\t: fpu vme\n"
            for cpu in range(total)
        ]
        self.file("/proc/cpuinfo", "\n".join(blocks))
        self.file(
            "/proc/self/status",
            f"Name:\tpython3\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-{total - 1}\nMems_allowed_list:\t0-{nodes - 1}\n",
        )
        self.lists["/sys/devices/system/node"] = [f"node{node}" for node in range(nodes)]
        each = total // nodes
        for node in range(nodes):
            self.file(f"/sys/devices/system/node/node{node}/cpulist", f"{node * each}-{node * each + each - 1}\n")
            self.file(
                f"/sys/devices/system/node/node{node}/meminfo", f"Node {node} MemTotal:       {268435456 // nodes} kB\n"
            )

    def memory(self, gib: int) -> None:
        kib = gib * 2**20
        self.file(
            "/proc/meminfo",
            f"MemTotal:       {kib} kB\n"
            f"MemFree:        {kib // 2} kB\n"
            f"MemAvailable:   {kib * 3 // 4} kB\n"
            "SwapTotal:             0 kB\n"
            "SwapFree:              0 kB\n"
            "HugePages_Total:       0\n"
            "Hugepagesize:       2048 kB\n",
        )

    def mounts(self, shm: int = 128 * 2**30, root: str = "/dev/nvme0n1p2 / ext4 rw,relatime 0 0") -> None:
        self.file(
            "/proc/self/mounts",
            f"{root}\ntmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n",
        )
        head = "Mounted on       1B-blocks        Avail    Inodes     IFree\n"
        self.commands["df_local"] = (
            f"{head}/          1967317549056 1500000000000 122101760 120000000\n"
            f"/dev/shm  {shm} {shm} 32982560 32982550\n"
        )

    def python(self, torch: str, cuda: str, **packages: str) -> None:
        content = {
            "executable": "/opt/venv/bin/python", "version": "3.12.3", "prefix": "/opt/venv",
            "packages": {"torch": torch, "numpy": "2.3.4", **packages}, "torch": torch, "torch_cuda": cuda,
        }  # fmt: skip
        self.commands["python_own"] = self.commands["python_path"] = json.dumps(content)

    def install_driver(self, *, loaded: bool = True, library: str = "", signer: str = "sim DKMS key") -> None:
        """Modules, libraries, packages, DKMS."""
        library = library or self.driver
        kind = "Open Kernel Module for x86_64" if self.flavour == "open" else "x86_64 Kernel Module"
        if loaded:
            self.modules += ["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"]
            self.file(
                "/proc/driver/nvidia/version",
                f"NVRM version: NVIDIA UNIX {kind}  {self.driver}  Release Build  (dvs-builder@U22-I3)\n"
                "GCC version:  gcc version 13.3.0\n",
            )
            self.dev += ["nvidia-uvm", "nvidiactl", *(f"nvidia{number}" for number in range(len(self.cards)))]
            self.opens = [f"/dev/{name}" for name in self.dev if name.startswith("nvidia")]
        signed = f"signer:         {signer}\nsig_hashalgo:   sha512\n" if signer else ""
        license_ = "Dual MIT/GPL" if self.flavour == "open" else "NVIDIA"
        self.commands["modinfo_nvidia"] = (
            f"filename:       /lib/modules/{self.kernel}/updates/dkms/nvidia.ko.zst\n"
            f"version:        {library}\n"
            f"license:        {license_}\n"
            f"vermagic:       {self.kernel} SMP preempt mod_unload modversions \n"
            f"{signed}"
        )
        self.lists["/usr/lib/x86_64-linux-gnu"] = [
            "libc.so.6", "libcuda.so", "libcuda.so.1", f"libcuda.so.{library}",
            "libnvidia-ml.so.1", f"libnvidia-ml.so.{library}",
        ]  # fmt: skip
        branch = library.split(".")[0]
        for name in (
            f"nvidia-dkms-{branch}-open",
            f"libnvidia-compute-{branch}",
            f"nvidia-utils-{branch}",
            f"nvidia-driver-{branch}-open",
        ):
            self.packages[name] = f"{library}-0ubuntu0.24.04.1"
        self.packages["nvidia-container-toolkit"] = "1.18.1-1"
        self.commands["dkms_status"] = f"nvidia/{library}, {self.kernel}, x86_64: installed\n"
        self.commands["nvidia-ctk_--version"] = "NVIDIA Container Toolkit CLI version 1.18.1\ncommit: 0000000\n"
        self.file(
            "/etc/docker/daemon.json", '{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}\n'
        )
        names = "".join(
            f'- name: "{number}"\n  containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia{number}\n'
            for number in range(len(self.cards))
        )
        self.file(
            "/var/run/cdi/nvidia.yaml", f"---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n{names}- name: all\n"
        )
        self.units["nvidia-persistenced"] = "active"

    def smi(self, cuda: str = "13.0") -> None:
        """What nvidia-smi prints when all is well."""
        self.commands["nvidia-smi_-q"] = query(self.cards, self.driver, cuda)
        self.commands["nvidia-smi_--version"] = (
            f"NVIDIA-SMI version  : {self.driver}\n"
            f"NVML version        : {self.driver.rpartition('.')[0]}\n"
            f"DRIVER version      : {self.driver}\n"
            f"CUDA Version        : {cuda}\n"
        )
        self.commands["nvidia-smi_nvlink_-s"] = nvlink(self.cards)
        self.commands["nvidia-smi_nvlink_-e"] = ""

    def smi_fails(self, message: str, code: int) -> None:
        for name in ("-q", "--version", "topo_-m", "topo_-p2p_r", "topo_-p2p_w", "nvlink_-s"):
            self.commands[f"nvidia-smi_{name}"] = message
            self.codes[f"nvidia-smi_{name}"] = code

    def topo(
        self, ways: Sequence[Sequence[str]], state: str, nics: Sequence[str] = (), cpus: Sequence[str] = ()
    ) -> None:
        self.commands["nvidia-smi_topo_-m"] = topology(self.cards, ways, nics, cpus)
        self.commands["nvidia-smi_topo_-p2p_r"] = self.commands["nvidia-smi_topo_-p2p_w"] = p2p(len(self.cards), state)

    def pci_device(
        self, address: str, kind: str, vendor: str, device: str, parents: Sequence[str] = (), **values: str
    ) -> None:
        folder = f"/sys/bus/pci/devices/{address}"
        self.file(f"{folder}/class", f"0x{kind}\n")
        self.file(f"{folder}/vendor", f"0x{vendor}\n")
        self.file(f"{folder}/device", f"0x{device}\n")
        for name, value in values.items():
            self.file(f"{folder}/{name}", value + "\n")
        root = (parents[0] if parents else address)[:7]
        self.links[folder] = "/".join(["../../../devices", f"pci{root}", *parents, address])

    def put_cards(self, *, driver: str = "nvidia", iommu: str = "identity") -> None:
        """The cards and a root port above each, in sysfs."""
        acs: list[str] = []
        for number, card in enumerate(self.cards):
            port = f"0000:{int(card.bus[5:7], 16) - 1:02x}:01.0"
            speed = SPEEDS[card.generation]
            self.pci_device(
                port,
                "060400",
                "1022",
                "1483",
                current_link_speed=SPEEDS[card.current_generation],
                max_link_speed=speed,
                current_link_width=str(card.width),
                max_link_width=str(card.slot_width),
            )
            kind = "030200" if card.brand != "GeForce" else "030000"
            self.pci_device(
                card.bus, kind, "10de", card.device, [port], numa_node=str(card.node), local_cpulist="0-23",
                current_link_speed=SPEEDS[card.current_generation], max_link_speed=speed,
                current_link_width=str(card.width), max_link_width=str(card.width_max), resource=RESOURCE,
                aer_dev_correctable="RxErr 0\nTOTAL_ERR_COR 0", aer_dev_fatal="Undefined 0\nTOTAL_ERR_FATAL 0",
            )  # fmt: skip
            if driver:
                self.links[f"/sys/bus/pci/devices/{card.bus}/driver"] = f"../../../../bus/pci/drivers/{driver}"
            self.links[f"/sys/bus/pci/devices/{card.bus}/iommu_group"] = (
                f"../../../../kernel/iommu_groups/{number + 20}"
            )
            self.file(f"/sys/kernel/iommu_groups/{number + 20}/type", iommu + "\n")
            acs += [
                f"{port} PCI bridge: Advanced Micro Devices, Inc. [AMD] GPP Bridge (prog-if 00 [Normal decode])",
                "\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-",
                "",
            ]
        self.commands["lspci_-D_-vv_-d_--0604"] = "\n".join(acs)
        self.lists["/sys/class/iommu"] = ["ivhd0"]

    def put_switches(self, count: int, device: str) -> None:
        """NVSwitches and a Fabric Manager."""
        for number in range(count):
            self.pci_device(f"0000:{0xC4 + number:02x}:00.0", "068000", "10de", device)
        self.units["nvidia-fabricmanager"] = "active"
        self.commands["nv-fabricmanager_--version"] = f"Fabric Manager version is : {self.driver}\n"

    def put_nics(self, count: int, device: str, rate: str) -> list[str]:
        """InfiniBand cards, all active."""
        names = [f"mlx5_{number}" for number in range(count)]
        self.lists["/sys/class/infiniband"] = names
        for number, name in enumerate(names):
            address = f"0000:{0x0C + number * 0x10:02x}:00.0"
            self.pci_device(address, "020700", "15b3", device, numa_node="0")
            folder = f"/sys/class/infiniband/{name}"
            self.links[f"{folder}/device"] = f"../../../{address}"
            self.lists[f"{folder}/ports"] = ["1"]
            port = f"{folder}/ports/1"
            self.file(f"{port}/state", "4: ACTIVE\n")
            self.file(f"{port}/phys_state", "5: LinkUp\n")
            self.file(f"{port}/rate", f"{rate} Gb/sec (4X NDR)\n")
            self.file(f"{port}/link_layer", "InfiniBand\n")
            self.lists[f"{port}/gids"] = ["0", "1"]
            self.file(f"{port}/gids/0", f"fe80:0000:0000:0000:a088:c203:00ab:{number:04x}\n")
            self.file(f"{port}/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n")
            self.file(f"{port}/gid_attrs/types/0", "IB/RoCE v1\n")
            for counter in ("symbol_error", "link_downed"):
                self.file(f"{port}/counters/{counter}", "0\n")
        return names

    def write(self, folder: Path) -> Path:
        """Write the tree."""
        files = dict(self.files)
        files["/proc/modules"] = "".join(f"{name} 16384 0 - Live 0x0000000000000000\n" for name in self.modules)
        self.lists["/dev"] = self.dev
        commands = dict(self.commands)
        commands.setdefault("dmesg_-T", "\n".join(self.log) + "\n")
        commands.setdefault("systemctl_show", "\n".join(self._unit(name) for name in sorted(self.units)))
        commands.setdefault(
            "dpkg-query", "".join(f"ii \t{name}\t{version}\n" for name, version in self.packages.items())
        )
        index = self.index | {
            "links": self.links,
            "lists": self.lists,
            "codes": self.codes,
            "opens": self.opens,
            "unreadable": self.unreadable,
        }
        for path, text in files.items():
            place = folder / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        (folder / ".stoker/commands").mkdir(parents=True, exist_ok=True)
        for name, text in commands.items():
            (folder / f".stoker/commands/{name}.txt").write_text(text)
        (folder / ".stoker/index.json").write_text(json.dumps(index, indent=1))
        return folder

    def _unit(self, name: str) -> str:
        state = self.units[name]
        return (
            f"Id={name}.service\n"
            "LoadState=loaded\n"
            f"ActiveState={state}\n"
            f"SubState={'running' if state == 'active' else state}\n"
            f"UnitFileState=enabled\nResult=success\nNRestarts=0\nLimitMEMLOCK=infinity\n"
        )


LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max stack size            8388608              unlimited            bytes
Max processes             1030722              1030722              processes
Max open files            1048576              1048576              files
Max locked memory         unlimited            unlimited            bytes
"""
RESOURCE = "\n".join(
    [
        "0x00000000f2000000 0x00000000f2ffffff 0x0000000000040200",
        "0x0000020000000000 0x00000207ffffffff 0x000000000014220c",
        "0x0000000000000000 0x0000000000000000 0x0000000000000000",
        "0x0000020800000000 0x0000020801ffffff 0x000000000014220c",
    ]
)


def main() -> None:
    from tests.doctor.machines.catalogue import MACHINES

    if len(sys.argv) != 3 or sys.argv[1] not in MACHINES:
        sys.exit(f"usage: python -m tests.doctor.machines.build NAME DIR; the names are {', '.join(MACHINES)}")
    print(MACHINES[sys.argv[1]]().write(Path(sys.argv[2])))


if __name__ == "__main__":
    main()
