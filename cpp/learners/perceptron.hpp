// Rosenblatt (1958).
#pragma once

#include "rule.hpp"

namespace bomkl {

template <class Support>
void perceptron(Support& support, const Example& x, const LearnerSpec&) {
    if (x.agreement <= 0) support.insert(x.weight * x.direction);
}

}  // namespace bomkl
