"""A server from its TOML file, and the servers that come with stoker."""

from __future__ import annotations

import difflib
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from stoker.errors import Mistake, UserError
from stoker.facts.gpus import find_gpu
from stoker.plan.topology.model import Server
from stoker.plan.topology.rates import PCIE_GENERATIONS, reached_share, socket_links
from stoker.plan.topology.smi import looks_like_topo, read_topo


@cache
def known_servers() -> dict[str, Server]:
    """The servers that come with stoker, by name."""
    folder = files("stoker.plan").joinpath("tables", "servers")
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".toml")), key=lambda path: path.name)
    found = [parse_server(path.read_text(encoding="utf-8"), path.name) for path in paths]
    return {server.name: server for server in found}


def find_server(text: str, gpu: str = "") -> Server:
    """The server that a word on the command line means.

    Args:
        text: The name of a known server, case aside; or a file: TOML in the form of `Server`, or what
            `nvidia-smi topo -m` printed.
        gpu: The model, for a file that does not name it.

    Raises:
        UserError: There is no such server or file, or the file has mistakes: all of them at once.
    """
    by_name = {name.lower(): server for name, server in known_servers().items()}
    if text.lower() in by_name:
        return _named(by_name[text.lower()], gpu)
    path = Path(text)
    if not path.is_file():
        near = difflib.get_close_matches(text.lower(), by_name, n=1)
        hint = f"did you mean {by_name[near[0]].name}? " if near else ""
        known = ", ".join(known_servers())
        raise UserError(f"{text!r} is neither a file nor a known server: {hint}the servers are {known}")
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    if looks_like_topo(content):
        return read_topo(content, gpu=gpu, name=path.stem)
    return _named(parse_server(content, str(path)), gpu)


def _named(server: Server, gpu: str) -> Server:
    """The server, if nobody named another card for it.

    Raises:
        UserError: Somebody did.
    """
    if gpu:
        raise UserError(f"--gpu {gpu}: {server.name} names its cards itself ({server.gpu}): leave --gpu out")
    return server


def parse_server(text: str, where: str) -> Server:
    """A server from the text of its file.

    Raises:
        UserError: With every mistake and the part of the file it is in.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(Mistake(f"this is no TOML: {error}; see `stoker plan topology --help`", where)) from None
    try:
        server = Server.model_validate(data)
    except ValidationError as error:
        raise UserError(*(_mistake(detail, where) for detail in error.errors())) from None
    mistakes = [Mistake(sentence, where) for sentence in contradictions(server)]
    if mistakes:
        raise UserError(*mistakes)
    return server


def contradictions(server: Server) -> Iterator[str]:
    """What the parts of a server say against each other, each in a sentence."""
    yield from _about_gpus(server)
    yield from _about_nics(server)
    sockets = server.processors.sockets
    for name, count in Counter(uplink.name for uplink in server.uplinks).items():
        if count > 1:
            yield f"uplink {name} is described {count} times: names must differ"
    for uplink in server.uplinks:
        if uplink.pcie_gen not in PCIE_GENERATIONS:
            known = ", ".join(map(str, PCIE_GENERATIONS))
            yield f"uplink {uplink.name}: pcie_gen {uplink.pcie_gen} is not known, write one of {known}"
        if uplink.socket >= sockets:
            yield f"uplink {uplink.name}: socket {uplink.socket} of {sockets}, count them from 0"
    if sockets > 1 and server.processors.link not in socket_links():
        yield f"processors: link {server.processors.link!r} is not known, write one of {', '.join(socket_links())}"


def _about_gpus(server: Server) -> Iterator[str]:
    try:
        gpu = find_gpu(server.gpu)
    except UserError as error:
        yield f"gpu: {error}"
        return
    placed = Counter(number for uplink in server.uplinks for number in uplink.gpus)
    for number in range(server.gpus):
        if placed[number] != 1:
            yield f"GPU {number} stands below {placed[number]} uplinks: name it in the `gpus` of exactly one"
    if max(placed, default=0) >= server.gpus:
        yield f"GPU {max(placed)} stands below an uplink, but there are {server.gpus}: count them from 0"
    if server.fabric is None:
        return
    if gpu.peer_link_gb_s is None or gpu.peer_link == "none":
        yield f"fabric: the {gpu.model} has no link between GPUs: leave the section out"
    elif reached_share(gpu.peer_link) is None:
        yield f"fabric: what {gpu.peer_link} of the {gpu.model} reaches is not known: leave the section out"
    if bool(server.fabric.switches) == bool(server.fabric.pairs):
        yield "fabric: write either `switches` or `pairs`"
    for number in range(server.gpus):
        used = sum(pair.links for pair in server.fabric.pairs if number in pair.gpus)
        if used > server.fabric.links_per_gpu:
            yield f"fabric: the pairs of GPU {number} use {used} links of {server.fabric.links_per_gpu}"
    for pair in server.fabric.pairs:
        if max(pair.gpus) >= server.gpus or pair.gpus[0] == pair.gpus[1]:
            yield f"fabric: the pair {list(pair.gpus)} is not of two of the {server.gpus} GPUs"


def _about_nics(server: Server) -> Iterator[str]:
    known = [nic.name for nic in server.nics]
    for name, count in Counter(known).items():
        if count > 1:
            yield f"nic {name} is described {count} times: names must differ"
    placed = Counter(name for uplink in server.uplinks for name in uplink.nics)
    for name, count in placed.items():
        if name not in known:
            yield f"an uplink has the nic {name!r}, which no [[nic]] describes"
        elif count > 1:
            yield f"nic {name} stands below {count} uplinks: name it in the `nics` of one"


def _mistake(detail: ErrorDetails, where: str) -> Mistake:
    """What pydantic found, in a sentence with the place in the file: `uplink 2, lanes: ...`."""
    place = ""
    for word in detail["loc"]:
        place += f" {word + 1}" if isinstance(word, int) else f", {word}" if place else str(word)
    if detail["type"] == "extra_forbidden":
        return Mistake(f"{place}: there is no such key", where)
    if detail["type"] == "missing":
        return Mistake(f"{place}: this key is missing", where)
    return Mistake(f"{place}: {detail['msg'][0].lower()}{detail['msg'][1:]}, not {detail['input']!r}", where)
