// Passive-aggressive learning, PA-I: Crammer et al. (2006).
#pragma once

#include "budget/rule.hpp"

namespace bomkl::pa {

struct Learner : Rule {
    static constexpr const char* name = "PA";
    static constexpr bool only_adds = true;
    double C;  // the largest step

    explicit Learner(const Parameters& p) : C(p.number("C")) {}

    template <class Support>
    void learn(Support& support, const Example& x) const {
        if (x.loss > 0) support.insert(aggressive_step(C * x.weight, x) * x.direction);
    }
};

}  // namespace bomkl::pa
