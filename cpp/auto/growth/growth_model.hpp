// What grows beside a learner: a sample of coded rows, trees grown from it, a network that replays it, and a stack of all.
//
// Whatever learns from several rows does so at multiples of 32 rows, by their absolute numbers, so the split of rows into calls
// changes nothing. While there are neither trees nor a network, scores are those of the learner within.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "auto/growth/growth_stack.hpp"
#include "auto/growth/hash_sample.hpp"
#include "auto/growth/network.hpp"
#include "auto/rows/row_model.hpp"

namespace bomkl::automatic {

struct GrowthCoding {  // never changes
    std::vector<double> cuts;
    std::vector<std::int64_t> starts;
    double centre, spread;  // of targets
};

// What an ingredient added on the rows of a window: sums of weights, gains, squared gains and losses without it.
using Gains = std::array<double, 4>;

class GrowthModel {
public:
    static constexpr int kBlock = Network::kNewRows;
    enum Input { within, trees, network, constant };

    GrowthModel(std::shared_ptr<const GrowthCoding> coding, int outputs, Task task, std::uint64_t seed)
        : coding_(std::move(coding)), outputs_(outputs), task_(task),
          sample_(coding_->starts.size() - 1, seed), open_{sample_.columns(), {}, {}, {}}, waiting_{outputs, {}, {}, {}} {}

    std::size_t columns() const { return sample_.columns(); }
    std::size_t open() const { return open_.y.size(); }  // rows since the last multiple of 32
    int outputs() const { return outputs_; }
    Task task() const { return task_; }
    HashSample& sample() { return sample_; }
    const HashSample& sample() const { return sample_; }
    bool awake() const { return trees_ || (network_ && left_ == 0); }
    std::size_t bytes() const {
        return 8 * (coding_->cuts.size() + coding_->starts.size()) + sample_.bytes() + (network_ ? network_->bytes() : 0);
    }

    void set_trees(std::shared_ptr<const Boosted> grown) {
        if (!trees_) begin(trees);
        trees_ = std::move(grown);
    }
    void drop_trees() {
        if (!trees_) return;
        trees_ = nullptr;
        end(trees);
    }
    // The network rehearses rows [from, from + left) of the sample, some at each multiple of 32, before it takes part.
    void set_network(Network made, std::size_t from, std::size_t left, std::size_t at_once) {
        restore(std::move(made), from, left, at_once);
        begin(network);
    }
    void drop_network() {
        network_.reset();
        left_ = 0;
        end(network);
    }
    // Goes on with trees or a network that took part before.
    void restore(std::shared_ptr<const Boosted> grown) { trees_ = std::move(grown); }
    void restore(Network made, std::size_t from, std::size_t left, std::size_t at_once) {
        network_ = std::move(made);
        from_ = from, left_ = left, at_once_ = at_once;
    }
    std::array<std::size_t, 3> rehearsal() const { return {from_, left_, at_once_}; }
    // A copy that may go on at the same time as this one.
    GrowthModel apart() const {
        GrowthModel made(*this);
        made.sample_ = sample_.apart();
        return made;
    }
    const std::optional<Network>& the_network() const { return network_; }
    void open_window(int input) { gains_[std::size_t(input) - 1] = {}; }
    const Gains& gains(int input) const { return gains_[std::size_t(input) - 1]; }
    const GrowthStack& stack() const { return stacks_[0]; }
    double share() const { return 1 / (1 + std::exp(-hedge_[0])); }  // of the stack, beside the learner within

    void add_class(double log_odds, std::shared_ptr<const Boosted> grown) {
        if (network_) network_->add_class(log_odds);
        trees_ = std::move(grown);
        const int before = outputs_;
        outputs_ = before == 1 ? 3 : before + 1;
        task_ = Task::multiclass;
        waiting_ = wider(waiting_, before);
    }

    // Scores rows, of which the learner within said `said`, and learns from them; `seen` rows came before.
    void learn(const Primitives<float>& with, const double* X, const double* y, const double* weight, const double* said,
               std::size_t n, std::uint64_t seen, double* out) {
        std::vector<std::uint8_t> codes(n * columns());
        code_rows(X, n, columns(), coding_->cuts.data(), coding_->starts.data(), codes.data());
        learn(with, codes.data(), y, weight, said, n, seen, out);
    }
    void learn(const Primitives<float>& with, const std::uint8_t* codes, const double* y, const double* weight,
               const double* said, std::size_t n, std::uint64_t seen, double* out) {
        const std::size_t d = columns(), K = std::size_t(outputs_);
        std::vector<double> of_trees = tree_scores(codes, n), of_network(n * K, 0.0), labels(y, y + n);
        if (is_regression(task_))
            for (double& each : labels) each = scaled(each);
        for (std::size_t done = 0; done < n;) {
            const std::size_t fresh = std::min<std::size_t>(kBlock - (seen + done) % kBlock, n - done);
            if (network_ && left_ == 0)
                network_->learn(with, {codes + done * d, labels.data() + done, weight + done, fresh, d}, seen + done, sample_,
                                of_network.data() + done * K);
            for (std::size_t t = done; t < done + fresh; ++t) {
                const double* const plain = said + t * K;
                if (awake())
                    take_part(plain, of_trees.data() + t * K, of_network.data() + t * K, labels[t], weight[t], out + t * K);
                else
                    std::copy_n(plain, K, out + t * K);
                open_.put(open_.y.size(), codes + t * d, labels[t], weight[t]);
            }
            done += fresh;
            if ((seen + done) % kBlock == 0) close(with, seen + done);
        }
    }

    // Scores of rows, of which the learner within said `said`.
    void score(const Primitives<float>& with, const double* X, const double* said, std::size_t n, double* out) const {
        const std::size_t K = std::size_t(outputs_);
        if (!awake()) {
            std::copy_n(said, n * K, out);
            return;
        }
        std::vector<double> S = inputs(with, X, said, n), f(K);
        for (std::size_t t = 0; t < n; ++t) {
            stacks_[0].score(S.data() + t * kInputs * K, outputs_, -1, f.data());
            mixed(S.data() + t * kInputs * K, f.data(), out + t * K);
        }
    }

    // What goes into the stack, (n, inputs, outputs).
    std::vector<double> inputs(const Primitives<float>& with, const double* X, const double* said, std::size_t n) const {
        const std::size_t d = columns(), K = std::size_t(outputs_);
        std::vector<std::uint8_t> codes(n * d);
        code_rows(X, n, d, coding_->cuts.data(), coding_->starts.data(), codes.data());
        std::vector<double> of_trees = tree_scores(codes.data(), n), of_network(n * K, 0.0), S(n * kInputs * K);
        if (network_ && left_ == 0) network_->score(with, codes.data(), n, of_network.data());
        for (std::size_t t = 0; t < n; ++t)
            put_inputs(said + t * K, of_trees.data() + t * K, of_network.data() + t * K, S.data() + t * kInputs * K);
        return S;
    }

    // What it is beside its coding, trees and network.
    template <class Archive>
    void archive(Archive& a) {
        const std::size_t K = std::size_t(outputs_), n = kInputs, stacks = stacks_.size();
        const Limits targets = is_regression(task_) ? kScaled : Limits{0.0, std::max(outputs_, 2) - 1.0};
        sample_.archive(a, targets);
        a.array("open_codes", open_.codes, {kAnyLength, columns()});
        const std::size_t open = open_.codes.size() / columns();
        a.require("open_codes", open < std::size_t(kBlock), "those of less than a block");
        a.array("open_y", open_.y, {open}, targets);
        a.array("open_weight", open_.weight, {open}, kSums);
        a.array("waiting_scores", waiting_.S, {kAnyLength, n, K}, kScaled);
        const std::size_t waits = waiting_.S.size() / (n * K);
        a.require("waiting_scores", waits <= open, "of no more rows than those of the open block");
        a.array("waiting_y", waiting_.y, {waits, K}, kScaled);
        a.array("waiting_weight", waiting_.weight, {waits}, kSums);
        std::vector<double> w, known, gains, hedge(hedge_.begin(), hedge_.end());
        for (const GrowthStack& each : stacks_) {
            w.insert(w.end(), each.w.begin(), each.w.end());
            known.insert(known.end(), each.known.begin(), each.known.end());
        }
        for (const Gains& each : gains_) gains.insert(gains.end(), each.begin(), each.end());
        a.array("stack_w", w, {stacks, n}, kStackWeights);
        a.array("stack_known", known, {stacks, n, n});
        a.array("gains", gains, {gains_.size(), gains_[0].size()});
        a.array("hedge", hedge, {hedge_.size()});
        if (a.saving()) return;
        for (std::size_t i = 0; i < stacks; ++i) {
            std::copy_n(w.data() + i * n, n, stacks_[i].w.begin());
            std::copy_n(known.data() + i * n * n, n * n, stacks_[i].known.begin());
        }
        for (std::size_t i = 0; i < gains_.size(); ++i) std::copy_n(gains.data() + 4 * i, 4, gains_[i].begin());
        std::copy_n(hedge.begin(), hedge_.size(), hedge_.begin());
    }

private:
    static constexpr double kClip = 10.0;       // scores beyond it say no more to the stack
    static constexpr double kShare = 2e-4;      // that the stack and the learner within give each other with every row
    static constexpr double kFade = 1.0 / 512;  // of the size of errors, the unit in which losses of numbers are compared
    static constexpr double kFarthest = 30.0;   // log odds of the stack beside the learner within

    double scaled(double y) const {
        return std::clamp((y - coding_->centre) / coding_->spread, -kFarthestTarget, kFarthestTarget);
    }

    void begin(Input input) {
        for (GrowthStack& each : stacks_) each.reset(input);
        stacks_[input] = stacks_[0];
        gains_[std::size_t(input) - 1] = {};
    }
    // Goes on with the stack that has learned without the input.
    void end(Input input) {
        stacks_[0] = stacks_[input];
        for (GrowthStack& each : stacks_) each.reset(input);
        if (!awake()) {
            stacks_ = {};
            hedge_ = {};
        }
    }

    std::vector<double> tree_scores(const std::uint8_t* codes, std::size_t n) const {
        std::vector<double> scores(n * std::size_t(outputs_), 0.0);
        if (trees_)
            boosted_scores(trees_->trees.nodes, trees_->trees.roots, trees_->outputs, std::size_t(trees_->trees.trees),
                           trees_->values, trees_->base, trees_->n_outputs, codes, n, columns(), scores.data());
        return scores;
    }

    // Scores as the stack takes them: within limits, those of several classes with mean zero.
    void put_inputs(const double* said, const double* of_trees, const double* of_network, double* S) const {
        const int K = outputs_;
        const double* const from[] = {said, of_trees, of_network};
        for (int i = 0; i < constant; ++i, S += K) {
            if (is_regression(task_)) {
                S[0] = i == within ? scaled(from[i][0]) : std::clamp(from[i][0], -kFarthestTarget, kFarthestTarget);
                continue;
            }
            double mean = 0;
            if (task_ == Task::multiclass)
                for (int k = 0; k < K; ++k) mean += from[i][k] / K;
            for (int k = 0; k < K; ++k) S[k] = std::clamp(from[i][k] - mean, -kClip, kClip);
        }
        std::fill_n(S, K, task_ == Task::multiclass ? 0.0 : 1.0);
    }

    // Mixes what the learner within and the stack expect.
    void mixed(const double* S, const double* stacked, double* out) const {
        const int K = outputs_;
        const double w = share();
        std::vector<double> p(K), q(K);
        means(S, K, task_, p.data());
        means(stacked, K, task_, q.data());
        for (int k = 0; k < K; ++k) p[k] += w * (q[k] - p[k]);
        scores_of_means(p.data(), K, task_, out);
        if (is_regression(task_)) out[0] = out[0] * coding_->spread + coding_->centre;
    }

    void take_part(const double* said, const double* of_trees, const double* of_network, double label, double weight,
                   double* out) {
        const int K = outputs_;
        std::vector<double> S(std::size_t(kInputs * K)), f(K), y(K, 0.0);
        put_inputs(said, of_trees, of_network, S.data());
        if (task_ == Task::multiclass)
            y[std::size_t(label)] = 1;
        else
            y[0] = label;
        stacks_[0].score(S.data(), K, -1, f.data());
        mixed(S.data(), f.data(), out);
        const double loss = point_loss(f.data(), y.data(), K, task_);
        hedge(point_loss(S.data(), y.data(), K, task_), loss, weight);
        for (const Input input : {trees, network}) {
            if (!takes_part(input)) continue;
            stacks_[input].score(S.data(), K, input, f.data());
            const double without = point_loss(f.data(), y.data(), K, task_), gain = without - loss;
            Gains& sums = gains_[std::size_t(input) - 1];
            sums[0] += weight;
            sums[1] += weight * gain;
            sums[2] += weight * gain * gain;
            sums[3] += weight * without;
        }
        waiting_.S.insert(waiting_.S.end(), S.begin(), S.end());
        waiting_.y.insert(waiting_.y.end(), y.begin(), y.end());
        waiting_.weight.push_back(weight);
    }

    bool takes_part(Input input) const { return input == trees ? bool(trees_) : network_ && left_ == 0; }

    // Hedge with share between the learner within and the stack, so that the one takes over at once where the other fails.
    void hedge(double plain, double stacked, double weight) {
        double gain = plain - stacked;
        if (is_regression(task_)) {
            const double least = std::min(plain, stacked);
            hedge_[1] += std::max(kFade, 1 / (hedge_[2] += 1)) * (least - hedge_[1]);
            gain = std::clamp(0.5 * gain / std::max(hedge_[1], 1e-12), -10.0, 10.0);
        }
        hedge_[0] = std::clamp(hedge_[0] + weight * gain, -kFarthest, kFarthest);
        const double w = (1 - 2 * kShare) / (1 + std::exp(-hedge_[0])) + kShare;
        hedge_[0] = std::log(w / (1 - w));
    }

    // At a multiple of 32 rows.
    void close(const Primitives<float>& with, std::uint64_t seen) {
        if (waiting_.size()) {
            stacks_[0].learn(waiting_, task_, -1);
            for (const Input input : {trees, network})
                if (takes_part(input)) stacks_[input].learn(waiting_, task_, input);
            waiting_ = {outputs_, {}, {}, {}};
        }
        if (network_ && left_ > 0) rehearse(with);
        const std::size_t n = open_.y.size();
        for (std::size_t i = 0; i < n; ++i)
            sample_.offer(seen - n + i, open_.codes.data() + i * columns(), open_.y[i], open_.weight[i]);
        open_ = {columns(), {}, {}, {}};
    }

    void rehearse(const Primitives<float>& with) {
        const std::size_t n = std::min(left_, at_once_);
        CodedRows rows{columns(), {}, {}, {}};
        for (std::size_t i = from_; i < from_ + n; ++i)
            rows.put(i - from_, sample_.codes_of(i), sample_.y_of(i), sample_.weight_of(i));
        network_->rehearse(with, {rows.codes.data(), rows.y.data(), rows.weight.data(), n, columns()});
        from_ += n;
        left_ -= n;
    }

    // Rows of two classes or more as rows of one class more.
    static StackRows wider(const StackRows& rows, int before) {
        const int K = before == 1 ? 3 : before + 1;
        StackRows out{K, {}, {}, rows.weight};
        for (std::size_t t = 0; t < rows.size(); ++t) {
            for (int i = 0; i < kInputs; ++i) {
                const double* s = rows.scores(t) + i * before;
                if (before == 1)
                    out.S.insert(out.S.end(), {i == constant ? 0 : -0.5 * s[0], i == constant ? 0 : 0.5 * s[0]});
                else
                    out.S.insert(out.S.end(), s, s + before);
                out.S.push_back(i == constant ? 0 : -kClip);
            }
            const double* y = rows.targets(t);
            if (before == 1)
                out.y.insert(out.y.end(), {1 - y[0], y[0]});
            else
                out.y.insert(out.y.end(), y, y + before);
            out.y.push_back(0);
        }
        return out;
    }

    std::shared_ptr<const GrowthCoding> coding_;
    int outputs_;
    Task task_;
    HashSample sample_;
    CodedRows open_;     // rows since the last multiple of 32
    StackRows waiting_;  // what the stacks will learn from at the next
    std::shared_ptr<const Boosted> trees_;
    std::optional<Network> network_;
    std::size_t from_ = 0, left_ = 0, at_once_ = 0;  // rows of the sample that the network rehearses
    std::array<GrowthStack, 3> stacks_;              // of all, without trees, without the network
    std::array<Gains, 2> gains_{};                   // of trees and of the network
    std::array<double, 3> hedge_{};                  // log odds of the stack, the size of errors, and rows
};

}  // namespace bomkl::automatic
