// What losses and weights of rows are measured in: running sizes of the model's errors and of the weights.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

namespace bomkl::automatic {

// The size of the last errors of a model of numbers.
struct ErrorSize {
    static constexpr double kFade = 0.01, kYoung = 4, kDeviation = 1.25;  // of a normal law, in mean absolute errors
    std::array<double, 2> sums{};                                         // size, and how many

    bool known() const { return sums[1] > 0; }
    double deviation() const { return sums[0] > 0 ? kDeviation * sums[0] : 1.0; }  // 1 before the first error

    void add(double error) {
        sums[0] += std::max(kFade, kYoung / (sums[1] + kYoung)) * (std::abs(error) - sums[0]);
        sums[1] += 1;
    }
};

// The mean weight of all rows.
struct MeanWeight {
    static constexpr double kHeaviest = 100;
    std::array<double, 2> sums{};  // weights, and how many

    bool known() const { return sums[1] > 0; }

    // Takes a weight; returns how many times the mean it is.
    double add(double weight) {
        sums[0] += weight;
        sums[1] += 1;
        return std::min(weight * (sums[1] / sums[0]), kHeaviest);
    }
};

}  // namespace bomkl::automatic
