# ruff: noqa: E501 - texts of tools are kept as they come
"""What the tools print, in the forms of several releases: texts of our own in the tools' format."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.host.probes import (
    bmc,
    boot,
    container,
    cpu,
    disks,
    driver,
    kernel_log,
    links,
    memory,
    modules,
    network,
    pci,
    processes,
    services,
    slurm,
    system,
    upgrades,
)
from stoker.host.probes.gpus import Gpu, gpus_of, merge, parse_nvml
from stoker.host.probes.smi_query import parse_query
from stoker.host.probing import cpu_list, integer, number
from stoker.host.source import Output, Unreadable

SCRIPTS = Path(driver.__file__).parents[1] / "scripts"

VOLTA_418 = """
==============NVSMI LOG==============

Timestamp                           : Mon Nov 30 12:00:00 2026
Driver Version                      : 418.87.00
CUDA Version                        : 10.1

Attached GPUs                       : 1
GPU 00000000:3B:00.0
    Product Name                    : Tesla V100-SXM2-16GB
    Product Brand                   : Tesla
    Persistence Mode                : Enabled
    PCI
        Bus Id                      : 00000000:3B:00.0
        GPU Link Info
            PCIe Generation
                Max                 : 3
                Current             : 3
            Link Width
                Max                 : 16x
                Current             : 8x
        Replays since reset         : 7
    Performance State               : P0
    Clocks Throttle Reasons
        Idle                        : Not Active
        SW Power Cap                : Active
        HW Slowdown                 : Not Active
            HW Thermal Slowdown     : Not Active
            HW Power Brake Slowdown : Not Active
    FB Memory Usage
        Total                       : 16130 MiB
        Used                        : 1000 MiB
    Utilization
        Gpu                         : 88 %
    Ecc Mode
        Current                     : Enabled
        Pending                     : Disabled
    ECC Errors
        Volatile
            Single Bit
                Device Memory       : 1
                Total               : 1
            Double Bit
                Device Memory       : 2
                Total               : 2
        Aggregate
            Double Bit
                Total               : 5
    Retired Pages
        Single Bit ECC              : 3
        Double Bit ECC              : 1
        Pending                     : Yes
    Temperature
        GPU Current Temp            : 61 C
        GPU Slowdown Temp           : 87 C
        GPU Max Operating Temp      : 83 C
    Power Readings
        Power Draw                  : 250.12 W
        Power Limit                 : 250.00 W
        Default Power Limit         : 300.00 W
        Enforced Power Limit        : 250.00 W
    Clocks
        SM                          : 1230 MHz
    Max Clocks
        SM                          : 1530 MHz
    Processes
        Process ID                  : 4242
            Type                    : C
            Name                    : python train.py: all
            Used GPU Memory         : 990 MiB
"""


def test_smi_of_a_driver_of_2019() -> None:
    (gpu,) = gpus_of(parse_query(VOLTA_418))
    assert (gpu.bus_id, gpu.width, gpu.width_max, gpu.replays) == ("0000:3b:00.0", 8, 16, 7)
    assert (gpu.ecc, gpu.ecc_pending, gpu.ecc_volatile, gpu.ecc_aggregate) == (True, False, 2, 5)
    assert (gpu.retired_pages, gpu.retired_pending) == (4, True)
    assert (gpu.temperature_c, gpu.max_operating_c, gpu.margin_c) == (61, 83, None)
    assert (gpu.power_draw_w, gpu.power_limit_w, gpu.power_default_w) == (250.12, 250, 300)
    assert gpu.clock_reasons == ("sw_power_cap",)
    assert [(one.pid, one.kind, one.name, one.memory_mib) for one in gpu.processes] == [
        (4242, "C", "python train.py: all", 990)
    ]
    assert gpu.utilization == 88


def test_smi_of_driver_610_has_new_words() -> None:
    text = (
        "Attached GPUs   : 1\nGPU 00000000:0C:00.0\n"
        "    Temperature\n        GPU Current T.Limit Temp  : 44 C\n"
        "    GPU Power Readings\n        Average Power Draw        : N/A\n        Instantaneous Power Draw  : 38.89 W\n"
        "        GPU Ceiling Power Limit\n            Current Power Limit   : 200.00 W\n"
        "            Default Power Limit   : 250.00 W\n        Max Power Limit           : 350.00 W\n"
        "    GPU Recovery Action           : Drain and Reset\n"
        "    Fan Speed                     : ERR!\n"
    )
    (gpu,) = gpus_of(parse_query(text))
    assert (gpu.margin_c, gpu.power_draw_w, gpu.power_limit_w, gpu.power_default_w, gpu.power_max_w) == (
        44, 38.89, 200, 250, 350,
    )  # fmt: skip
    assert gpu.recovery_action == "Drain and Reset"
    assert gpu.broken == ("Fan Speed",)


@pytest.mark.parametrize(
    "sentence",
    [
        "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error",
        "Unable to determine the device handle for GPU1: 0000:3B:00.0: Unknown Error",
        "Unable to determine the device handle for gpu 00000000:3B:00.0: GPU requires reset",
    ],
)
def test_a_lost_gpu(sentence: str) -> None:
    assert parse_query(sentence + "\n").lost == {"0000:3b:00.0": sentence}


def test_mig() -> None:
    text = (
        "GPU 00000000:00:09.0\n    MIG Mode\n        Current : Enabled\n        Pending : Enabled\n"
        "    MIG Device\n        Index : 0\n        GPU Instance ID : 2\n        ECC Errors\n            Volatile\n"
        "                SRAM Uncorrectable : 9\n        Shared FB Memory Usage\n            Total : 40448 MiB\n"
        "    MIG Device\n        Index : 1\n        GPU Instance ID : 3\n        FB Memory Usage\n            Total : 9984 MiB\n"
        "    ECC Errors\n        Volatile\n            SRAM Uncorrectable : 0\n            DRAM Uncorrectable : 0\n"
    )
    (gpu,) = gpus_of(parse_query(text))
    assert [(one.index, one.instance, one.memory_mib) for one in gpu.mig_devices] == [(0, 2, 40448), (1, 3, 9984)]
    assert (gpu.mig, gpu.ecc_volatile) == (True, 0)


def test_nvml_goes_before_nvidia_smi_and_is_filled_from_it() -> None:
    nvml = Gpu(index=0, bus_id="0000:01:00.0", name="A", power_limit_w=300)
    smi = (
        Gpu(index=0, bus_id="0000:01:00.0", name="B", recovery_action="None", clock_reasons=("sw_power_cap",)),
        Gpu(index=1, bus_id="0000:02:00.0", name="C"),
    )
    first, second = merge((nvml,), smi)
    assert (first.name, first.power_limit_w, first.recovery_action, first.clock_reasons) == (
        "A", 300, "None", ("sw_power_cap",),
    )  # fmt: skip
    assert second.name == "C"


FAKE_PYNVML = '''
"""A simulated NVML of two cards: the second fell off the bus, and many calls do not exist."""
class NVMLError(Exception): pass
NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, NVML_CLOCK_SM = 1, 0, 1
class _Pci: busId = b"00000000:3B:00.0"
class _Memory: total, used = 80 << 30, 1 << 30
class _Process: pid, usedGpuMemory = 42, None
def nvmlInit(): pass
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index):
    if index: raise NVMLError("GPU is lost")
    return index
def nvmlDeviceGetPciInfo(handle): return _Pci
def nvmlDeviceGetName(handle): return b"NVIDIA H100"
def nvmlDeviceGetMemoryInfo(handle): return _Memory
def nvmlDeviceGetEccMode(handle): return [1, 1]
def nvmlDeviceGetTotalEccErrors(handle, kind, counter): return 3 if counter == NVML_VOLATILE_ECC else 1 / 0
def nvmlDeviceGetPowerManagementDefaultLimit(handle): return 700000
def nvmlDeviceGetCurrentClocksThrottleReasons(handle): return 0x40 | 0x8 | 0x1
def nvmlDeviceGetComputeRunningProcesses(handle): return [_Process]
def nvmlDeviceGetPersistenceMode(handle): raise NVMLError("Not Supported")
'''


def _run_nvml(folder: Path) -> Output:
    done = subprocess.run(
        [sys.executable, "-"],
        input=(SCRIPTS / "nvml.py").read_text(),
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return Output(done.stdout, done.stderr, done.returncode)


def test_the_nvml_script_takes_what_a_driver_has(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text(FAKE_PYNVML.replace("else 1 / 0", "else 9"))
    (gpu,), error = parse_nvml(_run_nvml(tmp_path))
    assert error == "NVML: GPU 1: GPU is lost"
    assert (gpu.bus_id, gpu.name, gpu.memory_total_mib, gpu.ecc, gpu.ecc_volatile) == (
        "0000:3b:00.0", "NVIDIA H100", 81920, True, 3,
    )  # fmt: skip
    assert gpu.clock_reasons == ("hw_slowdown", "hw_thermal_slowdown")
    assert (gpu.power_default_w, gpu.persistence, gpu.temperature_c) == (700, None, None)
    assert [(one.pid, one.memory_mib) for one in gpu.processes] == [(42, None)]


def test_the_nvml_script_says_why_it_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text(
        "class NVMLError(Exception): pass\ndef nvmlInit(): raise NVMLError('no driver')"
    )
    assert parse_nvml(_run_nvml(tmp_path)) == ((), "NVML: no driver")
    (tmp_path / "pynvml.py").write_text("raise ImportError")
    assert parse_nvml(_run_nvml(tmp_path)) == ((), "nvidia-ml-py is not installed")
    assert parse_nvml(Unreadable("timeout", "it did not answer")) == ((), "it did not answer")


def test_the_python_script_finds_what_is_broken(tmp_path: Path) -> None:
    for name in ("torch-2.6.0.dist-info", "torch-2.7.0.dist-info", "half-1.0.dist-info", "~orch", "torch"):
        (tmp_path / name).mkdir()
    (tmp_path / "half-1.0.dist-info/INSTALLER").write_text("pip\n")
    (tmp_path / "torch/version.py").write_text(
        "__version__ = '2.7.0+cu128'\ncuda: Optional[str] = '12.8'\nhip = None\n"
    )
    done = subprocess.run(
        [sys.executable, "-"],
        input=(SCRIPTS / "python_environment.py").read_text(),
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert (found["torch"], found["torch_cuda"], found["torch_hip"]) == ("2.7.0+cu128", "12.8", "")
    assert found["duplicates"] == [f"torch 2.6.0 and 2.7.0 in {tmp_path.resolve()}"]
    assert found["broken"] == [f"half 1.0 in {tmp_path.resolve()} has no RECORD"]
    assert found["leftovers"] == [str(tmp_path.resolve() / "~orch")]


@pytest.mark.parametrize(
    "head", ["\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity", "        GPU0    GPU1    mlx5_0  CPU Affinity"]
)
def test_topology_of_old_drivers_with_names_of_cards(head: str) -> None:
    matrix = links.parse_matrix(
        f"{head}\nGPU0\t X \tNV12\tPXB\t0-15,32-47\t0\nGPU1\tNV12\t X \tSYS\t16-31\nmlx5_0\tPXB\tSYS\t X \t\n\nLegend:\n"
    )
    assert matrix.pairs() == {("GPU0", "GPU1"): "NV12"}
    assert matrix.rows
    assert matrix.rows["GPU0"]["mlx5_0"] == "PXB"
    assert matrix.affinities == {"GPU0": "0-15,32-47", "GPU1": "16-31"}


def test_topology_with_a_legend_of_cards() -> None:
    text = "\t\x1b[4mGPU0\tNIC0\tCPU Affinity\x1b[0m\nGPU0\t X \tPIX\t0-7\t0\t\tN/A\nNIC0\tPIX\t X \n\nNIC Legend:\n\n  NIC0: mlx5_bond_0\n"
    matrix = links.parse_matrix(text)
    assert (matrix.rows or {})["GPU0"] == {"GPU0": "X", "NIC0": "PIX"}
    assert matrix.nics == {"NIC0": "mlx5_bond_0"}


def test_nvlinks_with_counters() -> None:
    status = "GPU 0: NVIDIA A100 (UUID: GPU-0)\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n"
    errors = "GPU 0: NVIDIA A100 (UUID: GPU-0)\n\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: 2\n"
    first, second = links.parse_nvlinks(status, errors)
    assert (first.speed_gb_s, first.errors) == (25, {"Replay Errors": 0, "Recovery Errors": 2})
    assert (second.speed_gb_s, second.errors) == (None, None)


def test_dkms_old_and_new() -> None:
    text = (
        "nvidia/580.95.05, 6.8.0-87-generic, x86_64: installed (original_module exists)\n"
        "nvidia, 470.256.02, 5.15.0-91-generic, x86_64: built\nnvidia-open/580.95.05: added\nWarning: Diff between\n"
    )
    found = [(one.name, one.version, one.kernel, one.state) for one in boot.parse_dkms(text)]
    assert found == [
        ("nvidia", "580.95.05", "6.8.0-87-generic", "installed"),
        ("nvidia", "470.256.02", "5.15.0-91-generic", "built"),
        ("nvidia-open", "580.95.05", "", "added"),
    ]


def test_secure_boot_and_lockdown() -> None:
    assert boot.state_of("SecureBoot enabled\n") == (True, False, "SecureBoot enabled")
    assert boot.state_of("SecureBoot disabled\nPlatform is in Setup Mode\n")[:2] == (False, True)
    assert boot.state_of("EFI variables are not supported on this system\n")[0] is None
    assert boot.lockdown_of("none [integrity] confidentiality") == "integrity"


def test_modules_and_their_files() -> None:
    assert modules.loaded_of("nvidia 1 2 nvidia_uvm, Live 0x0 (POE)\nnvme 1 0 - Live 0x0\n") == ("nvidia", "nvme")
    conf = (
        "# blacklist x\nblacklist nouveau\n  install nova-core /bin/false\noptions nvidia NVreg_EnableGpuFirmware=0\n"
    )
    assert modules.blacklist_of(conf) == ("nouveau", "nova_core")
    assert modules.options_of(conf) == ("options nvidia NVreg_EnableGpuFirmware=0",)
    file = modules.parse_modinfo(
        "filename: /x/nvidia.ko\nlicense:        NVIDIA\nversion: 535.1.2\nsigner: DKMS: key\n"
    )
    assert (file.version, file.license, file.signer) == ("535.1.2", "NVIDIA", "DKMS: key")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023",
            ("535.104.05", "proprietary"),
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build", ("580.65.06", "open")),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  590.48  Release Build", ("590.48", "open")),
        ("", ("", "")),
    ],
)
def test_the_loaded_driver(text: str, expected: tuple[str, str]) -> None:
    assert driver.loaded_of(text) == expected


def test_packages_and_their_versions() -> None:
    text = "ii \tnvidia-utils-580\t580.95.05-0ubuntu1\nrc \tnvidia-utils-470\t470.1.2-0\niU \tlibnvidia-compute-580\t1:580.95.05-1\nii \tbash\t5.2\nhi \tcuda-drivers\t580\n"
    assert [(one.name, one.state, one.held) for one in driver.parse_packages(text)] == [
        ("nvidia-utils-580", "installed", False),
        ("libnvidia-compute-580", "iU", False),
        ("cuda-drivers", "installed", True),
    ]  # fmt: skip
    assert driver.upstream("1:580.95.05-1") == "580.95.05"
    assert driver.upstream("13.0.2-1") == ""
    assert driver.library_of("libcuda.so.580.95.05") == ("libcuda.so", "580.95.05")
    assert driver.library_of("libcuda.so.1") is None


def test_package_logs() -> None:
    apt = (
        "Start-Date: 2026-11-28  06:12:33\nCommandline: /usr/bin/unattended-upgrade\n"
        "Upgrade: nvidia-utils-580:amd64 (580.1.2-0, 580.3.4-0), bash:amd64 (5.1, 5.2)\n"
        "Install: linux-image-6.8.0-90-generic:amd64 (6.8.0-90.91, automatic)\nRemove: libnvidia-gl-470:amd64 (470.1)\nEnd-Date: x\n"
    )
    assert [(one.action, one.package, one.old, one.new, one.line) for one in upgrades.parse_apt_history(apt)] == [
        ("upgrade", "nvidia-utils-580", "580.1.2-0", "580.3.4-0", 3),
        ("install", "linux-image-6.8.0-90-generic", "", "6.8.0-90.91", 4),
        ("remove", "libnvidia-gl-470", "470.1", "", 5),
    ]
    (one,) = upgrades.parse_dnf("2026-11-28T06:12:33+0000 SUBDEBUG Upgrade: nvidia-driver-3:580.95.05-1.el9.x86_64\n")
    assert (one.package, one.new) == ("nvidia-driver", "580.95.05-1.el9.x86_64")
    (one,) = upgrades.parse_zypper("2026-11-28 06:12:33|install|kernel-default|6.4.0-1|x86_64||repo|\n")
    assert (one.package, one.new) == ("kernel-default", "6.4.0-1")
    assert upgrades.blacklist_of('Unattended-Upgrade::Package-Blacklist {\n//  "linux-";\n  "nvidia";\n};') == (
        "nvidia",
    )


def test_pci_details() -> None:
    assert pci.bus_id("00000000:3B:00.0") == "0000:3b:00.0"
    assert pci.bus_id("3b:00.0") == "0000:3b:00.0"
    assert pci.bus_id("00010001:01:00.0") == "10001:01:00.0"
    assert [pci.generation(speed) for speed in ("2.5 GT/s PCIe", "16.0 GT/s PCIe", "8 GT/s", "Unknown")] == [
        1,
        4,
        3,
        None,
    ]
    assert pci.parents_of("../../../devices/pci0000:00/0000:00:01.1/0000:01:00.0") == ("0000:00:01.1",)
    sizes, unset = pci.windows_of("0x00000000f2000000 0x00000000f2ffffff 0x40200\n0x0 0x7ffffffff 0x20102208\n")
    assert sizes == {"0": 1 << 24, "1": 1 << 35}
    assert unset == (1,)
    text = "0000:00:01.1 PCI bridge: AMD\n\t\tACSCap:\tSrcValid+ ReqRedir+\n\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+\n\n00:02.0 PCI bridge: X\n\t\tACSCtl:\tSrcValid- ReqRedir-\n"
    assert pci.acs_of(text) == {"0000:00:01.1": True, "0000:00:02.0": False}
    assert pci.total_errors("RxErr 3\nBadTLP 1\nTOTAL_ERR_COR 4\n") == 4


def test_limits_memory_and_remove_ipc() -> None:
    limits = memory.limits_of(
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max stack size            8388608              unlimited            bytes\n"
        "Max locked memory         unlimited            unlimited            bytes\n"
        "Max open files            1024                 1048576              files\n"
    )
    assert (limits.stack, limits.memlock, limits.files, limits.processes) == (8388608, -1, 1024, None)
    assert memory.meminfo("MemTotal:  1024 kB\nHugePages_Total:       3\n") == {
        "MemTotal": 1 << 20,
        "HugePages_Total": 3,
    }
    files = {"logind.conf": "#RemoveIPC=yes\n", "a.conf": "[Login]\nRemoveIPC=no\n", "b.conf": "RemoveIPC = yes\n"}
    assert memory.remove_ipc_of(files) == (True, "b.conf: RemoveIPC = yes")
    assert memory.remove_ipc_of({"logind.conf": "#RemoveIPC=no\n"}) is None


def test_processors() -> None:
    text = "processor\t: 0\nmodel name\t: X\nphysical id\t: 0\ncore id\t: 0\n\nprocessor\t: 1\nphysical id\t: 1\ncore id\t: 0\n"
    assert cpu.parse_cpuinfo(text) == ("X", 2, 2, 2)
    assert (cpu.quota_of("250000 100000"), cpu.quota_of("max 100000"), cpu.quota_of("0 0")) == (2.5, None, None)
    assert cpu_list("0-2,8") == (0, 1, 2, 8)
    assert cpu_list("") is None


def test_disks() -> None:
    mounts = disks.parse_mounts(
        "/dev/sda1 / ext4 rw 0 0\nproc /proc proc rw 0 0\nfs:/x /data\\040dir nfs4 ro,vers=4 0 0\n"
    )
    assert [(one.path, one.read_only) for one in mounts] == [("/", False), ("/data dir", True)]
    assert disks.parse_df("Mounted on 1B-blocks Avail Inodes IFree\n/my data  100 50 - -\n/x 9 8 7 6\n") == {
        "/my data": (100, 50, 0, 0), "/x": (9, 8, 7, 6),
    }  # fmt: skip
    (array,) = disks.parse_mdstat("md0 : active raid1 sdb1[1] sda1[0](F)\n      97 blocks super 1.2 [2/1] [_U]\n")
    assert (array.name, array.wanted, array.active) == ("md0", 2, 1)


def test_network_and_services() -> None:
    text = '[{"ifname": "eth0", "addr_info": [{"local": "10.0.0.1", "prefixlen": 24, "scope": "global"}, {"local": "fe80::1", "prefixlen": 64, "scope": "link"}]}]'
    assert network.parse_addresses(text) == {"eth0": ("10.0.0.1/24",)}
    assert network.after_colon("4: ACTIVE\n") == "ACTIVE"
    assert [network.is_virtual(name) for name in ("docker0", "eno1", "br-1f", "bond0", "ib0")] == [
        True,
        False,
        True,
        False,
        False,
    ]
    units = services.parse_units(
        "Id=slurmd.service\nLoadState=loaded\nActiveState=failed\nLimitMEMLOCK=65536\n\nId=x.service\nLoadState=not-found\n"
    )
    assert list(units) == ["slurmd"]
    assert (units["slurmd"].active, units["slurmd"].memlock) == ("failed", 65536)
    assert (
        services.chrony_offset("Reference ID    : C0A80001 (x)\nSystem time     : 0.250000 seconds slow of NTP time\n")
        == -0.25
    )
    assert (
        services.chrony_offset("Reference ID    : 00000000 ()\nSystem time     : 0.0 seconds fast of NTP time\n")
        is None
    )
    assert services.fabric_version("Fabric Manager version is : 580.95.05\n") == "580.95.05"


def test_slurm() -> None:
    assert [slurm.in_hostlist("gpu03", text) for text in ("gpu[01-08]", "login,gpu[1-8]", "gpu[05-08,03]", "gpu1", "gpu03")] == [
        True, True, True, False, True,
    ]  # fmt: skip
    gres = "AutoDetect=off\nNodeName=gpu[01-04] Name=gpu Type=a100 File=/dev/nvidia[0-3]\nNodeName=other Name=gpu Count=8\n# x\n"
    found = slurm.parse_gres(gres, "gpu03")
    assert [(one.number, one.autodetect, len(one.files)) for one in found] == [(1, "off", 0), (2, "", 4)]
    conf = "ProctrackType=proctrack/cgroup\nNodeName=gpu[01-04] CPUs=64 \\\n  Gres=gpu:a100:4,gpu:t4:2,shard:8 State=UNKNOWN\n"
    assert slurm.promised_gpus(conf, "gpu03") == 6
    assert slurm.node_state("NodeName=x\n   State=IDLE+DRAIN ThreadsPerCore=2\n   Reason=Kill task failed [root@now]\n")[:2] == (
        "IDLE+DRAIN", "Kill task failed [root@now]",
    )  # fmt: skip
    assert slurm.version_of("slurm 24.11.5\n") == "24.11.5"
    assert slurm.constrains_devices("CgroupPlugin=autodetect\nConstrainDevices=yes\n") is True


def test_containers() -> None:
    settings = (
        '{"runtimes": {"nvidia": {}}, "default-runtime": "nvidia", "exec-opts": ["native.cgroupdriver=cgroupfs"]}'
    )
    assert container.daemon_of(settings) == (("nvidia",), "nvidia", "cgroupfs", "")
    assert "Expecting" in container.daemon_of("{")[3]
    spec = 'cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- containerEdits: {}\n  name: "0"\n- name: all\n'
    assert container.cdi_devices(spec) == ("nvidia.com/gpu=0", "nvidia.com/gpu=all")
    assert container.kind_of((".dockerenv",), "", {}) == "docker"
    assert container.kind_of((), "0::/kubepods.slice/x", {}) == "kubernetes"
    assert container.cgroup_version("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n") == 2
    assert container.cgroup_version("tmpfs /sys/fs/cgroup tmpfs ro 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n") == 1


def test_system_and_kernel_log() -> None:
    assert [system.family_of(*pair) for pair in (("rocky", "rhel centos fedora"), ("linuxmint", "ubuntu debian"), ("x", ""))] == [
        "rhel", "debian", "",
    ]  # fmt: skip
    assert (
        max(["6.8.0-9-generic", "6.8.0-101-generic", "5.15.0-200-generic"], key=system.kernel_key)
        == "6.8.0-101-generic"
    )
    assert system.hypervisor("flags\t: fpu hypervisor\n", "Virtual Machine", "Microsoft Corporation") == "microsoft"
    assert system.hypervisor("flags\t: fpu vme\n", "", "") == "none"
    log = "NVRM: Xid old boot\nx kernel: Linux version 6.8.0\nusb 1-1: new device\nNVRM: Xid (PCI:0000:01:00): 13\n"
    assert kernel_log.log_of(kernel_log.since_boot(log), "f").lines == ("NVRM: Xid (PCI:0000:01:00): 13",)


def test_processes_and_sensors() -> None:
    text = "    PID STAT WCHAN        ELAPSED COMMAND\n  42 D  nv_ioctl  600 python3\n  43 Z  -  9 sh <defunct>\n  1 Ss x 1 init\n"
    assert [(one.pid, one.state, one.seconds, one.name) for one in processes.parse_ps(text)] == [
        (42, "D", 600, "python3"), (43, "Z", 9, "sh <defunct>"),
    ]  # fmt: skip
    assert processes.tasks_of("0.1 0.1 0.1 2/812 4021") == 812
    assert [(one.name, one.status) for one in bmc.parse_sensors("FAN1 | 41h | ok | 29.1 | 8400 RPM\nrubbish\n")] == [
        ("FAN1", "ok")
    ]


def test_numbers() -> None:
    assert [integer(text) for text in ("16x", "0x1f", "8192 MiB", "N/A", "-2 C", "")] == [16, 31, 8192, None, -2, None]
    assert [number(text) for text in ("350.00 W", "N/A", "-2 C")] == [350.0, None, -2.0]
