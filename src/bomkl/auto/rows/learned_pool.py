"""What a learner of rows has learned: a pool of components and their combination.

While nothing but learning happens, a compiled model owns all of it. Before anything else about it changes, it is taken
apart.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bomkl._core import DriftExperts, RowModel, Sample
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.component import Component
from bomkl.auto.components.pool import PoolMember, pool_members
from bomkl.auto.constants import DEVICE_FROM
from bomkl.auto.features.geometry import Float, Geometry, Views
from bomkl.auto.features.pool_kernels import regression_names
from bomkl.auto.learner import shallow_copy
from bomkl.auto.rows.arrays import array_bytes
from bomkl.auto.rows.engine import RowEngine
from bomkl.auto.rows.explain import relevance_shares
from bomkl.auto.task import LearnerSettings, Task
from bomkl.auto.trees.trees import TREES


class LearnedPool:
    """Components, their combination, and what can be told of them."""

    row_engine: RowEngine | None = None  # None: the processor
    curves_targets = True  # of numbers, for one component

    def __init__(self, settings: LearnerSettings, n_classes: int = 2) -> None:
        self.settings = settings
        self.n_classes = n_classes
        self.seen = 0
        self.support: Float | None = None
        self.centre, self.spread = 0.0, 1.0
        self.geometry: Geometry | None = None
        # What learns: either these three, or a compiled model that holds their parts
        self._components: list[Component] | None = []
        self._combination: Combination | None = None
        self._sample: Sample | None = None
        self._drift: DriftExperts | None = None  # beside them, once there is a row, where drift is followed
        self.follows_drift = False
        self._model: RowModel | None = None
        self._bare: list[Component] = []  # the components of the model, without their parts
        self._places: NDArray[np.int64] = np.empty(0, dtype=np.int64)  # of the components of the model among all
        self._model_rows = 0  # rows that the model has learned from and that are not among the `error_rows` yet
        self._begin_pool()

    def _pool(self) -> list[str]:
        return [*self._regressions(), *(TREES if self.settings.has_trees else ())]

    def _regressions(self) -> list[str]:
        return regression_names(self.settings.squares, self._has_curve)

    @property
    def _has_curve(self) -> bool:
        return self.curves_targets and self.settings.regression

    def _begin_pool(self) -> None:
        self.names = self._pool()  # of all components, those that were dropped as well
        self.combination = Combination.of(len(self.names))
        self.error_before = np.zeros(len(self.names))  # in units of the target, up to the last rebuild
        self.error_rows = np.zeros(len(self.names))

    @property
    def error_rows(self) -> Float:
        """Rows that each component has scored."""
        if self._model_rows == 0:
            return self._error_rows
        rows = self._error_rows.copy()
        rows[self._places] += self._model_rows
        return rows

    @error_rows.setter
    def error_rows(self, rows: Float) -> None:
        self._error_rows, self._model_rows = rows, 0

    @property
    def task(self) -> Task:
        """What is learned now."""
        return self.settings.task(self.n_classes)

    @property
    def outputs(self) -> int:
        """Scores a row."""
        return self.n_classes if self.task is Task.MULTICLASS else 1

    @property
    def on_device(self) -> RowEngine | None:
        """The device, once there is enough to do for one; what follows drift stays on the processor."""
        return self.row_engine if self.seen >= DEVICE_FROM and not self.follows_drift else None

    # ------------------------------------------------------------ what learns

    @property
    def components(self) -> list[Component]:
        """Components, with what they have learned by now."""
        if self._components is None:
            assert self._model is not None
            self._components = [each.at(part) for each, part in zip(self._bare, self._model.parts, strict=True)]
        return self._components

    @components.setter
    def components(self, components: list[Component]) -> None:
        self._take_apart()
        self._components = components

    @property
    def combination(self) -> Combination:
        """Combination of the components."""
        if self._combination is None:
            assert self._model is not None
            self._combination = Combination(self._model.combination)
        return self._combination

    @combination.setter
    def combination(self, combination: Combination) -> None:
        self._take_apart()
        self._combination = combination

    @property
    def sample(self) -> Sample | None:
        """Sample of coded rows, once the budget is full and while there are trees."""
        return self._sample if self._model is None else self._model.sample

    @sample.setter
    def sample(self, sample: Sample | None) -> None:
        self._take_apart()
        self._sample = sample

    @property
    def drift(self) -> DriftExperts | None:
        """Experts that follow drift, from the first row on that is learned with them."""
        return self._drift if self._model is None else self._model.drift

    @drift.setter
    def drift(self, drift: DriftExperts | None) -> None:
        self._take_apart()
        self._drift = drift

    def _take_apart(self) -> None:
        """Go on without the compiled model: something about it changes."""
        if self._model is not None:
            self._components, self._combination, self._sample = self.components, self.combination, self.sample
            self._drift = self.drift
            self._model = None

    def _assembled(self) -> RowModel:
        """Return the compiled model."""
        if self._model is None:
            components = self.components
            self.error_rows = self.error_rows  # of the components that were here before
            self._bare = [each.at(None) for each in components]
            self._places = np.array(self.places(), dtype=np.int64)
            self._model = self._model_of(components, self.combination, self._sample, self._drift)
        return self._model

    def _model_of(
        self,
        components: list[Component],
        combination: Combination | None,
        sample: Sample | None,
        drift: DriftExperts | None = None,
    ) -> RowModel:
        assert self.geometry is not None
        return RowModel.of(
            self.geometry.core(),
            [each.part(self.settings.forget) for each in components],
            None if combination is None else combination.core,
            sample,
            drift,
            int(self.task),
            self.outputs,
            (self.centre, self.spread),
        )

    def fork(self) -> Self:
        """Return a copy that may learn while this one stays as it is; only the latest fork may learn."""
        fork = shallow_copy(self)
        if self._model is not None:
            fork._model, fork._components, fork._combination = self._model.fork(), None, None
        else:
            fork._components = [each.fork() for each in self.components]
            fork._combination = self.combination.fork()
            fork._sample = None if self._sample is None else self._sample.fork()
            fork._drift = None if self._drift is None else self._drift.fork()
        return fork

    def __getstate__(self) -> dict[str, Any]:
        apart = {"_components": self.components, "_combination": self.combination, "_sample": self.sample}
        apart["_drift"] = self.drift
        return vars(self) | apart | {"_model": None, "_bare": []}  # a copy has a model of its own

    @property
    def nbytes(self) -> int:
        """Memory of its arrays, in bytes."""
        return array_bytes(self.__getstate__())

    # ------------------------------------------------------------ rows

    def targets(self, y: Float) -> Float:
        """Return class numbers or targets as the components learn them."""
        return self.task.targets(y, self.n_classes, self.centre, self.spread)

    def views(self, X: Float, components: list[Component] | None = None) -> Views:
        """Rows in the views that the components, or some of them, need."""
        assert self.geometry is not None
        needing = self.components if components is None else components
        return self.geometry.views(X, {name for each in needing for name in each.geometries()})

    def places(self) -> list[int]:
        """Numbers of the living components among all."""
        return [self.names.index(component.name) for component in self.components]

    def used_rows(self) -> NDArray[np.int64]:
        """Return the numbers of the stored rows that components need."""
        supports = [each.support for each in self.components if each.support is not None]
        return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *supports]))

    # ------------------------------------------------------------ insight

    def kernel_weights(self) -> Float:
        """Part of each component in the combination; zero for those that were dropped."""
        weights = np.zeros(len(self.names))
        weights[self.places() or slice(None)] = self.combination.influence()
        return weights

    def component_errors(self) -> Float:
        """Mean error of each component on the rows it has scored, each before learning from it; 0 before the first."""
        total = self.error_before.copy()
        total[self.places() or slice(None)] += self.combination.error_sum * self.spread**2
        return total / np.maximum(self.error_rows, 1)

    def n_support(self) -> NDArray[np.int64]:
        """Landmarks of each component."""
        counts = np.zeros(len(self.names), dtype=np.int64)
        for i, component in zip(self.places(), self.components, strict=True):
            counts[i] = 0 if component.support is None else len(component.support)
        return counts

    def members(self) -> list[PoolMember]:
        """List the members of the pool, those that were dropped included."""
        return pool_members(self.names, self.components)

    def relevance_shares(self) -> Float | None:
        """Share of each column in the squared slope of the score, over both views; None before the first rebuild."""
        return None if self.geometry is None else relevance_shares(self.geometry)
