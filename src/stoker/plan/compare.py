"""Cards side by side for one training step: does it fit, how fast, per watt and per price.

One trace serves all cards: what a step does depends on the card only where torch picks attention kernels and
types by its generation. Everything else is the arithmetic of `judge` and `plan_speed`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stoker.errors import Mistake, UserError
from stoker.facts.gpus import gpus
from stoker.plan.hardware import Gpu, find_gpu
from stoker.plan.layout import Layout, parse_layout
from stoker.plan.memory import MemoryPlan, Verdict, judge, plan_memory
from stoker.plan.speed import Conditions, Range, SpeedPlan, plan_speed
from stoker.plan.trace.log import Trace
from stoker.plan.trace.run import Source

KERNELS_CHANGE_AT = (8, 0)
"""Compute capability from which torch has bfloat16 and flash attention: traces differ across it."""


@dataclass(frozen=True)
class Choice:
    """One of the choices to compare.

    Attributes:
        gpu: The model.
        layout: How the ranks are arranged; it says how many devices are bought.
        price: Of one card, in any currency; None if not given.
    """

    gpu: Gpu
    layout: Layout
    price: float | None = None

    @property
    def label(self) -> str:
        """The model, with its number where there are several."""
        return self.gpu.name if self.layout.ranks == 1 else f"{self.layout.ranks} x {self.gpu.name}"

    @property
    def watts(self) -> float | None:
        """Power of the boards that the devices sit on, of which some hold several; None if not known."""
        on_board = next((gpu.devices_per_board for gpu in gpus() if gpu.model == self.gpu.name), 1)
        boards = math.ceil(self.layout.ranks / on_board)
        return None if self.gpu.tdp_watts is None else boards * self.gpu.tdp_watts


@dataclass(frozen=True)
class Compared:
    """What came out for one choice.

    Attributes:
        label: The model and its number.
        gpus: How many.
        verdict: Whether the step fits; None where it could not be traced for this card.
        trouble: Why there are no figures; empty if there are.
        memory_bytes: What one card would hold; None with `trouble`.
        usable_bytes: What one card has.
        samples_per_second: Of all cards; None where the step does not fit or could not be traced.
        step_seconds: Of one step.
        bound: What bounds the step.
        watts: Board power of all cards; None if not known.
        price: Of all cards; None if not given.
        per_kilowatt: Samples per second per 1000 W of board power.
        per_thousand: Samples per second per 1000 of the currency.
        assumptions: What was assumed for this card.
    """

    label: str
    gpus: int
    verdict: Verdict | None
    trouble: str
    memory_bytes: float | None
    usable_bytes: int
    samples_per_second: Range | None
    step_seconds: Range | None
    bound: str
    watts: float | None
    price: float | None
    per_kilowatt: Range | None
    per_thousand: Range | None
    assumptions: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return asdict(self)


def parse_choices(cards: Sequence[str], gpus: int, layout: str, prices: Sequence[str]) -> list[Choice]:
    """The choices that words mean: `H100 SXM`, or `4xH100 SXM` for another number than the rest.

    Args:
        cards: At least one.
        gpus: Number of cards where a word has none.
        layout: As for `parse_layout`; `ddp` takes all cards, of which there may be one.
        prices: Words `CARD=PRICE`, of one card.

    Raises:
        UserError: With every card, layout and price that cannot be read.
    """
    price_of = _prices(prices)
    found: list[Choice] = []
    mistakes: list[Mistake] = []
    for card in cards:
        match = re.fullmatch(r"(?:(\d+)\s*[xX]\s*)?(\S.*)", card.strip())
        count = int(match[1]) if match and match[1] else gpus
        try:
            gpu = find_gpu(match[2] if match else card)
            arranged = parse_layout(layout if count > 1 else "single", count)
        except UserError as error:
            mistakes += error.mistakes
            continue
        found.append(Choice(gpu, arranged, price_of.get(gpu.name)))
    unknown = set(price_of) - {choice.gpu.name for choice in found}
    mistakes += [Mistake(f"{name} has a price but is not compared", "--price") for name in sorted(unknown)]
    if mistakes:
        raise UserError(*mistakes)
    return found


def compare(
    source_of: Callable[[Choice], Source], choices: Sequence[Choice], conditions: Conditions | None = None
) -> list[Compared]:
    """Compare the choices, in their order.

    Args:
        source_of: How to make the workload, which may depend on the card: a run file can leave the format to it.
        choices: Cards and layouts.
        conditions: Network, loader and so on, the same for all.

    Raises:
        UserError: The workload cannot be made, or no choice could be traced.
    """
    traced: dict[tuple[bool, Layout], list[Trace] | str] = {}
    found: list[Compared] = []
    for choice in choices:
        group = choice.gpu.capability >= KERNELS_CHANGE_AT, choice.layout
        if group not in traced:
            _, reply = plan_memory(source_of(choice), choice.layout, choice.gpu)
            traced[group] = reply.traces if reply.failure is None else reply.failure.message
        traces = traced[group]
        found.append(_without(choice, traces) if isinstance(traces, str) else _with(choice, traces, conditions))
    if all(one.trouble for one in found):
        raise UserError(f"the cards cannot be compared without a trace: {found[0].trouble}")
    return found


def fastest_first(compared: Sequence[Compared]) -> list[Compared]:
    """By expected rate; what does not run comes last, in its order."""
    return sorted(compared, key=lambda one: -one.samples_per_second.expected if one.samples_per_second else 0.0)


def _prices(words: Sequence[str]) -> Mapping[str, float]:
    prices: dict[str, float] = {}
    mistakes: list[Mistake] = []
    for word in words:
        card, equals, price = word.rpartition("=")
        try:
            value = float(price)
            if not equals or value <= 0:
                raise ValueError
            prices[find_gpu(card).name] = value
        except ValueError:
            mistakes.append(Mistake(f"{word}: write CARD=PRICE, such as --price 'H100 SXM=28000'", "--price"))
        except UserError as error:
            mistakes += error.mistakes
    if mistakes:
        raise UserError(*mistakes)
    return prices


def _with(choice: Choice, traces: Sequence[Trace], conditions: Conditions | None) -> Compared:
    held = max((judge(trace, choice.gpu, choice.layout) for trace in traces), key=lambda one: one.device_bytes)
    speed = plan_speed(traces, choice.layout, choice.gpu, conditions) if held.verdict != "does not fit" else None
    return _compared(choice, held=held, speed=speed)


def _without(choice: Choice, trouble: str) -> Compared:
    return _compared(choice, trouble=trouble)


def _compared(
    choice: Choice, *, held: MemoryPlan | None = None, speed: SpeedPlan | None = None, trouble: str = ""
) -> Compared:
    count = choice.layout.ranks
    watts = choice.watts
    price = choice.price * count if choice.price is not None else None
    rate = speed.samples_per_second if speed else None
    return Compared(
        label=choice.label,
        gpus=count,
        verdict=held.verdict if held else None,
        trouble=trouble,
        memory_bytes=held.device_bytes if held else None,
        usable_bytes=choice.gpu.memory_bytes,
        samples_per_second=rate,
        step_seconds=speed.step_seconds if speed else None,
        bound=speed.bound if speed else "",
        watts=watts,
        price=price,
        per_kilowatt=_per(rate, watts),
        per_thousand=_per(rate, price),
        assumptions=speed.assumptions if speed else (),
    )


def _per(rate: Range | None, amount: float | None) -> Range | None:
    """A rate per 1000 of an amount."""
    if rate is None or amount is None:
        return None
    return Range(*(value / amount * 1000 for value in (rate.expected, rate.low, rate.high)))
