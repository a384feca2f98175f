// What an update rule sees of the row it learns, and the parameters of all rules.
//
// A rule is a free function of (Support&, const Example&, const LearnerSpec&). Support is one kernel's expansion, with
// size, full, add, replace, drop, scale, and the kernel values between the row and every support row.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace bomkl {

enum class LearnerKind { perceptron, pa, spa, rbp, forgetron, bogd, bpas, projectron };

struct LearnerSpec {
    LearnerKind kind = LearnerKind::spa;
    double eta = 0;  // the largest step: eta of SPA and BOGD, C of PA and BPAS
    double alpha = 0, beta = 0;
    double regularization = 0;
    double threshold = 0;
    bool margin_updates = false;
    bool unit_norm = false;
    bool may_grow = false;
};

struct Example {
    double direction;  // y for classification, sign(y - f) for regression
    double agreement;  // y f; a mistake is agreement <= 0
    double loss;       // hinge, or epsilon-insensitive
    double residual;   // y - f
    bool regression;
    double weight;
    double step_norm;  // what a step divides by: k(x, x), or 1
    double draw;       // uniform in [0, 1)
};

// min(largest, loss / step_norm), where a division by zero counts as infinity
inline double aggressive_step(double largest, const Example& x) {
    return x.step_norm > 0 ? std::min(largest, x.loss / x.step_norm) : largest;
}

}  // namespace bomkl
