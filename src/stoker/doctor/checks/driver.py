"""The NVIDIA driver: is it there, does it fit the cards and the kernel, will it be there after the next reboot."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from stoker.doctor.checks.base import Found, check, fail, fine, info, seen, warn
from stoker.doctor.checks.lookup import (
    PCI_LIST,
    branch_of,
    capability_of,
    describe,
    driver_version,
    gpu_source,
    name_of,
    row_of,
)
from stoker.finding import Evidence
from stoker.host.probes.boot import DkmsModule
from stoker.host.probes.driver import upstream
from stoker.host.probes.system import kernel_key
from stoker.host.probes.upgrades import Change
from stoker.host.snapshot import Snapshot

VERSION_FILE = "/proc/driver/nvidia/version"
_DRIVER_PACKAGES = (
    "nvidia-driver", "libnvidia-compute", "nvidia-utils", "nvidia-dkms", "nvidia-headless", "nvidia-open",
    "cuda-drivers",
)  # fmt: skip
_LIBRARY_PACKAGES = ("libnvidia-compute", "nvidia-utils", "libnvidia-cfg", "nvidia-driver-cuda-libs", "nvidia-compute")


@check("driver-running", needs=("card", "modules.loaded"))
def driver_running(machine: Snapshot) -> Iterator[Found]:
    """Not installed, not loaded, and loaded without an answer are three things."""
    if machine.gpus.devices or machine.gpus.lost or machine.container.kind:
        return
    cards = [seen(PCI_LIST, describe(card)) for card in machine.pci.gpus()[:2]]
    if "nvidia" not in machine.modules.loaded:
        if not driver_version(machine):
            yield fail("nvidia-driver-not-installed", "No NVIDIA driver is installed.", *cards)
        else:
            yield fail(
                "nvidia-driver-not-loaded",
                "An NVIDIA driver is installed, but its kernel module is not loaded.",
                seen("/proc/modules", "no line of the module nvidia"),
                *cards,
            )
    elif not library_mismatch(machine) and machine.gpus.error:
        cause = "nvidia-smi-hangs" if "did not answer" in machine.gpus.error else "no-devices-found"
        yield fail(cause, "The NVIDIA driver is loaded and shows no GPU.", seen("nvidia-smi -q", machine.gpus.error))


def library_mismatch(machine: Snapshot) -> tuple[str, ...]:
    """Library versions that differ from the loaded module's; none if they agree or one side is unknown."""
    loaded = machine.driver.loaded
    found = machine.driver.library_versions
    return () if not loaded or loaded in found else found


@check("driver-library", needs=("driver.loaded", "driver.libraries"))
def driver_library(machine: Snapshot) -> Iterator[Found]:
    """The loaded kernel module and the libraries must be of one version."""
    if not machine.driver.loaded:
        yield fine("No NVIDIA kernel module is loaded, so there is nothing to compare.")
        return
    versions = library_mismatch(machine)
    if versions:
        yield fail(
            "driver-library-mismatch",
            f"The loaded NVIDIA kernel module is {machine.driver.loaded}, the libraries are {', '.join(versions)}.",
            seen(VERSION_FILE, machine.driver.loaded_line),
            *(seen(folder, f"libcuda.so.{versions[0]}") for folder in machine.driver.library_folders[:1]),
            *_upgrade_to(machine, versions),
        )
    elif len(machine.driver.library_versions) > 1:
        yield warn(
            "driver-libraries-of-two-versions",
            f"Driver libraries of {' and '.join(sorted(machine.driver.library_versions))} lie side by side.",
            *(seen(folder, "libcuda.so, libnvidia-ml.so") for folder in machine.driver.library_folders),
        )


def _upgrade_to(machine: Snapshot, versions: tuple[str, ...]) -> list[Evidence]:
    """The package transaction that brought the libraries."""
    for change in reversed(machine.upgrades.changes):
        if upstream(change.new) in versions and change.package.startswith(_LIBRARY_PACKAGES):
            return [seen(change.path, _transaction(change), change.line)]
    return []


@check("nouveau", needs=("card", "modules.loaded"))
def nouveau(machine: Snapshot) -> Iterator[Found]:
    """The kernel's own drivers hold a card before NVIDIA's can."""
    for cause, driver in (("nouveau-bound-gpu", "nouveau"), ("nova-core-bound-gpu", "nova_core")):
        bound = [card for card in machine.pci.gpus() if card.driver.replace("-", "_") in (driver, "NovaCore")]
        if bound:
            cards = [seen(f"{PCI_LIST}/{card.address}/driver", card.driver) for card in bound[:4]]
            yield fail(cause, f"{driver} holds {len(bound)} of {len(machine.pci.gpus())} GPUs.", *cards)
    if any(card.driver == "vfio-pci" for card in machine.pci.gpus()):
        held = [card for card in machine.pci.gpus() if card.driver == "vfio-pci"]
        yield info(
            "gpu-bound-to-vfio",
            f"{len(held)} GPUs are set aside for virtual machines (vfio-pci).",
            *(seen(f"{PCI_LIST}/{card.address}/driver", card.driver) for card in held[:4]),
        )


@check("secure-boot", needs=("card", "secure_boot.enabled", "modules.nvidia"))
def secure_boot(machine: Snapshot) -> Iterator[Found]:
    """With Secure Boot on, the kernel takes no module without a signature that it trusts."""
    if not machine.secure_boot.enabled:
        yield fine(f"Secure Boot is off ({machine.secure_boot.line or 'not booted through EFI'}).")
        return
    rejected = [
        line for line in machine.kernel_log.lines if "nvidia" in line and "is rejected" in line.replace("was", "is")
    ]
    rejected += [line for line in machine.kernel_log.lines if "Key was rejected" in line or "Required key not" in line]
    module = machine.modules.nvidia
    unsigned = module is not None and not module.signer
    if "nvidia" in machine.modules.loaded or not (unsigned or rejected):
        return
    built = _dkms(machine)
    yield fail(
        "secure-boot-rejects-module",
        "Secure Boot is on, and the NVIDIA module is not signed with a key that the machine trusts.",
        seen("mokutil --sb-state", machine.secure_boot.line),
        *([seen("modinfo nvidia", f"{module.filename}: no signer")] if module and unsigned else []),
        *(seen(machine.kernel_log.source, line) for line in rejected[:1]),
        module=built[0].name if built else "nvidia",
        version=built[0].version if built else "VERSION",
    )


def _dkms(machine: Snapshot) -> list[DkmsModule]:
    return [
        one for one in machine.dkms.modules if one.name in ("nvidia", "nvidia-open") or one.name.startswith("nvidia-")
    ]


def _built(machine: Snapshot, kernel: str) -> bool:
    return any(one.kernel == kernel and one.state == "installed" for one in _dkms(machine))


@check("dkms", needs=("card", "dkms.modules", "system.kernel"))
def dkms(machine: Snapshot) -> Iterator[Found]:
    """The driver's module must be built for the kernel that runs."""
    modules = _dkms(machine)
    if not modules:
        yield fine("The NVIDIA module is not built by DKMS here.")
    elif not _built(machine, machine.system.kernel) and "nvidia" not in machine.modules.loaded:
        yield fail(
            "dkms-module-missing",
            f"DKMS has no NVIDIA module for the running kernel {machine.system.kernel}.",
            *(seen("dkms status", one.line) for one in modules[:4]),
            version=modules[0].version,
            module=modules[0].name,
        )


@check("next-kernel", needs=("card", "dkms.modules", "system.kernels"))
def next_kernel(machine: Snapshot) -> Iterator[Found]:
    """The newest installed kernel starts at the next reboot: the driver must be built for it too."""
    modules = _dkms(machine)
    if not modules or not machine.system.kernels:
        yield fine("The NVIDIA module is not built by DKMS here.")
        return
    newest = max(machine.system.kernels, key=kernel_key)
    if newest != machine.system.kernel and not _built(machine, newest):
        yield warn(
            "driver-missing-for-next-kernel",
            f"The next reboot starts kernel {newest}, for which DKMS has built no NVIDIA module.",
            *(seen("dkms status", one.line) for one in modules[:4]),
            seen("/lib/modules", newest),
            kernel=newest,
        )


@check("kernel-headers", needs=("card", "dkms.modules", "dkms.headers"))
def kernel_headers(machine: Snapshot) -> Iterator[Found]:
    """DKMS cannot build without the headers of the running kernel."""
    if not _dkms(machine):
        yield fine("The NVIDIA module is not built by DKMS here.")
    elif machine.dkms.headers is False:
        kernel = machine.system.kernel
        make = warn if "nvidia" in machine.modules.loaded else fail
        folder = f"/lib/modules/{kernel}/build"
        yield make(
            "kernel-headers-missing", f"The headers of kernel {kernel} are not installed.", seen(folder, "missing")
        )


@check("module-flavour", needs=("card",))
def module_flavour(machine: Snapshot) -> Iterator[Found]:
    """Cards before Turing need the proprietary modules, those from Blackwell on the open ones."""
    flavour, place = machine.driver.flavour, VERSION_FILE
    if not flavour and machine.modules.nvidia:
        flavour = "proprietary" if machine.modules.nvidia.license == "NVIDIA" else "open"
        place = f"modinfo nvidia: license {machine.modules.nvidia.license}"
    if not flavour:
        yield fine("No NVIDIA kernel module is installed.")
        return
    for card in machine.pci.gpus():
        capability = capability_of(card)
        if capability is None:
            continue
        if flavour == "open" and capability.open_modules == "impossible":
            cause, why = "gpu-unsupported-by-open-module", "is too old for the open kernel modules"
        elif flavour == "proprietary" and capability.open_modules == "required":
            cause, why = "open-kernel-module-required", "needs the open kernel modules"
        else:
            continue
        yield fail(
            cause,
            f"{name_of(card)} {why}, and the {flavour} ones are installed.",
            seen(PCI_LIST, describe(card)),
            seen(place, flavour),
        )


@check("driver-branch", needs=("card",))
def driver_branch(machine: Snapshot) -> Iterator[Found]:
    """A branch that ended gets no security fixes, and no support for new kernels."""
    version = driver_version(machine)
    row = branch_of(version) if version else None
    if row is None:
        yield fine(
            "No NVIDIA driver is installed." if not version else f"The branch of driver {version} is in no table."
        )
        return
    try:
        day = date.fromisoformat(machine.taken[:10])
    except ValueError:
        return
    if row.ended_by(day):
        instead = f"; {row.instead} takes its place" if row.instead else ""
        yield warn(
            "driver-branch-ended",
            f"Driver branch {row.branch} gets no more fixes since {row.end_month or 'its end'}{instead}.",
            seen("driver version", version),
            branch=str(row.instead or ""),
        )


@check("driver-knows-card", needs=("card",))
def driver_knows_card(machine: Snapshot) -> Iterator[Found]:
    """Each card has a first and some a last driver branch."""
    version = driver_version(machine)
    if not version:
        yield fine("No NVIDIA driver is installed.")
        return
    branch = int(version.partition(".")[0])
    for card in machine.pci.gpus():
        capability, row = capability_of(card), row_of(card)
        if capability is None or row is None:
            continue
        late = capability.driver_first is not None and branch < capability.driver_first
        gone = capability.driver_last is not None and branch > capability.driver_last
        if late or gone:
            bound = f"from branch {capability.driver_first} on" if late else f"up to branch {capability.driver_last}"
            yield fail(
                "driver-release-does-not-support-gpu",
                f"Driver {version} does not know {row.name}, which drivers {bound} do.",
                seen(PCI_LIST, describe(card)),
                seen("driver version", version),
            )


@check("driver-upgrades", needs=("card",))
def driver_upgrades(machine: Snapshot) -> Iterator[Found]:
    """An unattended upgrade replaces libraries under a running module."""
    upgrades = machine.upgrades
    ours = [one for one in machine.driver.packages if one.name.startswith(_DRIVER_PACKAGES)]
    if not upgrades.unattended or not ours:
        yield fine("No unattended upgrade touches the NVIDIA packages.")
        return
    excluded = any("nvidia" in pattern for pattern in upgrades.excluded)
    if not excluded and not all(one.held for one in ours):
        last = [one for one in upgrades.automatic() if "nvidia" in one.package][-1:]
        yield warn(
            "driver-upgraded-unattended",
            "Unattended upgrades may replace the NVIDIA driver while jobs run.",
            seen(
                "/etc/apt/apt.conf.d",
                'APT::Periodic::Unattended-Upgrade "1", and no nvidia in Package-Blacklist',
            ),
            *(seen(one.path, _transaction(one), one.line) for one in last),
        )


def _transaction(change: Change) -> str:
    return f"{change.time} {change.command or change.action}: {change.package} {change.old} -> {change.new}"


@check("persistence", needs=("gpu",))
def persistence(machine: Snapshot) -> Iterator[Found]:
    """Without it the driver sets up a card anew for each first user, and its settings are lost."""
    off = [gpu for gpu in machine.gpus.devices if gpu.persistence is False]
    if off:
        make = warn if len(machine.gpus.devices) > 1 else info
        yield make(
            "persistence-mode-off",
            f"Persistence mode is off on {len(off)} of {len(machine.gpus.devices)} GPUs.",
            seen(gpu_source(machine), f"{off[0].label}: Persistence Mode: Disabled"),
        )
