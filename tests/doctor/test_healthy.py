"""What is not wrong must be left alone, and what is wrong must be found among what is not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from stoker.doctor.build import read_causes
from stoker.doctor.log import diagnose_text

HEALTHY: list[str] = yaml.safe_load((Path(__file__).parent / "healthy.yaml").read_text(encoding="utf-8"))
INCIDENTS = [
    (cause["id"], sample)
    for cause in read_causes()
    if cause["shown_by"] == "log"
    for sample in cause["positive"]
    if isinstance(sample, str)  # a context is about its own log
]


@pytest.mark.parametrize("log", HEALTHY)
def test_a_healthy_log_has_no_finding(log: str) -> None:
    assert [finding.cause for finding in diagnose_text(log).findings] == []


def test_no_mixture_of_healthy_logs_has_a_finding() -> None:
    for seed in range(500):
        rng = random.Random(seed)
        mixture = "\n".join(rng.sample(HEALTHY, rng.randint(2, 8)))
        found = diagnose_text(mixture).findings
        assert not found, f"seed {seed}: {found[0].cause} because of {found[0].evidence}"


@pytest.mark.parametrize(("cause", "sample"), INCIDENTS, ids=[f"{cause}-{n}" for n, (cause, _) in enumerate(INCIDENTS)])
def test_unrelated_lines_around_an_incident_do_not_change_the_answer(cause: str, sample: str) -> None:
    rng = random.Random(cause)
    unrelated = [line for log in rng.sample(UNRELATED, 4) for line in log.split("\n")]
    rng.shuffle(unrelated)
    half = len(unrelated) // 2
    log = "\n".join([*unrelated[:half], sample, *unrelated[half:]])
    assert [finding.cause for finding in diagnose_text(log).findings][:1] == [cause]


UNRELATED = [
    log for log in HEALTHY if not any(word in log for word in ("GPU0", "Throttle", "Event Reasons", "RTX", "Link 0"))
]
"""Without facts about other hardware: a card model, a matrix or torn tables of links do change an answer."""
