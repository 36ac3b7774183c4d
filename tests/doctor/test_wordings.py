"""Wordings that no signature was written from: other versions of the programs, other loaders and languages."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from stoker.doctor.log import diagnose_text

WORDINGS: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "wordings.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        pytest.param(cause, text, id=f"{cause}-{number}")
        for cause, texts in WORDINGS.items()
        for number, text in enumerate(texts)
    ],
)
def test_another_wording_has_the_same_answer(cause: str, text: str) -> None:
    assert [finding.cause for finding in diagnose_text(text).findings][:1] == [cause]
