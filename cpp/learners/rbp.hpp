// Random budget perceptron: Cavallanti et al. (2007).
#pragma once

#include "rule.hpp"

namespace bomkl {

template <class Support>
void rbp(Support& support, const Example& x, const LearnerSpec&) {
    if (x.agreement > 0) return;
    if (support.full()) support.drop(int(x.draw * support.size()));
    support.add(x.weight * x.direction);
}

}  // namespace bomkl
