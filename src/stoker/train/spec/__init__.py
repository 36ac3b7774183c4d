"""RunSpec: what to train and how. Light: nothing here imports torch."""

from stoker.train.spec.load import LoadedSpec, load_spec, parse_spec
from stoker.train.spec.model import RunSpec
from stoker.train.spec.quantity import Quantity

__all__ = ["LoadedSpec", "Quantity", "RunSpec", "load_spec", "parse_spec"]
