// Budget passive-aggressive learning, simple variant: Wang and Vucetic (2010).
//
// With only the new row's coefficient free, dropping row r costs coef_r^2 (k_rr - k_rt^2 / k_tt) and leaves the score of the
// new row as it was, so the step does not depend on r and the victim is the cheapest row (see Support::insert).
//
// With unit_norm, k_rr and k_tt count as 1 (see Engine::replacement_norm). Where they are larger a replacement multiplies the
// kept coefficient each time, so it is cut off at a value no kernel of norm 1 comes near.
#pragma once

#include "budget/rule.hpp"

namespace bomkl::bpas {

constexpr double kLargestUnitCoef = 1e6;

struct Learner : Rule {
    static constexpr const char* name = "BPAS";
    double C;  // the largest step

    explicit Learner(const Parameters& p) : C(p.number("C")) { unit_norm = p.flag("unit_norm"); }

    template <class Support>
    void learn(Support& support, const Example& x) const {
        if (x.loss > 0) support.insert(aggressive_step(C * x.weight, x) * x.direction);
        if (!unit_norm || support.size() == 0) return;
        const int last = support.size() - 1;
        const double coef = support.coef(last);
        if (std::fabs(coef) <= kLargestUnitCoef) return;
        support.add(std::copysign(kLargestUnitCoef, coef));
        support.drop(last);
    }
};

}  // namespace bomkl::bpas
