"""Samples of dcgm-exporter that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.doctor.reasoning import Facts, Verdict, verdict
from stoker.doctor.scanning import Hit

BUSY_PERCENT = 50.0
_DEVICE = re.compile(r'\b(?:UUID|uuid)="([^"]+)"'), re.compile(r'\bgpu="([^"]*)"')


def judge_exporter(facts: Facts) -> Iterator[Verdict]:
    """Zero profiling beside a busy device, and MIG samples without a pod beside others with one."""
    busy: dict[str, list[Hit]] = {}
    active: dict[str, list[Hit]] = {}
    for hit in facts.hits("exporter_sample"):
        kind = busy if hit["name"].upper() == "GPU_UTIL" else active
        if (device := _device(hit)) and hit["name"].upper() in {"GPU_UTIL", "GR_ENGINE_ACTIVE", "SM_ACTIVE"}:
            kind.setdefault(device, []).append(hit)
    for device in busy.keys() & active.keys():
        loaded = all((_value(hit) or 0.0) >= BUSY_PERCENT for hit in busy[device])
        silent = all(_value(hit) == 0.0 for hit in active[device])
        if loaded and silent:
            shown = busy[device][:2], active[device][:2], facts.hits("xid")[:1]
            yield verdict("dcgm-profiling-stuck-after-xid", 0.9, *shown)
            break
    yield from _mig_without_pod(facts)


def _device(hit: Hit) -> str | None:
    """The device of a sample; numbers repeat from machine to machine, so its UUID where there is one."""
    return next((found[1] for pattern in _DEVICE if (found := pattern.search(hit["labels"]))), None)


def _value(hit: Hit) -> float | None:
    try:
        return float(hit["value"])
    except ValueError:
        return None


def _mig_without_pod(facts: Facts) -> Iterator[Verdict]:
    with_pod = {hit.line for hit in facts.hits("pod_sample")}
    mig = facts.hits("mig_sample")
    bare = [hit for hit in mig if hit.line not in with_pod]
    if not bare or len(bare) < len(mig):
        return
    others = [hit for hit in facts.hits("pod_sample") if hit.line not in {one.line for one in mig}]
    if others:
        yield verdict("dcgm-exporter-too-old-for-mig-labels", 0.88, bare, others[:1])
    elif facts.said(r"\bmig\b|pod|label|kubernetes|k8s"):
        yield verdict("dcgm-exporter-too-old-for-mig-labels", 0.8, bare, context=facts.context)
