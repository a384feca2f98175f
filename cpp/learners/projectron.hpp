// Projectron and Projectron++: Orabona, Keshet and Caputo (2009).
#pragma once

#include "budget/rule.hpp"

namespace bomkl::projectron {

struct Learner : Rule {
    static constexpr const char* name = "Projectron";
    double threshold;
    bool margin_updates;

    explicit Learner(const Parameters& p) : threshold(p.number("threshold")), margin_updates(p.flag("margin_updates")) {}

    std::int64_t matrix_size(std::int64_t n, std::int64_t /* budget */) const { return n * n; }

    template <class Support>
    void learn(Support& support, const Example& x) const {
        const bool mistake = x.agreement <= 0;
        if (!mistake && !(margin_updates && x.loss > 0)) return;
        if (support.size() == 0) {
            // a row of zero length is the zero function: there is nothing to add
            if (mistake && support.self_value() > 0) support.add_independent(x.weight * x.direction);
            return;
        }
        const auto [squared_distance, squared_length] = support.project();
        if (mistake) {
            if (support.full() || squared_distance <= threshold * threshold)
                support.add_projection(x.weight * x.direction);
            else
                support.add_independent(x.weight * x.direction);
            return;
        }
        const double room = x.loss - std::sqrt(squared_distance) / threshold;
        if (room > 0 && squared_length > 0)
            support.add_projection(x.weight * x.direction *
                                   std::min({x.loss / squared_length, 2 * room / squared_length, 1.0}));
    }
};

}  // namespace bomkl::projectron
