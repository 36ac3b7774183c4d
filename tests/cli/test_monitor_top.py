"""`stoker monitor top` where it cannot start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.conftest import Said


def test_top_says_what_it_needs(command: Callable[..., Said], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, out, err = command("monitor", "top")
    assert (code, out) == (2, "")
    assert "pip install 'stoker[monitor]'" in err
