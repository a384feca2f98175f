"""All kernels and all learners, for the tests that every one of them has to pass.

A new one is added here and nowhere else. A learner needs its rule in plain NumPy as well, in `RULES`.
"""

from bomkl.kernels import Cauchy, Cosine, Exponential, Gaussian, Laplacian, Linear, Polynomial
from bomkl.learners import BOGD, BPAS, PA, RBP, SPA, Forgetron, Perceptron, Projectron
from bomkl.reference import RULES

__all__ = ["KERNELS", "LEARNERS", "RULES"]

KERNELS = [
    Linear(),
    Polynomial(3, 0.5, 1.0),
    Gaussian(0.5),
    Gaussian(2.0),
    Exponential(1.0),
    Cauchy(1.0),
    Cosine(),
    Laplacian(0.5),
]
# with their budgets; FOGD and NOGD, which learn weights of features, have tests of their own
LEARNERS = {
    "Perceptron": (Perceptron(), None),
    "Perceptron-budget": (Perceptron(), 12),
    "PA": (PA(C=0.3), None),
    "PA-budget": (PA(C=0.3), 12),
    "SPA": (SPA(eta=0.2, alpha=0.9, beta=1.1), None),
    "SPA-budget": (SPA(eta=0.2, alpha=0.9, beta=1.1), 12),
    "RBP": (RBP(), 8),
    "Forgetron": (Forgetron(), 8),
    "Forgetron-grow": (Forgetron(may_grow=True), 8),
    "BOGD": (BOGD(eta=0.3, regularization=0.2), 15),
    "BPAS": (BPAS(C=0.2), 10),
    "BPAS-unit": (BPAS(C=0.2, unit_norm=True), 10),
    "Projectron": (Projectron(threshold=0.6), None),
    "Projectron-budget": (Projectron(threshold=0.3), 8),
    "Projectron++": (Projectron(threshold=0.6, margin_updates=True), None),
}
