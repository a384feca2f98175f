"""What the estimators' docstrings say: every parameter, and the same of what they share."""

import inspect
import re

import pytest

import bomkl
from bomkl.kernels import Kernel
from bomkl.learners import Learner


def documented(cls):
    """Parameters of a NumPy docstring: name, then its type and text."""
    section = re.search(r"\nParameters\n-+\n(.*?)(?:\n\n[A-Z]\w+\n-+\n|\Z)", inspect.getdoc(cls), re.DOTALL)
    parts = re.split(r"^(\w+)(?: : |$)", section[1], flags=re.MULTILINE)[1:] if section else []
    return dict(zip(parts[::2], (" ".join(text.split()) for text in parts[1::2]), strict=True))


def family(module):
    return [module.AutoMKLClassifier, module.AutoMKLRegressor]


def estimators():
    found = [*family(bomkl), bomkl.BudgetMKLClassifier, bomkl.BudgetMKLRegressor]
    for name in ("bomkl.river", "bomkl.dask"):
        try:
            found += family(__import__(name, fromlist=["AutoMKLClassifier"]))
        except ImportError:
            continue
    return found


@pytest.mark.parametrize("cls", [*estimators(), *Kernel.__subclasses__(), *Learner.__subclasses__()], ids=str)
def test_every_parameter_is_documented(cls):
    if cls.__name__.startswith("_"):
        return
    assert sorted(documented(cls)) == sorted(inspect.signature(cls).parameters)


TWINS = [(a, b) for a, b in zip(estimators()[::2], estimators()[1::2], strict=True)]
DIFFERENT = {"learner", "combiner", "normalize_step", "budget"}  # of the Budget models, where the tasks differ


@pytest.mark.parametrize(("classifier", "regressor"), TWINS, ids=str)
def test_what_twins_share_is_said_in_the_same_words(classifier, regressor):
    first, second = documented(classifier), documented(regressor)
    shared = first.keys() & second.keys()
    assert shared
    differ = DIFFERENT if "Budget" in classifier.__name__ else set()
    assert {name: first[name] for name in shared - differ} == {name: second[name] for name in shared - differ}
