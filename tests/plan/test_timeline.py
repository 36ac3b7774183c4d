"""Time lines of traces: what they add up to is what the plan says."""

from __future__ import annotations

from itertools import pairwise

import pytest

from stoker.plan.hardware import find_gpu
from stoker.plan.layout import parse_layout
from stoker.plan.memory import judge
from stoker.plan.simulate import Span
from stoker.plan.speed import Conditions, pipeline_timeline, plan_speed, step_timeline
from stoker.plan.timeline import POINTS, STACKED, memory_timeline, merged, timeline_of
from stoker.plan.trace.run import Source, trace
from tests.plan.test_trace import LLAMA

GPU = find_gpu("H100 SXM")


def traces(folder, layout, **changes):
    import json

    (folder / "config.json").write_text(json.dumps(LLAMA))
    source = Source("stoker.plan.workload:load_workload", {"target": str(folder), "micro_batch": 2}, changes)
    return trace(source, parse_layout(layout), GPU).traces


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    return traces(tmp_path_factory.mktemp("model"), "fsdp2=4")


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    return traces(tmp_path_factory.mktemp("model"), "fsdp2=2,pp=2", accumulation=4)


def test_the_highest_moment_is_the_peak_of_the_plan(sharded):
    (one,) = sharded
    layout = parse_layout("fsdp2=4")
    plan = judge(one, GPU, layout)
    timeline = timeline_of(plan, [one], layout, GPU)
    assert len(timeline.moments) <= POINTS
    assert timeline.peak.allocated == plan.allocated
    by_name = dict(zip(STACKED, timeline.peak.held, strict=True))
    libraries = plan.categories["collectives"] - by_name.pop("collectives")
    assert libraries >= 0
    assert {name: plan.categories[name] for name in by_name} == by_name
    assert max(moment.reserved for moment in timeline.moments) == plan.reserved
    assert [begin.phase for begin in timeline.phases][:3] == ["setup", "input", "forward"]
    assert timeline_of(plan, [], layout, GPU) is None


def test_it_ends_with_the_last_step(sharded):
    """What the trace itself gives back afterwards is no part of a training."""
    (one,) = sharded
    timeline = memory_timeline(one, GPU)
    assert one.marks[-1][1] == "setup"
    assert timeline.end == one.marks[-1][2] + 1 < len(one.memory) + 1
    last = dict(zip(STACKED, timeline.moments[-1].held, strict=True))
    assert last["parameters"] > 0
    assert last["optimizer"] == 2 * one.parameter_bytes


def test_the_highest_moment_of_each_phase(sharded):
    timeline = memory_timeline(sharded[0], GPU)
    rows = timeline.to_json()
    assert [(row["step"], row["phase"]) for row in rows if row["step"] == 2] == [
        (2, "input"), (2, "forward"), (2, "backward"), (2, "optimizer"),
    ]  # fmt: skip
    assert max(row["in_use"] for row in rows) == timeline.peak.total
    assert all(row["in_use"] == sum(row[name] for name in STACKED) <= row["reserved"] for row in rows)
    starts = [begin.at for begin in timeline.phases]
    for (step, phase), moment in timeline.highest.items():
        inside = max(begin.at for begin in timeline.phases if begin.at <= moment.at)
        assert (step, phase) == next((b.step, b.phase) for b in reversed(timeline.phases) if b.at == inside)
    assert starts == sorted(starts)


def test_a_cpu_reserves_what_is_in_use(sharded):
    from dataclasses import replace

    cpu = replace(GPU, architecture="cpu")
    timeline = memory_timeline(sharded[0], cpu)
    assert all(moment.reserved == moment.total for moment in timeline.moments)
    assert timeline.end == sharded[0].marks[-1][2]
    assert timeline.peak.total == judge(sharded[0], cpu, parse_layout("fsdp2=4")).allocated


def test_spans_of_a_row_follow_each_other_and_end_with_the_step(sharded):
    layout = parse_layout("fsdp2=4")
    timeline = step_timeline(sharded, layout, GPU)
    plan = plan_speed(sharded, layout, GPU, Conditions())
    rows = {span.row for span in timeline.spans}
    assert timeline.rows() == ["compute", "stream 1", "shards (4)"]
    assert rows == set(timeline.rows())
    busy = timeline.to_json()["busy_seconds"]
    assert list(busy) == timeline.rows()
    assert 0 < busy["compute"] <= timeline.seconds
    for row in rows:
        spans = [span for span in timeline.spans if span.row == row]
        assert all(one.end <= other.start + 1e-12 for one, other in pairwise(spans))
    assert max(span.end for span in timeline.spans) == pytest.approx(timeline.seconds, rel=1e-6)
    assert timeline.seconds <= plan.step_seconds.expected  # which also waits for the slowest rank


def test_each_group_of_ranks_has_a_row_and_takes_turns_on_the_wire(tmp_path):
    layout = parse_layout("ddp=2,tp=2")
    timeline = step_timeline(traces(tmp_path, "ddp=2,tp=2"), layout, GPU)
    assert timeline.rows() == ["compute", "copies (2)", "tensor parallel (2)"]
    wire = sorted((span.start, span.end) for span in timeline.spans if span.group)
    assert all(one[1] <= other[0] + 1e-12 for one, other in pairwise(wire))


def test_the_slots_of_a_pipeline_are_its_micro_batches(staged):
    layout = parse_layout("fsdp2=2,pp=2")
    timeline = pipeline_timeline(staged, layout, GPU)
    assert {span.row for span in timeline.spans} == {"stage 0", "stage 1"}
    assert len(timeline.spans) == 2 * 2 * 4  # stages, directions, micro-batches
    assert max(span.end for span in timeline.spans) <= timeline.seconds
    assert pipeline_timeline(staged[:1], parse_layout("single"), GPU) is None


def test_neighbours_become_one_until_there_are_few():
    spans = [Span("compute", float(n), n + 1.0, "forward", f"layer{n // 10}") for n in range(100)]
    spans += [Span("communication", n + 0.2, n + 0.5, "backward", "all_reduce") for n in range(100)]
    by_layer = merged(spans, most=150)
    assert [span.name for span in by_layer if span.row == "compute"] == [f"layer{n}" for n in range(10)]
    assert sum(span.row == "communication" for span in by_layer) == 100
    few = merged(spans, most=2)
    assert sum(span.busy for span in few) == pytest.approx(sum(span.busy for span in spans))
    assert [(span.row, span.start, span.end) for span in few] == [
        ("communication", 0.2, 99.5),
        ("compute", 0.0, 100.0),
    ]
    assert merged([], most=5) == []
