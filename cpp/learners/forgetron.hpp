// Self-tuned Forgetron: Dekel, Shalev-Shwartz and Singer (2005).
#pragma once

#include "budget/rule.hpp"

namespace bomkl::forgetron {

// The largest phi in (0, 1] with a phi^2 + b phi + q <= 0, where b > 0 and q < 0. May it grow, then the smallest phi > 1 where
// the inequality holds again, if there is one.
inline double shrink(double a, double b, double q, bool may_grow) {
    if (a + b + q <= 0) return 1;
    if (a == 0) return -q / b;
    const double root = std::sqrt(b * b - 4 * a * q);
    if (std::isinf(root)) return std::sqrt(-q) / std::sqrt(a);  // beside such an a and q, b is nothing
    const double phi = (may_grow && a < 0 ? -b - root : -b + root) / (2 * a);
    return phi > 0 ? phi : -q / b;  // beside such a b, a is nothing
}

// Kernel values and what they sum up to may be close to the largest number; the damage has to stay one.
inline constexpr double kLargest = 1e300;

struct Learner : Rule {
    static constexpr const char* name = "Forgetron";
    static constexpr bool reads_values = false;
    static constexpr Looks looks = Looks::at_sign;
    bool may_grow;

    explicit Learner(const Parameters& p) : may_grow(p.flag("may_grow")) {}

    template <class Support>
    void learn(Support& support, const Example& x) const {
        if (x.agreement > 0) return;
        const bool over_budget = support.full();
        support.add(x.weight * x.direction);
        auto& progress = support.forgetron_progress();
        progress.mistakes += 1;
        if (!over_budget) return;
        const double sigma = std::fabs(support.coef(0));
        const double mu = std::copysign(1.0, support.coef(0)) * support.score_of_oldest();
        const double a = std::clamp(sigma * sigma - 2 * sigma * mu, -kLargest, kLargest), b = 2 * sigma;
        // the damage never exceeds 15/32 of the mistakes before, but for the rounding of numbers that are huge
        const double q = std::min(progress.damage - 15.0 / 32.0 * progress.mistakes, -0.25);
        const double phi = shrink(a, b, q, may_grow);
        support.scale(phi);
        progress.damage = std::clamp(progress.damage + (a * phi * phi + b * phi), -kLargest, kLargest);
        support.drop(0);
    }
};

}  // namespace bomkl::forgetron
