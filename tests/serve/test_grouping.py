from bomkl.serve.model.learner import MICRO_BATCH
from bomkl.serve.requests.grouping import Waiting
from bomkl.serve.requests.work import Work


def rows(count=1):
    return Work([{"a": 1.0}] * count, ["row"] * count, [0] * count)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_request_that_comes_alone_is_written_at_once():
    waiting = Waiting(Clock())
    assert waiting.add(rows())
    assert waiting.due_in(learning=False, predicting=False) == 0.0


def test_rows_that_come_while_the_model_learns_are_one_group():
    waiting = Waiting(Clock())
    assert [waiting.add(rows()) for _ in range(3)] == [True, False, False]
    assert waiting.due_in(learning=True, predicting=False) is None
    assert waiting.due_in(learning=False, predicting=False) == 0.0
    assert len(waiting.take()) == 3
    assert not waiting


def test_a_group_waits_a_moment_for_those_who_were_answered_just_now():
    clock = Clock()
    waiting = Waiting(clock)
    for _ in range(3):
        waiting.add(rows())
    waiting.take()
    waiting.add(rows())
    assert 0 < waiting.due_in(learning=False, predicting=False) <= 0.002
    waiting.add(rows())
    assert waiting.add(rows())
    assert waiting.due_in(learning=False, predicting=False) == 0.0
    waiting.take()
    waiting.add(rows())
    clock.now += 1.0
    assert waiting.due_in(learning=False, predicting=False) == 0.0


def test_while_predictions_come_rows_wait_for_others():
    clock = Clock()
    waiting = Waiting(clock)
    waiting.add(rows())
    assert 0.01 < waiting.due_in(learning=False, predicting=True) <= 0.02
    clock.now += 1.0
    assert waiting.due_in(learning=False, predicting=True) == 0.0


def test_predictions_and_many_rows_do_not_wait():
    for work in (Work([{"a": 1.0}], ["row"], ids=["x"]), rows(MICRO_BATCH)):
        waiting = Waiting(Clock())
        waiting.add(rows())
        assert waiting.add(work)
        assert waiting.due_in(learning=True, predicting=True) == 0.0
    waiting = Waiting(Clock())
    for _ in range(9):
        waiting.add(rows(MICRO_BATCH))
    assert [len(waiting.take()) for _ in range(3)] == [4, 4, 1]
    waiting.add(rows())
    assert waiting.due_in(learning=True, predicting=False) is None


def test_two_groups_that_take_turns_become_one():
    clock = Clock()
    waiting = Waiting(clock)
    for _ in range(2):
        waiting.add(rows())
    waiting.take()
    for _ in range(3):  # others come while the model learns from the first ones, for 5 ms
        clock.now += 0.001
        waiting.add(rows())
    clock.now += 0.002
    waiting.has_learned()
    assert 0.004 < waiting.due_in(learning=False, predicting=False) <= 0.005
    for _ in range(2):
        waiting.add(rows())
    assert waiting.due_in(learning=False, predicting=False) == 0.0
    assert len(waiting.take()) == 5


def test_nobody_waits_long_for_clients_that_have_gone():
    clock = Clock()
    waiting = Waiting(clock)
    for _ in range(2):
        waiting.add(rows())
    waiting.take()
    clock.now += 60.0
    waiting.has_learned()
    waiting.add(rows())
    assert 0 < waiting.due_in(learning=False, predicting=False) < 0.021
    clock.now += 0.021
    assert waiting.due_in(learning=False, predicting=False) == 0.0
    waiting.take()
    waiting.has_learned()
    waiting.add(rows())
    assert waiting.due_in(learning=False, predicting=False) == 0.0
