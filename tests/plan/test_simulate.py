from stoker.plan.collectives import Network, seconds
from stoker.plan.hardware import find_gpu, find_link
from stoker.plan.roofline import Roofline
from stoker.plan.simulate import play
from stoker.plan.trace.log import Collective, Cost, Op, Sync, Trace

GPU = find_gpu("A100 80GB")
NETWORK = Network(find_link("nvlink3"), find_link("ib-200"))


def op(flops=1e12, stream=0):
    work = Cost("gemm", flops, 0.0, 0.0, "bfloat16", 1, (8192, 8192, 8192, 1))
    return Op("aten.mm", work, stream, "forward", 0, 0)


def gather(stream):
    return Collective("all_gather", 1 << 30, 8, 1, stream, 0, "forward", 0)


def played(events):
    trace = Trace("cuda", 1, events=[*events, Sync("record", 0, 99)], ends=[(0, "step", 99)])
    return play(trace, Roofline(GPU), NETWORK).step_seconds(0)


def test_streams_overlap_unless_one_waits():
    alone = played([op()])
    wire = seconds("all_gather", 1 << 30, 8, 1, NETWORK)
    beside = played([gather(1), op()])
    after = played([gather(1), Sync("record", 1, 5), Sync("wait", 0, 5), op()])
    assert alone <= beside < alone + 0.1 * wire
    assert after > beside + 0.8 * min(wire, alone)


def test_many_small_operators_are_bound_by_the_host():
    small = played([op(flops=1.0)] * 1000)
    assert small >= 1000 * GPU.reached("launch_us").value * 1e-6
