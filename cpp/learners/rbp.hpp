// Random budget perceptron: Cavallanti et al. (2007).
#pragma once

#include "budget/rule.hpp"

namespace bomkl::rbp {

struct Learner : Rule {
    static constexpr const char* name = "RBP";
    static constexpr bool reads_values = false;
    static constexpr Looks looks = Looks::at_sign;

    explicit Learner(const Parameters&) {}

    template <class Support>
    void learn(Support& support, const Example& x) const {
        if (x.agreement > 0) return;
        if (support.full()) support.drop(int(x.draw(Purpose::victim) * support.size()));
        support.add(x.weight * x.direction);
    }
};

}  // namespace bomkl::rbp
