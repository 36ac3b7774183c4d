from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from stoker._version import __version__
from stoker.errors import RunError
from stoker.train.export import save_weights
from stoker.train.ranks import Ranks
from stoker.train.world import World

CPU = torch.device("cpu")
WORLD = World(Ranks(), CPU)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(7, 3), nn.Linear(3, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("count", torch.tensor(3))
        self.register_buffer("empty", torch.zeros(0))


def test_tied_weights_stand_once_and_all_come_back(tmp_path: Path) -> None:
    model, other, file = Tied(), Tied(), tmp_path / "new" / "model.safetensors"
    save_weights(model, file, WORLD)
    found = load_file(file)
    assert set(found) == {"embed.weight", "count", "empty"}
    other.load_state_dict(found, strict=False)
    assert all(torch.equal(ours, other.state_dict()[name]) for name, ours in model.state_dict().items())
    assert list(file.parent.iterdir()) == [file]
    with safe_open(file, "pt") as opened:
        assert opened.metadata() == {"format": "pt", "stoker": __version__}


ROWS = torch.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize(
    "views",
    [
        ROWS.reshape(2, 2, 3).unbind(),
        (ROWS[:3], ROWS[1:]),
        (ROWS[:3], ROWS[:3].T),
        (ROWS, ROWS[:2]),
        (ROWS.T, ROWS.reshape(3, 4)),
    ],
    ids=["halves", "overlapping", "transposed", "part", "other shape"],
)
def test_views_of_one_memory_are_all_there(views: tuple[Tensor, ...], tmp_path: Path) -> None:
    model = nn.ParameterList([nn.Parameter(view) for view in views])
    save_weights(model, tmp_path / "model.safetensors", WORLD)
    found = load_file(tmp_path / "model.safetensors")
    assert set(found) == {"0", "1"}
    for name, value in model.state_dict().items():
        assert torch.equal(found[name], value)


def test_other_ranks_write_nothing(tmp_path: Path) -> None:
    save_weights(nn.Linear(1, 1), tmp_path / "model.safetensors", World(Ranks(rank=1), CPU))
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        save_weights(nn.Linear(1, 1), tmp_path / "file" / "model.safetensors", WORLD)
