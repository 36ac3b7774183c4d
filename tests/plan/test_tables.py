"""The planner's tables say what the sourced tables of facts say. Exceptions stand here with their reason."""

from __future__ import annotations

import pytest

from stoker.facts.gpus import find_gpu, gpus
from stoker.facts.servers import servers
from stoker.facts.signals import links
from stoker.plan.hardware import find_link, gpu_rows, table
from stoker.plan.reached import PEAKS, peak_of

RATES = {
    "float32": "fp32_tflops",
    "tf32": "tf32_tflops",
    "float16": "fp16_tflops",
    "bfloat16": "bf16_tflops",
    "float8": "fp8_tflops",
}
ONLY_PLANNED = {
    "H100 SXM5 96GB HBM2e 500W",
    "Quadro RTX 8000",
}  # of the validation data: not sold as a product of its own
ONLY_FACTS = {
    "GB10 (DGX Spark)",  # its bandwidth and rates are not known
    "Tesla K80",  # no PyTorch that the planner traces runs on it
}
GFX = {"gfx90a": "9.0", "gfx942": "9.4", "gfx950": "9.5"}  # the number that PyTorch on ROCm reports as capability
BY_NAME = {gpu.model: gpu for gpu in gpus()}
ROWS = {row["name"]: row for row in table("gpus")}
PLANNED = {gpu.name: gpu for gpu in gpu_rows()}


def test_both_tables_have_the_same_cards():
    assert set(ROWS) - set(BY_NAME) == ONLY_PLANNED
    assert set(BY_NAME) - set(ROWS) == ONLY_FACTS


@pytest.mark.parametrize("name", sorted(set(ROWS) - ONLY_PLANNED))
def test_a_card_is_planned_with_the_figures_of_the_facts(name):
    """A rate of 0 in facts, which says that the hardware lacks the format, is no rate of the planner."""
    planned, gpu = PLANNED[name], BY_NAME[name]
    rates = {kind: getattr(gpu, column) for kind, column in RATES.items()}
    given = {kind: rate * 1e12 for kind, rate in rates.items() if rate}
    # the best that was measured stands in for a peak that no data sheet gives
    measured = {name: best for kind, names in PEAKS.items() for name in names if (best := peak_of(planned.name, kind))}
    assert dict(planned.flops) == {**(measured if "bfloat16" not in given and "float16" not in given else {}), **given}
    assert planned.bandwidth == gpu.memory_bandwidth_gb_s * 1e9
    assert planned.tdp_watts == gpu.board_power_w
    assert ".".join(map(str, planned.capability)) == GFX.get(gpu.capability, gpu.capability)
    assert planned.memory_gib <= gpu.memory_gb


@pytest.mark.parametrize("name", sorted(set(ROWS) - ONLY_PLANNED))
def test_a_card_talks_over_the_link_that_it_has(name):
    """Bridges are planned as PCIe: a ring of more than two cards leaves them. So is xGMI of older cards, unmeasured."""
    fabric, gpu = ROWS[name]["fabric"], BY_NAME[name]
    if gpu.peer_link.startswith("NVLink") and not gpu.peer_link_bridge:
        assert fabric.startswith(gpu.peer_link.lower().replace(" ", ""))
    elif gpu.peer_link == "Infinity Fabric":
        assert fabric.startswith("xgmi")
    else:
        assert fabric == f"pcie{gpu.pcie_gen}{'-nop2p' if gpu.p2p_over_pcie is False else ''}"


@pytest.mark.parametrize(
    ("planned", "link"),
    [
        ("nvlink1", "NVLink 1 P100 (4 links)"),
        ("nvlink2", "NVLink 2 V100 (6 links)"),
        ("nvlink3", "NVLink 3 A100 (12 links, NVSwitch)"),
        ("nvlink3-a800", "NVLink 3 A800 SXM (8 links)"),
        ("nvlink4", "NVLink 4 H100 SXM (18 links, NVSwitch)"),
        ("nvlink4-h800", "NVLink 4 H800 SXM"),
        ("nvlink5", "NVLink 5 B200 / GB200 (18 links, NVSwitch)"),
        ("pcie3", "PCIe 3 x16"),
        ("pcie4", "PCIe 4 x16"),
        ("pcie5", "PCIe 5 x16"),
        ("xgmi-mi300", "MI300X Infinity Fabric (7 links)"),
        ("ib-100", "EDR 100 Gb/s"),
        ("ib-200", "HDR 200 Gb/s"),
        ("ib-400", "NDR 400 Gb/s"),
        ("ib-800", "XDR 800 Gb/s"),
    ],
)
def test_a_link_is_planned_no_faster_than_it_is(planned, link):
    """All-reduce may be faster than the line where the switch adds (NVLS); what a GPU sends may not."""
    row = next(row for row in links() if row.link == link)
    assert find_link(planned).bandwidth <= row.one_way_gb_s * 1e9
    if row.measured_high_gb_s is not None:
        assert find_link(planned).bandwidth <= max(row.measured_high_gb_s, row.one_way_gb_s) * 1e9


def test_a_server_draws_more_than_its_gpus_and_its_supplies_carry_it():
    for row in servers():
        gpu = find_gpu(row.gpu)
        assert row.gpus * gpu.board_power_w < row.max_power_w
        assert row.supplies_needed * row.supply_w >= row.max_power_w
        assert row.heat_btu_h >= row.max_power_w * 3.41
