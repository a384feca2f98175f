// What joins experts to a model, which is the first of them: a combination, and a mixture that is the last of the experts.
//
// Both begin with the model alone. The weights of the mixture move fast, where those of the combination are for good.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "auto/components/combination.hpp"
#include "auto/drift/drift_group.hpp"

namespace bomkl::automatic {

class ExpertStack {
public:
    explicit ExpertStack(int experts)
        : combination_(std::make_shared<CombinationState>(even_combination(experts))), mixture_(experts - 1, 0.0) {
        std::fill(combination_->w.begin(), combination_->w.end(), 0.0);
        combination_->w[0] = combination_->w[experts] = 1;
        std::fill(combination_->weights.begin(), combination_->weights.end(), 0.0);
        combination_->weights[0] = mixture_[0] = 1;
        combination_->log_final = {-1, -1, 0};  // stacks do not see beyond log odds of 6, the mixture does
    }

    std::shared_ptr<CombinationState>& combination() { return combination_; }
    const CombinationState& combination() const { return *combination_; }
    std::vector<double>& mixture() { return mixture_; }
    void fork() { combination_ = std::make_shared<CombinationState>(*combination_); }
    Combiner combiner(int outputs, Task task) const { return Combiner(combination_->view(), outputs, task); }

    // The mixture of the scores S of all others.
    void mix(const double* S, int outputs, Task task, double* out) const {
        static thread_local std::vector<double> p, mean;
        p.resize(outputs);
        mean.assign(outputs, 0.0);
        for (std::size_t i = 0; i < mixture_.size(); ++i) {
            if (!repeats(S, int(i), outputs)) means(S + i * outputs, outputs, task, p.data());
            for (int k = 0; k < outputs; ++k) mean[k] += mixture_[i] * p[k];
        }
        scores_of_means(mean.data(), outputs, task, out);
        if (task == Task::multiclass) centre_scores(out, 1, outputs);
    }

    // Learns the row that a combiner was called with last. Losses count in the unit that `sharpness` says.
    void learn(Combiner& combiner, const double* S, const double* target, double weight, double sharpness) {
        combiner.learn(S, target, weight, combination_->loss_sum.data(), combination_->error_sum.data(), sharpness);
        const std::vector<double>& losses = combiner.losses();
        const double best = sharper(*std::min_element(losses.begin(), losses.end() - 1), sharpness);
        double total = 0;
        for (std::size_t i = 0; i < mixture_.size(); ++i)
            total += mixture_[i] *= std::exp(weight * (best - sharper(losses[i], sharpness)));
        for (double& each : mixture_) each = (1 - kShare) * each / total + kShare / double(mixture_.size());
    }

    // An expert that slept said what the model said, and has weight for that. The model gets it before the expert speaks for
    // itself; all say together what they said before.
    void give_back(std::size_t expert) {
        const auto give = [&](double* weights) { weights[0] += std::exchange(weights[expert], 0.0); };
        for (int j = 0; j < combination_->stacks; ++j) give(combination_->w.data() + j * combination_->components);
        give(combination_->weights.data());
        give(mixture_.data());
    }

    // Weights of all experts in the combination: not negative, sum 1.
    std::vector<double> influence() const {
        const CombinationState& c = *combination_;
        const int m = c.components;
        std::vector<double> out(m, 0.0);
        double top = *std::max_element(c.log_final.begin(), c.log_final.end()), total = 0;
        for (int j = 0; j <= c.stacks; ++j) total += std::exp(c.log_final[j] - top);
        for (int j = 0; j <= c.stacks; ++j) {
            const double share = std::exp(c.log_final[j] - top) / total;
            double sizes = 0;
            const auto part = [&](int i) { return j < c.stacks ? std::abs(c.w[j * m + i]) : c.weights[i]; };
            for (int i = 0; i < m; ++i) sizes += part(i);
            for (int i = 0; i < m; ++i) out[i] += share * part(i) / std::max(sizes, 1e-300);
        }
        return out;
    }

private:
    static constexpr double kShare = 0.02;  // of the mixture, spread evenly at every row

    std::shared_ptr<CombinationState> combination_;
    std::vector<double> mixture_;  // weights, sum 1
};

}  // namespace bomkl::automatic
