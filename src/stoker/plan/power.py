"""Power of a server: supplies and their redundancy, circuit, heat, airflow, energy and cost."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from stoker.errors import UserError
from stoker.facts.gpus import Gpu, find_gpu
from stoker.facts.servers import Server, servers
from stoker.finding import Finding

BTU_PER_WH = 3.412142
"""1 W of heat is 3.412 BTU/h (International Table BTU)."""
AIR_J_PER_M3_K = 1.2 * 1005
"""Heat that a cubic metre of air takes per kelvin: 1.2 kg/m3 at 20 degrees Celsius, 1005 J/(kg K)."""
M3_H_PER_CFM = 1.699
CONTINUOUS_SHARE = 0.8
"""A circuit carries a continuous load up to 80 % of its breaker: NFPA 70 (NEC) 210.20(A)."""
HOURS_PER_YEAR = 8760


@dataclass(frozen=True)
class Supplies:
    """Power supplies: how many, W each, and how many may fail with the server still running."""

    count: int
    watts: float
    spare: int = 1


@dataclass(frozen=True)
class Circuit:
    """The feed: V (between phases where there are three), phases, and the breaker in A, None if not given."""

    volts: float = 230.0
    phases: int = 1
    breaker_a: float | None = None


@dataclass(frozen=True)
class PowerPlan:
    """What a server draws, and what follows.

    Attributes:
        gpu_w: The GPUs alone, W.
        server_w: The whole server at most, W; `basis` says where it is from.
        amperes: Per phase, at a power factor of 1.
        breaker_a: The smallest breaker for that current as a continuous load, A.
        heat_btu_h: Heat given off.
        airflow_m3_h: Air to take it away.
        findings: What is unsafe or unknown.
    """

    gpu_w: float
    server_w: float
    basis: str
    amperes: float
    breaker_a: float
    heat_btu_h: float
    airflow_m3_h: float
    findings: tuple[Finding, ...]


def parse_supplies(text: str, spare: int) -> Supplies:
    """Supplies written as `2x1600`.

    Raises:
        UserError: It is not of that form, or as many may fail as there are.
    """
    match = re.fullmatch(r"(\d+)\s*[xX]\s*(\d+)\s*[wW]?", text.strip())
    if match is None or int(match[1]) == 0:
        raise UserError(f"--supplies {text}: write count x watts, such as 2x1600")
    if not 0 <= spare < int(match[1]):
        raise UserError(f"--spare {spare}: of {match[1]} supplies at most {int(match[1]) - 1} can be spare")
    return Supplies(int(match[1]), float(match[2]), spare)


def gpu_power(gpu: Gpu, count: int) -> float:
    """Power of `count` devices in W: that of the boards they sit on.

    Raises:
        UserError: The board's power is not known.
    """
    if gpu.board_power_w is None:
        raise UserError(f"the power of the {gpu.model} is not known: gpus.csv has an empty cell")
    return math.ceil(count / gpu.devices_per_board) * gpu.board_power_w


def plan_server(server: Server, circuit: Circuit, *, warming_k: float = 15.0) -> PowerPlan:
    """The plan of a documented server, with its own supplies.

    Args:
        server: The server.
        circuit: What feeds it.
        warming_k: How much warmer the air may leave than it came, K.
    """
    supplies = None
    if server.supplies is not None and server.supply_w is not None and server.supplies_needed is not None:
        supplies = Supplies(server.supplies, server.supply_w, server.supplies - server.supplies_needed)
    gpu_w = gpu_power(find_gpu(server.gpu), server.gpus)
    basis = f"maximum of the {server.server}: {server.source}"
    return _plan(gpu_w, server.max_power_w, basis, supplies, circuit, warming_k)


def plan_gpus(
    gpu: Gpu,
    count: int,
    circuit: Circuit,
    *,
    supplies: Supplies | None = None,
    other_w: float | None = None,
    warming_k: float = 15.0,
) -> PowerPlan:
    """The plan of `count` GPUs in a server that is not documented.

    Args:
        gpu: The model.
        count: Devices.
        circuit: What feeds it.
        supplies: Its supplies, None if not decided.
        other_w: Processors, memory, fans, disks and network, W. Without it the server is taken to draw as
            many times the power of its GPUs as the hungriest documented server.
        warming_k: How much warmer the air may leave than it came, K.
    """
    gpu_w = gpu_power(gpu, count)
    if other_w is not None:
        return _plan(gpu_w, gpu_w + other_w, f"GPUs and {other_w:g} W as given", supplies, circuit, warming_k)
    share, like = max((row.max_power_w / gpu_power(find_gpu(row.gpu), row.gpus), row.server) for row in servers())
    basis = f"assumed: {share:.2f} times the GPUs, as in a {like}; give --other-watts for your server"
    return _plan(gpu_w, gpu_w * share, basis, supplies, circuit, warming_k)


def energy_kwh(server_w: float, load: float, pue: float) -> float:
    """Energy of a year in kWh at a mean `load` (0 to 1), with the cooling and losses of the site in `pue`."""
    return server_w / 1000 * HOURS_PER_YEAR * load * pue


def _plan(
    gpu_w: float, server_w: float, basis: str, supplies: Supplies | None, circuit: Circuit, warming_k: float
) -> PowerPlan:
    amperes = server_w / (circuit.volts * (math.sqrt(3) if circuit.phases == 3 else 1))
    findings = [*_check_supplies(gpu_w, server_w, supplies), *_check_circuit(amperes, circuit)]
    return PowerPlan(
        gpu_w=gpu_w,
        server_w=server_w,
        basis=basis,
        amperes=amperes,
        breaker_a=amperes / CONTINUOUS_SHARE,
        heat_btu_h=server_w * BTU_PER_WH,
        airflow_m3_h=server_w / (AIR_J_PER_M3_K * warming_k) * 3600,
        findings=tuple(findings),
    )


def _check_supplies(gpu_w: float, server_w: float, supplies: Supplies | None) -> Iterator[Finding]:
    """The supplies carry the server, and still do when the spare ones have failed."""
    if supplies is None:
        yield Finding("unknown", "power.supplies", "the supplies are not known: give --supplies", area="power")
        return
    every = supplies.count * supplies.watts
    left = (supplies.count - supplies.spare) * supplies.watts
    have = f"{supplies.count} x {supplies.watts:g} W"
    needed = math.ceil(server_w / supplies.watts) + max(supplies.spare, 1)
    fix = (f"take {needed} supplies of {supplies.watts:g} W, or larger ones",)
    if gpu_w >= every:
        title = f"the GPUs alone draw {gpu_w:g} W, as much as {have} give together: nothing is left for the rest"
        yield Finding("fail", "power.overload", title, fix=fix, area="power")
    elif server_w > every:
        title = f"the server draws up to {server_w:.0f} W and {have} give {every:g} W"
        yield Finding("fail", "power.overload", title, fix=fix, area="power")
    elif supplies.spare == 0:
        title = f"{have} carry {server_w:.0f} W, but none is spare: one failed supply stops the server"
        yield Finding("warn", "power.no_redundancy", title, fix=fix, area="power")
    elif server_w > left:
        title = f"with {supplies.spare} of {have} failed, {left:g} W are left for up to "
        title += f"{server_w:.0f} W: the server stops"
        yield Finding("fail", "power.no_redundancy", title, fix=fix, area="power")
    else:
        title = f"{have} carry {server_w:.0f} W even with {supplies.spare} failed ({left:g} W)"
        yield Finding("ok", "power.supplies", title, area="power")


def _check_circuit(amperes: float, circuit: Circuit) -> Iterator[Finding]:
    """The breaker carries the current continuously."""
    if circuit.breaker_a is None:
        return
    allowed = circuit.breaker_a * CONTINUOUS_SHARE
    source = "NFPA 70 (NEC) 210.20(A)"
    text = f"{amperes:.1f} A continuously on a breaker of {circuit.breaker_a:g} A, which carries "
    text += f"{allowed:g} A so"
    if amperes > allowed:
        fix = (f"take a breaker of at least {amperes / CONTINUOUS_SHARE:.0f} A, or more circuits",)
        yield Finding("fail", "power.circuit", text, fix=fix, source=source, area="power")
    else:
        yield Finding("ok", "power.circuit", text, source=source, area="power")
