"""All rules, by the parts they look at. A rule is a function of the request and those parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stoker.facts.frameworks import TensorflowRelease
from stoker.plan.versions import rules_driver, rules_tensorflow, rules_torch
from stoker.plan.versions.model import DriverChoice, Request, TorchWheel, Verdict, VersionSet

Found = Iterable[Verdict]

TORCH: tuple[Callable[[Request, TorchWheel], Found], ...] = (
    rules_torch.asked_version,
    rules_torch.asked_label,
    rules_torch.asked_partners,
    rules_torch.published,
    rules_torch.index_allowed,
    rules_torch.platform,
    rules_torch.vendor,
    rules_torch.python,
    rules_torch.glibc,
    rules_torch.code_for_gpu,
    rules_torch.cudnn_for_gpu,
    rules_torch.nccl_for_gpu,
    rules_torch.compile_for_gpu,
    rules_torch.numpy,
    rules_torch.free_threaded,
)
TENSORFLOW: tuple[Callable[[Request, TensorflowRelease], Found], ...] = (
    rules_tensorflow.asked_tensorflow,
    rules_tensorflow.tensorflow_vendor,
    rules_tensorflow.tensorflow_python,
    rules_tensorflow.tensorflow_code_for_gpu,
    rules_tensorflow.tensorflow_cudnn_for_gpu,
    rules_tensorflow.tensorflow_libraries,
    rules_tensorflow.tensorflow_numpy,
)
DRIVER: tuple[Callable[[Request, DriverChoice], Found], ...] = (
    rules_driver.asked_driver,
    rules_driver.driver_runs_gpu,
    rules_driver.kernel_modules,
    rules_driver.loaded_modules,
    rules_driver.driver_supported,
    rules_driver.driver_packages,
)
TORCH_AND_DRIVER: tuple[Callable[[Request, TorchWheel, DriverChoice], Found], ...] = (rules_driver.driver_runs_torch,)
TENSORFLOW_AND_DRIVER: tuple[Callable[[Request, TensorflowRelease, DriverChoice], Found], ...] = (
    rules_tensorflow.driver_runs_tensorflow,
)
TORCH_AND_TENSORFLOW: tuple[Callable[[Request, TorchWheel, TensorflowRelease], Found], ...] = (
    rules_tensorflow.one_cuda_major,
    rules_tensorflow.shared_libraries,
    rules_tensorflow.shared_numpy,
)


def judge(request: Request, chosen: VersionSet) -> list[Verdict]:
    """What all rules say about the parts that are there, those on single parts first."""
    torch, tensorflow, driver = chosen.torch, chosen.tensorflow, chosen.driver
    found: list[Verdict] = []
    if torch is not None:
        found += [verdict for rule in TORCH for verdict in rule(request, torch)]
    if tensorflow is not None:
        found += [verdict for rule in TENSORFLOW for verdict in rule(request, tensorflow)]
    if driver is not None:
        found += [verdict for rule in DRIVER for verdict in rule(request, driver)]
    return list(dict.fromkeys([*found, *judge_pairs(request, chosen)]))


def violations(request: Request, chosen: VersionSet) -> list[Verdict]:
    """The verdicts that rule the set out."""
    return [verdict for verdict in judge(request, chosen) if verdict.state == "violated"]


def fit_together(request: Request, chosen: VersionSet) -> bool:
    """Whether no rule on two parts speaks against the set; its single parts are taken as judged."""
    return all(verdict.state != "violated" for verdict in judge_pairs(request, chosen))


def judge_pairs(request: Request, chosen: VersionSet) -> Iterator[Verdict]:
    """What the rules on two parts say."""
    torch, tensorflow, driver = chosen.torch, chosen.tensorflow, chosen.driver
    if torch is not None and driver is not None:
        for rule in TORCH_AND_DRIVER:
            yield from rule(request, torch, driver)
    if tensorflow is not None and driver is not None:
        for rule in TENSORFLOW_AND_DRIVER:
            yield from rule(request, tensorflow, driver)
    if torch is not None and tensorflow is not None:
        for rule in TORCH_AND_TENSORFLOW:
            yield from rule(request, torch, tensorflow)
