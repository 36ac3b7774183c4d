"""Power: figures of the cited documents, and the rule on supplies."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from stoker.cli.main import app
from stoker.errors import UserError
from stoker.facts.gpus import find_gpu
from stoker.facts.servers import find_server
from stoker.plan.feed import Circuit, parse_supplies
from stoker.plan.hardware import table
from stoker.plan.power import M3_H_PER_CFM, cooling_of, energy_kwh, gpu_power, plan_gpus, plan_server


def states(plan):
    return {finding.cause: finding.state for finding in plan.findings}


def test_dgx_a100_as_its_guide_says():
    """DU-09821-001: 6.5 kW at most, six supplies of 3000 W, 3+3."""
    plan = plan_server(find_server("dgx a100"), Circuit())
    assert plan.server_w == 6500
    assert plan.gpu_w == 8 * 400
    assert states(plan) == {"power.supplies": "ok"}
    assert "even with 3 failed (9000 W)" in plan.findings[0].title
    assert plan.heat_btu_h == 22179
    assert plan.airflow_m3_h / M3_H_PER_CFM == pytest.approx(840)


@pytest.mark.parametrize("name", ["DGX H100", "DGX H200"])
def test_dgx_h100_and_h200_as_their_guide_says(name):
    """Introduction to DGX H100/H200: 10.2 kW, 200-240 V, six supplies of 3300 W, 4+2, 1105 CFM, 38,557 BTU/h."""
    server = find_server(name)
    plan = plan_server(server, Circuit())
    assert (plan.server_w, plan.gpu_w) == (10200, 8 * 700)
    assert (server.supplies, server.supply_w, server.supplies_needed) == (6, 3300, 4)
    assert (server.volts_min, server.volts_max, server.max_inlet_c) == (200, 240, 30)
    assert "even with 2 failed (13200 W)" in plan.findings[0].title
    assert plan.heat_btu_h == 38557
    assert plan.heat_basis == "as its document says; 34,804 would be that of its power"
    assert plan.airflow_m3_h / M3_H_PER_CFM == pytest.approx(1105)


def test_three_failed_supplies_slow_a_dgx_h100_down_but_not_a_dgx_a100():
    """Both guides: a feed of two carries three supplies; 4+2 is then short of one, 3+3 is not."""
    assert states(plan_server(find_server("DGX H100"), Circuit(feeds=2)))["power.feeds"] == "warn"
    assert states(plan_server(find_server("DGX A100"), Circuit(feeds=2)))["power.feeds"] == "ok"


@pytest.mark.parametrize(
    ("volts", "phases", "fits"),
    [(120, 1, False), (208, 1, True), (230, 1, True), (208, 3, True), (400, 3, True), (415, 3, True), (480, 3, False)],
)
def test_the_voltage_at_a_supply(volts, phases, fits):
    """400 V between phases are 231 V to neutral; 480 V are 277 V, which no supply of 200 to 240 V takes."""
    found = states(plan_server(find_server("DGX H100"), Circuit(volts, phases)))
    assert ("power.voltage" not in found) == fits


def test_two_feeds_must_each_carry_the_server_alone():
    one, two, three = (plan_server(find_server("DGX A100"), Circuit(feeds=feeds)).amperes for feeds in (1, 2, 3))
    assert two == one
    assert three == pytest.approx(one / 2)


def test_four_supplies_on_three_phases_load_one_twice():
    four, six = (
        plan_gpus(find_gpu("RTX 4090"), 8, Circuit(400, 3), supplies=parse_supplies(text, 1), other_w=1200)
        for text in ("4x2000", "6x2000")
    )
    assert states(four)["power.phases"] == "warn"
    assert "power.phases" not in states(six)
    assert four.amperes == pytest.approx(six.amperes * 1.5)


def test_air_against_liquid_as_measured():
    """arXiv 2507.16781: 46 TFLOP/s per GPU with air, 54 with liquid."""
    air, liquid = cooling_of(find_gpu("H100 SXM5 80GB"))
    assert air.rate_share == pytest.approx(46 / 54, abs=0.005)
    assert (air.temperature_c, liquid.temperature_c) == ((54, 72), (41, 50))
    assert cooling_of(find_gpu("RTX 4090")) == ()  # no source: not known, and said so


def test_every_cooling_row_has_a_source_and_a_known_gpu():
    for row in table("cooling"):
        assert row["source"]
        assert find_gpu(row["gpu"]).model == row["gpu"]


def test_water_by_hand():
    assert plan_server(find_server("DGX H100"), Circuit()).water_l_min == pytest.approx(14.6, rel=0.01)


def test_eight_400_w_gpus_on_two_1600_w_supplies_are_unsafe():
    """3200 W of GPUs are the whole output of both supplies, whatever the rest of the server draws."""
    for other in (None, 0.0, 500.0):
        plan = plan_gpus(find_gpu("A100 SXM4 80GB"), 8, Circuit(), supplies=parse_supplies("2x1600", 1), other_w=other)
        assert states(plan) == {"power.overload": "fail"}
        assert "the GPUs alone draw 3200 W" in plan.findings[0].title


@pytest.mark.parametrize(
    ("supplies", "spare", "other", "state", "cause"),
    [
        ("2x2000", 0, 900, "fail", "power.overload"),  # 4100 W on 4000 W
        ("2x3000", 0, 900, "warn", "power.no_redundancy"),  # carries it, none spare
        ("2x3000", 1, 900, "fail", "power.no_redundancy"),  # 3000 W left for 4100 W
        ("4x1600", 1, 900, "ok", "power.supplies"),  # 4800 W left
        ("4x1600", 2, 900, "fail", "power.no_redundancy"),  # 3200 W left
    ],
)
def test_supplies_with_redundancy(supplies, spare, other, state, cause):
    plan = plan_gpus(find_gpu("A100 SXM4 80GB"), 8, Circuit(), supplies=parse_supplies(supplies, spare), other_w=other)
    assert states(plan) == {cause: state}


def test_an_unknown_server_is_assumed_as_hungry_as_the_hungriest():
    plan = plan_gpus(find_gpu("RTX 4090"), 8, Circuit())
    assert plan.server_w == pytest.approx(8 * 450 * 6500 / 3200)
    assert plan.basis.startswith("assumed: 2.03 times the GPUs, as in a DGX A100")
    assert states(plan) == {"power.supplies": "unknown"}


def test_heat_and_current_by_hand():
    plan = plan_server(find_server("DGX A100"), Circuit(volts=230))
    assert plan.heat_btu_h == pytest.approx(22179, rel=1e-3)  # 6500 W x 3.412
    assert plan.amperes == pytest.approx(28.26, rel=1e-3)  # 6500 / 230
    assert plan.breaker_a == pytest.approx(35.3, rel=1e-2)  # / 0.8
    three = plan_server(find_server("DGX A100"), Circuit(volts=400, phases=3))
    assert three.amperes == pytest.approx(9.38, rel=1e-3)  # 6500 / (400 x 1.732)
    own = plan_gpus(find_gpu("A100 SXM4 80GB"), 8, Circuit(), other_w=3300)
    assert own.airflow_m3_h == pytest.approx(1294, rel=1e-2)  # 6500 / (1206 x 15) x 3600


@pytest.mark.parametrize(("breaker", "state"), [(32, "fail"), (40, "ok")])
def test_a_breaker_carries_80_percent_continuously(breaker, state):
    plan = plan_server(find_server("DGX A100"), Circuit(230, 1, breaker))
    assert states(plan)["power.circuit"] == state


def test_boards_with_several_devices_count_once():
    assert gpu_power(find_gpu("Tesla K80"), 8) == 4 * 300
    assert gpu_power(find_gpu("Instinct MI250X"), 8) == 4 * 560


def test_an_unknown_power_is_not_zero():
    with pytest.raises(UserError, match="is not known"):
        gpu_power(find_gpu("GB10"), 1)


def test_energy_of_a_year():
    assert energy_kwh(6500, 1.0, 1.0) == 6.5 * 8760
    assert energy_kwh(1000, 0.5, 1.4) == pytest.approx(6132)


@pytest.mark.parametrize("text", ["2", "x1600", "0x1600", "two"])
def test_supplies_are_written_count_x_watts(text):
    with pytest.raises(UserError, match="2x1600"):
        parse_supplies(text, 1)


def test_not_all_supplies_can_be_spare():
    with pytest.raises(UserError, match="at most 1 can be spare"):
        parse_supplies("2x1600", 2)


def test_the_command():
    run = CliRunner()
    good = run.invoke(app, ["plan", "power", "--server", "DGX A100", "--price", "0.2"])
    assert good.exit_code == 0
    assert "22,179 BTU/h" in good.output
    assert "what air costs against liquid in speed is not known" in good.output
    assert "56,940 kWh per year at load 1 and PUE 1, 11,388 at 0.2 per kWh" in good.output
    mixed = run.invoke(app, ["plan", "power", "--server", "DGX A100", "--supplies", "2x1600"])
    assert "give --gpu instead of --server" in str(mixed.exception)
    bad = run.invoke(app, ["plan", "power", "--gpu", "A100 SXM4 80GB", "--supplies", "2x1600", "--format", "json"])
    assert bad.exit_code == 1
    assert json.loads(bad.output)["findings"][0]["state"] == "fail"
