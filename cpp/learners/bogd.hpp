// Bounded online gradient descent that drops the oldest row: Zhao et al. (2012).
#pragma once

#include "budget/rule.hpp"

namespace bomkl::bogd {

struct Learner : Rule {
    static constexpr const char* name = "BOGD";
    static constexpr bool reads_values = false;
    static constexpr Looks looks = Looks::at_margin;
    double eta, regularization;

    explicit Learner(const Parameters& p) : eta(p.number("eta")), regularization(p.number("regularization")) {}

    template <class Support>
    void learn(Support& support, const Example& x) const {
        support.scale(1 - eta * regularization);
        const double step = x.regression ? x.residual : (x.agreement <= 1 ? x.direction : 0);
        if (step == 0) return;
        if (support.full()) support.drop(0);
        support.add(eta * x.weight * step);
    }
};

}  // namespace bomkl::bogd
