"""Every sample of every cause runs through the whole doctor."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.doctor.build import read_causes
from stoker.doctor.log import diagnose_text

CAUSES = [cause for cause in read_causes() if cause["shown_by"] == "log"]


def samples(kind: str) -> list[Any]:
    return [
        pytest.param(cause["id"], sample, id=f"{cause['id']}-{number}")
        for cause in CAUSES
        for number, sample in enumerate(cause.get(kind, ()))
    ]


def answer(sample: str | dict[str, str]) -> list[str]:
    log, context = (sample, "") if isinstance(sample, str) else (sample["log"], sample["context"])
    return [finding.cause for finding in diagnose_text(log, context=context).findings]


@pytest.mark.parametrize(("cause", "sample"), samples("positive"))
def test_positive_sample_is_the_first_answer(cause: str, sample: str | dict[str, str]) -> None:
    assert answer(sample)[:1] == [cause]


@pytest.mark.parametrize(("cause", "sample"), samples("negative"))
def test_near_miss_is_not_this_cause(cause: str, sample: str | dict[str, str]) -> None:
    assert cause not in answer(sample)


@pytest.mark.parametrize("cause", CAUSES, ids=[cause["id"] for cause in CAUSES])
def test_every_cause_has_samples_in_different_words(cause: dict[str, Any]) -> None:
    positive = [str(sample) for sample in cause["positive"]]
    assert len(set(positive)) >= 2
    assert cause["negative"]
