"""What is planned is the step that the engine makes."""

from __future__ import annotations

import pytest
import torch

from stoker.forecast.run import run_source
from stoker.forecast.workload import run_workload, settled_format
from stoker.plan.hardware import find_gpu
from stoker.plan.layout import Layout
from stoker.plan.trace.run import trace
from stoker.plan.workload import Piece


def workload(loaded, *overrides, device="cuda", capability=(9, 0), world_size=1):
    found = loaded(*overrides)
    return run_workload(
        spec=found.spec.model_dump(mode="json"),
        folder=str(found.folder),
        device=device,
        capability=capability,
        world_size=world_size,
        local_size=world_size,
    )


def test_batch_and_accumulation_are_those_of_the_engine(loaded) -> None:
    found = workload(loaded, "batch.micro_size=8", world_size=4)
    assert (found.micro_batch, found.accumulation) == (8, 2)
    inputs, targets = found.batch(8)
    assert (tuple(inputs.shape), tuple(targets.shape)) == ((8, 16), (8, 1))
    assert workload(loaded, world_size=4).micro_batch == 16


def test_the_loss_is_what_the_engine_differentiates(loaded) -> None:
    found = workload(loaded)
    model, data = found.build(Piece()), (torch.zeros(64, 16), torch.zeros(64, 1))
    expected = torch.nn.functional.mse_loss(model(data[0]), data[1])
    assert torch.allclose(found.loss(model, data), expected)


@pytest.mark.parametrize(
    ("wanted", "device", "capability", "found"),
    [("auto", "cpu", (0, 0), "fp32"), ("auto", "cuda", (9, 0), "bf16"), ("auto", "cuda", (7, 5), "fp16"),
     ("auto", "cuda", (6, 1), "fp32"), ("tf32", "cuda", (9, 0), "tf32")],
)  # fmt: skip
def test_the_number_format_is_that_of_the_engine(loaded, wanted, device, capability, found) -> None:
    assert settled_format(loaded(f"precision={wanted}").spec, device, capability) == found


def test_fp64_is_a_property_of_model_and_inputs(loaded) -> None:
    found = workload(loaded, "precision=fp64", device="cpu")
    assert found.build(Piece())[0].weight.dtype == torch.float64
    assert found.batch(1)[0].dtype == torch.float64
    assert any("lower bound" in note for note in found.notes)


def test_optimizer_and_gradients_are_those_of_the_engine(loaded) -> None:
    found = workload(loaded, "optimizer.name=sgd", "optimizer.options={momentum: 0.9}", "gradient.clip_norm=1")
    assert found.make_optimizer is not None
    optimizer = found.make_optimizer(found.build(Piece()), "cpu")
    assert type(optimizer).__name__ == "SGD"
    assert optimizer.defaults["momentum"] == 0.9
    assert optimizer.defaults["fused"]
    assert (found.clip, found.bucket_view, found.rescale) == (1.0, True, True)
    assert not workload(loaded, device="cpu").rescale


def test_a_trace_shows_state_checkpointing_and_ddp(loaded) -> None:
    gpu = find_gpu("A100 SXM 80GB")
    plain, spare = (
        trace(run_source(loaded(*words), gpu, layout), layout, gpu).traces[0]
        for words, layout in (
            (("optimizer.name=sgd",), Layout()),
            (("memory.activation_checkpointing=full",), Layout(replicate=2)),
        )
    )
    assert plain.states() == 0  # SGD without momentum keeps nothing
    assert spare.states() == pytest.approx(2, rel=0.01)
    assert not list(plain.collectives())
    assert {one.op for one in spare.collectives()} == {"all_reduce"}
    assert sum(one.nbytes for one in spare.collectives()) == spare.parameter_bytes
    again = 4 * 2 * 64 * 256  # the first layer of each block; for the second its input is enough, and torch stops there
    assert spare.flops() / 32 == pytest.approx(plain.flops() / 64 + again, rel=0.01)
