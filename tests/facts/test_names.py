"""What people call a card."""

from __future__ import annotations

import pytest

from stoker.facts.names import Named, did_you_mean, meant

CARDS = {
    "A100 SXM4 40GB": Named(("A100 SXM4 40GB", "NVIDIA A100-SXM4-40GB"), ("HBM2", "40GB")),
    "A100 PCIe 80GB": Named(("A100 PCIe 80GB",), ("HBM2e", "80GB")),
    "GTX 1080 Ti": Named(("GTX 1080 Ti",), ("GDDR5X", "11GB")),
    "RTX 4090": Named(("GeForce RTX 4090",), ("GDDR6X", "24GB")),
    "RTX 4090 D": Named(("GeForce RTX 4090 D",), ("GDDR6X", "24GB")),
    "RTX A6000": Named(("RTX A6000",)),
    "RTX 6000 Ada": Named(("RTX 6000 Ada",)),
}


@pytest.mark.parametrize(
    ("said", "cards"),
    [
        ("nvidia a100-sxm4-40gb", ["A100 SXM4 40GB"]),
        ("A100", ["A100 SXM4 40GB", "A100 PCIe 80GB"]),
        ("A100 80GB PCIe Gen4", ["A100 PCIe 80GB"]),
        ("A100 HBM2e", ["A100 PCIe 80GB"]),
        ("1080ti", ["GTX 1080 Ti"]),
        ("GTX 1080", []),
        ("4090", ["RTX 4090"]),
        ("RTX 4090 24GB", ["RTX 4090"]),
        ("RTX 4090D", ["RTX 4090 D"]),
        ("RTX 6000", ["RTX A6000", "RTX 6000 Ada"]),
        ("H100", []),
        ("nvidia", []),
        ("", []),
    ],
)
def test_meant(said: str, cards: list[str]) -> None:
    assert list(meant(said, CARDS)) == cards


def test_did_you_mean() -> None:
    assert did_you_mean("RTX 4091", ["GeForce RTX 4090", "A100"]) == ": did you mean GeForce RTX 4090?"
    assert did_you_mean("abacus", ["GeForce RTX 4090"]) == ""
