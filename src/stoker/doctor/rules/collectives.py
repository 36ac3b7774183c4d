"""Compares what the ranks were doing when they timed out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from stoker.doctor.reasoning import Facts, Verdict, verdict
from stoker.doctor.scanning import Hit

_GROUP = re.compile(r"\bPG (?:ID )?(\d+)|PG GUID (\S+)")


def judge_collectives(facts: Facts) -> Iterator[Verdict]:
    """Ranks that wait in different collectives, or one that is behind the others."""
    yield from _judge_fingerprints(facts)
    for hits in _by_group(facts.hits("collective")).values():
        latest = _latest_by_rank(hits)
        if len(latest) < 2:
            continue
        forms = {_form(hit) for hit in latest.values()}
        numbers = {int(hit["seq"]) for hit in latest.values() if hit["seq"]}
        if len(forms) > 1:
            operations = {operation for operation, _ in forms}
            sizes_only = len(operations) == 1 and "GATHER" in next(iter(operations)) and len(numbers) < 2
            cause = "uneven-batch-across-ranks" if sizes_only else "ranks-run-different-collectives"
            yield verdict(cause, 0.9, _one_of_each_form(latest))
            return
        if len(numbers) > 1:
            yield verdict("rank-behind-in-collectives", 0.7, _extremes(latest, "seq"))
            return
    for hits in _by_group(facts.hits("last_work")).values():
        latest = _latest_by_rank(hits)
        if len({hit["completed"] for hit in latest.values()}) > 1:
            yield verdict("rank-behind-in-collectives", 0.72, _extremes(latest, "completed"))
            return


def _by_group(hits: list[Hit]) -> dict[str, list[Hit]]:
    """Collectives of different process groups do not pair with each other."""
    groups: defaultdict[str, list[Hit]] = defaultdict(list)
    for hit in hits:
        found = _GROUP.search(hit.text)
        groups[next(filter(None, found.groups())) if found else ""].append(hit)
    return groups


def _latest_by_rank(hits: list[Hit]) -> dict[int, Hit]:
    """The first report of each rank: what follows on the same rank is clearing up."""
    latest: dict[int, Hit] = {}
    for hit in hits:
        if hit.origin.rank is not None:
            latest.setdefault(hit.origin.rank, hit)
    return latest


def _form(hit: Hit) -> tuple[str, str]:
    return hit["op"], hit["shape"] or hit["numel"]


def _one_of_each_form(latest: dict[int, Hit]) -> list[Hit]:
    chosen: dict[tuple[str, str], Hit] = {}
    for hit in latest.values():
        chosen.setdefault(_form(hit), hit)
    return list(chosen.values())


def _extremes(latest: dict[int, Hit], group: str) -> list[Hit]:
    ordered = sorted((hit for hit in latest.values() if hit[group]), key=lambda hit: int(hit[group]))
    return [ordered[0], ordered[-1]]


def _judge_fingerprints(facts: Facts) -> Iterator[Verdict]:
    """`TORCH_DISTRIBUTED_DEBUG=DETAIL` compares the ranks: the operation, or the first dimension only?"""
    for hit in facts.hits("fingerprint"):
        text = max(hit.readings()[:2], key=lambda reading: min(2, reading.count("OpType=")))
        found = re.findall(r"OpType=(\w+)(?:, TensorShape=\[([^\]]*)\])?", text)[:2]
        operations = {operation for operation, _ in found}
        shapes = {tuple(shape.split(",")) for _, shape in found}
        if len(operations) == 1 and len(shapes) > 1:
            same_rest = len({shape[1:] for shape in shapes}) == 1 and all(len(shape) > 0 for shape in shapes)
            cause = "uneven-batch-across-ranks" if same_rest else "ranks-run-different-collectives"
            yield verdict(cause, 0.93, [hit])
            return
        if len(operations) > 1:
            yield verdict("ranks-run-different-collectives", 0.95, [hit])
            return
