"""`stoker plan topology` from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest


def test_without_a_server_the_known_ones_are_listed(command: Callable[..., Any]) -> None:
    code, out, _ = command("plan", "topology")
    assert code == 0
    assert "DGX H100: 8 x H100 SXM5 80GB\n" in out


def test_the_answer_as_data(command: Callable[..., Any]) -> None:
    code, out, _ = command("plan", "topology", "8 x RTX 4090", "--format", "json")
    data = json.loads(out)
    assert code == 0
    assert data["ring_gb_s"] == 6
    assert len(data["paths"]) == 56
    assert data["paths"][0] == {
        "one": 0, "other": 1, "kind": "PIX", "way": "host memory", "theory_gb_s": 31.5, "expected_gb_s": 12.9,
    }  # fmt: skip
    assert data["server"]["uplinks"][1]["gpus"] == [4, 5, 6, 7]
    assert data["ports"][7]["gb_s"] is None
    assert data["cited"]


def test_storage_that_does_not_work_out_is_exit_code_1(command: Callable[..., Any]) -> None:
    words = "--dataset-gb 1000 --bytes-per-sample 1e6 --samples-per-second 60000 --epochs 3"
    code, out, _ = command("plan", "topology", "DGX A100", *words.split())
    assert code == 1
    assert "fail: 8 NVMe drives read 52.0 GB/s, 75.0 are needed" in out
    assert "    do: fit 12 drives" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["DGX A200"], "'DGX A200' is neither a file nor a known server: did you mean DGX H200?"),
        (["DGX A100", "--samples-per-second", "5"], "give two of --dataset-gb, --samples and --bytes-per-sample"),
    ],
)
def test_mistakes(words: list[str], sentence: str, command: Callable[..., Any]) -> None:
    code, out, err = command("plan", "topology", *words)
    assert (code, out) == (2, "")
    assert sentence in err
