"""What a person writes on the command line or in a requirements file, turned into a request."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from stoker.errors import Mistake, UserError
from stoker.plan.versions.model import PYTORCH_INDEX, PackageAsk

_PLAIN = re.compile(r"(?P<name>[A-Za-z][\w-]*)(?P<extras>\[[^\]]*\])?\s*(?P<rest>.*)")


def parse_requirement(text: str, where: str = "") -> PackageAsk:
    """Reads `torch==2.9.1+cu128` or `torch 2.9`; a bare minor version means any patch of it.

    Raises:
        UserError: It cannot be read.
    """
    match = _PLAIN.fullmatch(text.strip())
    written = text.strip()
    if match and re.fullmatch(r"\d[\w.+]*", match["rest"]):  # `torch 2.9`: any patch of 2.9
        written = f"{match['name']}=={match['rest']}" + (".*" if match["rest"].count(".") == 1 else "")
    try:
        requirement = Requirement(written)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise UserError(Mistake(f"{text!r} is not a requirement such as torch==2.14.1: {reason}", where)) from None
    name = requirement.name.lower().replace("_", "-")
    parts: list[str] = []
    label = ""
    for specifier in requirement.specifier:
        version, _, local = specifier.version.partition("+")
        label = label or local
        parts.append(f"{specifier.operator}{version}")
    return PackageAsk(name, text.strip(), SpecifierSet(",".join(parts)), label)


def parse_version_ask(name: str, text: str) -> PackageAsk:
    """The value of `--torch` or `--tensorflow`: a version, a specifier or a whole requirement."""
    value = text.strip()
    if value[:1].isdigit():
        return parse_requirement(f"{name} {value}")
    return parse_requirement(value if value.lower().startswith(name) else f"{name}{value}")


def read_requirements(path: Path) -> tuple[list[PackageAsk], list[str] | None]:
    """The requirements of a pip requirements file and the indexes it allows.

    Lines that the planner has no say in (files, URLs, editable installs) are passed over. Environment
    markers are not evaluated.

    Returns:
        The requirements, and the names of the indexes (`pypi`, `cu126`); None if the file names no PyTorch
        index.

    Raises:
        UserError: The file cannot be read, or a requirement in it is not one: all of them at once.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"the requirements file cannot be read: {path}: {error.strerror}") from None
    asks: list[PackageAsk] = []
    mistakes: list[Mistake] = []
    replaced, added = "", list[str]()
    for number, line in enumerate(lines, start=1):
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        option = re.match(r"(--index-url|-i|--extra-index-url)[=\s]+(\S+)", text)
        if option:
            name = _index_name(option[2])
            if option[1] == "--extra-index-url":
                added.append(name)
            else:
                replaced = name
        elif text and not text.startswith(("-", ".", "/")) and "://" not in text:
            try:
                asks.append(parse_requirement(text.split(" --hash")[0], f"{path}:{number}"))
            except UserError as error:
                mistakes += error.mistakes
    if mistakes:
        raise UserError(*mistakes)
    named = [name for name in (replaced, *added) if name]
    if not named:
        return asks, None
    return asks, [replaced or "pypi", *added]


def _index_name(url: str) -> str:
    """`cu126` for a PyTorch index; other indexes are taken for mirrors of the default one."""
    url = url.rstrip("/")
    return url.rsplit("/", 1)[1] if url.startswith(PYTORCH_INDEX) and url != PYTORCH_INDEX else "pypi"
