// Nystrom online gradient descent: Lu et al. (2016).
//
// Its features of a row are z = A k, where k holds the kernel values with the support and A the largest eigenvectors of the
// kernel matrix of the support, over the roots of their eigenvalues. A function w.z has the coefficients A'w, so that a step
// along z adds a multiple of A'z to them: the weights w themselves are never needed.
#pragma once

#include "budget/rule.hpp"

namespace bomkl::nogd {

struct Learner : Rule {
    static constexpr const char* name = "NOGD";
    double rank, eta;

    explicit Learner(const Parameters& p) : rank(p.number("rank")), eta(p.number("eta")) {}

    int rank_of(std::int64_t budget) const { return std::max(1, int(std::floor(rank * double(budget) + 0.5))); }
    std::int64_t matrix_size(std::int64_t n, std::int64_t budget) const { return n < budget ? 0 : rank_of(budget) * n; }

    template <class Support>
    void learn(Support& support, const Example& x) const {
        const double step = eta * x.weight * (x.regression ? x.residual : (x.loss > 0 ? x.direction : 0));
        if (step == 0) return;
        if (support.full()) return support.add_features(step);
        support.add(step);
        if (support.full()) support.take_features(rank_of(support.size()));
    }
};

}  // namespace bomkl::nogd
