"""Hostile settings: refused with an error that names them, or a model whose scores are finite."""

import numpy as np
import pytest

from bomkl import (
    AutoMKLClassifier,
    AutoMKLRegressor,
    BudgetMKLClassifier,
    BudgetMKLRegressor,
    combiners,
    kernels,
    learners,
)

ODD = (
    None,
    -1,
    0,
    1,
    2,
    0.5,
    1e-300,
    1e300,
    float("nan"),
    float("inf"),
    True,
    "",
    "adapt",
    "paper",
    [],
    {},
    object,
    np.int64(3),
)
SPECS = [
    each
    for module in (kernels, learners, combiners)
    for each in vars(module).values()
    if isinstance(each, type) and each.__module__ == module.__name__ and hasattr(each, "__dataclass_fields__")
]
REFUSED = (ValueError, TypeError)


def odd_settings(rng, choose, names):
    return {name: choose(rng, ODD) for name in names if rng.random() < 0.4}


def odd_spec(rng, choose):
    """A kernel, learner or combiner with odd settings; None where it refuses them, as it should."""
    spec = choose(rng, SPECS)
    try:
        return spec(**odd_settings(rng, choose, spec.__dataclass_fields__))
    except REFUSED as error:
        assert str(error)
        return None


def test_parameters(cases, choose):
    X = np.random.default_rng(0).normal(size=(60, 3))
    classes, numbers = np.arange(60) % 2, X[:, 0] * X[:, 1]
    for rng in cases(60):
        estimator = choose(rng, [AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor])
        settings = odd_settings(rng, choose, estimator().get_params())
        spec = odd_spec(rng, choose)
        if estimator in (BudgetMKLClassifier, BudgetMKLRegressor) and spec is not None:
            module = type(spec).__module__
            kind = "kernels" if module == kernels.__name__ else module.removeprefix("bomkl.").removesuffix("s")
            settings[kind] = [spec] if kind == "kernels" else spec
        model = estimator(**settings)
        y = numbers if "Regressor" in estimator.__name__ else classes
        try:
            model.fit(X, y)
        except REFUSED as error:
            assert str(error)
            with pytest.raises((ValueError, AttributeError)):  # as before the call: it has learned nothing
                model.predict(X)
            continue
        assert np.isfinite(np.asarray(model.predict(X), dtype=float)).all()
