"""Which learner an estimator has: the one place that knows all kinds of learners and their order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bomkl._support.limits import WIDEST
from bomkl.auto.drift.adaptive import AdaptiveLearner
from bomkl.auto.drift.challenged import ChallengedLearner
from bomkl.auto.features.features import LinearFeatures
from bomkl.auto.growth.growth_learner import GrowthLearner
from bomkl.auto.growth.round_growth import RoundGrowthLearner
from bomkl.auto.hashed.hashed_learner import HashedLearner
from bomkl.auto.hashed.hashed_scores import HashedScores
from bomkl.auto.hashed.identifiers import IdentifierLearner
from bomkl.auto.learner import Learner
from bomkl.auto.rounds.round_learner import RoundLearner
from bomkl.auto.simple.simple_learner import WIDE_FROM, WIDE_UP_TO, SimpleLearner
from bomkl.auto.task import LearnerSettings
from bomkl.auto.wide.wide_learner import learner_type

_SINCE_0_3: tuple[str, ...] = (
    "challenged",
    "growth",
    "hashed",
    "identifiers",
    "round growth",
    "simple",
)  # layers that earlier models go on without


@dataclass(frozen=True)
class Choices:
    """What decides which learner an estimator has: its parameters, and the columns of its rows."""

    columns: int
    drift: Any
    update: Any
    classes: int = 0  # known so far; 0 in regression
    hashed: int = 0  # columns of a table whose values are hashed: all, if one holds strings


def kinds_of(choices: Choices) -> list[Any]:
    """Return the classes of the learners that are in each other, the innermost first.

    Each layer is a class with the methods of `Learner`, is made from the learner within it and the number of columns,
    and is `loadable`. Hashed models are around all others; where no cells are hashed, they may join later.
    """
    kinds = _kinds_within(choices)
    if choices.update == "rounds":  # what hashed models learn does not add up over rounds
        return kinds
    if choices.hashed:
        return [*kinds, HashedLearner]
    return [*kinds, HashedLearner, IdentifierLearner] if choices.columns <= WIDEST else kinds


def _kinds_within(choices: Choices) -> list[Any]:
    """Return those of learners of numbers. A new layer is one line here."""
    kinds: list[Any] = [RoundLearner if choices.update == "rounds" else learner_type(choices.columns)]
    if choices.drift == "adapt":
        kinds.append(AdaptiveLearner)
    if choices.drift == "auto" and choices.update == "rows" and choices.columns <= WIDEST:
        kinds.append(ChallengedLearner)
    if _has_simple_models(choices):
        kinds.append(SimpleLearner)
    if choices.columns <= WIDEST:
        kinds.append(GrowthLearner if choices.update == "rows" else RoundGrowthLearner)
    return kinds


def _has_simple_models(choices: Choices) -> bool:
    """Tell whether there are class means, or linear models of wide rows: neither forgets, nor adds up over rounds."""
    means = choices.classes > 2 and choices.columns <= WIDEST
    linear = choices.classes >= 2 and WIDE_FROM < choices.columns <= WIDE_UP_TO
    return (means or linear) and choices.drift != "adapt" and choices.update == "rows"


def with_another_class(choices: Choices, learner: Learner) -> Learner:
    """Make room for a class that has not been seen before; with the third one there are class means."""
    if not _has_simple_models(choices) and _has_simple_models(replace(choices, classes=learner.n_classes + 1)):
        learner = _with_simple_models(learner, choices.columns)
    learner.add_class()
    return learner


def _with_simple_models(learner: Learner, columns: int) -> Learner:
    """Put the layer of simple models where `kinds_of` has it."""
    if not isinstance(learner, GrowthLearner | HashedLearner | IdentifierLearner):
        return SimpleLearner(learner, columns)
    taken = columns + (isinstance(learner, HashedLearner) and learner.takes_score)
    learner.inner = _with_simple_models(learner.inner, taken)
    return learner


def takes_cells(learner: Learner) -> bool:
    """Tell whether a learner of numbers can get models of the cells: what they learn does not add up over rounds."""
    return isinstance(learner, IdentifierLearner)


def with_cell_models(learner: Learner, cells: int) -> Learner:
    """Put hashed models around a learner of numbers, once a cell is missing: an estimate would hide that."""
    return HashedLearner(learner, None, HashedScores(learner.settings, cells, learner.outputs, learners=1))


def new_learner(choices: Choices, settings: LearnerSettings, n_classes: int) -> Learner:
    """Return a learner that has not seen any rows."""
    learner, kinds = _learner_within(choices, settings, n_classes), kinds_of(choices)
    if IdentifierLearner in kinds:
        return IdentifierLearner(learner, choices.columns)
    if HashedLearner in kinds:
        wider = _wider(choices, settings, n_classes)
        hashed = HashedScores(settings, choices.hashed, learner.outputs, learners=1 if wider is None else 2)
        return HashedLearner(learner, wider, hashed)
    return learner


def _learner_within(choices: Choices, settings: LearnerSettings, n_classes: int) -> Learner:
    innermost, *layers = _kinds_within(choices)
    learner: Learner = innermost(settings, n_classes)
    for layer in layers:
        learner = layer(learner, choices.columns)
    return learner


def follow_drift(learner: Any) -> None:
    """Let the learners of rows within a learner follow drift from the next row on."""
    if learner.inner is None:
        if hasattr(learner, "follow_drift"):  # not those of very wide rows
            learner.follow_drift()
        return
    for each in (learner.inner, getattr(learner, "wider", None)):
        if each is not None:
            follow_drift(each)


def learner_of_rows(learner: Learner) -> Learner:
    """Return the innermost learner."""
    while learner.inner is not None:
        learner = learner.inner
    return learner


def drift_of(learner: Learner | None) -> list[dict[str, Any]]:
    """Return the changes of the stream that a learner has noticed, as the core has them."""
    while learner is not None and not isinstance(learner, ChallengedLearner):
        learner = learner.inner
    return [] if learner is None else learner.events()


def _wider(choices: Choices, settings: LearnerSettings, n_classes: int) -> Learner | None:
    """Return a learner of rows with one more column, where hashed models have one score that can be a column."""
    wider = replace(choices, columns=choices.columns + 1)
    if n_classes > 2 or learner_type(wider.columns) is not learner_type(choices.columns):
        return None
    squares = settings.squares and LinearFeatures.has_room_for_squares(wider.columns)
    return _learner_within(wider, replace(settings, squares=squares), n_classes)


def fits(choices: Choices, learner: Learner | None) -> bool:
    """Tell whether an estimator may have a saved learner: the right kinds within each other."""
    if isinstance(learner, HashedLearner) and learner.inner is not None and takes_cells(learner.inner):
        learner = learner.inner  # from `with_cell_models`
    if learner is not None and takes_cells(learner):
        choices = replace(choices, hashed=0)  # strings, if any, came after it had begun with numbers
    found: list[str] = []
    while learner is not None:
        found.insert(0, learner.kind)
        learner = learner.inner
    if found[-1:] == [HashedLearner.kind] and not choices.hashed:  # which takes cells
        return False
    expected = [each.kind for each in kinds_of(choices)]  # an earlier model may have got class means by now
    return found == [kind for kind in expected if kind in found or kind not in _SINCE_0_3]
