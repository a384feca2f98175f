// The linear part of the zero-tuning learner for very wide rows: AdaGrad with implicit steps on the non-zeros of a row.
//
// A full covariance of d columns takes d^2 numbers. Here a column has one sum of squared gradients S, shared by all outputs,
// and one weight for each output; rows and columns that are zero cost nothing. The step of a row goes along its gradient, as
// far as the loss after the step asks for, so that no row, scale or weight can make it diverge.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "auto/losses.hpp"

namespace bomkl::automatic {

// Rows as their non-zeros: row t has those from starts[t] to starts[t + 1].
struct NonZeros {
    const std::int64_t* starts;
    const std::int32_t* places;  // of a column in the arrays of the model; -1 where it has none yet
    const double* values;
};

struct WideLinear {
    int rates, outputs;
    std::size_t columns;
    const double* rate;  // (rates) step sizes
    float* w;            // (rates, columns, outputs)
    double* S;           // (rates, columns) sums of squared gradients, divided by fade
    double* bias;        // (rates, outputs)
    double* bias_sum;    // (rates)
    double* active;      // (2) non-zeros, constants included, and rows so far
    double* fade;        // (1) forget^(rows since S was last multiplied by it)
};

inline constexpr double kLeastGradient = 1e-3;  // squared; steps do not grow without bound where all gradients were tiny

inline void wide_score(const WideLinear& m, const NonZeros& rows, std::size_t t, int r, double* f) {
    const float* w = m.w + std::size_t(r) * m.columns * m.outputs;
    std::copy_n(m.bias + std::size_t(r) * m.outputs, m.outputs, f);
    for (std::int64_t e = rows.starts[t]; e < rows.starts[t + 1]; ++e) {
        if (rows.places[e] < 0) continue;
        const float* own = w + std::size_t(rows.places[e]) * m.outputs;
        for (int k = 0; k < m.outputs; ++k) f[k] += double(own[k]) * rows.values[e];
    }
}

// The part of a step along the gradient `a` that the gradient after it still asks for: the t in [0, 1] where
// gradient(f + t reach a) = t a, for several classes in the component of the row's own class.
inline double implicit_part(const double* f, const double* y, const double* a, double reach, int outputs, Task task, double* g,
                            double* p) {
    if (is_regression(task)) return a[0] == 0 ? 1.0 : std::min(1.0, (y[0] - f[0]) / (a[0] * (1 + reach)));
    const auto own = task == Task::binary ? 0 : std::max_element(y, y + outputs) - y;
    double low = 0, high = 1;
    for (int round = 0; round < 20; ++round) {
        const double middle = 0.5 * (low + high);
        for (int k = 0; k < outputs; ++k) g[k] = f[k] + middle * reach * a[k];
        means(g, outputs, task, p);
        (std::abs(y[own] - p[own]) > middle * std::abs(a[own]) ? low : high) = middle;
    }
    return low;
}

// Learns row t by the step size of number r; f are its scores.
inline void wide_learn(WideLinear& m, const NonZeros& rows, std::size_t t, int r, const double* f, const double* y,
                       double weight, Task task, double* a, double* g, double* p) {
    float* w = m.w + std::size_t(r) * m.columns * m.outputs;
    double* S = m.S + std::size_t(r) * m.columns;
    means(f, m.outputs, task, p);
    double size = 0;
    for (int k = 0; k < m.outputs; ++k) {
        a[k] = y[k] - p[k];
        if (task == Task::huber) a[k] = std::clamp(a[k], -kHuber, kHuber);
        size += a[k] * a[k];
    }
    const double rate = m.rate[r] * std::sqrt(m.active[1] / m.active[0]), fade = m.fade[0];
    const auto pace = [&](double sum, double squared) {
        return rate / std::sqrt(std::max(sum * fade + kLeastGradient * squared, 1e-300));
    };
    m.bias_sum[r] += weight * size / fade;
    double reach = pace(m.bias_sum[r], 1.0);
    for (std::int64_t e = rows.starts[t]; e < rows.starts[t + 1]; ++e) {
        const double squared = rows.values[e] * rows.values[e];
        double& sum = S[rows.places[e]];
        sum += weight * size * squared / fade;
        reach += squared * pace(sum, squared);
    }
    const double part = weight * implicit_part(f, y, a, weight * reach, m.outputs, task, g, p);
    for (int k = 0; k < m.outputs; ++k) m.bias[std::size_t(r) * m.outputs + k] += part * pace(m.bias_sum[r], 1.0) * a[k];
    for (std::int64_t e = rows.starts[t]; e < rows.starts[t + 1]; ++e) {
        const double value = rows.values[e], step = part * value * pace(S[rows.places[e]], value * value);
        float* own = w + std::size_t(rows.places[e]) * m.outputs;
        for (int k = 0; k < m.outputs; ++k) own[k] = float(own[k] + step * a[k]);
    }
}

// Scores (n, rates, outputs) of rows, each just before it is learned.
inline void wide_rows(WideLinear& m, const NonZeros& rows, const double* y, const double* weight, std::size_t n, Task task,
                      double forget, double* scores) {
    constexpr double faded = 1e-100;
    std::vector<double> a(m.outputs), g(m.outputs), p(m.outputs);
    for (std::size_t t = 0; t < n; ++t) {
        m.active[0] += double(rows.starts[t + 1] - rows.starts[t]) + 1;
        m.active[1] += 1;
        m.fade[0] *= forget;
        if (m.fade[0] < faded) {
            for (std::size_t i = 0; i < std::size_t(m.rates) * m.columns; ++i) m.S[i] *= m.fade[0];
            for (int r = 0; r < m.rates; ++r) m.bias_sum[r] *= m.fade[0];
            m.fade[0] = 1;
        }
        for (int r = 0; r < m.rates; ++r) {
            double* f = scores + (t * m.rates + r) * m.outputs;
            wide_score(m, rows, t, r, f);
            wide_learn(m, rows, t, r, f, y + t * m.outputs, weight[t], task, a.data(), g.data(), p.data());
        }
    }
}

// A mix of 64 bits in which every input bit changes every output bit (the finaliser of SplitMix64).
inline std::uint64_t mixed(std::uint64_t z) {
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// Count sketch: each column goes, with a random sign, to one of `width` columns. Inner products and distances are kept
// in expectation, with a variance of about their square / width.
inline void sketch_rows(const std::int64_t* starts, const std::int32_t* columns, const double* values, std::size_t n,
                        std::uint64_t seed, std::size_t width, double* out) {
    std::fill_n(out, n * width, 0.0);
    for (std::size_t t = 0; t < n; ++t)
        for (std::int64_t e = starts[t]; e < starts[t + 1]; ++e) {
            const std::uint64_t random = mixed(seed ^ mixed(std::uint64_t(columns[e])));
            out[t * width + (random >> 1) % width] += random & 1 ? values[e] : -values[e];
        }
}

}  // namespace bomkl::automatic
