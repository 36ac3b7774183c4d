"""Whether this is a container, what of the GPUs it may use, and how this machine's runtimes give GPUs to containers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, cast

from stoker.host.probing import Notes, matching, names_of, printed, text_of
from stoker.host.source import Source, Unreadable

_CONTROL_NODES = ("nvidiactl", "nvidia-uvm")


@dataclass(frozen=True)
class DeviceNode:
    """A device file of the driver: whether it opens, and why not."""

    path: str
    opens: bool | None = None
    reason: str = ""


@dataclass(frozen=True)
class Container:
    """Containers, from inside or outside.

    Attributes:
        kind: Of the container that this is: `docker`, `podman`, `kubernetes`, `lxc`, `apptainer`; empty outside of one.
        cgroup: Version of the control groups, 1 or 2.
        nodes: Device files of NVIDIA's driver.
        toolkit: Version of the NVIDIA Container Toolkit; empty if it is not installed.
        runtimes: Runtimes of docker's daemon.json; `default_runtime` among them.
        cgroup_driver: As daemon.json sets it: `systemd` or `cgroupfs`; empty if it does not.
        docker: Whether docker is installed.
        cdi: Names of the devices in CDI specifications, by file.
        visible: NVIDIA_VISIBLE_DEVICES of the container.
    """

    kind: str = ""
    cgroup: int | None = None
    nodes: tuple[DeviceNode, ...] = ()
    toolkit: str = ""
    docker: bool | None = None
    runtimes: tuple[str, ...] = ()
    default_runtime: str = ""
    cgroup_driver: str = ""
    daemon_json_error: str = ""
    cdi: dict[str, tuple[str, ...]] | None = None

    def gpu_nodes(self) -> tuple[DeviceNode, ...]:
        """The device files of single GPUs."""
        return tuple(node for node in self.nodes if re.fullmatch(r"/dev/nvidia\d+", node.path))


def read(source: Source, notes: Notes) -> Container:
    """Read the section."""
    root = names_of(source.names("/"))
    environ = source.environment()
    kind = kind_of(
        root, text_of(source.read("/proc/1/cgroup")), {} if isinstance(environ, Unreadable) else dict(environ)
    )
    runtimes, default, driver, error = daemon_of(text_of(source.read("/etc/docker/daemon.json")))
    return Container(
        kind,
        cgroup_version(text_of(source.read("/proc/self/mounts"))),
        _nodes(source, notes),
        toolkit_of(printed(source.run(["nvidia-ctk", "--version"]))),
        _installed(source, "docker"),
        runtimes,
        default,
        driver,
        error,
        _cdi(source),
    )


def kind_of(root: tuple[str, ...], cgroup: str, environ: dict[str, str]) -> str:
    """What kind of container this is, from marks in the root folder and the control groups."""
    if "KUBERNETES_SERVICE_HOST" in environ or "kubepods" in cgroup:
        return "kubernetes"
    if ".dockerenv" in root or "/docker/" in cgroup:
        return "docker"
    if ".singularity.d" in root:
        return "apptainer"
    return "lxc" if "/lxc/" in cgroup else ""


def cgroup_version(mounts: str) -> int | None:
    """2 if /sys/fs/cgroup is the unified hierarchy, 1 if it holds controllers."""
    kinds = dict(re.findall(r"^\S+ (/sys/fs/cgroup\S*) (\w+) ", mounts, re.MULTILINE))
    if kinds.get("/sys/fs/cgroup") == "cgroup2":
        return 2
    return 1 if "cgroup" in kinds.values() else None


def toolkit_of(text: str) -> str:
    """Version in `nvidia-ctk --version`."""
    match = re.search(r"version (\d+\.\d+\.\d+)", text)
    return match[1] if match else ""


def daemon_of(text: str) -> tuple[tuple[str, ...], str, str, str]:
    """Runtimes, the default one, the cgroup driver, and an error, of docker's daemon.json."""
    if not text.strip():
        return (), "", "", ""
    try:
        content = cast("dict[str, Any]", json.loads(text))
        options = [str(option) for option in content.get("exec-opts", ())]
        driver = next((option.partition("=")[2] for option in options if option.startswith("native.cgroupdriver=")), "")
        runtimes = tuple(str(name) for name in cast("dict[str, Any]", content.get("runtimes") or {}))
        return runtimes, str(content.get("default-runtime", "")), driver, ""
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        return (), "", "", f"/etc/docker/daemon.json: {error}"[:200]


def cdi_devices(text: str) -> tuple[str, ...]:
    """Names of the devices in a CDI specification, YAML or JSON, as far as nvidia-ctk writes them."""
    kind = re.search(r"""^[ \t]*"?kind"?:[ \t]*"?([\w./-]+)"?""", text, re.MULTILINE)
    names = re.findall(r"""^[ \t]*(?:-[ \t]*)?"?name"?:[ \t]*"?([\w:.-]+)"?,?[ \t]*$""", text, re.MULTILINE)
    return tuple(dict.fromkeys(f"{kind[1]}={name}" for name in names)) if kind else ()


def _nodes(source: Source, notes: Notes) -> tuple[DeviceNode, ...]:
    names = notes.take("nodes", source.names("/dev"))
    if names is None:
        return ()
    nodes: list[DeviceNode] = []
    for name in [*matching(names, r"nvidia\d{1,3}"), *(name for name in _CONTROL_NODES if name in names)]:
        found = source.can_open(f"/dev/{name}")
        if found is True:
            nodes.append(DeviceNode(f"/dev/{name}", opens=True))
        else:
            known = found.kind != "unrecorded"
            nodes.append(DeviceNode(f"/dev/{name}", False if known else None, found.reason))
    return tuple(nodes)


def _installed(source: Source, name: str) -> bool | None:
    folders = [source.names(folder) for folder in ("/usr/bin", "/usr/local/bin")]
    known = [folder for folder in folders if not isinstance(folder, Unreadable)]
    return any(name in folder for folder in known) if known else None


def _cdi(source: Source) -> dict[str, tuple[str, ...]] | None:
    found: dict[str, tuple[str, ...]] = {}
    for folder in ("/etc/cdi", "/var/run/cdi", "/run/cdi"):
        for name in matching(names_of(source.names(folder)), r".*\.(?:ya?ml|json)"):
            found.setdefault(f"{folder}/{name}", cdi_devices(text_of(source.read(f"{folder}/{name}"))))
    return found or None
