"""A sample survives its JSON, and what was not measured stays so."""

import json
import math

import pytest

from stoker.monitor.model import Exporter, Gpu, GpuProcess, Host, MachineSample, MigInstance, Run, from_json, to_json


def sample() -> MachineSample:
    gpu = Gpu(
        gpu="0", uuid="GPU-1", model="T4", power_watts=0.0, nvlink_up={"0": 1.0}, lost=True,
        processes=(GpuProcess(pid=7, memory_bytes=1e9),), mig_instances=(MigInstance(instance="1"),),
    )  # fmt: skip
    run = Run(run="a", folder="/runs/a", state="running", loss=math.inf, gpus=("0",))
    return MachineSample(
        time=1.0, hostname="h", exporter=Exporter(version="1"), host=Host(load1=0.5), gpus=(gpu,), runs=(run,)
    )


def test_a_sample_survives_its_json() -> None:
    text = json.dumps(to_json(sample()), allow_nan=False)
    assert from_json(MachineSample, json.loads(text)) == sample()


def test_what_was_not_measured_is_left_out_and_zero_is_not() -> None:
    gpu = to_json(sample())["gpus"][0]
    assert gpu["power_watts"] == 0.0
    assert "temperature_celsius" not in gpu
    assert from_json(Gpu, gpu).temperature_celsius is None


def test_unknown_keys_are_passed_over() -> None:
    assert from_json(Gpu, {"gpu": "0", "uuid": "u", "of_tomorrow": 1}) == Gpu(gpu="0", uuid="u")


@pytest.mark.parametrize(
    "value", [{"gpu": "0"}, {"gpu": 0, "uuid": "u"}, {"gpu": "0", "uuid": "u", "power_watts": "x"}]
)
def test_what_is_no_record_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        from_json(Gpu, value)
