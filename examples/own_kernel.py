"""A kernel of your own: any function k(X, Z) that returns the matrix between the rows of X and of Z."""

import numpy as np

from bomkl import BudgetMKLClassifier
from bomkl.kernels import Gaussian, Linear


def angle_and_radius(X, Z):
    """Compare points of the plane by their angle and by their distance to the origin."""
    difference = np.arctan2(X[:, 1], X[:, 0])[:, None] - np.arctan2(Z[:, 1], Z[:, 0])
    radius = np.hypot(X[:, 0], X[:, 1])[:, None] - np.hypot(Z[:, 0], Z[:, 1])
    return np.exp(4 * (np.cos(difference) - 1) - 2 * radius**2)


def main():
    """Learn a spiral and show which kernel won."""
    rng = np.random.default_rng(0)
    radius, angle = rng.uniform(0, 3, size=3000), rng.uniform(0, 2 * np.pi, size=3000)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    y = np.sin(2 * angle + 2 * radius) > 0  # a spiral of two arms

    model = BudgetMKLClassifier([Linear(), Gaussian(0.5), Gaussian(2.0), angle_and_radius], budget=150, random_state=0)
    model.score_and_learn(X, y)
    print(f"{model.mistakes_ / model.n_seen_:.1%} mistakes")
    for kernel, weight, mistakes in zip(model.kernels_, model.kernel_weights_, model.kernel_mistakes_, strict=True):
        name = getattr(kernel, "__name__", str(kernel))
        print(f"{name:22} weight {weight:.3f}, {mistakes / model.n_seen_:.1%} mistakes alone")


if __name__ == "__main__":
    main()
