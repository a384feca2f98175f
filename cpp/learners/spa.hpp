// Sparse passive-aggressive learning: Proposition 1 and Algorithm 1 of the paper.
#pragma once

#include "rule.hpp"

namespace bomkl {

template <class Support>
void spa(Support& support, const Example& x, const LearnerSpec& spec) {
    if (!(x.loss > 0)) return;
    const double rho = std::min(spec.alpha, x.loss) / spec.beta;
    if (x.draw < rho) support.insert(aggressive_step(spec.eta * x.weight / rho, x) * x.direction);
}

}  // namespace bomkl
