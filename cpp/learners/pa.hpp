// Passive-aggressive learning, PA-I: Crammer et al. (2006).
#pragma once

#include "rule.hpp"

namespace bomkl {

template <class Support>
void pa(Support& support, const Example& x, const LearnerSpec& spec) {
    if (x.loss > 0) support.insert(aggressive_step(spec.eta * x.weight, x) * x.direction);
}

}  // namespace bomkl
