"""`stoker doctor collect`: reads this machine and a run, masks what was read, and packs it into one file.

Reads only: nothing is changed on the machine, nothing is sent anywhere, and what may not be read is noted.
"""

from __future__ import annotations

import gzip
import io
import os
import platform
import pwd
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from stoker._version import __version__
from stoker.doctor.bundle.form import FOLDER, MACHINE, MANIFEST, RUN, SNAPSHOT, Manifest
from stoker.doctor.bundle.masking import Masker
from stoker.errors import UserError
from stoker.host.recording import Recording
from stoker.host.snapshot import read_snapshot
from stoker.host.source import Source, Unreadable
from stoker.report.runfolder import check_run_folder

LOGS = (
    "/var/log/nvidia-installer.log",
    "/var/log/fabricmanager.log",
    "/var/log/nvidia-dcgm/nv-hostengine.log",
    "/etc/nccl.conf",
    "/etc/hosts",
    "/etc/docker/daemon.json",
    "/etc/nvidia-container-runtime/config.toml",
    "/etc/slurm/gres.conf",
    "/etc/slurm/cgroup.conf",
)
"""Files beside those that the probes read; of logs the last 8 MiB."""
DKMS = "/var/lib/dkms/nvidia"

RUN_FILES = ("spec.yaml", "environment.json", "metrics.jsonl", "evaluations.jsonl", "events.jsonl", "failure.json")
RUN_BYTES = 8 << 20
"""Of a file of the run folder the last so many bytes are taken."""


@dataclass(frozen=True)
class Collected:
    """A bundle that was written.

    Attributes:
        path: The file.
        size: Its bytes.
        files: How many files are in it.
        manifest: What it says of itself.
        unseen: Why something is not in it, by what it is.
    """

    path: Path
    size: int
    files: int
    manifest: Manifest
    unseen: Mapping[str, str]

    def text(self) -> str:
        """For people: where it is, and what was taken out of it."""
        masked = ", ".join(f"{count} x {kind}" for kind, count in self.manifest.masked.items()) or "nothing"
        lines = [
            f"{self.path}: {self.size / 1e6:.2f} MB, {self.files} files; only you can read it.",
            f"Masked, each by a name that stays the same within the bundle: {masked}.",
            "Have a look before you pass it on: no mask is perfect, and text that people wrote can say anything.",
        ]
        lines += [f"Only the end was taken of: {', '.join(self.manifest.cut)}"] if self.manifest.cut else []
        if not self.manifest.root:
            lines.append("Not collected as root: the kernel's log and parts of the hardware may be missing.")
        if self.unseen:
            lines += ["Not seen:", *(f"  {what}: {reason}" for what, reason in sorted(self.unseen.items()))]
        return "\n".join([*lines, f"Read it anywhere: stoker doctor {self.path}"])


def collect(source: Source, out: Path, run: Path | None = None, environ: Mapping[str, str] | None = None) -> Collected:
    """Write a bundle.

    Args:
        source: The machine.
        out: The file to write.
        run: A run folder to take along.
        environ: Variables of this process, to know which secrets must not be in it; they are not written.

    Raises:
        UserError: The run folder is none, or the file cannot be written.
    """
    if out.exists():
        raise UserError(f"{out} is there already: name another file with --out, or delete it")
    if not out.parent.is_dir():
        raise UserError(f"the folder of {out} does not exist: make it, or name another file with --out")
    with tempfile.TemporaryDirectory(prefix="stoker-collect-") as name:
        recording = Recording(source, Path(name))
        snapshot = read_snapshot(recording)
        _read_more(recording)
        recording.finish()
        texts, cut = _texts(Path(name)), []
        texts[SNAPSHOT] = snapshot.to_json()
        manifest = Manifest(stoker=__version__, taken=recording.taken(), root=os.geteuid() == 0)
        if run is not None:
            manifest = _add_run(run, texts, cut, manifest)
        masker = masker_for(os.environ if environ is None else environ)
        masked = mask_all(texts, masker)
        manifest = replace(manifest, masked=_counts(masker), cut=tuple(masker.mask(one) for one in cut))
        masked[MANIFEST] = manifest.to_json()
        size = _write(out, masked)
    return Collected(out, size, len(masked), manifest, snapshot.unknown)


def default_name() -> Path:
    """A file in this folder, named by the time and not by the machine."""
    return Path(f"stoker-bundle-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz")


def masker_for(environ: Mapping[str, str]) -> Masker:
    """Knows this machine's name, its user and what is secret in the variables."""
    masker = Masker()
    masker.know("host", [platform.node()])
    masker.know_environment(environ)
    try:
        own = pwd.getpwuid(os.getuid())
        people = [one.pw_name for one in pwd.getpwall() if 1000 <= one.pw_uid < 65000]
    except (KeyError, OSError):
        return masker
    masker.know("user", [own.pw_name, Path(own.pw_dir).name, *people])
    return masker


def mask_all(texts: Mapping[str, str], masker: Masker) -> dict[str, str]:
    """Every text and every name, masked; all are learned from before the first is masked."""
    for name, text in texts.items():
        masker.learn(text, name)
    return {masker.mask(name): masker.mask(text, name) for name, text in texts.items()}


def _counts(masker: Masker) -> dict[str, int]:
    return {str(kind): count for kind, count in masker.counts.most_common()}


def _read_more(recording: Recording) -> None:
    """What no probe asks for but a log reader can use."""
    for path in LOGS:
        recording.read(path, tail=True)
    versions = recording.names(DKMS)
    for version in () if isinstance(versions, Unreadable) else versions:
        recording.read(f"{DKMS}/{version}/build/make.log", tail=True)


def _texts(folder: Path) -> dict[str, str]:
    """Everything that was recorded, by its name in the bundle."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(PurePosixPath(MACHINE, path.relative_to(folder).as_posix())): path.read_text("utf-8", "replace")
        for path in files
    }


def _add_run(run: Path, texts: dict[str, str], cut: list[str], manifest: Manifest) -> Manifest:
    """The text of the run folder, and whether its process lives."""
    from stoker.doctor.runs.facts import read_facts

    check_run_folder(run)
    facts = read_facts(run)
    for name, path in _run_files(run):
        try:
            with path.open("rb") as stream:
                size = path.stat().st_size
                stream.seek(max(0, size - RUN_BYTES))
                text = stream.read(RUN_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        if size > RUN_BYTES:
            cut.append(name)
            text = text.partition("\n")[2]
        texts[f"{RUN}/{name}"] = text
    return replace(manifest, run_alive=facts.alive, run_silent=facts.silent)


def _run_files(run: Path) -> Iterator[tuple[str, Path]]:
    for name in RUN_FILES:
        if (run / name).is_file():
            yield name, run / name
    for log in sorted((run / "logs").glob("*.log")):
        if log.is_file():
            yield f"logs/{log.name}", log


def _write(out: Path, texts: Mapping[str, str]) -> int:
    """Write the archive aside, readable by its owner alone, and rename it; its size in bytes."""
    aside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with (
            os.fdopen(descriptor, "wb") as raw,
            gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as tar,
        ):
            for name, text in sorted(texts.items()):
                data = text.encode("utf-8", "replace")
                member = tarfile.TarInfo(f"{FOLDER}/{name}")
                member.size, member.mtime, member.mode = len(data), int(time.time()), 0o600
                tar.addfile(member, io.BytesIO(data))
        aside.replace(out)
        return out.stat().st_size
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise UserError(f"{out} cannot be written: {error.strerror or error}; name another file with --out") from error
