// Budget passive-aggressive learning, simple variant: Wang and Vucetic (2010).
//
// With only the new row's coefficient free, dropping row r costs coef_r^2 (k_rr - k_rt^2 / k_tt) and leaves the score of the
// new row as it was, so the step does not depend on r and the victim is the cheapest row (see Support::insert).
#pragma once

#include "pa.hpp"

namespace bomkl {

template <class Support>
void bpas(Support& support, const Example& x, const LearnerSpec& spec) {
    pa(support, x, spec);
}

}  // namespace bomkl
