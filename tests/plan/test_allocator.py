import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.plan.allocator import KIB, MIB, CachingAllocator, Options, OutOfMemoryError, Request, replay


def test_a_small_request_reserves_a_small_segment():
    usage = replay([Request(1, 1)])
    assert usage.peak_allocated == 512
    assert usage.peak_reserved == 2 * MIB


@pytest.mark.parametrize(
    ("asked", "reserved"),
    [
        (1 * MIB, 2 * MIB),
        (1 * MIB + 1, 20 * MIB),
        (9 * MIB, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (11 * MIB + 1, 12 * MIB),
    ],
)
def test_segments_have_the_size_of_their_class(asked, reserved):
    assert replay([Request(1, asked)]).peak_reserved == reserved


def test_freed_memory_is_used_again_on_its_stream_only():
    same = replay([Request(1, 30 * MIB), Request(1, 0), Request(2, 30 * MIB)])
    other = replay([Request(1, 30 * MIB, 0), Request(1, 0), Request(2, 30 * MIB, 1)])
    assert same.peak_reserved == 30 * MIB
    assert other.peak_reserved == 60 * MIB


def test_neighbours_join_again():
    parts = [Request(n, 5 * MIB) for n in range(4)]
    freed = [Request(n, 0) for n in (0, 2, 1, 3)]
    usage = replay([*parts, *freed, Request(9, 19 * MIB)])
    assert usage.peak_reserved == 20 * MIB


def test_a_large_block_is_kept_whole_when_the_rest_is_small():
    allocator = CachingAllocator()
    allocator.malloc(1, 20 * MIB)
    allocator.free(1)
    allocator.malloc(2, 20 * MIB - 512 * KIB)
    assert allocator.allocated == 20 * MIB


def test_cached_memory_is_given_back_before_giving_up():
    requests = [Request(1, 30 * MIB), Request(1, 0), Request(2, 40 * MIB)]
    usage = replay(requests, capacity=50 * MIB)
    assert usage.released_and_retried == 1
    assert usage.peak_reserved == 40 * MIB


def test_what_does_not_fit_says_where():
    with pytest.raises(OutOfMemoryError) as caught:
        replay([Request(1, 30 * MIB), Request(2, 40 * MIB)], capacity=50 * MIB)
    assert caught.value.position == 1
    assert caught.value.allocated == 30 * MIB


def test_expandable_segments_do_not_fragment():
    requests = []
    for n in range(20):
        requests += [Request(n, (20 + n) * MIB), Request(n, 0)]
    plain = replay(requests).peak_reserved
    grown = replay(requests, options=Options(expandable_segments=True)).peak_reserved
    assert plain > 8 * grown
    assert grown == 40 * MIB


def test_max_split_size_keeps_large_blocks_for_large_requests():
    requests = [Request(1, 100 * MIB), Request(1, 0), Request(2, 12 * MIB)]
    assert replay(requests).peak_reserved == 100 * MIB
    assert replay(requests, options=Options(max_split_size=50 * MIB)).peak_reserved == 112 * MIB


def test_roundup_power2():
    allocator = CachingAllocator(options=Options(roundup_power2_divisions=4))
    assert allocator.round(1200 * MIB) == 1280 * MIB
    assert allocator.round(100) == 512


sizes = st.lists(st.tuples(st.integers(1, 64 * MIB), st.integers(0, 2), st.booleans()), max_size=60)


@given(sizes, st.booleans())
def test_nothing_is_lost(asked, expandable):
    allocator = CachingAllocator(options=Options(expandable_segments=expandable))
    live = []
    for key, (nbytes, stream, drop) in enumerate(asked):
        allocator.malloc(key, nbytes, stream)
        live.append(key)
        if drop:
            allocator.free(live.pop(0))
    assert allocator.requested <= allocator.allocated <= allocator.reserved
    for key in live:
        allocator.free(key)
    assert allocator.allocated == 0
    allocator.release_cached()
    assert allocator.reserved == 0
