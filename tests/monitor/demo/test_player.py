from __future__ import annotations

from dataclasses import fields
from typing import Any

from stoker.monitor.demo.player import Player
from stoker.monitor.demo.scenario import read_scenario
from stoker.monitor.judge import judge
from stoker.monitor.model import MachineSample, from_json, to_json
from stoker.monitor.series import all_series
from stoker.monitor.watch import Watch

PLAYER = Player(read_scenario(), begin=1_790_000_000.0)


def causes(begin: int, end: int) -> set[str]:
    watch, found = Watch(), set()
    for second in range(begin, end, 10):
        watch.take(PLAYER.sample(second), second)
        if watch.moment and second % 60 == 0:
            found |= {verdict.cause for verdict in judge(watch.moment)}
    return found


def test_it_is_the_same_each_time_and_says_that_it_is_simulated() -> None:
    assert PLAYER.sample(123.4) == PLAYER.sample(123.4)
    assert PLAYER.sample(123.4) != PLAYER.sample(124.4)
    assert all(PLAYER.sample(second).simulated for second in (-3600, 0, 1e6))


def test_a_sample_is_one_that_can_be_written_and_read() -> None:
    sample = PLAYER.sample(7)
    assert from_json(MachineSample, to_json(sample)) == sample


def test_what_is_promised_happens_within_an_hour_and_when_the_demo_begins() -> None:
    promised = {"gpu-hardware-slowdown", "gpu-thermal-margin-low", "run-hung", "gpu-idle-while-memory-held"}
    assert causes(-3600, 0) >= promised
    assert causes(-900, 10) >= promised
    assert causes(-3600, 7200) == promised


def test_the_hung_run_goes_on_again() -> None:
    (run,) = (one for one in read_scenario().runs if one.hangs)
    waits = [_run(second, run.name).since_step_seconds for second in range(0, 2400, 10)]
    assert max(waits) > 300
    assert min(waits) < run.step_seconds


def _run(second: float, name: str) -> Any:
    return next(run for run in PLAYER.sample(second).runs if run.run == name)


def test_counters_never_fall() -> None:
    counters = {series.field for series in all_series() if series.type == "counter"}
    before: dict[str, float] = {}
    for second in range(-3600, 3600, 7):
        now = {key: value for key, value in _flat(PLAYER.sample(second)) if key.split("#")[0] in counters}
        assert all(value >= before.get(key, value) for key, value in now.items())
        before = now
    assert len(before) > 20


def test_shares_are_shares() -> None:
    for second in range(-3600, 3600, 31):
        for key, value in _flat(PLAYER.sample(second)):
            if key.split("#")[0].endswith("_ratio"):
                assert 0 <= value <= 1, key


def _flat(sample: MachineSample) -> list[tuple[str, float]]:
    """Every number with its field and what it belongs to: `gpus.power_watts#3`."""
    found: list[tuple[str, float]] = []
    for room, records in (("gpus", sample.gpus), ("runs", sample.runs), ("host", (sample.host,))):
        for place, record in enumerate(records):
            for field in fields(record):
                value = getattr(record, field.name)
                if isinstance(value, int | float) and not isinstance(value, bool):
                    found.append((f"{room}.{field.name}#{place}", float(value)))
    for name in ("disks", "interfaces", "infiniband"):
        for record in getattr(sample.host, name):
            found += [
                (f"host.{name}.{field.name}#0", float(getattr(record, field.name)))
                for field in fields(record)
                if isinstance(getattr(record, field.name), int | float)
            ]
    return found
