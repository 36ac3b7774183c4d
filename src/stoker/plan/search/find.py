"""Searches: sketches every layout from small traces, then traces the most promising in full."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from stoker.errors import UserError
from stoker.plan.hardware import Gpu
from stoker.plan.layout import Layout
from stoker.plan.memory import judge
from stoker.plan.roofline import Roofline
from stoker.plan.search.estimate import Corner, Sketch, make_sketch
from stoker.plan.search.family import Family
from stoker.plan.search.outcome import Found, Goal, Option
from stoker.plan.search.space import (
    Servers,
    Shape,
    fewest_seconds,
    layouts,
    shapes,
    state_bytes,
)
from stoker.plan.speed import Conditions, plan_speed
from stoker.plan.trace.extrapolate import MisalignedError
from stoker.plan.trace.log import Trace
from stoker.plan.trace.run import Reply, trace_all
from stoker.plan.trace.widen import widen
from stoker.plan.workload import Checkpointing, Precision

SLACK = 1.08
"""How far beyond a GPU's memory an estimate may lie and still be traced: estimates were off by up to 7 %."""
ROUNDS = 3
"""How often the next best are traced where none of a kind's finalists fits."""

Kind = tuple[Precision, bool]
"""What a trace depends on of a GPU: the number format, and whether it has flash attention."""
Cut = tuple[int, int]
"""Ranks of a tensor parallel group, and stages of the pipeline."""
Tell = Callable[[str, int, int], None]
"""Is told what is done, how much of it, and of how much."""


@dataclass(frozen=True)
class _Candidate:
    sketch: Sketch
    shape: Shape
    seconds: float

    @property
    def key(self) -> tuple[Layout, Shape]:
        return self.sketch.layout, self.shape

    @property
    def plain(self) -> bool:
        layout = self.sketch.layout
        return layout.shard == layout.tensor == layout.pipeline == 1


@dataclass
class _Place:
    """Servers, and what may fit on them."""

    servers: Servers
    roofline: Roofline
    given: Conditions
    candidates: list[_Candidate] = field(default_factory=list[_Candidate])
    floors: dict[Layout, float] = field(default_factory=dict[Layout, float])

    def contends(self, layout: Layout, count: int) -> bool:
        """Whether a layout may be among the best so many: without checkpointing, and if memory were no matter."""
        best: dict[Layout, float] = {}
        for one in self.candidates:
            best[one.sketch.layout] = min(one.seconds, best.get(one.sketch.layout, one.seconds))
        times = sorted(best.values())
        return len(times) < count or self.floors[layout] <= times[count - 1]


@dataclass
class Search:
    """One search for one model.

    Attributes:
        family: The model.
        goal: What is to be done with it.
        precision: Number format; None for the best of each GPU.
        finalists: Layouts per kind of GPU that are traced in full.
        workers: Processes that trace.
        tell: Is told how far it is.
    """

    family: Family
    goal: Goal
    precision: Precision | None = None
    finalists: int = 2
    workers: int = 2
    tell: Tell = lambda _what, _done, _all: None
    _notes: list[str] = field(default_factory=list[str])
    _gpu: Gpu = field(init=False)
    _tried: int = 0

    def run(self, places: Sequence[Servers]) -> Found:
        """Search on servers, fewer servers first; with a deadline a kind that meets it needs no more of them.

        Raises:
            UserError: The model cannot be traced.
        """
        options: list[Option] = []
        done: set[str] = set()
        for group in _by_size(places):
            left = [place for place in group if place.gpu.name not in done]
            found = self._search_group(left)
            options += found
            done |= {option.servers.gpu.name for option in found if self._in_time(option)}
        return Found(tuple(options), self._tried, tuple(dict.fromkeys(self._notes)))

    def _in_time(self, option: Option) -> bool:
        deadline = self.goal.deadline_hours
        return deadline is not None and option.fits and option.hours <= deadline

    def _kind(self, gpu: Gpu) -> Kind:
        return self.precision or best_precision(gpu), gpu.capability >= (8, 0)

    def _search_group(self, servers: Sequence[Servers]) -> list[Option]:
        """Places with as many servers of as many GPUs."""
        options: list[Option] = []
        for kind in dict.fromkeys(self._kind(one.gpu) for one in servers):
            own = [one for one in servers if self._kind(one.gpu) == kind]
            self._gpu = own[0].gpu
            options += self._trace_finalists(self._sketch(own, kind))
        return options

    # ------------------------------------------------------------------ estimates

    def _sketch(self, servers: Sequence[Servers], kind: Kind) -> list[_Place]:
        """Sketch every layout that can be among the best on any of the servers.

        Layouts are tried from the least cut to the most: twice the ranks of a tensor parallel group talk more,
        twice the stages idle more, so a cut whose layouts all lag behind is not cut further.
        """
        by_cut = self._layouts_by_cut(servers[0])
        if not by_cut:
            self._notes.append(f"{servers[0].gpus} GPUs are more than samples in a step: {self.goal.global_batch}")
            return []
        first = max(next(iter(by_cut.values())), key=lambda layout: layout.shard)
        probe = self._sketch_all([(first, "none")], kind)[0]
        if probe is None:
            raise UserError(f"{self.family.name} cannot be searched: {self._notes[-1]}")
        places = [
            _Place(one, Roofline(one.gpu, tf32=kind[0] == "tf32"), _conditions(one))
            for one in servers
            if self._can_be_in_time(one, probe, kind[0])
        ]
        self._weigh(places, [probe], kind)
        cuts = [next(iter(by_cut))] if places else []
        for cut in cuts:  # grows while it is walked
            if self._sketch_cut(places, by_cut[cut], probe, kind):
                cuts += [further for further in by_cut if further not in cuts and _is_next(cut, further)]
        for place in places:
            place.candidates.sort(key=lambda one: one.seconds)
            if not place.candidates:
                self._notes.append(f"nothing fits on {place.servers}")
        return places

    def _layouts_by_cut(self, servers: Servers) -> dict[Cut, list[Layout]]:
        found: dict[Cut, list[Layout]] = {}
        for layout in layouts(servers.gpus, servers.gpus_per_server, self.family.cuts):
            if shapes(layout, self.goal.global_batch):
                found.setdefault((layout.tensor, layout.pipeline), []).append(layout)
        return dict(sorted(found.items()))

    def _sketch_cut(self, places: Sequence[_Place], wanted: list[Layout], probe: Sketch, kind: Kind) -> bool:
        """Sketch the layouts of one cut; whether any contends, or none could hold the model.

        Checkpointing never makes a step faster: a layout that lags behind without it does so with it.
        """
        most = max(place.servers.gpu.memory_bytes for place in places)
        able = [layout for layout in wanted if self._least_bytes(layout, probe) <= most]
        new: list[tuple[Layout, Checkpointing]] = [(one, "none") for one in able if one != probe.layout]
        found = [sketch for sketch in self._sketch_all(new, kind) if sketch is not None]
        self._weigh(places, found, kind)
        known = [sketch.layout for sketch in found] + [one for one in able if one == probe.layout]

        def contending() -> list[Layout]:
            return [one for one in known if any(place.contends(one, self.finalists) for place in places)]

        kinds = self.family.checkpointings[1:]
        again: list[tuple[Layout, Checkpointing]] = [(layout, how) for layout in contending() for how in kinds]
        self._weigh(places, [sketch for sketch in self._sketch_all(again, kind) if sketch is not None], kind)
        return not known or bool(contending())

    def _weigh(self, places: Sequence[_Place], sketches: Sequence[Sketch], kind: Kind) -> None:
        """Estimate every shape of the sketches on every place, and keep what may fit."""
        layers = self.family.layers or 0
        for place in places:
            for sketch in sketches:
                sizes = shapes(sketch.layout, self.goal.global_batch)
                times = sketch.seconds(layers, sizes, place.roofline, place.given)
                self._tried += len(sizes)
                for (micro, accumulation), seconds in zip(sizes, times, strict=True):
                    if sketch.device_bytes(layers, micro) <= SLACK * place.servers.gpu.memory_bytes:
                        shape = Shape(sketch.checkpointing, micro, accumulation, kind[0])
                        place.candidates.append(_Candidate(sketch, shape, seconds))
                place.floors.setdefault(sketch.layout, min(times))

    def _sketch_all(self, wanted: Sequence[tuple[Layout, Checkpointing]], kind: Kind) -> list[Sketch | None]:
        """Trace the corners of each sketch; the deepest with the largest micro-batch is made out of the others."""
        found: list[dict[Corner, Sequence[Trace]]] = [{} for _ in wanted]
        corners = [self._corners(layout) for layout, _ in wanted]
        jobs = [(index, corner) for index, own in enumerate(corners) for corner in (own[:3] if len(own) == 4 else own)]
        failed = self._trace_corners(wanted, jobs, kind, found)
        last = [
            (index, own[3])
            for index, own in enumerate(corners)
            if len(own) == 4 and index not in failed and not _add_last(found[index], own)
        ]
        failed |= self._trace_corners(wanted, last, kind, found)
        return [
            None if index in failed else make_sketch(layout, found[index], checkpointing, self._gpu)
            for index, (layout, checkpointing) in enumerate(wanted)
        ]

    def _trace_corners(
        self,
        wanted: Sequence[tuple[Layout, Checkpointing]],
        jobs: Sequence[tuple[int, Corner]],
        kind: Kind,
        found: Sequence[dict[Corner, Sequence[Trace]]],
    ) -> set[int]:
        """Add the traces of corners to what was found; returns the numbers of the sketches that cannot be made."""
        shapes_of = [self._corner_shape(*wanted[index], corner, kind[0]) for index, corner in jobs]
        asked = [(wanted[index][0], shape, corner[0]) for (index, corner), shape in zip(jobs, shapes_of, strict=True)]
        failed: set[int] = set()
        for (index, corner), reply in zip(jobs, self._trace(asked, "sketches"), strict=True):
            if reply.failure is None:
                found[index][corner] = reply.traces
                continue
            failed.add(index)
            layout, checkpointing = wanted[index]
            how = "" if checkpointing == "none" else f" with checkpointing {checkpointing}"
            self._notes.append(f"{layout}{how} was left out: {reply.failure.message}")
        return failed

    def _corners(self, layout: Layout) -> list[Corner]:
        sizes = sorted({micro for micro, _ in shapes(layout, self.goal.global_batch)})
        depths = [0]
        if self.family.layers is not None:
            stages = layout.pipeline
            # a single block is not known for one that repeats, and FSDP2 treats the last one unlike the others
            depths = [depth * stages for depth in (2, 3) if depth * stages <= self.family.layers] or [stages]
        return [(depth, size) for depth in depths for size in sorted({sizes[0], sizes[-1]})]

    def _corner_shape(
        self, layout: Layout, checkpointing: Checkpointing, corner: Corner, precision: Precision
    ) -> Shape:
        """With so many micro-batches that each kind of slot occurs, and no more."""
        most = max(accumulation for _, accumulation in shapes(layout, self.goal.global_batch))
        accumulation = min(most, 2 if layout.pipeline == 1 else max(4, layout.pipeline + 1))
        return Shape(checkpointing, corner[1], accumulation, precision)

    def _can_be_in_time(self, place: Servers, probe: Sketch, precision: Precision) -> bool:
        deadline = self.goal.deadline_hours
        if deadline is None:
            return True
        work = probe.flops_per_sample(self.family.layers or 0)
        hours = fewest_seconds(self.goal.samples * work, place.gpu, place.gpus, precision) / 3600
        if hours > deadline:
            self._notes.append(f"{place} needs {hours:.1f} h at the very least")
        return hours <= deadline

    def _least_bytes(self, layout: Layout, probe: Sketch) -> float:
        trace = next(iter(probe.corners.values()))[0]
        parameters = probe.parameters(self.family.layers or 0)
        width = 2 if trace.facts.precision.endswith("-pure") else 4
        return state_bytes(layout, int(parameters), trace.states(), width)

    # ------------------------------------------------------------------ full traces

    def _trace_finalists(self, places: Sequence[_Place]) -> list[Option]:
        """Trace the best of each place in full; the next best where none of them fits."""
        options: list[Option] = []
        kept: dict[tuple[Layout, Shape], Reply] = {}
        waiting = list(places)
        for _ in range(ROUNDS):
            chosen = [(place, _take(place.candidates, self.finalists)) for place in waiting]
            new = list(dict.fromkeys(one.key for _, picks in chosen for one in picks if one.key not in kept))
            replies = self._trace([(layout, shape, 0) for layout, shape in new], "full traces")
            kept.update(zip(new, replies, strict=True))
            waiting = []
            for place, picks in chosen:
                found = [self._option(place.servers, one, kept[one.key]) for one in picks]
                options += [option for option in found if option is not None]
                if picks and not any(option is not None and option.fits for option in found):
                    waiting.append(place)
        return options

    def _option(self, place: Servers, candidate: _Candidate, reply: Reply) -> Option | None:
        layout, shape = candidate.key
        if reply.failure is not None:
            self._notes.append(f"{layout} was left out: {reply.failure.message}")
            return None
        plans = [judge(trace, place.gpu, layout) for trace in reply.traces]
        memory = max(plans, key=lambda plan: plan.device_bytes)
        speed = plan_speed(reply.traces, layout, place.gpu, _conditions(place))
        share, samples = speed.goodput.share, self.goal.samples
        return Option(
            servers=place,
            layout=layout,
            shape=shape,
            verdict=memory.verdict,
            device_bytes=memory.device_bytes,
            step_seconds=speed.step_seconds,
            samples_per_second=speed.samples_per_second.expected,
            hours=samples / speed.samples_per_second.expected / share / 3600,
            worst_hours=samples / speed.samples_per_second.low / share / 3600,
        )

    def _trace(self, wanted: Sequence[tuple[Layout, Shape, int]], what: str) -> list[Reply]:
        jobs = [(self.family.source(layout, shape, depth or None), layout) for layout, shape, depth in wanted]
        count = iter(range(1, len(jobs) + 1))
        return trace_all(jobs, self._gpu, workers=self.workers, done=lambda: self.tell(what, next(count), len(jobs)))


def best_precision(gpu: Gpu) -> Precision:
    """What `auto` comes to in training: bf16 from Ampere on, fp16 on Volta and Turing."""
    if gpu.capability >= (8, 0):
        return "bf16"
    return "fp16" if gpu.capability >= (7, 0) else "fp32"


def _add_last(found: dict[Corner, Sequence[Trace]], corners: Sequence[Corner]) -> bool:
    """Make the last of four corners out of the others; whether it could be made."""
    small, wide, deep, last = corners
    with contextlib.suppress(MisalignedError):
        found[last] = [widen(*stage) for stage in zip(found[small], found[wide], found[deep], strict=True)]
    return last in found


def _is_next(cut: Cut, further: Cut) -> bool:
    """Whether a cut is the other one with the next larger groups, or the next more stages."""
    (tensor, stages), (more_tensor, more_stages) = cut, further
    return (more_tensor == 2 * tensor and more_stages == stages) or (
        more_tensor == tensor and more_stages == 2 * stages
    )


def _take(found: list[_Candidate], count: int) -> list[_Candidate]:
    """Take the best layouts out of a list, and the best plain one, which training can run as it is."""
    firsts = {one.sketch.layout: one for one in reversed(found)}
    taken = sorted(firsts.values(), key=lambda one: one.seconds)[:count]
    plain = next((one for one in found if one.plain), None)
    if plain is not None and plain not in taken:
        taken.append(plain)
    for one in taken:
        found.remove(one)
    return taken


def _by_size(places: Sequence[Servers]) -> Iterator[list[Servers]]:
    sizes = sorted({(place.gpus, place.gpus_per_server) for place in places})
    for size in sizes:
        yield [place for place in places if (place.gpus, place.gpus_per_server) == size]


def _conditions(place: Servers) -> Conditions:
    return Conditions(network=place.network, gpus_per_node=place.gpus_per_server)
