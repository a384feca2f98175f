"""Rows and models that several tests share."""

import pickle

import numpy as np
from sklearn.datasets import make_moons

from bomkl.learners import BOGD, BPAS, NOGD, PA, RBP, SPA, Forgetron, Perceptron, Projectron

LEARNERS = [
    (SPA(), None),
    (SPA(), 20),
    (Perceptron(), None),
    (Perceptron(), 20),
    (PA(), None),
    (PA(), 20),
    (RBP(), 20),
    (Forgetron(), 20),
    (BOGD(), 20),
    (BPAS(), 20),
    (BPAS(unit_norm=True), 20),
    (Projectron(), None),
    (Projectron(margin_updates=True), 20),
    (NOGD(), 20),
]


def moons(n=400, seed=0):
    X, y = make_moons(n, noise=0.25, random_state=seed)
    return X, np.where(y == 1, 1, -1)


def snapshot(model):
    return pickle.dumps(model)


X0, Y0 = moons(60)
