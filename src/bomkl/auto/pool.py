"""What `kernels_` of an Auto model lists."""

from __future__ import annotations

from dataclasses import dataclass

from bomkl.auto.component import NewtonComponent
from bomkl.auto.curved import CurvedComponent
from bomkl.auto.features import Features, LinearFeatures
from bomkl.auto.rows import RowLearner
from bomkl.auto.wide import WideLearner
from bomkl.kernels import Gaussian, Kernel, Laplacian, Linear, Polynomial


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


def pool_members(learner: RowLearner | WideLearner) -> list[PoolMember]:
    """List the members of a learner's pool, those that were dropped included."""
    if isinstance(learner, WideLearner):
        narrow = pool_members(learner.kernels)
        return [*narrow, *(PoolMember(name, Linear(), "standard") for name in learner.names[len(narrow) :])]
    in_use = {
        each.name: each.features for each in learner.components if isinstance(each, NewtonComponent | CurvedComponent)
    }
    return [_member(name, in_use[name]) if name in in_use else PoolMember(name) for name in learner.names]


def _member(name: str, features: Features) -> PoolMember:
    if isinstance(features, LinearFeatures):
        return PoolMember(name, Linear(), "squares" if features.squares else "standard")
    return PoolMember(name, _kernel(features.kernel, features.scale), features.geometry)


def _kernel(kind: str, scale: float) -> Kernel:
    """Return the kernel that `kernel_matrix` of `bomkl.auto.features` computes."""
    if kind == "polynomial":
        return Polynomial(degree=2, gamma=scale, coef0=1.0)
    return Laplacian(gamma=scale) if kind == "laplacian" else Gaussian(sigma=(2 * scale) ** -0.5)
