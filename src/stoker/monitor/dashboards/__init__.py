"""Dashboards for Grafana: written in `dashboards.yaml`, made by `build`, shipped as JSON."""

from __future__ import annotations

from importlib.resources import files


def dashboard_files() -> dict[str, str]:
    """The content of every dashboard's file by its name."""
    folder = files("stoker.monitor.dashboards") / "json"
    return {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.name.endswith(".json")}
