"""Kernels, learners and combiners validate themselves and mean what they say."""

import numpy as np
import pytest

from bomkl.combiners import Hedge
from bomkl.kernels import Cauchy, Cosine, Exponential, Gaussian, Linear, Polynomial, paper_kernels
from bomkl.learners import BOGD, BPAS, PA, SPA, Forgetron, Projectron

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SPA(beta=0.5), r"'beta' parameter of SPA must be a finite number >= alpha \(1.0\). Got 0.5"),
        (lambda: SPA(eta=0), "'eta' parameter of SPA .* Got 0 "),
        (lambda: SPA(alpha=-1), "'alpha' parameter of SPA .* Got -1 "),
        (lambda: SPA(beta=NAN), "'beta' parameter of SPA .* Got nan"),
        (lambda: PA(C=INF), "'C' parameter of PA .* Got inf"),
        (lambda: BPAS(C="1"), "'C' parameter of BPAS .* Got '1'"),
        (lambda: Forgetron(may_grow=1), "'may_grow' parameter of Forgetron must be True or False. Got 1"),
        (lambda: BPAS(unit_norm=1), "'unit_norm' parameter of BPAS must be True or False. Got 1"),
        (lambda: BOGD(eta=2.0, regularization=0.5), r"'regularization' parameter of BOGD must be < 1 / eta \(0.5\)"),
        (lambda: BOGD(regularization=-0.1), "'regularization' parameter of BOGD"),
        (lambda: Projectron(threshold=0), "'threshold' parameter of Projectron"),
        (lambda: Projectron(margin_updates=1), "'margin_updates' parameter of Projectron must be True or False. Got 1"),
        (
            lambda: Hedge(gamma=1.0),
            r"'gamma' parameter of Hedge must be a number in the open interval \(0, 1\). Got 1.0",
        ),
        (lambda: Hedge(gamma=True), "'gamma' parameter of Hedge"),
        (lambda: Hedge(loss="log"), "'loss' parameter of Hedge must be one of .*'hinge'.* Got 'log'"),
        (lambda: Hedge(share=1.0), "'share' parameter of Hedge"),
        (lambda: Hedge(discount="never"), "'discount' parameter of Hedge"),
        (lambda: Gaussian(sigma=0), "'sigma' parameter of Gaussian must be a finite number > 0. Got 0"),
        (lambda: Cauchy(sigma=-1), "'sigma' parameter of Cauchy"),
        (lambda: Exponential(sigma=NAN), "'sigma' parameter of Exponential"),
        (lambda: Polynomial(degree=1.5), "'degree' parameter of Polynomial must be an int >= 1. Got 1.5"),
        (lambda: Polynomial(gamma=0), "'gamma' parameter of Polynomial"),
        (lambda: Polynomial(coef0=INF), "'coef0' parameter of Polynomial"),
    ],
)
def test_bad_parameters_are_named_with_rule_and_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_paper_kernels_are_three_polynomials_and_thirteen_gaussians():
    kernels = paper_kernels()
    assert kernels[:3] == [Polynomial(1), Polynomial(2), Polynomial(3)]
    assert [k.sigma for k in kernels[3:]] == [2.0**e for e in range(-6, 7)]


@pytest.mark.parametrize(
    ("kernel", "value"),
    [
        (Linear(), 11.0),
        (Polynomial(degree=3, gamma=2.0, coef0=1.0), 23.0**3),
        (Gaussian(sigma=2.0), np.exp(-1.0)),
        (Exponential(sigma=2.0), np.exp(-np.sqrt(2.0))),
        (Cauchy(sigma=2.0), 1 / 3),
        (Cosine(), 11 / (np.sqrt(5) * 5)),
    ],
)
def test_kernels_by_hand(kernel, value):
    assert kernel([[1.0, 2.0]], [[3.0, 4.0]])[0, 0] == pytest.approx(value)
    assert kernel.diagonal([[1.0, 2.0]])[0] == pytest.approx(kernel([[1.0, 2.0]], [[1.0, 2.0]])[0, 0])


def test_cosine_of_a_zero_row_is_zero():
    assert Cosine()([[0.0, 0.0]], [[3.0, 4.0]])[0, 0] == 0
