from stoker.report.advice import time_sentence
from stoker.report.summary import PHASES, PhaseTime


def split(**shares):
    return [PhaseTime(phase, 100 * shares[phase], shares[phase]) for phase in PHASES if phase in shares]


def test_waiting_for_data_asks_for_workers_that_the_machine_has():
    waiting = split(data=0.28, forward=0.72)
    four, auto = {"data": {"workers": 4}}, {"data": {"workers": "auto"}}
    assert time_sentence(waiting, {}, {}).endswith("try data.workers=4.")
    assert time_sentence(waiting, auto, {"cores": 2}).endswith("try data.workers=2.")
    assert time_sentence(waiting, four, {}).endswith("try data.workers=8.")
    assert time_sentence(waiting, four, {"cpu": {"cores": 12}, "world_size": 2}).endswith("try data.workers=6.")
    assert time_sentence(waiting, four, {"cores": 96, "world_size": 64}).endswith("try data.workers=8.")


def test_where_all_cores_load_data_the_work_itself_must_shrink():
    sentence = time_sentence(split(data=0.5, forward=0.5), {"data": {"workers": 4}}, {"cpu": 4, "world_size": 1})
    assert "make a sample cheaper" in sentence


def test_the_phase_that_stands_out_most_is_named():
    spec = {"checkpoint": {"every": 10}, "evaluate": {"interval": 1}}
    assert "(checkpoint.every)" in time_sentence(split(data=0.11, forward=0.5, checkpoint=0.39), spec, {})
    assert "(evaluate.interval)" in time_sentence(split(forward=0.3, evaluation=0.7), spec, {})
    assert "larger batch" in time_sentence(split(forward=0.5, optimizer=0.5), spec, {})
    assert "start-up" in time_sentence(split(forward=0.5, other=0.5), spec, {})


def test_where_nothing_stands_out_it_says_so():
    sentence = time_sentence(split(data=0.02, forward=0.3, backward=0.6, optimizer=0.08), {}, {})
    assert sentence == "98 % of the time went into computing, and nothing else stands out."


def test_what_was_not_recorded_is_not_guessed():
    assert time_sentence([], {}, {}) == "No times were recorded."
    assert "unknown" in time_sentence(split(evaluation=0.1, other=0.9), {}, {})
