"""The systemd unit that `stoker monitor unit` prints."""

from __future__ import annotations

import shutil
import sys
from importlib.resources import files
from pathlib import Path


def unit_text(listen: str, web_config: Path | None) -> str:
    """The unit for this installation.

    Args:
        listen: Host and port.
        web_config: Prometheus's web-config file, if there is one.
    """
    template = files("stoker.monitor").joinpath("files", "stoker-monitor.service").read_text(encoding="utf-8")
    options = "" if web_config is None else f" --web-config {web_config.absolute()}"
    return template.format(command=command(), listen=listen, options=options)


def command() -> str:
    """How systemd starts stoker: by full path, since a unit knows no PATH of a virtual environment."""
    beside = Path(sys.executable).with_name("stoker")
    found = str(beside) if beside.exists() else shutil.which("stoker")
    return found or f"{sys.executable} -m stoker"
