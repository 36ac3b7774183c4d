"""Simulated GPUs: a stand-in for libnvidia-ml.so.1 in C over a scenario file, built with the system's compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
MODELS = tuple(sorted(file.stem for file in (HERE / "scenarios").glob("*.ini")))
DRIVER = {"version": "580.95.05", "nvml": "13.580.95.05"}


def compiler() -> str | None:
    """The system's C compiler; None if there is none."""
    return shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")


def build(folder: Path, *, without: Sequence[str] = ()) -> Path:
    """Build the library into a folder, for LD_LIBRARY_PATH.

    Args:
        folder: Where to.
        without: Symbols that it is not to have, as an older or newer driver has them not.
    """
    found = compiler()
    assert found is not None, "ask compiler() first"
    folder.mkdir(parents=True, exist_ok=True)
    visible = folder / "symbols.map"
    hidden = "".join(f" {name};" for name in without)
    visible.write_text(f"{{ global: nvml*;{' local:' if hidden else ''}{hidden} }};\n")
    command = [
        found, "-std=c11", "-Wall", "-Wextra", "-O1", "-fPIC", "-shared", f"-Wl,--version-script={visible}",
        "-Wl,-soname,libnvidia-ml.so.1", "-o", str(folder / "libnvidia-ml.so.1"),
        str(HERE / "nvml_sim.c"), str(HERE / "scenario.c"), "-lpthread",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return folder


@dataclass
class SimulatedGpu:
    """One GPU: values by key, and lines of which there may be several, such as `process`, `hang`, `error`, `xid`."""

    values: dict[str, str]
    lines: list[tuple[str, str]] = field(default_factory=list)

    def number(self, key: str, index: int | str = "") -> float | None:
        """A value as NVML gives it; None where it is not supported."""
        text = self.values.get(f"{key}.{index}", self.values.get(key))
        return None if text is None else float(text)


@dataclass
class Scenario:
    """What a simulated machine reports; written to a file that the library reads while it runs."""

    path: Path
    gpus: list[SimulatedGpu]
    driver: dict[str, str] = field(default_factory=lambda: dict(DRIVER))

    def write(self) -> None:
        """Put it in force."""
        parts = ["[driver]", *(f"{key} = {value}" for key, value in self.driver.items())]
        for gpu in self.gpus:
            parts += ["[gpu]", *(f"{key} = {value}" for key, value in gpu.values.items())]
            parts += [f"{key} = {value}" for key, value in gpu.lines]
        aside = self.path.with_suffix(".new")
        aside.write_text("\n".join(parts) + "\n")
        aside.replace(self.path)

    def environment(self, library: Path) -> dict[str, str]:
        """Variables with which a process sees this machine."""
        before = os.environ.get("LD_LIBRARY_PATH")
        return {
            "NVML_SIM_SCENARIO": str(self.path),
            "LD_LIBRARY_PATH": f"{library}:{before}" if before else str(library),
        }


def machine(path: Path, model: str, count: int) -> Scenario:
    """A machine with `count` GPUs of a model.

    Args:
        path: The scenario file.
        model: One of `MODELS`.
        count: How many.
    """
    profile = _profile(HERE / "scenarios" / f"{model}.ini")
    gpus = [SimulatedGpu({**profile, "uuid": uuid_of(model, index), "pci": pci_of(index)}) for index in range(count)]
    return Scenario(path, gpus)


def uuid_of(model: str, index: int) -> str:
    """Such as `GPU-h100-0000-0003`."""
    return f"GPU-{model}-0000-{index:04d}"


def pci_of(index: int) -> str:
    """As NVML writes it, with eight digits of the domain."""
    return f"00000000:{0x19 + 0x10 * index:02X}:00.0"


def _profile(file: Path) -> Mapping[str, str]:
    pairs = (line.partition("=") for line in file.read_text().splitlines() if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}
