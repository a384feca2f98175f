// Rosenblatt (1958).
#pragma once

#include "budget/rule.hpp"

namespace bomkl::perceptron {

struct Learner : Rule {
    static constexpr const char* name = "Perceptron";
    static constexpr bool only_adds = true;

    explicit Learner(const Parameters&) {}

    template <class Support>
    void learn(Support& support, const Example& x) const {
        if (x.agreement <= 0) support.insert(x.weight * x.direction);
    }
};

}  // namespace bomkl::perceptron
