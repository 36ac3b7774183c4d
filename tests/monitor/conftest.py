from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.monitor.gpu.intervals import Intervals
from stoker.monitor.gpu.sampler import GpuSampler
from tests.nvml_sim import Scenario, build, compiler, machine


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The simulated driver library."""
    if compiler() is None:
        pytest.skip("there is no C compiler here to build the simulated NVML with")
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def simulated(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scenario]:
    """A machine with simulated GPUs, which processes that are started from now on see."""

    def make(model: str, count: int, *, within: Path = library) -> Scenario:
        scenario = machine(tmp_path / "scenario.ini", model, count)
        scenario.write()
        for name, value in scenario.environment(within).items():
            monkeypatch.setenv(name, value)
        return scenario

    return make


@pytest.fixture
def sampler() -> Iterator[Callable[..., GpuSampler]]:
    """Starts samplers, and ends them after the test."""
    started: list[GpuSampler] = []

    def start(fast: float = 0.2, slow: float = 0.2, limit: float = 0.5) -> GpuSampler:
        started.append(GpuSampler(Intervals(fast, slow, limit)))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()
