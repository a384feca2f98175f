"""What `kernels_` of an Auto model lists."""

from __future__ import annotations

from dataclasses import dataclass

from bomkl.auto.components.component import Component, NewtonComponent
from bomkl.auto.components.curved import CurvedComponent
from bomkl.auto.features.features import Features, LinearFeatures
from bomkl.auto.features.pool_kernels import POOL_KERNELS
from bomkl.kernels import Kernel, Linear


@dataclass(frozen=True, eq=False)
class PoolMember:
    """One member of the pool that an Auto model combines: a kernel, a linear or additive model, or trees.

    Two members are equal if they have the same name, and a member is equal to its name.

    Attributes
    ----------
    name : str
        Its name, such as "gaussian normal 1".
    kernel : Kernel or None
        The kernel with the width that the model has chosen. None for trees, for a member that was dropped, and while
        the model has too few rows to choose.
    view : str or None
        How the columns are scaled before the kernel is computed (see "How it works"). None where `kernel` is None.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from bomkl import AutoMKLClassifier
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> model = AutoMKLClassifier(budget=50, trees=False, random_state=0).fit(X, y)
    >>> model.kernels_[model.kernels_.index("linear")]
    PoolMember(name='linear', kernel=Linear(), view='standard')
    >>> [str(member) for member in model.kernels_[:2]]
    ['polynomial 2', 'gaussian normal 1']
    >>> "linear" in model.kernels_
    True
    """

    name: str
    kernel: Kernel | None = None
    view: str | None = None

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    def __eq__(self, other: object) -> bool:
        """Compare names; `kernels_` held names in version 0.1.0, and code that looks for them still works."""
        return self.name == (other.name if isinstance(other, PoolMember) else other)

    def __hash__(self) -> int:
        """Return the hash of the name."""
        return hash(self.name)


def pool_members(names: list[str], components: list[Component]) -> list[PoolMember]:
    """List the members of a pool by the names of all and the components that are in use."""
    in_use = {each.name: each.features for each in components if isinstance(each, NewtonComponent | CurvedComponent)}
    return [_member(name, in_use[name]) if name in in_use else PoolMember(name) for name in names]


def _member(name: str, features: Features) -> PoolMember:
    if isinstance(features, LinearFeatures):
        return PoolMember(name, Linear(), "squares" if features.squares else "standard")
    return PoolMember(name, POOL_KERNELS[features.kernel].kernel(features.scale), features.geometry)
