// The learned combination of the components' scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "auto/components/losses.hpp"

namespace bomkl::automatic {

inline constexpr double kClip = 6.0;  // component scores beyond it say no more to a stack

// Newton stacks (w, P), a Hedge mixture of the components (weights) and Hedge over all of those (log_final).
struct Combination {
    int components, stacks;
    double* w;          // (stacks, components)
    double* P;          // (stacks, components, components)
    double* weights;    // (components)
    double* log_final;  // (stacks + 1)
    double share;
};

struct CombinationState {  // the same with memory of its own, and the losses and errors that the components have had
    int components, stacks;
    double share;
    std::vector<double> w, P, weights, log_final, loss_sum, error_sum;

    Combination view() { return {components, stacks, w.data(), P.data(), weights.data(), log_final.data(), share}; }
};

// Scores of several classes, (rows, outputs), with mean zero.
inline void centre_scores(double* S, std::size_t rows, int outputs) {
    for (std::size_t i = 0; i < rows; ++i) {
        double total = 0;
        for (int k = 0; k < outputs; ++k) total += S[i * outputs + k];
        for (int k = 0; k < outputs; ++k) S[i * outputs + k] -= total / outputs;
    }
}

// Whether component i says what the one before it says, as experts that sleep do.
inline bool repeats(const double* S, int i, int outputs) {
    const double* own = S + std::size_t(i) * outputs;
    return i > 0 && std::equal(own, own + outputs, own - outputs);
}

class Combiner {
public:
    Combiner(Combination parts, int outputs, Task task)
        : c_(parts), outputs_(outputs), task_(task), clipped_(std::size_t(parts.components) * outputs),
          f_(std::size_t(parts.stacks + 1) * outputs), p_(outputs), mix_(outputs), final_(parts.stacks + 1),
          loss_(parts.components), x_(parts.components), v_(parts.components), gradient_(parts.components),
          mean_(parts.components) {}

    // S (components, outputs): scores of one row, for several classes with mean zero. out (outputs).
    void score(const double* S, double* out) {
        for (std::size_t i = 0; i < clipped_.size(); ++i) clipped_[i] = std::clamp(S[i], -kClip, kClip);
        std::fill(f_.begin(), f_.end(), 0.0);
        for (int j = 0; j < c_.stacks; ++j)
            for (int i = 0; i < c_.components; ++i)
                for (int k = 0; k < outputs_; ++k) f(j)[k] += c_.w[j * c_.components + i] * clipped_[i * outputs_ + k];
        std::fill(mix_.begin(), mix_.end(), 0.0);
        for (int i = 0; i < c_.components; ++i) {
            if (!repeats(S, i, outputs_)) means(S + std::size_t(i) * outputs_, outputs_, task_, p_.data());
            for (int k = 0; k < outputs_; ++k) mix_[k] += c_.weights[i] * p_[k];
        }
        scores_of_means(mix_.data(), outputs_, task_, f(c_.stacks));
        shares(c_.log_final, c_.stacks + 1, final_.data());
        std::fill(mix_.begin(), mix_.end(), 0.0);
        for (int j = 0; j <= c_.stacks; ++j) {
            means(f(j), outputs_, task_, p_.data());
            for (int k = 0; k < outputs_; ++k) mix_[k] += final_[j] * p_[k];
        }
        scores_of_means(mix_.data(), outputs_, task_, out);
    }

    // Learns the row that `score` was called with last. Hedge takes losses in the unit that `sharpness` says.
    void learn(const double* S, const double* y, double weight, double* loss_sum, double* error_sum, double sharpness = 1) {
        const int m = c_.components, all = c_.stacks + 1;
        for (int j = 0; j < all; ++j) c_.log_final[j] -= weight * sharper(point_loss(f(j), y, outputs_, task_), sharpness);
        shares(c_.log_final, all, final_.data());
        for (int j = 0; j < all; ++j) c_.log_final[j] = std::log((1 - c_.share) * final_[j] + c_.share / all);

        for (int i = 0; i < m; ++i) {
            loss_[i] = repeats(S, i, outputs_) ? loss_[i - 1] : point_loss(S + std::size_t(i) * outputs_, y, outputs_, task_);
            loss_sum[i] += weight * loss_[i];
            error_sum[i] += point_error(S + std::size_t(i) * outputs_, y, outputs_, task_);
        }
        const double best = *std::min_element(loss_.begin(), loss_.end());
        double total = 0;
        for (int i = 0; i < m; ++i)
            total += c_.weights[i] *= std::exp(weight * (sharper(best, sharpness) - sharper(loss_[i], sharpness)));
        for (int i = 0; i < m; ++i) c_.weights[i] = (1 - c_.share) * c_.weights[i] / total + c_.share / m;
        for (int j = 0; j < c_.stacks; ++j) learn_stack(j, y, weight);
    }

    // What the row that `score` was called with last says to stack j: its pull on the weights is added to `gradient`, its
    // curvature is one rank-one term, h x x', per output.
    template <class Term>
    void stack_terms(int j, const double* y, double weight, double* gradient, Term&& term) {
        const int m = c_.components;
        means(f(j), outputs_, task_, p_.data());
        std::fill(mean_.begin(), mean_.end(), 0.0);
        for (int k = 0; k < outputs_; ++k) {
            double residual = y[k] - p_[k];
            if (task_ == Task::huber) residual = std::clamp(residual, -kHuber, kHuber);
            for (int i = 0; i < m; ++i) {
                mean_[i] += p_[k] * clipped_[i * outputs_ + k];
                gradient[i] += weight * residual * clipped_[i * outputs_ + k];
            }
        }
        for (int k = 0; k < outputs_; ++k) {
            double h = weight;
            if (task_ == Task::binary) h *= std::max(p_[k] * (1 - p_[k]), 1e-4);
            if (task_ == Task::multiclass) h *= p_[k];
            if (task_ == Task::huber) h *= kHuber / std::max(std::abs(y[k] - p_[k]), kHuber);
            for (int i = 0; i < m; ++i) x_[i] = clipped_[i * outputs_ + k] - (task_ == Task::multiclass ? mean_[i] : 0.0);
            term(x_.data(), h);
        }
    }

    // Losses of the components on the row learned last.
    const std::vector<double>& losses() const { return loss_; }

    // Scores by stack j of the row that `score` was called with last; those of the mixture come after the stacks.
    const double* candidate(int j) { return f(j); }

private:
    double* f(int j) { return f_.data() + std::size_t(j) * outputs_; }

    static void shares(const double* log_weights, int n, double* out) {
        const double top = *std::max_element(log_weights, log_weights + n);
        double total = 0;
        for (int j = 0; j < n; ++j) total += out[j] = std::exp(log_weights[j] - top);
        for (int j = 0; j < n; ++j) out[j] /= total;
    }

    void learn_stack(int j, const double* y, double weight) {
        const int m = c_.components;
        double* P = c_.P + std::size_t(j) * m * m;
        std::fill(gradient_.begin(), gradient_.end(), 0.0);
        stack_terms(j, y, weight, gradient_.data(), [&](const double* x, double h) {
            double q = 0;
            for (int i = 0; i < m; ++i) {
                v_[i] = 0;
                for (int l = 0; l < m; ++l) v_[i] += P[i * m + l] * x[l];
                q += v_[i] * x[i];
            }
            const double shrink = h / (1 + h * q);
            for (int i = 0; i < m; ++i)  // symmetric to the bit: see close_block
                for (int l = 0; l <= i; ++l) P[i * m + l] = P[l * m + i] = P[i * m + l] - shrink * v_[i] * v_[l];
        });
        for (int i = 0; i < m; ++i)
            for (int l = 0; l < m; ++l) c_.w[j * m + i] += P[i * m + l] * gradient_[l];
    }

    Combination c_;
    int outputs_;
    Task task_;
    std::vector<double> clipped_, f_, p_, mix_, final_, loss_, x_, v_, gradient_, mean_;
};

}  // namespace bomkl::automatic
