"""All tables by the name a person uses, as plain rows that can be filtered."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.errors import UserError
from stoker.facts.reader import Words, raw_rows, split


@dataclass(frozen=True)
class Table:
    """A table of this package.

    Attributes:
        name: As written on the command line.
        file: Its file under `tables/`.
        title: What it holds.
        columns: The columns worth a first look, in order.
    """

    name: str
    file: str
    title: str
    columns: Words

    @property
    def rows(self) -> tuple[Mapping[str, str], ...]:
        """All rows, column name to cell."""
        return raw_rows(self.file)

    @property
    def all_columns(self) -> Words:
        """Every column, in the order of the file."""
        return tuple(self.rows[0])


def _table(name: str, file: str, title: str, columns: str) -> Table:
    return Table(name, f"{file}.csv", title, tuple(columns.split()))


TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        _table(
            "gpus",
            "gpus",
            "GPU models: dense rates in TFLOP/s, memory in GB, power in W",
            "model capability memory_gb memory_bandwidth_gb_s bf16_tflops fp8_tflops board_power_w peer_link",
        ),
        _table("pci", "pci_ids", "PCI device ids of GPUs", "vendor_id device_id name architecture capability"),
        _table(
            "torch",
            "torch_releases",
            "torch releases and their partners",
            "torch release_date python cuda_default cuda_published torchvision torchaudio",
        ),
        _table(
            "wheels",
            "torch_cuda_archs",
            "CUDA builds of torch: the architectures they hold code for",
            "torch cuda platform index published sm_list",
        ),
        _table("rocm", "torch_rocm", "ROCm builds of torch", "torch rocm index published gfx_list"),
        _table(
            "drivers",
            "drivers",
            "branches of the NVIDIA driver",
            "branch kind latest end_month status max_cuda oldest_architecture instead",
        ),
        _table(
            "cuda",
            "cuda_driver",
            "CUDA releases: the driver, architectures and compilers they need",
            "release driver_exact driver_minor sm_min sm_max gcc_max release_month",
        ),
        _table(
            "capabilities",
            "capabilities",
            "compute capabilities: the drivers and kernel modules they need",
            "capability architecture driver_first driver_last open_modules cuda_first cuda_last",
        ),
        _table(
            "binaries",
            "arch_binary_compat",
            "which machine code loads on which capability",
            "sm runs_on also_from_cuda",
        ),
        _table("cudnn", "cudnn", "cuDNN releases", "cudnn release_month cuda sm_min sm_max sm_range"),
        _table("nccl", "nccl", "NCCL releases", "nccl release_month cuda_majors sm_cu12 sm_cu13"),
        _table(
            "tensorflow",
            "tensorflow",
            "TensorFlow releases",
            "tensorflow release_month python cuda cudnn cudnn_pin numpy",
        ),
        _table("numpy", "numpy", "NumPy releases and their Python versions", "numpy python notes"),
        _table(
            "links",
            "links",
            "links between GPUs, hosts and machines, GB/s",
            "link per one_way_gb_s both_ways_gb_s measured_high_gb_s floor_gb_s measured_as",
        ),
        _table("xid", "xid", "Xid codes of the NVIDIA driver", "xid also severity likely_cause action"),
        _table("metrics", "gpu_metrics", "GPU metrics and their names", "metric unit alert dcgm_exporter_metric"),
        _table(
            "variables",
            "run_variables",
            "environment variables that NCCL and torch read",
            "variable reader state instead",
        ),
        _table("incompat", "known_incompat", "known incompatibilities", "id area error_text fix"),
        _table(
            "servers",
            "servers",
            "servers whose power is documented",
            "server gpu gpus max_power_w supplies supply_w supplies_needed heat_btu_h airflow_cfm",
        ),
        _table("os", "os_releases", "operating systems", "id version glibc python driver_repository"),
        _table(
            "install",
            "driver_install",
            "how a driver branch is installed",
            "os versions branch_first branch_last flavour commands",
        ),
    )
}


def find_table(name: str) -> Table:
    """The table of that name.

    Raises:
        UserError: There is none; the message has the nearest name and all names.
    """
    if name in TABLES:
        return TABLES[name]
    near = difflib.get_close_matches(name, TABLES, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UserError(f"there is no table {name!r}: {hint}the tables are {', '.join(TABLES)}")


def find_column(table: Table, name: str) -> str:
    """The column of that name in `table`.

    Raises:
        UserError: There is none; the message has the nearest name and all names.
    """
    if name in table.all_columns:
        return name
    near = difflib.get_close_matches(name, table.all_columns, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UserError(f"{table.name} has no column {name!r}: {hint}the columns are {', '.join(table.all_columns)}")


def select(table: Table, *, text: str = "", where: Sequence[tuple[str, str]] = ()) -> tuple[Mapping[str, str], ...]:
    """The rows that hold `text` anywhere (case aside) and, for each column of `where`, that value.

    A list cell has the value if one of its items is it; an empty value asks for unknown cells.

    Raises:
        UserError: A column does not exist.
    """
    wanted = [(find_column(table, column), value.lower()) for column, value in where]
    return tuple(
        row
        for row in table.rows
        if text.lower() in "\n".join(row.values()).lower()
        and all(
            value == row[column].lower() or value in (item.lower() for item in split(row[column]))
            for column, value in wanted
        )
    )
