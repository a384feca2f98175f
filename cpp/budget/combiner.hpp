// How the scores of the kernels become one. Weights decay to exp(-10^5) and less on real streams: they live in logs.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace bomkl {

enum class Loss { hinge, zero_one, epsilon_insensitive, squared };

struct CombinerSpec {
    bool hedge = true;  // false: uniform weights for ever
    Loss loss = Loss::hinge;
    double log_gamma = 0;
    double share = 0;
    bool discount_selected_only = false;
};

// Weights relative to the largest one; returns their sum.
inline double relative_weights(const double* log_weights, int m, double* out) {
    constexpr double kVanishes = -746;  // exp of it is zero, which need not be computed
    const double largest = *std::max_element(log_weights, log_weights + m);
    double total = 0;
    for (int i = 0; i < m; ++i) {
        const double difference = log_weights[i] - largest;
        out[i] = difference < kVanishes ? 0 : std::exp(difference);
        total += out[i];
    }
    return total;
}

inline double charged_loss(Loss loss, double y, double f, double epsilon) {
    switch (loss) {
        case Loss::hinge: return std::max(0.0, 1 - y * f);
        case Loss::zero_one: return y * f <= 0 ? 1 : 0;
        case Loss::epsilon_insensitive: return std::max(0.0, std::fabs(y - f) - epsilon);
        case Loss::squared: return (y - f) * (y - f);
    }
    return 0;
}

// Fixed share: a part of all weight is dealt out evenly.
inline void share_weights(double* log_weights, int m, double share, std::vector<double>& relative) {
    relative.resize(m);
    const double total = relative_weights(log_weights, m, relative.data());
    for (int i = 0; i < m; ++i) log_weights[i] = std::log((1 - share) * (relative[i] / total) + share / m);
}

}  // namespace bomkl
