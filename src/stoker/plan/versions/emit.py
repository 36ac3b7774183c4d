"""A chosen set as commands and files: what to run and what to commit."""

from __future__ import annotations

from typing import Literal

from stoker.facts.version import Version
from stoker.plan.versions.model import PYTORCH_INDEX, Plan, TorchWheel, VersionSet
from stoker.plan.versions.rules_driver import install_recipe, module_flavour
from stoker.plan.versions.rules_tensorflow import cudnn_bound
from stoker.plan.versions.rules_torch import partner_of

Form = Literal["commands", "requirements", "uv", "conda", "containerfile", "ansible"]
_USUAL_PYTHON = "3.12"


def emit(plan: Plan, form: Form) -> str:
    """The chosen set in one form, ending in a newline.

    Raises:
        ValueError: The plan has no set.
    """
    if plan.chosen is None:
        raise ValueError("nothing was chosen")
    return {
        "commands": _commands,
        "requirements": _requirements,
        "uv": _uv,
        "conda": _conda,
        "containerfile": _containerfile,
        "ansible": _ansible,
    }[form](plan, plan.chosen)


def python_for(plan: Plan) -> str:
    """The Python to install for: as asked, else the system's, else 3.12, else the newest with a wheel."""
    if plan.request.python is not None:
        return plan.request.python
    chosen = plan.chosen
    lists = (
        [part.python for part in (chosen.torch and chosen.torch.release, chosen.tensorflow) if part] if chosen else []
    )
    common = [name for name in lists[0] if all(name in names for names in lists)] if lists else []
    wanted = [plan.request.os.python] if plan.request.os else []
    for name in (*wanted, _USUAL_PYTHON):
        if name in common:
            return name
    plain = [name for name in common if not name.endswith("t")]
    return plain[-1] if plain else _USUAL_PYTHON


def packages(plan: Plan) -> list[str]:
    """The requirements to give pip, without labels."""
    chosen = plan.chosen
    if chosen is None:
        return []
    names: list[str] = []
    if chosen.torch is not None:
        wheel = chosen.torch
        names += [
            f"torch=={wheel.patch}",
            f"torchvision=={partner_of(wheel, 'vision')}",
            f"torchaudio=={partner_of(wheel, 'audio')}",
        ]
    if chosen.tensorflow is not None:
        row = chosen.tensorflow
        names.append(f"tensorflow{'[and-cuda]' if row.cudnn_pin else ''}=={row.tensorflow}.*")
        if chosen.torch is None:
            bounds = {cudnn_bound(row, device.capability) for device in plan.request.devices if row.cudnn_pin}
            names += [f"nvidia-cudnn-cu12{bound}" for bound in sorted(filter(None, bounds))]
    numpy_bounds = (
        chosen.torch and chosen.torch.release.numpy,
        chosen.tensorflow and chosen.tensorflow.numpy,
    )
    numpy = ",".join(dict.fromkeys(bound for bound in numpy_bounds if bound))
    return [*names, f"numpy{numpy}"] if numpy else names


def index_url(wheel: TorchWheel | None) -> str | None:
    """The PyTorch index the wheel comes from; None for the default index."""
    return f"{PYTORCH_INDEX}/{wheel.own_index}" if wheel is not None and wheel.index != "pypi" else None


def pip_command(plan: Plan, pip: str = "pip") -> str:
    """One pip command for all packages.

    torch and its partners alone come from the PyTorch index, which has all they need. With other packages
    the index is an additional one, and the label says which build is meant.
    """
    chosen = plan.chosen
    url = index_url(chosen.torch if chosen else None)
    names = packages(plan)
    if url is None:
        return f"{pip} install {_quoted(names)}"
    if all(name.startswith("torch") for name in names):
        return f"{pip} install {_quoted(names)} --index-url {url}"
    return f"{pip} install {_quoted(_labelled(plan))} --extra-index-url {url}"


def driver_commands(plan: Plan) -> list[str]:
    """The commands that install the driver; none if it is there, not needed, or the system is not known."""
    chosen, request = plan.chosen, plan.request
    if chosen is None or chosen.driver is None or chosen.driver.installed or request.os is None:
        return []
    flavour = module_flavour(request.devices, chosen.driver.branch.branch)
    recipe = install_recipe(request.os, chosen.driver.branch.branch, flavour) if flavour else None
    if recipe is None:
        return []
    doubt = [] if recipe.confidence == "high" else ["# not tried: see that the repository has these packages"]
    return doubt + [line.format(branch=chosen.driver.branch.branch) for line in recipe.commands]


def driver_floor(chosen: VersionSet) -> Version | None:
    """The oldest driver that runs the set's CUDA."""
    from stoker.facts.drivers import min_driver

    cudas = [chosen.torch.version] if chosen.torch and chosen.torch.toolkit == "cuda" else []
    cudas += [chosen.tensorflow.cuda] if chosen.tensorflow else []
    floors = [floor for cuda in cudas if (floor := min_driver(cuda)) is not None]
    return max(floors, default=None)


def _commands(plan: Plan, chosen: VersionSet) -> str:
    lines: list[str] = []
    driver = driver_commands(plan)
    if driver:
        lines += ["# driver, then restart the machine", *driver]
    elif chosen.driver is not None and not chosen.driver.installed:
        lines.append(f"# driver branch {chosen.driver.branch.branch}: give --os for the commands of your system")
    lines += [f"# Python {python_for(plan)}", pip_command(plan)]
    return _joined(lines)


def _requirements(plan: Plan, chosen: VersionSet) -> str:
    url = index_url(chosen.torch)
    return _joined(([f"--extra-index-url {url}"] if url else []) + _labelled(plan))


def _uv(plan: Plan, chosen: VersionSet) -> str:
    lines = [
        "[project]",
        'name = "training"',
        'version = "0.1.0"',
        f'requires-python = "=={python_for(plan).removesuffix("t")}.*"',
        "dependencies = [",
        *(f'    "{name}",' for name in packages(plan)),
        "]",
    ]
    url = index_url(chosen.torch)
    if url and chosen.torch:
        name = f"pytorch-{chosen.torch.own_index.replace('.', '-')}"
        lines += ["", "[tool.uv.sources]"]
        lines += [f'{package} = {{ index = "{name}" }}' for package in ("torch", "torchvision", "torchaudio")]
        lines += ["", "[[tool.uv.index]]", f'name = "{name}"', f'url = "{url}"', "explicit = true"]
    return _joined(lines)


def _conda(plan: Plan, chosen: VersionSet) -> str:
    url = index_url(chosen.torch)
    lines = [
        "# torch has had no official conda packages since 2.5: conda gives Python, pip the wheels",
        "name: training",
        "channels:",
        "  - conda-forge",
        "  - nodefaults",
        "dependencies:",
        f"  - python={python_for(plan).removesuffix('t')}",
        "  - pip",
        "  - pip:",
        *([f"      - --extra-index-url {url}"] if url else []),
        *(f'      - "{name}"' for name in _labelled(plan)),
    ]
    return _joined(lines)


def _containerfile(plan: Plan, chosen: VersionSet) -> str:
    floor = driver_floor(chosen)
    needs = f"a driver >= {floor} and the NVIDIA container toolkit" if floor else "the ROCm kernel driver"
    lines = [
        f"# The wheels bring CUDA, cuDNN and NCCL; the host needs {needs}.",
        f"FROM docker.io/library/python:{python_for(plan).removesuffix('t')}-slim",
        f"RUN {pip_command(plan, 'pip').replace('pip install', 'pip install --no-cache-dir', 1)}",
    ]
    return _joined(lines)


def _ansible(plan: Plan, chosen: VersionSet) -> str:
    lines = ["---"]
    if chosen.driver is not None:
        flavour = module_flavour(plan.request.devices, chosen.driver.branch.branch) if plan.request.devices else "auto"
        lines += [
            f'nvidia_driver_branch: "{chosen.driver.branch.branch}"',
            f'nvidia_driver_version: "{chosen.driver.version}"',
            f"nvidia_driver_flavour: {flavour}",
        ]
    lines += ["cuda_toolkit_enabled: false", f'python_env_python: "{python_for(plan)}"']
    url = index_url(chosen.torch)
    lines += [f"python_env_extra_index: {url}"] if url else []
    lines += ["python_env_packages:", *(f'  - "{name}"' for name in _labelled(plan))]
    return _joined(lines)


def _labelled(plan: Plan) -> list[str]:
    """The requirements with the label of the build on torch, where an additional index is given.

    The partners need none: pip prefers the labelled build of the same version, which only the PyTorch index
    has.
    """
    wheel = plan.chosen.torch if plan.chosen else None
    names = packages(plan)
    if wheel is None or wheel.index == "pypi":
        return names
    return [f"{name}+{wheel.own_index}" if name.startswith("torch==") else name for name in names]


def _quoted(names: list[str]) -> str:
    return " ".join(f"'{name}'" if any(sign in name for sign in "<>*[~") else name for name in names)


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
