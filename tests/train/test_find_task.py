from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.errors import UserError
from stoker.tasks.image_classification import ImageClassification
from stoker.train.find_task import find_task
from stoker.train.spec.model import TaskSection
from tests.tasks_for_tests import Blobs

FILE = """
from stoker import Task
from neighbour_of_a_task import WIDTH

class Mine(Task):
    def __init__(self, width: int = WIDTH, *, depth: int = 1) -> None:
        self.width, self.depth = width, depth

def make(**options):
    return Mine(**options)

def needs(path, *, other):
    return Mine()

def nothing():
    return 5

CONSTANT = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))  # put back afterwards, with what find_task puts before it
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "neighbour_of_a_task.py").write_text("WIDTH = 9\n")
    (tmp_path / "a_task_module.py").write_text("from mine import Mine\n")
    (tmp_path / "torchlike.py").write_text("import torch_that_is_missing\n")
    (tmp_path / "missing_import.py").write_text("import missing\n")
    return tmp_path


def find(use: str, folder: Path, **options: Any) -> Any:
    return find_task(TaskSection(use=use, options=options), folder)


def test_in_a_file_beside_the_run_file(folder: Path) -> None:
    assert find("mine.py:Mine", folder).width == 9
    found = find("mine.py:Mine", folder, width=3, depth=2)
    assert (found.width, found.depth) == (3, 2)
    assert find("mine.py:make", folder, width=4).width == 4
    assert find(f"{folder}/mine.py:Mine", Path("/")).width == 9


def test_in_a_module(folder: Path) -> None:
    assert type(find("tests.tasks_for_tests:Blobs", folder)) is Blobs
    assert find("a_task_module:Mine", folder).width == 9


def test_a_built_in_task_is_known_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "image-classification"

        @staticmethod
        def load() -> type:
            return ImageClassification

    monkeypatch.setattr("stoker.train.find_task.entry_points", lambda group: [Point()])
    with pytest.raises(UserError, match="needs the option 'root'"):
        find("image-classification", folder)
    with pytest.raises(UserError, match="unknown option of image-classification 'dat'"):
        find("image-classification", folder, dat="x")
    with pytest.raises(UserError, match="did you mean 'image-classification'"):
        find("image-clasification", folder)


@pytest.mark.parametrize(
    ("use", "options", "sentences"),
    [
        ("xyzzy", {}, ["for a task of your own write path/to/file.py:Name or module:Name"]),
        ("nowhere.py:Mine", {}, ["the file does not exist: ", "nowhere.py"]),
        ("mine.py:Mime", {}, ["mine.py has no 'Mime'; did you mean 'Mine'?"]),
        ("no_such_module:Mine", {}, ["there is no module 'no_such_module'; a file is written as path/to/file.py:Name"]),
        ("tests.no_such_module:Mine", {}, ["there is no module 'tests.no_such_module'"]),
        (":Mine", {}, ["':Mine' names no module"]),
        ("..mine:Mine", {}, ["names no module"]),
        ("mine.py:CONSTANT", {}, ["is a int, not a Task class nor a function"]),
        ("mine.py:nothing", {}, ["gives a int, not a stoker Task"]),
        ("mine.py:nothing", {"x": 1}, ["mine.py:nothing takes no options, but 'x' is given"]),
        ("mine.py:Mine", {"widht": 1, "dept": 2}, ["did you mean 'width'?", "did you mean 'depth'?"]),
        ("mine.py:needs", {}, ["needs the option 'path'", "needs the option 'other'"]),
    ],
)
def test_mistakes(use: str, options: dict[str, Any], sentences: list[str], folder: Path) -> None:
    with pytest.raises(UserError) as caught:
        find(use, folder, **options)
    for sentence in sentences:
        assert sentence in str(caught.value)
    assert all(mistake.message.startswith("task.") for mistake in caught.value.mistakes)


@pytest.mark.parametrize(("use", "module"), [("torchlike:X", "torch_that_is_missing"), ("missing_import:X", "missing")])
def test_what_a_task_s_module_lacks_is_not_taken_for_the_module(use: str, module: str, folder: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{module}'"):
        find(use, folder)
