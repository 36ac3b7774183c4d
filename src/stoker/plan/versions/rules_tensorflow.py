"""Rules on TensorFlow, alone and in one environment with torch."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from packaging.specifiers import SpecifierSet

from stoker.facts.drivers import capabilities
from stoker.facts.frameworks import (
    CudnnRelease,
    TensorflowRelease,
    binaries_for,
    cudnn_releases,
    torch_releases,
)
from stoker.facts.gpus import Device
from stoker.facts.version import Version
from stoker.plan.versions.model import DriverChoice, Request, TorchWheel, Verdict
from stoker.plan.versions.rules_driver import driver_runs_cuda
from stoker.plan.versions.rules_torch import numpy_bound

Found = Iterable[Verdict]


def asked_tensorflow(request: Request, tf: TensorflowRelease) -> Found:
    """The release is the one that was asked for."""
    ask = request.ask("tensorflow")
    if ask is not None and ask.specifier:
        fits = any(ask.allows(Version(f"{tf.tensorflow}.{patch}")) for patch in range(10))
        text = f"`{ask.text}` is asked for; TensorFlow {tf.tensorflow} is {'it' if fits else 'not it'}"
        yield Verdict("holds" if fits else "violated", "asked_tensorflow", text, "the request")


def tensorflow_python(request: Request, tf: TensorflowRelease) -> Found:
    """There is a wheel for the Python version."""
    if request.python is None:
        return
    if request.python in tf.python:
        text = f"TensorFlow {tf.tensorflow} has a wheel for Python {request.python}"
        yield Verdict("holds", "tensorflow_python", text, "tensorflow.csv, python")
    else:
        text = f"TensorFlow {tf.tensorflow} has no wheel for Python {request.python}: only "
        text += f"{', '.join(tf.python)}"
        yield Verdict("violated", "tensorflow_python", text, "tensorflow.csv, python")


def tensorflow_vendor(request: Request, tf: TensorflowRelease) -> Found:
    """The tensorflow package is built for CUDA."""
    if "AMD" in request.vendors:
        text = f"tensorflow {tf.tensorflow} on PyPI is built for CUDA; AMD cards need AMD's own tensorflow-rocm"
        yield Verdict("violated", "tensorflow_vendor", text, "tensorflow.csv, cuda")


def tensorflow_code_for_gpu(request: Request, tf: TensorflowRelease) -> Found:
    """TensorFlow holds machine code, or PTX that the driver compiles, for each card."""
    source = "tensorflow.csv, sm_list ; arch_binary_compat.csv"
    for device in request.devices:
        if device.vendor != "NVIDIA":
            continue
        if not tf.sm_list:
            yield _toolkit_knows(tf, device)
        elif binaries_for(device.capability, tf.sm_list, tf.cuda):
            text = f"TensorFlow {tf.tensorflow} holds code that {device.name} loads"
            yield Verdict("holds", "tensorflow_code_for_gpu", text, source)
        elif any(_number(ptx) <= _number(device.capability) for ptx in tf.ptx_list):
            text = f"TensorFlow {tf.tensorflow} has no machine code for {device.name} and compiles "
            text += "its PTX at the first "
            text += "start, which takes minutes; kept in ~/.nv/ComputeCache"
            yield Verdict("caution", "tensorflow_code_for_gpu", text, source)
        else:
            text = f"TensorFlow {tf.tensorflow} holds no code for {device.name} ({device.capability}): it has "
            text += ", ".join(tf.sm_list)
            yield Verdict("violated", "tensorflow_code_for_gpu", text, source)


def _toolkit_knows(tf: TensorflowRelease, device: Device) -> Verdict:
    """What can be said where the code was not read: whether the CUDA of the release knows the card."""
    card = capabilities().get(device.capability)
    source = "tensorflow.csv, cuda ; capabilities.csv, cuda_first and cuda_last"
    if card is not None and (tf.cuda < card.cuda_first or (card.cuda_last and tf.cuda > card.cuda_last)):
        last = f" to {card.cuda_last}" if card.cuda_last else " on"
        text = f"TensorFlow {tf.tensorflow} is built with CUDA {tf.cuda}, and only CUDA {card.cuda_first}{last} "
        text += f"makes code for {device.name}"
        return Verdict("violated", "tensorflow_code_for_gpu", text, source)
    text = f"which cards TensorFlow {tf.tensorflow} holds code for was not read: try it on {device.name} first"
    return Verdict("caution", "tensorflow_code_for_gpu", text, source)


def tensorflow_cudnn_for_gpu(request: Request, tf: TensorflowRelease) -> Found:
    """Some cuDNN that the release takes has kernels for each card."""
    if not tf.cudnn_pin:
        return
    for device in request.devices:
        if device.vendor != "NVIDIA":
            continue
        bound = cudnn_bound(tf, device.capability)
        if bound is None:
            text = f"TensorFlow {tf.tensorflow} takes cuDNN {tf.cudnn_pin} only, which has no "
            text += f"kernels for {device.name}"
            yield Verdict("violated", "tensorflow_cudnn_for_gpu", text, "tensorflow.csv, cudnn_pin ; cudnn.csv")
        elif bound and not request.want_torch:  # with torch, its own pin decides
            text = f"TensorFlow {tf.tensorflow} takes any cuDNN {tf.cudnn_pin}, and pip brings the "
            text += "newest, which has no "
            text += f"kernels for {device.name}: also ask for nvidia-cudnn-cu12{bound}"
            yield Verdict("caution", "tensorflow_cudnn_for_gpu", text, "tensorflow.csv, cudnn_pin ; cudnn.csv, sm_min")


def tensorflow_libraries(request: Request, tf: TensorflowRelease) -> Found:
    """Before 2.14 the CUDA libraries come from the system, not from pip."""
    del request  # holds for every machine
    if not tf.cudnn_pin:
        text = f"TensorFlow {tf.tensorflow} has no [and-cuda] extra: install CUDA {tf.cuda} and "
        text += f"cuDNN {tf.cudnn} on the "
        text += "system, where the loader finds them"
        yield Verdict("caution", "tensorflow_libraries", text, "tensorflow.csv, notes of 2.14")


def tensorflow_numpy(request: Request, tf: TensorflowRelease) -> Found:
    """The bound on NumPy leaves a release."""
    yield from numpy_bound(request, f"TensorFlow {tf.tensorflow}", tf.numpy, "tensorflow.csv, numpy")


def driver_runs_tensorflow(request: Request, tf: TensorflowRelease, driver: DriverChoice) -> Found:
    """The driver is at or above the floor of TensorFlow's CUDA."""
    del request  # the two parts are enough
    yield from driver_runs_cuda(f"TensorFlow {tf.tensorflow}", tf.cuda, driver)


def one_cuda_major(request: Request, wheel: TorchWheel, tf: TensorflowRelease) -> Found:
    """Torch and TensorFlow bring libraries of one CUDA major: those of two majors write the same files."""
    del request  # the two parts are enough
    if wheel.toolkit != "cuda":
        return
    source = "tensorflow.csv, cuda ; known_incompat.csv, K28"
    if wheel.version.major == tf.cuda.major:
        text = f"TensorFlow {tf.tensorflow} and {wheel.name} are both CUDA {tf.cuda.major}"
        yield Verdict("holds", "one_cuda_major", text, source)
    else:
        text = f"TensorFlow {tf.tensorflow} brings CUDA {tf.cuda.major} libraries and {wheel.name} CUDA "
        text += f"{wheel.version.major}: their nccl packages write the same files, so they cannot "
        text += "share an environment"
        yield Verdict("violated", "one_cuda_major", text, source)


def shared_libraries(request: Request, wheel: TorchWheel, tf: TensorflowRelease) -> Found:
    """The pins on the packages that both use, cuDNN, NCCL and the CUDA runtime, have a version in common."""
    del request  # the two parts are enough
    runtime = next((row.cuda_runtime_pin for row in torch_releases() if row.cuda_default == wheel.version), None)
    shared = (
        ("cuDNN", wheel.cudnn, tf.cudnn_pin),
        ("NCCL", wheel.nccl, tf.nccl_pin),
        ("the CUDA runtime", runtime, tf.cudart_pin),
    )
    for name, have, want in shared:
        if have is None or not want or wheel.version.major != tf.cuda.major:
            continue
        fits = _specifier(want).contains(str(have))
        text = f"TensorFlow {tf.tensorflow} takes {name} {want}, {wheel.name} pins {have}"
        if not fits:
            text += ": pip cannot install both with TensorFlow's [and-cuda]"
        state = "holds" if fits else "violated"
        yield Verdict(state, "shared_libraries", text, "tensorflow.csv ; torch_releases.csv ; known_incompat.csv, K24")


def shared_numpy(request: Request, wheel: TorchWheel, tf: TensorflowRelease) -> Found:
    """One NumPy fits both."""
    if wheel.release.numpy and tf.numpy:
        both = f"{wheel.release.numpy},{tf.numpy}"
        source = "torch_releases.csv, numpy ; tensorflow.csv, numpy"
        yield from numpy_bound(request, f"torch {wheel.release.torch} with TensorFlow {tf.tensorflow}", both, source)


def cudnn_bound(tf: TensorflowRelease, capability: str) -> str | None:
    """What to add to the release's cuDNN pin so that the card keeps its kernels.

    Returns:
        Empty if nothing is to be added; a bound such as `<9.11`; None if no allowed cuDNN has kernels.
    """
    card = _number(capability)
    allowed = [row for row in _cudnn12() if _specifier(tf.cudnn_pin).contains(str(row.cudnn))]
    fits = [row for row in allowed if not row.sm_min or _number(row.sm_min) <= card]
    fits = [row for row in fits if not row.sm_max or _number(row.sm_max) // 10 >= card // 10]
    if not allowed or fits == allowed:
        return ""
    if not fits:
        return None
    dropped = next((row for row in allowed if row.cudnn > fits[-1].cudnn), None)
    if dropped is not None:
        return f"<{'.'.join(str(part) for part in dropped.cudnn.parts[:2])}"
    return ""  # the newest fits: pip takes it by itself


@cache
def _specifier(text: str) -> SpecifierSet:
    return SpecifierSet(text)


def _cudnn12() -> list[CudnnRelease]:
    return [row for row in cudnn_releases() if Version("12") in row.cuda]


def _number(text: str) -> int:
    """`sm_86`, `compute_86` or `8.6` as 86."""
    return int(text.split("_")[-1].replace(".", ""))
