// Combines a few scores by online Newton steps that forget.
//
// A step takes a block of rows. The weights have the inverse covariance `ridge` plus what the rows told about them, of which a
// little is forgotten with every block: it is never looser than at the beginning, and symmetric as it is a sum of squares.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "auto/components/losses.hpp"

namespace bomkl::automatic {

inline constexpr int kInputs = 4;  // the learner within, trees, the network, a constant

struct StackRows {  // scores of some rows, targets as components learn them, and weights
    int outputs;
    std::vector<double> S, y, weight;  // (n, inputs, outputs), (n, outputs), (n)
    std::size_t size() const { return weight.size(); }
    const double* scores(std::size_t t) const { return S.data() + t * std::size_t(kInputs * outputs); }
    const double* targets(std::size_t t) const { return y.data() + t * std::size_t(outputs); }
};

struct GrowthStack {
    std::array<double, kInputs> w{1.0};
    std::array<double, kInputs * kInputs> known{};  // sum of squares

    // The score of a row, without one of the inputs where `without` is its number.
    void score(const double* S, int outputs, int without, double* f) const {
        for (int k = 0; k < outputs; ++k) f[k] = 0;
        for (int i = 0; i < kInputs; ++i)
            if (i != without)
                for (int k = 0; k < outputs; ++k) f[k] += w[std::size_t(i)] * S[i * outputs + k];
    }

    void learn(const StackRows& rows, Task task, int without) {
        const int K = rows.outputs;
        std::array<double, kInputs> pull{}, step{};
        std::vector<double> f(K), p(K), mean(kInputs);
        for (double& each : known) each *= kForget;
        for (std::size_t t = 0; t < rows.size(); ++t) {
            const double *S = rows.scores(t), *y = rows.targets(t);
            score(S, K, without, f.data());
            means(f.data(), K, task, p.data());
            std::fill(mean.begin(), mean.end(), 0.0);
            if (task == Task::multiclass)
                for (int i = 0; i < kInputs; ++i)
                    for (int k = 0; k < K; ++k) mean[i] += p[k] * S[i * K + k];
            for (int k = 0; k < K; ++k) {
                double residual = y[k] - p[k], h = rows.weight[t];
                if (task == Task::binary) h *= std::max(p[k] * (1 - p[k]), 0.02);
                if (task == Task::multiclass) h *= p[k];
                if (task == Task::huber) {
                    h *= kHuber / std::max(std::abs(residual), kHuber);
                    residual = std::clamp(residual, -kHuber, kHuber);
                }
                for (int i = 0; i < kInputs; ++i) {
                    if (i == without) continue;
                    pull[i] += rows.weight[t] * residual * S[i * K + k];
                    for (int l = 0; l <= i; ++l)
                        if (l != without) known[i * kInputs + l] += h * (S[i * K + k] - mean[i]) * (S[l * K + k] - mean[l]);
                }
            }
        }
        solve(pull, step);
        const double now = loss(rows, task, without, w);
        for (double size = 1; size > 0.1; size /= 2) {  // a step must not overshoot
            std::array<double, kInputs> moved = w;
            for (int i = 0; i < kInputs; ++i) moved[i] = std::clamp(w[i] + size * step[i], -kLargest, kLargest);
            if (loss(rows, task, without, moved) > now) continue;
            w = moved;
            return;
        }
    }

    // Knows nothing about an input from now on.
    void reset(int input) {
        w[std::size_t(input)] = 0;
        for (int i = 0; i < kInputs; ++i) known[i * kInputs + input] = known[input * kInputs + i] = 0;
    }

private:
    static constexpr double kForget = 0.9975, kRidge = 10.0, kLargest = 3.0;

    static double loss(const StackRows& rows, Task task, int without, const std::array<double, kInputs>& weights) {
        GrowthStack trial;
        trial.w = weights;
        std::vector<double> f(rows.outputs);
        double total = 0;
        for (std::size_t t = 0; t < rows.size(); ++t) {
            trial.score(rows.scores(t), rows.outputs, without, f.data());
            total += rows.weight[t] * point_loss(f.data(), rows.targets(t), rows.outputs, task);
        }
        return total;
    }

    // (ridge + known) step = pull, by Cholesky's factors.
    void solve(const std::array<double, kInputs>& pull, std::array<double, kInputs>& step) const {
        double L[kInputs][kInputs];
        for (int i = 0; i < kInputs; ++i)
            for (int l = 0; l <= i; ++l) {
                double sum = known[i * kInputs + l] + (i == l ? kRidge : 0);
                for (int j = 0; j < l; ++j) sum -= L[i][j] * L[l][j];
                L[i][l] = i == l ? std::sqrt(std::max(sum, 1e-9)) : sum / L[l][l];
            }
        for (int i = 0; i < kInputs; ++i) {
            step[i] = pull[i];
            for (int j = 0; j < i; ++j) step[i] -= L[i][j] * step[j];
            step[i] /= L[i][i];
        }
        for (int i = kInputs - 1; i >= 0; --i) {
            for (int j = i + 1; j < kInputs; ++j) step[i] -= L[j][i] * step[j];
            step[i] /= L[i][i];
        }
    }
};

}  // namespace bomkl::automatic
