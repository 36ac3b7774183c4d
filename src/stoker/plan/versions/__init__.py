"""Which versions go together: driver, kernel modules, CUDA, torch and its partners, cuDNN, NCCL, TensorFlow.

A small search over the tables of `stoker.facts`. `candidates` lists the parts, `rules` judges them (each
rule is a named function that answers with a sentence and its source), `search` takes the first set in order
of preference that nothing speaks against, `emit` writes it as commands and files, `check` judges an
environment that exists.

>>> from stoker.facts.gpus import identify
>>> from stoker.plan.versions import Request, solve
>>> solve(Request(devices=(identify("Tesla K80"),))).chosen.torch.own_index
'cu118'
"""

from stoker.plan.versions.model import Plan, Request
from stoker.plan.versions.solve import solve

__all__ = ["Plan", "Request", "solve"]
