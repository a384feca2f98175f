// Tasks of Auto models, and the losses and errors of scores.
#pragma once

#include <algorithm>
#include <cmath>

namespace bomkl::automatic {

enum class Task { binary, multiclass, squared, huber };

inline bool is_regression(Task task) { return task == Task::squared || task == Task::huber; }
inline constexpr double kHuber = 1.0;  // where Huber's loss turns linear, in units of the scaled target

// Predictive means: probabilities of the classes, or the prediction itself.
inline void means(const double* f, int outputs, Task task, double* p) {
    if (is_regression(task)) {
        std::copy_n(f, outputs, p);
    } else if (task == Task::binary) {
        p[0] = 1 / (1 + std::exp(-std::clamp(f[0], -15.0, 15.0)));
    } else {
        const double top = *std::max_element(f, f + outputs);
        double total = 0;
        for (int k = 0; k < outputs; ++k) total += p[k] = std::exp(std::max(f[k] - top, -15.0));
        for (int k = 0; k < outputs; ++k) p[k] /= total;
    }
}

// The inverse of `means`: log odds, log probabilities, or the prediction itself.
inline void scores_of_means(const double* p, int outputs, Task task, double* f) {
    constexpr double tiny = 1e-12;
    if (is_regression(task))
        std::copy_n(p, outputs, f);
    else if (task == Task::binary)
        f[0] = std::log(std::max(p[0], tiny) / std::max(1 - p[0], tiny));
    else
        for (int k = 0; k < outputs; ++k) f[k] = std::log(std::max(p[k], tiny));
}

inline constexpr double kMostLoss = 10.0;  // of numbers: one outlier must not decide between components for ever

inline double point_loss(const double* f, const double* y, int outputs, Task task) {
    if (is_regression(task)) {
        const double r = std::abs(f[0] - y[0]);
        if (task == Task::huber && r > kHuber) return std::min(kHuber * (r - 0.5 * kHuber), kMostLoss);
        return std::min(0.5 * r * r, kMostLoss);
    }
    if (task == Task::binary) {
        const double s = std::clamp(f[0], -15.0, 15.0);
        return y[0] > 0.5 ? std::log1p(std::exp(-s)) : std::log1p(std::exp(s));
    }
    const double top = *std::max_element(f, f + outputs);
    double total = 0, own = 0;
    for (int k = 0; k < outputs; ++k) {
        const double relative = std::max(f[k] - top, -15.0);
        total += std::exp(relative);
        if (y[k] > 0.5) own = relative;
    }
    return std::log(total) - own;
}

// A loss in a unit that is smaller than that of the scores, by this factor of squares.
inline double sharper(double loss, double sharpness) { return sharpness > 1 ? std::min(sharpness * loss, kMostLoss) : loss; }

inline constexpr double kLargestInput = 1e150;  // larger numbers of rows are taken as this: their squares still have a sum
inline constexpr double kLargestError = 1e140;  // larger ones count as this, so that sums of their squares are numbers

// 0 or 1 for classes (a score of zero is a mistake), the squared error for numbers.
inline double point_error(const double* f, const double* y, int outputs, Task task) {
    if (is_regression(task)) {
        const double error = std::min(std::abs(f[0] - y[0]), kLargestError);
        return error * error;
    }
    if (task == Task::binary) return (y[0] > 0.5 ? f[0] : -f[0]) <= 0 ? 1 : 0;
    const auto own = std::max_element(y, y + outputs) - y;
    return std::max_element(f, f + outputs) - f != own ? 1 : 0;
}

}  // namespace bomkl::automatic
