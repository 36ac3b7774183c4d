"""Containers: GPUs inside of one, and what this machine needs to give GPUs to one."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.doctor.checks.base import Found, Limits, check, fail, fine, info, seen, unsure, warn
from stoker.facts.version import Version
from stoker.host.snapshot import Snapshot


@check("container-devices", needs=("container.nodes",))
def container_devices(machine: Snapshot) -> Iterator[Found]:
    """The driver runs on the host; what of it a container may use shows in /dev."""
    here = machine.container
    if not here.kind:
        yield fine("This is no container.")
        return
    if "nvidia" not in machine.modules.loaded and not machine.driver.loaded:
        if machine.pci.gpus():
            yield fail(
                "container-no-driver-on-host",
                "There is a GPU, and the host of this container runs no NVIDIA driver.",
                seen("/proc/modules", "no line of the module nvidia"),
            )
        else:
            yield fine("The host of this container has no NVIDIA GPU.")
        return
    if not here.nodes:
        yield fail(
            "container-without-gpu-devices",
            "The host runs the NVIDIA driver, and this container was given no GPU.",
            seen("/proc/driver/nvidia/version", machine.driver.loaded_line or "nvidia is loaded"),
            seen("/dev", "no nvidia0, no nvidiactl"),
        )
        return
    refused = [node for node in here.nodes if node.opens is False]
    if refused:
        yield fail(
            "container-lost-gpu-after-daemon-reload",
            f"{len(refused)} of {len(here.nodes)} device files of the driver cannot be opened.",
            *(seen(node.path, node.reason) for node in refused[:3]),
        )
    elif all(node.opens is None for node in here.nodes):
        yield unsure("whether the device files open is not known")


@check("container-libraries", needs=("driver.libraries", "container.nodes"))
def container_libraries(machine: Snapshot) -> Iterator[Found]:
    """The runtime brings the driver's libraries into the container; without them CUDA finds nothing."""
    here = machine.container
    if not here.kind or not here.gpu_nodes():
        yield fine("This is no container with GPUs.")
    elif not machine.driver.library_versions:
        yield fail(
            "libnvidia-ml-missing-in-container",
            "The GPUs are here and the driver's libraries are not.",
            seen("/usr/lib", "no libcuda.so.*, no libnvidia-ml.so.*"),
        )


@check("container-toolkit", needs=("card",))
def container_toolkit(machine: Snapshot) -> Iterator[Found]:
    """Docker gives GPUs to containers only with the NVIDIA Container Toolkit."""
    here = machine.container
    if here.kind or not here.docker:
        yield fine("Docker is not installed here." if not here.kind else "This is itself a container.")
    elif not here.toolkit and not any("nvidia-container-toolkit" in one.name for one in machine.driver.packages):
        yield warn(
            "nvidia-container-toolkit-missing",
            "Docker is installed, and the NVIDIA Container Toolkit is not.",
            seen("nvidia-ctk --version", "not installed"),
        )
    elif here.daemon_json_error:
        yield fail(
            "docker-settings-broken",
            "Docker's settings cannot be read.",
            seen("/etc/docker/daemon.json", here.daemon_json_error),
        )
    elif "nvidia" not in here.runtimes and not here.cdi:
        yield warn(
            "nvidia-container-toolkit-missing",
            "Docker does not know the NVIDIA runtime, and there is no CDI specification.",
            seen("/etc/docker/daemon.json", "runtimes: " + (", ".join(here.runtimes) or "none")),
        )


@check("container-daemon-reload", needs=("gpu",))
def container_daemon_reload(machine: Snapshot) -> Iterator[Found]:
    """With systemd's cgroup driver, `systemctl daemon-reload` takes GPUs away from running containers; CDI does not."""
    here = machine.container
    if here.kind or "nvidia" not in here.runtimes or here.cdi or here.cgroup_driver == "cgroupfs":
        yield fine("No container here would lose its GPUs at a daemon-reload.")
        return
    yield info(
        "container-lost-gpu-after-daemon-reload",
        "Containers of the legacy NVIDIA runtime lose their GPUs when systemd reloads.",
        seen(
            "/etc/docker/daemon.json",
            f"runtimes: {', '.join(here.runtimes)}; cgroup driver: {here.cgroup_driver or 'systemd (default)'}",
        ),
        seen("/etc/cdi, /var/run/cdi", "no specification"),
    )


@check("cdi", needs=("gpu",))
def cdi(machine: Snapshot) -> Iterator[Found]:
    """A CDI specification must list the cards that are there now."""
    files = {
        path: names
        for path, names in (machine.container.cdi or {}).items()
        if any("nvidia.com/gpu" in name for name in names)
    }
    if not files:
        yield fine("There is no CDI specification for GPUs here.")
    for path, names in files.items():
        single = [name for name in names if name.partition("=")[2].isdigit()]
        if single and len(single) != len(machine.gpus.devices) and not any(gpu.mig for gpu in machine.gpus.devices):
            yield warn(
                "cdi-device-unresolvable",
                f"The CDI specification lists {len(single)} GPUs, and there are {len(machine.gpus.devices)}.",
                seen(path, ", ".join(names[:8])),
            )


@check("container-toolkit-version", needs=("card",))
def container_toolkit_version(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Old releases do not refresh CDI specifications by themselves."""
    version = machine.container.toolkit
    if not version or machine.container.kind:
        yield fine("The NVIDIA Container Toolkit is not installed here.")
    elif Version(version) < Version(f"{int(limits['major'])}.{int(limits['minor'])}"):
        yield info(
            "container-toolkit-old",
            f"The NVIDIA Container Toolkit {version} does not refresh CDI specifications by itself.",
            seen("nvidia-ctk --version", version),
        )
