// Bounded online gradient descent that drops the oldest row: Zhao et al. (2012).
#pragma once

#include "rule.hpp"

namespace bomkl {

template <class Support>
void bogd(Support& support, const Example& x, const LearnerSpec& spec) {
    support.scale(1 - spec.eta * spec.regularization);
    const double step = x.regression ? x.residual : (x.agreement <= 1 ? x.direction : 0);
    if (step == 0) return;
    if (support.full()) support.drop(0);
    support.add(spec.eta * x.weight * step);
}

}  // namespace bomkl
