"""Options of a search, made up."""

from stoker.plan.hardware import find_gpu
from stoker.plan.layout import Layout
from stoker.plan.search.outcome import Option
from stoker.plan.search.space import Servers, Shape
from stoker.plan.speed import Range


def option(*, gpu="H100 SXM", servers=1, price=None, layout=None, shape=None, verdict="fits", gib=40.0, hours=1.0):
    """One option; time and memory as given."""
    return Option(
        servers=Servers(find_gpu(gpu), servers, price=price),
        layout=layout or Layout(shard=8 * servers),
        shape=shape or Shape("none", 1, 1, "bf16"),
        verdict=verdict,
        device_bytes=gib * 2**30,
        step_seconds=Range(hours, 0.9 * hours, 1.2 * hours),
        samples_per_second=1 / hours,
        hours=hours,
        worst_hours=1.2 * hours,
    )
