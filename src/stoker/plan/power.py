"""Power of a server: supplies and their redundancy, circuit, heat, air and liquid, energy and cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from stoker.errors import UserError
from stoker.facts.gpus import Gpu, find_gpu
from stoker.facts.servers import Server, servers
from stoker.finding import Finding
from stoker.plan.feed import CONTINUOUS_SHARE, Circuit, Supplies
from stoker.plan.hardware import table
from stoker.plan.power_checks import check_circuit, check_feeds, check_phases, check_supplies, check_voltage

BTU_PER_WH = 3.412142
"""1 W of heat is 3.412 BTU/h (International Table BTU)."""
AIR_J_PER_M3_K = 1.2 * 1005
"""Heat that a cubic metre of air takes per kelvin: 1.2 kg/m3 at 20 degrees Celsius, 1005 J/(kg K)."""
WATER_J_PER_L_K = 4186
"""Heat that a litre of water takes per kelvin."""
M3_H_PER_CFM = 1.699
AIR_WARMING_K = 15.0
"""How much warmer the air may leave than it came, where the server's document does not say how much air it takes."""
WATER_WARMING_K = 10.0
HOURS_PER_YEAR = 8760


@dataclass(frozen=True)
class Cooling:
    """What a source measured under one kind of cooling.

    Attributes:
        cooling: `air` or `liquid`.
        rate_share: Sustained rate as a share of the rate under liquid.
        temperature_c: Lowest and highest temperature of the GPUs under load.
    """

    cooling: str
    rate_share: float
    temperature_c: tuple[float, float]
    measured_as: str
    source: str


@dataclass(frozen=True)
class PowerPlan:
    """What a server draws, and what follows.

    Attributes:
        gpu_w: The GPUs alone, W.
        server_w: The whole server at most, W; `basis` says where it is from.
        amperes: Per phase of one feed while another one is failed (if there are several), in the phase that
            carries most, at a power factor of 1.
        breaker_a: The smallest breaker for that current as a continuous load, A.
        heat_btu_h: Heat given off; `heat_basis` says where it is from.
        airflow_m3_h: Air to take it away; `airflow_basis` says where it is from.
        water_l_min: Water that would take the heat of `server_w` at `WATER_WARMING_K`.
        cooling: What a source measured of air against liquid for these GPUs; none if no source is known.
        findings: What is unsafe or unknown.
    """

    gpu_w: float
    server_w: float
    basis: str
    amperes: float
    breaker_a: float
    heat_btu_h: float
    heat_basis: str
    airflow_m3_h: float
    airflow_basis: str
    water_l_min: float
    cooling: tuple[Cooling, ...] = ()
    findings: tuple[Finding, ...] = field(default=())


def gpu_power(gpu: Gpu, count: int) -> float:
    """Power of `count` devices in W: that of the boards they sit on.

    Raises:
        UserError: The board's power is not known.
    """
    if gpu.board_power_w is None:
        raise UserError(f"the power of the {gpu.model} is not known: gpus.csv has an empty cell")
    return math.ceil(count / gpu.devices_per_board) * gpu.board_power_w


def plan_server(server: Server, circuit: Circuit) -> PowerPlan:
    """The plan of a documented server, with its own supplies, heat and air."""
    gpu = find_gpu(server.gpu)
    basis = f"maximum of the {server.server}: {server.source}"
    return _plan(gpu, gpu_power(gpu, server.gpus), server.max_power_w, basis, supplies_of(server), circuit, server)


def plan_gpus(
    gpu: Gpu, count: int, circuit: Circuit, *, supplies: Supplies | None = None, other_w: float | None = None
) -> PowerPlan:
    """The plan of `count` GPUs in a server that is not documented.

    Args:
        gpu: The model.
        count: Devices.
        circuit: What feeds it.
        supplies: Its supplies, None if not decided.
        other_w: Processors, memory, fans, disks and network, W. Without it the server is taken to draw as
            many times the power of its GPUs as the hungriest documented server.
    """
    gpu_w = gpu_power(gpu, count)
    if other_w is not None:
        return _plan(gpu, gpu_w, gpu_w + other_w, f"GPUs and {other_w:g} W as given", supplies, circuit)
    share, like = max((row.max_power_w / gpu_power(find_gpu(row.gpu), row.gpus), row.server) for row in servers())
    basis = f"assumed: {share:.2f} times the GPUs, as in a {like}; give --other-watts for your server"
    return _plan(gpu, gpu_w, gpu_w * share, basis, supplies, circuit)


def supplies_of(server: Server) -> Supplies | None:
    """The supplies that a server's document gives it."""
    if server.supplies is None or server.supply_w is None or server.supplies_needed is None:
        return None
    return Supplies(server.supplies, server.supply_w, server.supplies - server.supplies_needed)


def energy_kwh(server_w: float, load: float, pue: float) -> float:
    """Energy of a year in kWh at a mean `load` (0 to 1), with the cooling and losses of the site in `pue`."""
    return server_w / 1000 * HOURS_PER_YEAR * load * pue


def cooling_of(gpu: Gpu) -> tuple[Cooling, ...]:
    """What is known of air against liquid for a GPU, from cooling.csv."""
    return tuple(
        Cooling(
            row["cooling"],
            float(row["rate_share"]),
            (float(row["temperature_low_c"]), float(row["temperature_high_c"])),
            row["measured_as"],
            row["source"],
        )
        for row in table("cooling")
        if row["gpu"] == gpu.model
    )


def current(server_w: float, circuit: Circuit, supplies: Supplies | None) -> float:
    """Amperes per phase of one feed while another one is failed, in the phase that carries most."""
    working = max(1, circuit.feeds - 1)
    amperes = server_w / working / (circuit.volts * (math.sqrt(3) if circuit.phases == 3 else 1))
    if supplies is None or circuit.phases == 1:
        return amperes
    on_feed = math.ceil(supplies.count / circuit.feeds)
    return amperes * math.ceil(on_feed / circuit.phases) * circuit.phases / on_feed


def _plan(
    gpu: Gpu,
    gpu_w: float,
    server_w: float,
    basis: str,
    supplies: Supplies | None,
    circuit: Circuit,
    server: Server | None = None,
) -> PowerPlan:
    amperes = current(server_w, circuit, supplies)
    heat, heat_basis = server_w * BTU_PER_WH, "of its power"
    if server is not None and server.heat_btu_h is not None:
        more = "" if round(heat) == server.heat_btu_h else f"; {heat:,.0f} would be that of its power"
        heat, heat_basis = server.heat_btu_h, f"as its document says{more}"
    air, air_basis = server_w / (AIR_J_PER_M3_K * AIR_WARMING_K) * 3600, f"at {AIR_WARMING_K:g} K warming"
    if server is not None and server.airflow_cfm is not None:
        air, air_basis = server.airflow_cfm * M3_H_PER_CFM, "as its document says"
    findings = (
        *check_supplies(gpu_w, server_w, supplies),
        *check_feeds(supplies, circuit),
        *check_phases(supplies, circuit),
        *check_voltage(server, circuit),
        *check_circuit(amperes, circuit),
    )
    return PowerPlan(
        gpu_w=gpu_w,
        server_w=server_w,
        basis=basis,
        amperes=amperes,
        breaker_a=amperes / CONTINUOUS_SHARE,
        heat_btu_h=heat,
        heat_basis=heat_basis,
        airflow_m3_h=air,
        airflow_basis=air_basis,
        water_l_min=server_w / (WATER_J_PER_L_K * WATER_WARMING_K) * 60,
        cooling=cooling_of(gpu),
        findings=findings,
    )
