"""Combiners: how the scores of the kernels become one."""

from __future__ import annotations

from dataclasses import dataclass

from bomkl._support.validation import check_choice, check_open_unit, is_finite_number, parameter_error

CLASSIFICATION_LOSSES = ("hinge", "zero_one")
REGRESSION_LOSSES = ("epsilon_insensitive", "squared")


@dataclass(frozen=True)
class Uniform:
    """All kernels have the same weight, always.

    Examples
    --------
    >>> from bomkl.combiners import Uniform
    >>> Uniform()
    Uniform()
    """


@dataclass(frozen=True)
class Hedge:
    """Multiply the weight of each kernel by gamma to the power of its loss (Freund and Schapire, 1997).

    Parameters
    ----------
    gamma : float, default=0.99
        Discount, in (0, 1).
    loss : {"hinge", "zero_one", "epsilon_insensitive", "squared"}, default="hinge"
        The loss of a kernel: one of the first two for classes, one of the last two for numbers.
    share : float, default=0.0
        Fixed share (Herbster and Warmuth, 1998), in [0, 1): the part of all weight that is shared out evenly after
        every row, so that a kernel can come back after a change.
    discount : {"always", "selected"}, default="always"
        Whether every kernel pays for its loss, or only the kernels that were selected to learn.

    Examples
    --------
    >>> from bomkl.combiners import Hedge
    >>> Hedge(gamma=1.5)
    Traceback (most recent call last):
    ...
    ValueError: The 'gamma' parameter of Hedge must be a number in the open interval (0, 1). Got 1.5 instead.
    """

    gamma: float = 0.99
    loss: str = "hinge"
    share: float = 0.0
    discount: str = "always"

    def __post_init__(self) -> None:
        check_open_unit("Hedge", "gamma", self.gamma)
        check_choice("Hedge", "loss", self.loss, CLASSIFICATION_LOSSES + REGRESSION_LOSSES)
        if not (is_finite_number(self.share) and 0 <= self.share < 1):
            raise parameter_error("Hedge", "share", "a number in [0, 1)", self.share)
        check_choice("Hedge", "discount", self.discount, ("always", "selected"))


Combiner = Uniform | Hedge
