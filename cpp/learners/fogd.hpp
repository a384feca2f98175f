// Fourier online gradient descent: Lu et al. (2016).
#pragma once

#include "budget/rule.hpp"

namespace bomkl::fogd {

struct Learner : Rule {
    static constexpr const char* name = "FOGD";
    static constexpr bool fourier = true;
    double eta;

    explicit Learner(const Parameters& p) : eta(p.number("eta")) { n_frequencies = int(p.number("n_frequencies")); }

    template <class Weights>
    void learn(Weights& weights, const Example& x) const {
        const double step = x.regression ? x.residual : (x.loss > 0 ? x.direction : 0);
        if (step != 0) weights.add_features(eta * x.weight * step);
    }
};

}  // namespace bomkl::fogd
