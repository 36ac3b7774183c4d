"""The earliest exception of the program itself, which is what the other ranks' errors follow from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.doctor.reasoning import Facts, Verdict, verdict

_NOT_THE_PROGRAM = re.compile(
    r"ChildFailedError|DistBackendError|DistNetworkError|DistStoreError|ProcessGroupNCCL|NCCL|[Ww]atchdog|gloo"
    r"|CUDA|cuda|cuDNN|CUDNN|CUBLAS|out of memory|SystemExit|KeyboardInterrupt|SignalException"
    r"|CalledProcessError|Connection (?:closed|reset)|Broken pipe|WARN|ERROR:root|[Uu]ser[Ww]arning"
    r"|DeprecationWarning"
)


def judge_exceptions(facts: Facts) -> Iterator[Verdict]:
    """An exception after a traceback; the last resort, unless it came before a time-out of others."""
    tracebacks = facts.hits("traceback")
    if not tracebacks:
        return
    first = tracebacks[0].line
    own = [
        hit
        for hit in facts.hits("exception")
        if hit.line > first and not _NOT_THE_PROGRAM.search(hit.match.group()) and hit["type"][0].isalpha()
    ]
    if not own:
        return
    later = facts.hits("watchdog", "connect_failure")
    before_others = any(hit.line > own[0].line for hit in later)
    yield verdict("program-exception", 0.55 if before_others else 0.35, own[:1], tracebacks[:1])
