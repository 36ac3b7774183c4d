"""`stoker facts` and `stoker plan versions` as a person calls them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from stoker.cli.main import app
from stoker.errors import UserError
from stoker.facts.catalog import TABLES

run = CliRunner()


def stoker(*words, width="100"):
    result = run.invoke(app, list(words), env={"COLUMNS": width})
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("width", [80, 140])
def test_each_table_fits_the_terminal(name, width):
    result = stoker("facts", name, width=str(width))
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= width


def test_without_a_table_the_tables_are_listed():
    output = stoker("facts").output
    assert all(name in output for name in TABLES)


def test_rows_can_be_filtered_and_columns_chosen():
    output = stoker("facts", "gpus", "--where", "capability=8.9", "--columns", "model,board_power_w").output
    assert "GeForce RTX 4090" in output
    assert "450" in output
    assert "A100" not in output


def test_where_looks_into_lists():
    rows = json.loads(stoker("facts", "torch", "--where", "python=3.15", "--format", "json").output)
    assert [row["torch"] for row in rows] == ["2.15"]


def test_an_empty_value_asks_for_what_is_unknown():
    rows = json.loads(stoker("facts", "drivers", "--where", "latest=", "--format", "json").output)
    assert [row["branch"] for row in rows] == ["615"]
    assert rows[0]["latest"] is None


def test_csv_can_be_read_back():
    rows = list(csv.DictReader(io.StringIO(stoker("facts", "xid", "--format", "csv").output)))
    assert len(rows) == len(TABLES["xid"].rows)


def test_sources_on_demand():
    words = ("facts", "gpus", "--filter", "L40S")
    assert "https://resources.nvidia.com" not in stoker(*words).output
    assert "L40S: https://resources.nvidia.com" in stoker(*words, "--sources").output


def test_a_wrong_table_or_column_gets_the_nearest():
    with pytest.raises(UserError, match="no table 'gpu': did you mean gpus"):
        stoker("facts", "gpu")
    with pytest.raises(UserError, match="no column 'memry_gb': did you mean memory_gb"):
        stoker("facts", "gpus", "--columns", "memry_gb")
    with pytest.raises(UserError, match="write column=value"):
        stoker("facts", "gpus", "--where", "capability")


def test_a_plan_explains_itself_with_sources():
    output = stoker("plan", "versions", "--gpu", "RTX 5090", "--os", "ubuntu-24.04").output
    assert "torch           2.15.0" in output
    assert "kernel modules  open" in output
    assert "cuda_driver.csv, driver_minor" in output


def test_a_plan_as_data():
    data = json.loads(stoker("plan", "versions", "--gpu", "V100", "--format", "json").output)
    assert data["possible"] is True
    assert data["set"]["torch"] == "2.14.1"
    assert data["install"]["command"].endswith("whl/cu126")
    assert {"state", "rule", "sentence", "source"} == set(data["reasons"][0])
    assert data["why_not_newer"]["2.15"]


def test_an_impossible_plan_fails_and_names_the_nearest():
    result = stoker("plan", "versions", "--gpu", "V100", "--gpu", "RTX 5090")
    assert result.exit_code == 1
    assert "one machine has one flavour" in result.output.replace("\n    ", " ")
    assert "if V100 is left out: torch 2.15.0" in result.output


def test_a_requirements_file_is_kept_to(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text("torch==1.13.1+cu117\nnumpy<2\n")
    data = json.loads(stoker("plan", "versions", "--gpu", "A100", "-r", str(path), "--format", "json").output)
    assert data["install"]["packages"] == [
        "torch==1.13.1",
        "torchvision==0.14.1",
        "torchaudio==0.13.1",
        "numpy<2",
    ]
    assert any("it serves no labels" in reason["sentence"] for reason in data["reasons"])


def test_one_form_is_printed_alone():
    output = stoker("plan", "versions", "--gpu", "V100", "--as", "requirements").output
    assert output.splitlines()[0] == "--extra-index-url https://download.pytorch.org/whl/cu126"


def test_check_fails_with_exit_code_1_where_something_is_wrong():
    result = stoker("plan", "versions", "--check", "--gpu", "V100", "--driver", "580.178.04", "--format", "json")
    found = json.loads(result.output)
    failed = [finding for finding in found if finding["state"] == "fail"]
    assert (result.exit_code == 1) == bool(failed)


def test_help_does_not_load_heavy_packages():
    heavy = ("torch", "pydantic", "yaml", "packaging", "stoker.plan.versions")
    code = f"import sys; import stoker.cli.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
