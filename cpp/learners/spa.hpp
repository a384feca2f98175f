// Sparse passive-aggressive learning: Proposition 1 and Algorithm 1 of the paper.
#pragma once

#include "budget/rule.hpp"

namespace bomkl::spa {

struct Learner : Rule {
    static constexpr const char* name = "SPA";
    static constexpr bool only_adds = true;
    double eta, alpha, beta;

    explicit Learner(const Parameters& p) : eta(p.number("eta")), alpha(p.number("alpha")), beta(p.number("beta")) {}

    template <class Support>
    void learn(Support& support, const Example& x) const {
        if (!(x.loss > 0)) return;
        const double rho = std::min(alpha, x.loss) / beta;
        if (x.draw(Purpose::sparsity) < rho) support.insert(aggressive_step(eta * x.weight / rho, x) * x.direction);
    }
};

}  // namespace bomkl::spa
