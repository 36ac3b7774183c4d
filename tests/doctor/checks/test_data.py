"""The data of the checks is whole: every check, area, cause, command and limit."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

from stoker.doctor.catalogue import load_texts
from stoker.doctor.checks.base import CHECKS, NEEDS, abouts, cause_texts, remedies
from stoker.doctor.checks.run import AREAS, FOLLOWS, examine, fill, select, text_of
from stoker.errors import UserError
from stoker.host.snapshot import Snapshot

ROOT = Path(__file__).resolve().parents[3]
SOURCES = "\n".join(path.read_text() for path in (ROOT / "src/stoker/doctor/checks").glob("*.py"))
VALUES = {
    "address",
    "kernel",
    "version",
    "module",
    "branch",
    "gpu",
    "watts",
    "port",
    "name",
    "instead",
    "python",
    "path",
}
"""What checks give for the placeholders of a fix."""

NOTED = {"network.addresses", "disks.free"}
"""Parts of several fields, whose reasons the probes note under a name of their own."""


def test_every_check_has_its_data_and_none_is_left_over() -> None:
    assert set(CHECKS) == set(abouts())
    assert len(CHECKS) >= 60
    assert {about.area for about in abouts().values()} == set(AREAS)


@pytest.mark.parametrize("name", abouts())
def test_a_check_is_described(name: str) -> None:
    about = abouts()[name]
    assert about.ok.endswith(".")
    assert about.source
    function = CHECKS[name].function
    assert inspect.getdoc(function)
    used = set(re.findall(r"""limits\[["'](\w+)["']\]""", inspect.getsource(function)))
    helpers = {"pcie-generation": {"busy_percent"}, "pci-windows": {"small_mib"}}
    assert used | helpers.get(name, set()) == set(about.limits)


@pytest.mark.parametrize("name", CHECKS)
def test_needs_are_fields_of_the_snapshot(name: str) -> None:
    for need in CHECKS[name].needs:
        section, _, field = need.partition(".")
        assert need in NEEDS or hasattr(getattr(Snapshot(), section), field) or need in NOTED


def test_every_cause_has_words() -> None:
    named = set(re.findall(r'(?:fail|warn|info|make)\(\s*"([a-z0-9-]+)"', SOURCES))
    assert len(named) > 80
    for cause in named | set(cause_texts()):
        text = text_of(cause)
        assert text.title, cause
        assert text.source, cause
        assert text.meaning, cause
    assert set(cause_texts()) - set(load_texts("en")) <= set(re.findall(r'"([a-z0-9-]+)"', SOURCES))


def test_placeholders_are_commands_or_values() -> None:
    for cause, text in cause_texts().items():
        for word in re.findall(r"\{([a-z][a-z_]*)\}", " ".join([*text.fix, text.confirm])):
            assert word in remedies() or word in VALUES, cause
    assert all("any" in commands for commands in remedies().values())


def test_a_fix_is_worded_for_the_distribution() -> None:
    values = {"kernel": "6.8.0-87-generic"}
    assert "apt-get install -y linux-headers-6.8.0-87-generic" in fill(
        "{install_headers}", ("linuxmint", "debian"), values
    )
    assert "dnf install -y kernel-devel-6.8.0-87-generic" in fill("{install_headers}", ("rocky", "rhel"), values)
    assert fill("{install_headers}", ("", ""), values) == "install the headers of kernel 6.8.0-87-generic"
    assert fill("{signing_key}", ("ubuntu", "debian"), {}) == "/var/lib/shim-signed/mok/MOK.der"
    assert fill("{signing_key}", ("debian", "debian"), {}) == "/var/lib/dkms/mok.pub"
    assert fill("awk '{print}' {unheard_of}", ("", "debian"), values) == "awk '{print}' {unheard_of}"


def test_causes_that_explain_others_are_known() -> None:
    for cause, roots in FOLLOWS.items():
        assert all(text_of(one).title for one in (cause, *roots))


def test_only() -> None:
    assert {one.name for one in select(["p2p", "storage"])} == {
        "p2p", "disk-space", "inodes", "read-only", "network-mounts", "raid", "storage-errors",
    }  # fmt: skip
    with pytest.raises(UserError, match="did you mean disk-space"):
        select(["disk-spaec"])


def test_a_machine_of_which_nothing_is_known_has_no_failure() -> None:
    nothing = Snapshot(unknown=dict.fromkeys(vars(Snapshot()), "not read"))
    examination = examine(nothing)
    assert examination.of("fail", "warn", "info") == ()
    assert len(examination.of("unknown")) >= 100


def test_the_page_of_the_checks_is_up_to_date() -> None:
    path = ROOT / "scripts" / "build_check_page.py"
    spec = importlib.util.spec_from_file_location("build_check_page", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    remedy = "make it anew: PYTHONPATH=src python scripts/build_check_page.py"
    assert (ROOT / "docs/reference/checks.md").read_text() == module.page(), remedy
