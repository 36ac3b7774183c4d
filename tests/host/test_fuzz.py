"""No parser raises or hangs, whatever it is given; no probe fails on a machine that answers nonsense."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.doctor.checks.run import examine
from stoker.doctor.checks.show import render_text
from stoker.host.probes import (
    bmc,
    boot,
    container,
    cpu,
    disks,
    driver,
    gpus,
    kernel_log,
    links,
    memory,
    modules,
    network,
    pci,
    processes,
    python,
    services,
    slurm,
    smi_query,
    system,
    upgrades,
)
from stoker.host.probes.settings import parse_conf
from stoker.host.probing import cpu_list, integer, number, pairs
from stoker.host.snapshot import read_snapshot, snapshot_from_json
from stoker.host.source import Output, Unreadable
from tests.doctor.machines.build import Machine
from tests.doctor.machines.catalogue import MACHINES

PARSERS: dict[str, Callable[[str], Any]] = {
    "system.family_of": lambda text: system.family_of(text, text),
    "system.is_root": system.is_root,
    "system.hypervisor": lambda text: system.hypervisor(text, text, text),
    "system.kernel_key": system.kernel_key,
    "boot.state_of": boot.state_of,
    "boot.lockdown_of": boot.lockdown_of,
    "boot.parse_dkms": boot.parse_dkms,
    "modules.loaded_of": modules.loaded_of,
    "modules.blacklist_of": modules.blacklist_of,
    "modules.options_of": modules.options_of,
    "modules.parse_modinfo": modules.parse_modinfo,
    "driver.loaded_of": driver.loaded_of,
    "driver.library_of": driver.library_of,
    "driver.smi_of": lambda text: driver.smi_of(Output(text, text)),
    "driver.parse_packages": driver.parse_packages,
    "driver.upstream": driver.upstream,
    "upgrades.parse_apt_history": upgrades.parse_apt_history,
    "upgrades.parse_dnf": upgrades.parse_dnf,
    "upgrades.parse_zypper": upgrades.parse_zypper,
    "upgrades.blacklist_of": upgrades.blacklist_of,
    "pci.bus_id": pci.bus_id,
    "pci.generation": pci.generation,
    "pci.parents_of": pci.parents_of,
    "pci.windows_of": pci.windows_of,
    "pci.total_errors": pci.total_errors,
    "pci.acs_of": pci.acs_of,
    "smi_query": lambda text: gpus.gpus_of(smi_query.parse_query(text)),
    "gpus.parse_nvml": lambda text: gpus.parse_nvml(Output(text)),
    "links.parse_matrix": links.parse_matrix,
    "links.parse_nvlinks": lambda text: links.parse_nvlinks(text, text),
    "services.parse_units": services.parse_units,
    "services.fabric_version": services.fabric_version,
    "services.chrony_offset": services.chrony_offset,
    "kernel_log.log_of": lambda text: kernel_log.log_of(kernel_log.since_boot(text), "x"),
    "processes.parse_ps": processes.parse_ps,
    "processes.tasks_of": processes.tasks_of,
    "cpu.parse_cpuinfo": cpu.parse_cpuinfo,
    "cpu.quota_of": cpu.quota_of,
    "memory.meminfo": memory.meminfo,
    "memory.limits_of": memory.limits_of,
    "memory.oom_kills_of": memory.oom_kills_of,
    "memory.remove_ipc_of": lambda text: memory.remove_ipc_of({"x": text}),
    "disks.parse_mounts": disks.parse_mounts,
    "disks.parse_df": disks.parse_df,
    "disks.parse_mdstat": disks.parse_mdstat,
    "network.parse_addresses": network.parse_addresses,
    "network.after_colon": network.after_colon,
    "container.daemon_of": container.daemon_of,
    "container.cdi_devices": container.cdi_devices,
    "container.cgroup_version": container.cgroup_version,
    "container.toolkit_of": container.toolkit_of,
    "slurm.version_of": slurm.version_of,
    "slurm.parse_gres": lambda text: slurm.parse_gres(text, "gpu01"),
    "slurm.promised_gpus": lambda text: slurm.promised_gpus(text, "gpu01"),
    "slurm.in_hostlist": lambda text: slurm.in_hostlist("gpu01", text),
    "slurm.expand": slurm.expand,
    "slurm.constrains_devices": slurm.constrains_devices,
    "slurm.node_state": slurm.node_state,
    "python.parse_environment": lambda text: python.parse_environment(Output(text)),
    "parse_conf": lambda text: parse_conf(text, "x"),
    "bmc.parse_sensors": bmc.parse_sensors,
    "integer": integer,
    "number": number,
    "pairs": pairs,
    "cpu_list": cpu_list,
}


def _pool() -> list[str]:
    """What real parsers are meant for: all texts of the simulated machines, and forms that those do not have."""
    texts: dict[str, None] = {}
    for make in MACHINES.values():
        machine: Machine = make()
        texts |= dict.fromkeys([*machine.files.values(), *machine.commands.values(), *machine.links.values()])
    return [*texts, "NodeName=gpu[01-08] Gres=gpu:a100:8\n", "NodeName=gpu[01-04] Name=gpu File=/dev/nvidia[0-7]\n",
            "md0 : active raid1 sdb1[1] sda1[0]\n      976630464 blocks super 1.2 [2/1] [U_]\n",
            "2026-11-28T06:12:33+0000 SUBDEBUG Upgrade: nvidia-driver-3:580.95.05-1.el9.x86_64\n"]  # fmt: skip


POOL = _pool()
PIECES = ["-", "/", "\0", "9" * 400, "[", "]", "\n\n", "\r\n", "{", "½", "٣", "N/A", *(text[:200] for text in POOL)]


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A real text, cut, doubled, with pieces of others and characters of all kinds put into it."""
    text = draw(st.sampled_from(POOL))[:4000]
    for _ in range(draw(st.integers(0, 4))):
        at, to = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        piece = draw(st.one_of(st.text(max_size=20), st.sampled_from(PIECES)))
        text = text[:at] + piece + text[draw(st.sampled_from([at, to])) :]
    return text


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=60)
@given(text=st.one_of(st.text(), broken()))
def test_no_parser_raises(name: str, text: str) -> None:
    PARSERS[name](text)


LONG = ["a", "1", " ", "\n", "[", "GPU0 ", "0-9,", "key : ", "\t", "=", "a b\n", "1,"]


@pytest.mark.parametrize("name", PARSERS)
def test_no_parser_hangs(name: str) -> None:
    """A pattern that tries again at each character would take minutes for this."""
    for piece in LONG:
        text = piece * (200_000 // len(piece))
        began = time.monotonic()
        PARSERS[name](text)
        assert time.monotonic() - began < 10, f"{piece!r} over and over"


class Nonsense:
    """A machine that answers every question with a broken piece of some machine's answer."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _text(self) -> str:
        text = self._random.choice(POOL)[:5000]
        for _ in range(self._random.randrange(4)):
            at = self._random.randrange(len(text) + 1)
            text = (
                text[:at]
                + self._random.choice(["", "-", "9" * 30, "\0", "\n", "½"])
                + text[at + self._random.randrange(9) :]
            )
        return text

    def _maybe(self, found: Any) -> Any:
        if self._random.random() < 0.15:
            kind: Any = self._random.choice(["missing", "denied", "timeout", "failed", "unrecorded"])
            return Unreadable(kind, "a reason")
        return found

    def read(self, path: str, *, tail: bool = False) -> str | Unreadable:
        return self._maybe(self._text())

    def names(self, path: str) -> tuple[str, ...] | Unreadable:
        known = [
            "node0",
            "nvidia0",
            "nvidiactl",
            "0",
            "1",
            "eth0",
            "mlx5_0",
            "x.conf",
            "nvidia.yaml",
            "0000:01:00.0",
            "6.8.0-1",
        ]
        return self._maybe(tuple(self._random.sample(known, self._random.randrange(len(known)))))

    def link(self, path: str) -> str | Unreadable:
        return self._maybe(self._text())

    def can_open(self, path: str) -> Literal[True] | Unreadable:
        return self._maybe(True)

    def environment(self) -> Mapping[str, str] | Unreadable:
        names = [
            "NCCL_P2P_LEVEL",
            "NCCL_SOCKET_IFNAME",
            "CUDA_VISIBLE_DEVICES",
            "NCCL_IB_HCA",
            "PYTORCH_ALLOC_CONF",
            "NCCL_X",
        ]
        letters = string.ascii_letters + string.digits + "^=,:[]-"
        return self._maybe(
            {name: "".join(self._random.choices(letters, k=self._random.randrange(9))) for name in names}
        )

    def taken(self) -> str:
        return self._random.choice(["", "2026-11-30T12:00:00+00:00", "never"])

    def run(self, argv: Sequence[str], *, timeout: float = 5, name: str = "", script: str = "") -> Output | Unreadable:
        return self._maybe(
            Output(self._text(), self._text() if self._random.random() < 0.2 else "", self._random.choice([0, 0, 1]))
        )


@pytest.mark.parametrize("seed", range(60))
def test_a_machine_that_answers_nonsense(seed: int, tmp_path: Path) -> None:
    snapshot = read_snapshot(Nonsense(seed))
    assert [reason for reason in snapshot.unknown.values() if "the probe failed" in reason] == []
    assert snapshot_from_json(snapshot.to_json()) == snapshot
    render_text(examine(snapshot))
