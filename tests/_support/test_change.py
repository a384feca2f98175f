"""Changes of a model: one at a time, whole or not at all."""

import os
import sys
import threading
import time

import pytest
from sklearn.base import BaseEstimator
from tests.interrupting import exit_code_of

from bomkl._support.change import change, changing


class Counter(BaseEstimator):
    _learned = ()

    def __init__(self, step=1):
        self.step = step


def test_changes_are_serialised():
    model = Counter()
    model.value = 0

    def work():
        for _ in range(50):
            with changing(model):
                seen = model.value
                time.sleep(0)
                model.value = seen + model.step

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.value == 200


def test_a_change_within_a_change_is_refused_and_the_next_one_is_not():
    model = Counter()
    with changing(model), pytest.raises(RuntimeError, match="Counter is learning"), changing(model):
        pass
    with changing(model), changing(Counter()):
        pass


def test_attributes_come_back():
    model = Counter()
    model.kept = before = [1]

    def fail(fork):
        fork.kept = [2]
        fork.extra = 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change(model, fail)
    assert vars(model) == {"step": 1, "kept": [1]}
    assert model.kept is before


def test_a_change_takes_its_place_in_one_step():
    model = Counter()
    model.kept_ = 1
    seen = []

    def learn(fork):
        fork.kept_ = 2
        seen.append(model.kept_)
        return "result"

    assert change(model, learn) == "result"
    assert (seen, model.kept_) == ([1], 2)
    change(model, lambda fork: seen.append(hasattr(fork, "kept_")), anew=True)
    assert seen[1:] == [False]
    assert vars(model) == {"step": 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("anew", [False, True])
def test_readers_may_add_what_they_looked_up_while_a_model_is_forked(anew):
    model = Counter()

    class Name(str):
        def __getitem__(self, place):  # asked of each name while the attributes are gone through
            vars(model)[f"looked_up_{len(vars(model))}"] = 1
            return super().__getitem__(place)

    vars(model)[Name("step")] = vars(model).pop("step")
    change(model, lambda fork: None, anew=anew)
    assert model.step == 1


def test_a_forked_process_waits_for_nobody():
    model, inside, done = Counter(), threading.Event(), threading.Event()

    def work():
        with changing(model):
            inside.set()
            done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        with changing(model):
            os._exit(7)
    code = exit_code_of(child)
    done.set()
    thread.join()
    assert code == 7


def test_no_interrupt_comes_before_a_turn_has_ended():
    # Python looks for interrupts where it runs its own functions; one before the turn has ended would leave it taken
    called, before, turn = [], sys.getprofile(), changing(BaseEstimator())
    with turn:
        sys.setprofile(lambda frame, event, _: event == "call" and called.append(frame.f_code.co_name))
    sys.setprofile(before)
    assert called == []
