"""Combinations whose answer is known: each row of cases.csv says by which reasoning from the sources."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from stoker.plan.versions import solve
from stoker.plan.versions.asks import parse_requirement
from stoker.plan.versions.request import build_request
from stoker.plan.versions.rules_driver import module_flavour

CASES = list(csv.DictReader(Path(__file__).with_name("cases.csv").open(encoding="utf-8", newline="")))
DAY = date(2026, 12, 1)


def request_of(case):
    flags = case["flags"].split("|")
    request = build_request(
        gpus=case["gpus"].split("|") if case["gpus"] else [],
        driver=case["driver"] or None,
        driver_may_change=case["may_change"] == "yes",
        os=case["os"] or None,
        glibc=case["glibc"] or None,
        python=case["python"] or None,
        torch=case["torch"] or None,
        tensorflow=case["tensorflow"] or None,
        want_torch="notorch" not in flags,
        plain_pip="pip" in flags,
        allow_unsure="unsure" in flags,
    )
    asks = [parse_requirement(text) for text in case["packages"].split("|") if text]
    return replace(request, packages=(*request.packages, *asks), day=DAY)


def test_there_are_enough_cases_and_each_says_why():
    assert len(CASES) >= 150
    assert len({case["name"] for case in CASES}) == len(CASES)
    assert [case["name"] for case in CASES if len(case["reason"]) < 3] == []


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case(case):
    plan = solve(request_of(case))
    chosen = plan.chosen
    if case["expect_torch"] == "none":
        assert chosen is None, f"found {chosen.torch and chosen.torch.name}"
        said = [verdict.sentence for verdict in plan.against]
        given_up = [other.given_up for other in plan.alternatives]
        for words in filter(None, case["alternative"].split("|")):
            assert any(words in text for text in given_up), f"{words!r} is not among {given_up}"
    else:
        assert chosen is not None, [verdict.sentence for verdict in plan.against]
        assert (str(chosen.torch.patch) if chosen.torch else "") == case["expect_torch"]
        assert (chosen.torch.index if chosen.torch else "") == case["expect_index"]
        assert (str(chosen.tensorflow.tensorflow) if chosen.tensorflow else "") == case["expect_tensorflow"]
        assert (str(chosen.driver.branch.branch) if chosen.driver else "") == case["expect_branch"]
        if case["expect_modules"]:
            assert module_flavour(plan.request.devices, chosen.driver.branch.branch) == case["expect_modules"]
        said = [verdict.sentence for verdict in plan.reasons]
        said += [verdict.sentence for _, found in plan.newer for verdict in found]
    for words in filter(None, case["says"].split("|")):
        assert any(words in sentence for sentence in said), f"{words!r} is not said in {said}"
    assert all(verdict.source for verdict in (*plan.reasons, *plan.against))
