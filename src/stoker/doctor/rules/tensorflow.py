"""Which libraries TensorFlow missed, and whether another version of them is there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.doctor.reasoning import Facts, Verdict, verdict
from stoker.doctor.scanning import Hit

_OPTIONAL = re.compile(r"libnvinfer|libcuda\.so")
"""TensorRT is never needed, and libcuda belongs to the driver."""


def judge_tensorflow(facts: Facts) -> Iterator[Verdict]:
    """Only cuDNN missing, CUDA of another version, or nothing found at all."""
    missing = [hit for hit in facts.hits("missing_library") if not _OPTIONAL.match(hit["library"])]
    if facts.said(r"\bno gpu|cpu[- ]only|without (a )?gpu"):
        return  # TensorFlow itself says to ignore it then
    if not missing or not (facts.has("tf_mentioned") or facts.said("tensorflow|tf[ -]?[12]|keras")):
        return
    present = facts.hits("present_library")
    stems = {_stem(hit) for hit in missing}
    others = [hit for hit in present if _stem(hit) in stems and not _same(hit, missing)]
    cudnn = [hit for hit in missing if hit["library"].startswith("libcudnn")]
    if len(cudnn) == len(missing):
        weight = 0.92 if others or present or facts.said("cudnn") else 0.75
        yield verdict("tf-cudnn-version-mismatch", weight, cudnn, (others or present)[:1])
        return
    versioned = [hit for hit in missing if re.search(r"\.so\.\d", hit["library"])]
    if others and versioned:
        yield verdict("tf-cuda-version-mismatch", 0.93, versioned[:2], others[:2])
    elif facts.has("pip_cuda_packages") or facts.said(r"and-cuda|nvidia-\w+-cu1"):
        yield verdict("tf-cannot-find-pip-cuda-libs", 0.88, missing)
    elif versioned:
        yield verdict("tf-cuda-version-mismatch", 0.85 if facts.said(r"cuda") else 0.72, versioned)


def _stem(hit: Hit) -> str:
    return hit["library"].split(".so")[0]


def _same(hit: Hit, missing: list[Hit]) -> bool:
    return any(
        hit["library"].startswith(other["library"]) or other["library"].startswith(hit["library"])
        for other in missing
        if _stem(other) == _stem(hit)
    )
