"""Each table by itself: types, keys, sources, dates."""

from __future__ import annotations

import re

import pytest

from stoker.facts import drivers, frameworks, gpus, servers, signals, systems
from stoker.facts.catalog import TABLES
from stoker.facts.reader import load

ROW_TYPES = {
    "gpus": gpus.Gpu,
    "pci": gpus.PciDevice,
    "torch": frameworks.TorchRelease,
    "wheels": frameworks.TorchBuild,
    "rocm": frameworks.RocmBuild,
    "drivers": drivers.DriverBranch,
    "cuda": drivers.CudaRelease,
    "capabilities": drivers.Capability,
    "binaries": frameworks.BinaryRule,
    "cudnn": frameworks.CudnnRelease,
    "nccl": frameworks.NcclRelease,
    "numpy": frameworks.NumpyRelease,
    "tensorflow": frameworks.TensorflowRelease,
    "links": signals.Link,
    "xid": signals.Xid,
    "metrics": signals.Metric,
    "incompat": signals.Incompatibility,
    "variables": signals.RunVariable,
    "servers": servers.Server,
    "os": systems.OsRelease,
    "install": drivers.DriverInstall,
}
KEYS = {
    "gpus": ("vendor", "model"),
    "pci": ("vendor_id", "device_id"),
    "wheels": ("torch", "cuda", "platform"),
    "rocm": ("torch", "rocm"),
    "cuda": ("release",),
    "links": ("link",),
    "metrics": ("metric",),
    "incompat": ("id",),
    "os": ("id", "version"),
    "install": ("os", "versions", "branch_first", "flavour"),
}


def test_every_table_has_a_row_type():
    assert set(ROW_TYPES) == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_cells_have_the_types_of_their_fields(name):
    rows = load(TABLES[name].file, ROW_TYPES[name])
    assert len(rows) == len(TABLES[name].rows) > 0


@pytest.mark.parametrize("name", TABLES)
def test_every_row_has_a_source(name):
    assert [row for row in TABLES[name].rows if not row["source"]] == []


@pytest.mark.parametrize("name", TABLES)
def test_keys_are_unique(name):
    key = KEYS.get(name, (TABLES[name].all_columns[0],))
    found = [tuple(row[column] for column in key) for row in TABLES[name].rows]
    assert len(found) == len(set(found))


@pytest.mark.parametrize("name", TABLES)
def test_cells_are_trimmed_and_lists_have_no_empty_items(name):
    for row in TABLES[name].rows:
        for column, cell in row.items():
            assert cell == cell.strip(), (row, column)
            assert "||" not in cell, (row, column)
            assert not cell.startswith("|"), (row, column)
            assert not cell.endswith("|"), (row, column)


@pytest.mark.parametrize("name", TABLES)
def test_months_and_dates_are_written_alike(name):
    for row in TABLES[name].rows:
        for column, cell in row.items():
            if column.endswith("_month") and cell:
                assert re.fullmatch(r"20[12]\d-(0[1-9]|1[0-2])", cell), (row, column)
            if column.endswith("_date") and cell:
                assert re.fullmatch(r"20[12]\d-\d\d-\d\d", cell), (row, column)


@pytest.mark.parametrize("name", TABLES)
def test_the_columns_shown_first_exist(name):
    assert set(TABLES[name].columns) <= set(TABLES[name].all_columns)


def test_architectures_are_written_as_sm_numbers():
    for table, columns in (("wheels", ("sm_list",)), ("nccl", ("sm_cu11", "sm_cu12", "sm_cu13"))):
        for row in TABLES[table].rows:
            for column in columns:
                for item in filter(None, row[column].split("|")):
                    assert re.fullmatch(r"sm_\d{2,3}", item), row


def test_every_xid_code_has_one_row():
    rows = load("xid.csv", signals.Xid)
    codes = [code for row in rows for code in (row.xid, *row.also)]
    assert len(codes) == len(set(codes))


def test_an_unknown_cell_is_not_zero():
    by_model = {gpu.model: gpu for gpu in gpus.gpus()}
    assert by_model["RTX PRO 6000 Blackwell Server"].bf16_tflops is None  # not published
    assert by_model["Tesla K80"].bf16_tflops == 0  # the hardware has none
    assert by_model["A100 SXM4 80GB"].bf16_tflops == 312  # A100 datasheet


def test_a_wrong_cell_is_named_with_its_place(monkeypatch):
    from stoker.facts import reader

    good = dict(reader.raw_rows("numpy.csv")[0])
    monkeypatch.setattr(reader, "raw_rows", lambda table: (good | {"numpy": "one"},))
    with pytest.raises(ValueError, match=r"numpy.csv:2: numpy: 'one'"):
        load.__wrapped__("numpy.csv", frameworks.NumpyRelease)
