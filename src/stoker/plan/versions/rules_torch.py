"""Rules on a torch wheel alone: does it exist for this machine, and does it hold code for these cards."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from packaging.specifiers import SpecifierSet

from stoker.facts.drivers import capabilities
from stoker.facts.frameworks import (
    NumpyRelease,
    binaries_for,
    cudnn_release,
    nccl_release,
    numpy_releases,
    runs_on,
)
from stoker.facts.gpus import Device
from stoker.facts.version import Version
from stoker.plan.versions.model import PYTORCH_INDEX, Request, TorchWheel, Verdict

Found = Iterable[Verdict]
_MAKER = {"cuda": "NVIDIA", "rocm": "AMD"}


def asked_version(request: Request, wheel: TorchWheel) -> Found:
    """The wheel is the version that was asked for."""
    ask = request.ask("torch")
    if ask is not None and ask.specifier:
        fits = ask.allows(wheel.patch)
        text = f"`{ask.text}` is asked for; torch {wheel.patch} is {'it' if fits else 'not it'}"
        yield Verdict("holds" if fits else "violated", "asked_version", text, "the request")


def asked_label(request: Request, wheel: TorchWheel) -> Found:
    """A local label such as +cu117 names one CUDA build, and is served by the PyTorch index only."""
    ask = request.ask("torch")
    if ask is None or not ask.label:
        return
    if ask.label != wheel.own_index:
        built = ", ".join(str(version) for version in wheel.release.cuda_published)
        text = f"`{ask.text}` asks for the build {ask.label}: torch {wheel.release.torch} was "
        text += f"published for CUDA {built}"
        yield Verdict("violated", "asked_label", text, "torch_releases.csv, cuda_published")
    elif wheel.index == "pypi":
        text = f"`{ask.text}` cannot be installed from PyPI: it serves no labels. "
        text += f"`torch=={wheel.patch}` is the same CUDA {wheel.version} build there; with the label, add "
        text += f"--index-url {PYTORCH_INDEX}/{wheel.own_index}"
        yield Verdict("caution", "asked_label", text, "torch_releases.csv, cuda_default; the wheel's version.py")
    else:
        text = f"`{ask.text}` is on the PyTorch index only: --index-url {PYTORCH_INDEX}/{wheel.own_index}"
        yield Verdict("holds", "asked_label", text, "torch_cuda_archs.csv, index")


def asked_partners(request: Request, wheel: TorchWheel) -> Found:
    """Requirements on torchvision and torchaudio leave the partner of this torch."""
    for name, partner in (
        ("torchvision", partner_of(wheel, "vision")),
        ("torchaudio", partner_of(wheel, "audio")),
    ):
        ask = request.ask(name)
        if ask is not None and ask.specifier:
            text = f"torch {wheel.patch} goes with {name} {partner}; `{ask.text}` "
            text += "takes it" if ask.allows(partner) else "does not take it"
            state = "holds" if ask.allows(partner) else "violated"
            yield Verdict(state, "asked_partners", text, f"torch_releases.csv, {name}")


def index_allowed(request: Request, wheel: TorchWheel) -> Found:
    """The wheel is on an index that may be used: the index decides what pip brings."""
    if request.indexes is None:
        return
    if wheel.index in request.indexes or wheel.own_index in request.indexes:
        text = f"plain pip brings the CUDA {wheel.version} build" if wheel.index == "pypi" else f"on {wheel.own_index}"
        yield Verdict("holds", "index_allowed", f"torch {wheel.patch}: {text}", "torch_cuda_archs.csv, index")
    else:
        default = wheel.release.cuda_default
        text = f"torch {wheel.patch} for {_kit(wheel)} is not on PyPI, whose only build of "
        text += f"{wheel.release.torch} is "
        text += f"CUDA {default}: it needs --index-url {PYTORCH_INDEX}/{wheel.own_index}"
        yield Verdict("violated", "index_allowed", text, "torch_releases.csv, cuda_default")


def published(request: Request, wheel: TorchWheel) -> Found:
    """The build is on an index."""
    if wheel.published == "no":
        text = f"torch {wheel.patch} for {_kit(wheel)} is named in the wheel's own table but was never published"
        yield Verdict("violated", "published", text, "torch_cuda_archs.csv, published")
    elif wheel.published == "unsure":
        text = f"whether torch {wheel.patch} for {_kit(wheel)} was published is not confirmed: "
        text += f"look at {PYTORCH_INDEX}/{wheel.own_index}"
        state = "caution" if request.allow_unsure else "violated"
        yield Verdict(state, "published", text, "torch_cuda_archs.csv, published")


def platform(request: Request, wheel: TorchWheel) -> Found:
    """The wheel is for the machine's processor."""
    if wheel.platform != request.platform:
        text = f"the machine is {request.platform}, this wheel is for {wheel.platform}"
        yield Verdict("violated", "platform", text, "torch_cuda_archs.csv, platform")


def python(request: Request, wheel: TorchWheel) -> Found:
    """There is a wheel for the Python version."""
    if request.python is None:
        return
    versions = wheel.release.python
    if request.python in versions:
        text = f"torch {wheel.release.torch} has a wheel for Python {request.python}"
        yield Verdict("holds", "python", text, "torch_releases.csv, python")
    else:
        text = f"torch {wheel.release.torch} has no wheel for Python {request.python}: only "
        text += f"{', '.join(versions)}"
        yield Verdict("violated", "python", text, "torch_releases.csv, python")


def glibc(request: Request, wheel: TorchWheel) -> Found:
    """The machine's C library is as new as the wheel's manylinux level."""
    have = request.glibc or (request.os.glibc if request.os else None)
    if have is None:
        return
    whose = f"{request.os.name} has glibc {have}" if request.os and not request.glibc else f"glibc is {have}"
    need = wheel.glibc_min
    source = "torch_releases.csv, glibc_min" + (" ; os_releases.csv" if request.os else "")
    if have >= need:
        yield Verdict("holds", "glibc", f"torch {wheel.patch} needs glibc {need}, {whose}", source)
    else:
        text = f"torch {wheel.patch} needs glibc {need} (manylinux_{str(need).replace('.', '_')}), {whose}: "
        text += f"pip refuses the wheel, or import fails with `GLIBC_{need} not found`"
        yield Verdict("violated", "glibc", text, source)


def vendor(request: Request, wheel: TorchWheel) -> Found:
    """NVIDIA cards need a CUDA build, AMD cards a ROCm build; one wheel serves one maker."""
    if len(request.vendors) > 1:
        text = "NVIDIA and AMD cards cannot be used by one torch: a wheel is built for CUDA or for ROCm"
        yield Verdict("violated", "vendor", text, "torch_cuda_archs.csv ; torch_rocm.csv")
    elif request.vendors != {_MAKER[wheel.toolkit]}:
        (name,) = request.vendors
        text = f"{name} cards need a build for {'ROCm' if name == 'AMD' else 'CUDA'}"
        yield Verdict("violated", "vendor", text, wheel.source)


def code_for_gpu(request: Request, wheel: TorchWheel) -> Found:
    """The wheel holds machine code that each card loads; PTX is not relied on: wheels carry none."""
    source = "torch_rocm.csv" if wheel.toolkit == "rocm" else "torch_cuda_archs.csv ; arch_binary_compat.csv"
    for device in request.devices:
        if device.vendor != _MAKER[wheel.toolkit]:
            continue  # said by `vendor`
        if not wheel.architectures:
            text = f"which cards {wheel.name} holds code for was not read: try it on {device.name} "
            text += "before relying on it"
            yield Verdict("caution", "code_for_gpu", text, source)
            continue
        if wheel.toolkit == "rocm":
            fits = [device.capability] if device.capability in wheel.architectures else []
        else:
            fits = list(binaries_for(device.capability, wheel.architectures, wheel.version))
        chip = _chip(device)
        if fits:
            own = fits[-1].removeprefix("sm_").replace("_", "") == device.capability.replace(".", "")
            how = f"holds {fits[-1]}" if own or wheel.toolkit == "rocm" else f"holds {fits[-1]}, which {chip} loads too"
            yield Verdict("holds", "code_for_gpu", f"{wheel.name} {how}: {device.name} runs", source)
        else:
            text = f"{wheel.name} holds no code for {device.name} ({chip}): it has "
            text += f"{', '.join(wheel.architectures)}"
            yield Verdict("violated", "code_for_gpu", text, source)


def cudnn_for_gpu(request: Request, wheel: TorchWheel) -> Found:
    """The cuDNN that the wheel pins has kernels for each card: it drops cards before torch does."""
    row = cudnn_release(wheel.cudnn) if wheel.cudnn else None
    if row is None:
        return
    for device in _nvidia(request):
        name = f"cuDNN {row.cudnn} of {wheel.name}"
        if row.sm_min and _sm(device.capability) < _sm(row.sm_min):
            text = f"{name} has no kernels below {row.sm_min}: convolutions fail on {device.name} "
            text += f"({_chip(device)})"
            yield Verdict("violated", "cudnn_for_gpu", text, "cudnn.csv, sm_min")
        elif row.sm_max and _sm(device.capability) > _sm(row.sm_max) and not runs_on(row.sm_max, device.capability):
            text = f"{name} ends at {row.sm_max}: it knows nothing of {device.name} ({_chip(device)})"
            yield Verdict("violated", "cudnn_for_gpu", text, "cudnn.csv, sm_max")
        elif row.sm_min:
            yield Verdict("holds", "cudnn_for_gpu", f"{name} has kernels for {device.name}", "cudnn.csv, sm_min")


def nccl_for_gpu(request: Request, wheel: TorchWheel) -> Found:
    """The NCCL that the wheel pins was built for each card; asked only when several work together."""
    row = nccl_release(wheel.nccl) if wheel.nccl else None
    if row is None or request.multi_gpu is False:
        return
    built = row.sm_list(wheel.version.major)
    for device in _nvidia(request):
        if built and not binaries_for(device.capability, built, wheel.version):
            text = f"NCCL {row.nccl} of {wheel.name} is built for {', '.join(built)} by default: "
            text += "collectives over "
            text += f"several {device.name} may fail"
            yield Verdict("caution", "nccl_for_gpu", text, f"nccl.csv, sm_cu{wheel.version.major}")


def compile_for_gpu(request: Request, wheel: TorchWheel) -> Found:
    """torch.compile needs Triton, which starts at compute capability 7.0."""
    for device in _nvidia(request):
        if _sm(device.capability) < 70 and wheel.release.torch.major >= 2:
            text = f"torch.compile does not work on {device.name}: Triton needs compute capability "
            text += "7.0; run eager"
            yield Verdict("caution", "compile_for_gpu", text, "known_incompat.csv, K50")


def numpy(request: Request, wheel: TorchWheel) -> Found:
    """The bound on NumPy leaves a release for the Python version and for what was asked."""
    yield from numpy_bound(request, f"torch {wheel.release.torch}", wheel.release.numpy, "torch_releases.csv, numpy")


def numpy_bound(request: Request, owner: str, bound: str, source: str) -> Found:
    """Whether some NumPy fulfils `bound`, the user's requirement and the Python version at once."""
    ask = request.ask("numpy")
    if not bound and (ask is None or not ask.specifier):
        return
    both = SpecifierSet(bound) & (ask.specifier if ask else SpecifierSet())
    left = [row.numpy for row in _numpies(both) if request.python is None or request.python in row.python]
    asked = f" and `{ask.text}`" if ask and ask.specifier else ""
    python_ = f" on Python {request.python}" if request.python else ""
    if left:
        yield Verdict("holds", "numpy", f"{owner} takes NumPy {bound or 'of any version'}{asked}: {left[-1]}", source)
    else:
        text = f"no NumPy fits {owner} (numpy{bound}){asked}{python_}"
        yield Verdict("violated", "numpy", text, f"{source} ; numpy.csv")


@cache
def _numpies(requirement: SpecifierSet) -> tuple[NumpyRelease, ...]:
    """Minor releases of NumPy that fulfil a requirement; kept, as many wheels have the same one.

    It may name a patch release: any patch of the minor will do.
    """
    return tuple(
        row for row in numpy_releases() if any(requirement.contains(f"{row.numpy}.{patch}") for patch in range(10))
    )


def free_threaded(request: Request, wheel: TorchWheel) -> Found:
    """Partners of torch are often not built for free-threaded Python."""
    if request.python is not None and request.python.endswith("t") and request.python in wheel.release.python:
        text = f"Python {request.python} is the free-threaded build: other packages may have no wheel for it"
        yield Verdict("caution", "free_threaded", text, "torch_releases.csv, python")


def partner_of(wheel: TorchWheel, kind: str) -> Version:
    """The torchvision (`vision`) or torchaudio (`audio`) that belongs to the wheel's patch release.

    The lists of a release go side by side. Where a list is shorter or longer, its last entry fits: torchaudio
    2.11 serves several releases, and sets only a lower bound.
    """
    release = wheel.release
    partners = release.torchvision if kind == "vision" else release.torchaudio
    place = release.patches.index(wheel.patch)
    aligned = len(partners) == len(release.patches)
    return partners[place] if aligned and partners[-1].parts[:2] == partners[0].parts[:2] else partners[-1]


def _nvidia(request: Request) -> list[Device]:
    return [device for device in request.devices if device.vendor == "NVIDIA"]


def _kit(wheel: TorchWheel) -> str:
    return f"{'ROCm' if wheel.toolkit == 'rocm' else 'CUDA'} {wheel.version}"


def _chip(device: Device) -> str:
    if device.vendor == "AMD":
        return device.capability
    known = capabilities().get(device.capability)
    return f"{known.architecture if known else device.architecture}, {device.capability}"


def _sm(text: str) -> int:
    """`sm_86` or `8.6` as 86."""
    return int(text.removeprefix("sm_").replace(".", ""))
