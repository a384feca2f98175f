"""From names, options and TOML files to an estimator and to the way rows are read."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bomkl._support.validation import did_you_mean
from bomkl.cli.messages import UsageError, usage
from bomkl.cli.options import AlgorithmOptions, RowOptions

DEFAULT_ALGORITHM = "auto"
_LARGEST_SEED = 2**32 - 1
_ESTIMATORS = {
    "auto": "AutoMKLClassifier",
    "auto-regression": "AutoMKLRegressor",
    "BudgetMKLClassifier": "BudgetMKLClassifier",
    "BudgetMKLRegressor": "BudgetMKLRegressor",
}


def make_estimator(name: str, budget: int | None) -> Any:
    """Make an estimator by the name given to ``--algorithm``: the one place that knows these names."""
    import bomkl
    from bomkl import paper

    if name in _ESTIMATORS:
        return getattr(bomkl, _ESTIMATORS[name])(**({} if budget is None else {"budget": budget}))
    known = (*_ESTIMATORS, *paper.ALGORITHMS, *paper.STOCHASTIC_COMBINATIONS, *paper.FEATURE_ALGORITHMS)
    if name not in known and f"BOMKC({name})" not in known:
        hint = did_you_mean(str(name), known)
        raise UsageError(
            f"There is no algorithm {name!r}.{hint} --algorithm must be one of {', '.join(known)}; "
            "SPA is short for BOMKC(SPA), and so on."
        )
    return paper.algorithm(name, budget=budget)


@dataclass(frozen=True)
class RunSettings:
    """What a run is to do, as plain values: it is kept in the model file."""

    algorithm: str = DEFAULT_ALGORITHM
    budget: int | None = None
    seed: int = 0
    parameters: dict[str, str] = field(default_factory=dict)
    classes: str | None = None
    rows: dict[str, Any] = field(default_factory=dict)

    def estimator(self) -> Any:
        """Make the estimator, not yet fitted, with settings that it accepts."""
        with usage():
            estimator = make_estimator(self.algorithm, self.budget)
            estimator.set_params(random_state=self.seed)
            if strings := self._string_columns():
                estimator.set_params(types=dict.fromkeys(strings, "category"))
            if "new_columns" in self.rows and hasattr(estimator, "new_columns"):
                estimator.set_params(new_columns=self.rows["new_columns"])
            for name, text in self.parameters.items():
                set_parameter(estimator, name, text)
            estimator._check_parameters()
            if hasattr(estimator, "_kernel_list"):
                estimator._kernel_list()
        return estimator

    def _string_columns(self) -> list[str]:
        """Columns of features that hold strings, whatever they look like."""
        others = {self.rows.get("label", "label"), self.rows.get("weight"), *self.rows.get("ignore", ())}
        return [name for name in self.rows.get("strings", ()) if name not in others]

    def check(self) -> None:
        """Refuse settings that no rows could make good."""
        from sklearn.base import is_classifier

        if not (isinstance(self.seed, int) and 0 <= self.seed <= _LARGEST_SEED):
            raise UsageError(f"--seed must be an int from 0 to {_LARGEST_SEED}. Got {self.seed!r} instead.")
        labels = _labels(self.classes) if isinstance(self.classes, str) else []
        if self.classes is not None and ("" in labels or len(set(labels)) < 2):
            rule = "two or more different labels, separated by commas, such as 1,-1"
            raise UsageError(f"--classes must be {rule}. Got {self.classes!r} instead.")
        estimator = self.estimator()
        if self.classes is not None and not is_classifier(estimator):
            raise UsageError(f"--classes is for classifiers, but {self.algorithm} is for regression. Leave it out.")

    def class_labels(self, numbers: bool) -> tuple[Any, ...] | None:
        """Labels that `classes` names, as numbers or as strings; None where it names none."""
        if self.classes is None:
            return None
        try:
            return tuple(map(_number, _labels(self.classes)) if numbers else _labels(self.classes))
        except ValueError as error:
            rule = "numbers, as the labels of the rows are"
            raise UsageError(f"--classes must be {rule}. Got {self.classes!r} instead.") from error

    def differences(self, other: RunSettings) -> str:
        """Name the settings in which two runs differ."""
        mine, others = dataclasses.asdict(self), dataclasses.asdict(other)
        return ", ".join(
            f"{name} ({mine[name]!r}, now {others[name]!r})" for name in mine if mine[name] != others[name]
        )


def read_settings(algorithm: AlgorithmOptions, rows: RowOptions) -> RunSettings:
    """Put together what the options and the TOML file say; options override the file."""
    file = _read_config(algorithm.config)
    parameters = {str(name): _as_text(value) for name, value in file.get("parameters", {}).items()}
    for each in algorithm.parameter or ():
        name, equals, text = each.partition("=")
        if not equals:
            raise UsageError(f"--parameter must be NAME=VALUE, such as learner.eta=0.2. Got {each!r} instead.")
        parameters[name.strip()] = text.strip()
    budget = file.get("budget") if algorithm.budget is None else algorithm.budget
    settings = RunSettings(
        algorithm=algorithm.algorithm or file.get("algorithm", DEFAULT_ALGORITHM),
        budget=budget,
        seed=file.get("seed", 0) if algorithm.seed is None else algorithm.seed,
        parameters=parameters,
        classes=file.get("classes") if algorithm.classes is None else algorithm.classes,
        rows=row_settings(rows, file.get("rows", {})),
    )
    settings.check()
    return settings


def row_settings(options: RowOptions, file: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Those settings of `open_stream` that differ from its defaults, checked; options override the file."""
    from bomkl.streams.formats.registry import checked_options

    chosen = dict(file or {})
    names = {each.name: each.default for each in dataclasses.fields(RowOptions)}
    if unknown := sorted(set(chosen) - set(names)):
        raise UsageError(f"The table [rows] must hold some of {sorted(names)}. Got {unknown} instead.")
    for name, default in names.items():
        value = getattr(options, name)
        if value != default:
            chosen[name] = value
    if chosen.get("missing") is not None:
        chosen["missing"] = str(chosen["missing"])
    for name in ("ignore", "strings"):
        columns = chosen.get(name, [])
        if not isinstance(columns, list) or not all(isinstance(each, str) for each in columns):
            raise UsageError(f"{name} in the table [rows] must be a list of columns. Got {chosen[name]!r} instead.")
    try:
        with usage():
            checked_options(**_arguments(chosen, as_tables=True))
    except TypeError as error:
        raise UsageError(f"The table [rows] holds a value of a wrong kind ({error}). Got {chosen} instead.") from error
    return {name: value for name, value in chosen.items() if value != names[name]}


def takes_new_classes(estimator: Any) -> bool:
    """Tell whether a classifier can add classes after its first rows."""
    from bomkl.auto import AutoMKLClassifier

    return isinstance(estimator, AutoMKLClassifier)


def takes_tables(estimator: Any) -> bool:
    """Tell whether an estimator takes tables as they are, with strings and missing values; not one of a matrix."""
    fitted = hasattr(estimator, "n_features_in_")
    return hasattr(estimator, "takes_tables_") and not (fitted and estimator.encoder_ is None)


def stream_arguments(settings: Mapping[str, Any], as_tables: bool) -> dict[str, Any]:
    """Arguments of `open_stream` for settings of rows.

    `settings`: settings by the names of the options. `as_tables`: whether tables are handed on as they are.
    """
    if as_tables and (given := [name for name in ("categorical", "buckets") if settings.get(name) is not None]):
        raise UsageError(
            f"--{given[0]} is for bomkl convert: a model encodes strings itself. Leave it out, or convert the rows "
            "first."
        )
    return _arguments(settings, as_tables)


def _arguments(settings: Mapping[str, Any], as_tables: bool) -> dict[str, Any]:
    arguments = {name: value for name, value in settings.items() if value is not None}
    arguments["as_tables"] = as_tables
    if "features" in arguments:
        arguments["n_features"] = arguments.pop("features")
    for name in ("label", "weight"):
        if isinstance(column := arguments.get(name), str) and column.lstrip("-").isdigit():
            arguments[name] = int(column)
    missing = arguments.setdefault("missing", "keep" if as_tables else "error")
    if isinstance(missing, str) and missing not in ("error", "skip", "keep"):
        with contextlib.suppress(ValueError):  # open_stream says what it may be
            arguments["missing"] = float(missing)
    return arguments


def set_parameter(estimator: Any, name: str, text: str) -> None:
    """Set a parameter, or with a dot one setting of a learner or combiner, from its text.

    Examples
    --------
    >>> from bomkl import BudgetMKLClassifier
    >>> model = BudgetMKLClassifier()
    >>> set_parameter(model, "learner.eta", "0.2")
    >>> set_parameter(model, "kernels", "[Gaussian(2**-3), Linear()]")
    >>> model.learner, model.kernels
    (SPA(eta=0.2, alpha=1.0, beta=3.0), [Gaussian(sigma=0.125), Linear()])
    """
    known = estimator.get_params(deep=False)
    outer, dot, inner = name.partition(".")
    if outer not in known:
        raise ValueError(f"{type(estimator).__name__} has no parameter {outer!r}. It has {', '.join(sorted(known))}.")
    value = parse_value(text)
    if dot:
        part = known[outer]
        if part is None and hasattr(estimator, f"_{outer}"):
            part = getattr(estimator, f"_{outer}")()  # what None stands for
        names = [each.name for each in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else []
        if inner not in names or isinstance(part, type):
            raise ValueError(f"{outer} is {part!r} and has no setting {inner!r}.")
        value = dataclasses.replace(part, **{inner: value})
    estimator.set_params(**{outer: value})


def parse_value(text: str) -> Any:
    """Read a value: a number, True, False, None, a list, a kernel, learner or combiner, or else a word.

    Examples
    --------
    >>> parse_value("2**-3"), parse_value("vote"), parse_value("PA(C=0.5)"), parse_value("None")
    (0.125, 'vote', PA(C=0.5), None)
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return text
    if isinstance(tree, ast.Name):
        return tree.id
    return _value_of(tree, text)


def _value_of(node: ast.expr, text: str) -> Any:
    from bomkl.modelfile import spec_classes

    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value_of(operand, text)
        case ast.BinOp(left=ast.Constant(value=int() as base), op=ast.Pow(), right=exponent):
            return float(base) ** float(_value_of(exponent, text))
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value_of(item, text) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_value_of(k, text): _value_of(v, text) for k, v in zip(keys, values, strict=True) if k is not None}
        case ast.Call(func=ast.Name(id=name), args=items, keywords=named) if name in spec_classes():
            settings = {each.arg: _value_of(each.value, text) for each in named if each.arg is not None}
            try:
                return spec_classes()[name](*[_value_of(item, text) for item in items], **settings)
            except TypeError as error:
                raise ValueError(f"{text!r}: {error}") from error
    raise ValueError(
        f"{text!r} is not a valid value. It must be a number, a word, a list, or a kernel, learner or combiner, such "
        "as Gaussian(0.5)."
    )


def _labels(text: str) -> list[str]:
    return [label.strip() for label in text.split(",")]


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _read_config(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    with usage(), open(path, "rb") as file:
        try:
            content = tomllib.load(file)
        except ValueError as error:  # not TOML, or not UTF-8
            raise ValueError(f"{path}: {error}") from error
    names = [each.name for each in dataclasses.fields(RunSettings)]
    if unknown := sorted(set(content) - set(names)):
        raise UsageError(f"{path}: settings must be some of {names}. Got {unknown} instead.")
    for name in ("parameters", "rows"):
        if not isinstance(content.get(name, {}), dict):
            raise UsageError(f"{path}: {name} must be a table, [{name}]. Got {content[name]!r} instead.")
    return content
