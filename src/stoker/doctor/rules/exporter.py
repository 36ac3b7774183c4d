"""Samples of dcgm-exporter that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.doctor.reasoning import Facts, Verdict, verdict
from stoker.doctor.scanning import Hit

BUSY_PERCENT = 50.0
_GPU = re.compile(r'\bgpu="([^"]*)"')


def judge_exporter(facts: Facts) -> Iterator[Verdict]:
    """Zero profiling beside a busy device, and MIG samples without a pod beside others with one."""
    busy: dict[str, Hit] = {}
    silent: dict[str, Hit] = {}
    for hit in facts.hits("exporter_sample"):
        value, gpu = _value(hit), _GPU.search(hit["labels"])
        if gpu is None or value is None:
            continue
        if hit["name"].upper() == "GPU_UTIL":
            if value >= BUSY_PERCENT:
                busy[gpu[1]] = hit
        elif value == 0.0 and hit["name"].upper() in {"GR_ENGINE_ACTIVE", "SM_ACTIVE"}:
            silent[gpu[1]] = hit
    for gpu in sorted(busy.keys() & silent.keys()):
        yield verdict(
            "dcgm-profiling-stuck-after-xid", 0.9, [busy[gpu]], [silent[gpu]], facts.hits("xid")[:1]
        )
        return
    yield from _mig_without_pod(facts)


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
