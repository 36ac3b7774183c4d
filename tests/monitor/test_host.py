"""Kernel files become counters in the model's units."""

from __future__ import annotations

import os
from pathlib import Path

from stoker.monitor.host import (
    cpu_seconds,
    disks,
    interfaces,
    meminfo,
    pressure_seconds,
    read_filesystems,
    read_host,
)
from stoker.monitor.model import Host

STAT = "cpu  100 20 300 4000 50 6 7 8 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\nbtime 1700000000\n"
DISKSTATS = (
    " 259 0 nvme0n1 10 0 2000 5 20 0 4000 7 0 1500 12 0 0 0 0\n"
    " 259 1 nvme0n1p1 1 0 2 3 4 5 6 7 8 9 10 0 0 0 0\n   7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\n"
)
NET_DEV = (
    "Inter-|   Receive                    |  Transmit\n face |bytes packets errs drop fifo\n"
    "    lo: 99 1 0 0 0 0 0 0 99 1 0 0 0 0 0 0\n  eth0: 1000 9 1 2 0 0 0 0 2000 9 3 4 0 0 0 0\n"
    "veth1a: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n"
)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_cpu_time_is_in_seconds_by_mode() -> None:
    assert cpu_seconds(STAT, 100) == {
        "user": 1.0, "nice": 0.2, "system": 3.0, "idle": 40.0, "iowait": 0.5, "irq": 0.06, "softirq": 0.07,
        "steal": 0.08,
    }  # fmt: skip


def test_memory_is_in_bytes() -> None:
    assert meminfo("MemTotal:  100 kB\nHugePages_Total:  3\n") == {"MemTotal": 102400.0}


def test_pressure_is_in_seconds() -> None:
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=1\n"
    assert pressure_seconds(text) == 2.5
    assert pressure_seconds("") is None


def test_disks_are_whole_ones_in_bytes_and_seconds() -> None:
    (disk,) = disks(DISKSTATS, frozenset({"nvme0n1"}))
    assert (disk.device, disk.read_bytes, disk.written_bytes, disk.io_seconds) == ("nvme0n1", 1024000, 2048000, 1.5)


def test_interfaces_without_loopback_and_containers(tmp_path: Path) -> None:
    write(tmp_path, {"eth0/operstate": "down\n"})
    (seen,) = interfaces(NET_DEV, tmp_path)
    assert (seen.device, seen.receive_bytes, seen.transmit_bytes) == ("eth0", 1000, 2000)
    assert (seen.errors, seen.dropped, seen.up) == (4, 6, 0)


def test_infiniband_counts_words_of_four_bytes(tmp_path: Path) -> None:
    port = "class/infiniband/mlx5_0/ports/1"
    write(tmp_path, {
        f"{port}/state": "4: ACTIVE\n", f"{port}/rate": "200 Gb/sec (4X HDR)\n",
        f"{port}/counters/port_rcv_data": "250\n", f"{port}/counters/port_xmit_data": "1000\n",
        f"{port}/counters/symbol_error": "3\n",
    })  # fmt: skip
    (seen,) = read_host(proc=tmp_path / "none", sys=tmp_path).infiniband
    assert (seen.device, seen.port, seen.active, seen.rate_bytes_per_second) == ("mlx5_0", "1", 1, 25e9)
    assert (seen.receive_bytes, seen.transmit_bytes, seen.errors) == (1000, 4000, {"symbol_error": 3})


def test_gpus_on_the_bus_are_nvidia_s_display_controllers(tmp_path: Path) -> None:
    for name, vendor, kind in (("a", "0x10de", "0x030200"), ("b", "0x10de", "0x068000"), ("c", "0x8086", "0x030000")):
        write(tmp_path, {f"bus/pci/devices/{name}/vendor": vendor, f"bus/pci/devices/{name}/class": kind})
    assert read_host(proc=tmp_path / "none", sys=tmp_path).gpus_on_bus == 1


def test_what_the_kernel_does_not_tell_is_absent(tmp_path: Path) -> None:
    assert read_host(tmp_path, tmp_path, tmp_path / "none") == Host()


def test_this_machine_is_read() -> None:
    host = read_host()
    assert host.cpus is not None
    assert host.cpus >= 1
    assert host.memory_total_bytes is not None
    assert host.memory_total_bytes > (host.memory_available_bytes or 0) > 0
    assert any(filesystem.mount == "/" for filesystem in read_filesystems()) or not os.path.ismount("/")


def test_a_disk_that_is_mounted_twice_stands_once(tmp_path: Path) -> None:
    a, b = tmp_path / "a b", tmp_path / "a b" / "longer"
    b.mkdir(parents=True)
    escaped = str(tmp_path / "a b").replace(" ", "\\040")
    write(tmp_path, {"mounts": f"/dev/sda1 {escaped}/longer ext4 rw 0 0\n/dev/sda1 {escaped} ext4 rw 0 0\n"
                               f"proc /proc proc rw 0 0\n"})  # fmt: skip
    assert [found.mount for found in read_filesystems(tmp_path / "mounts")] == [str(a)]
