// The model of a learner between two rebuilds: rows in, scores out.
//
// A block of rows goes through the views of the columns, the features of each component, the component itself and the
// combination; a single row is a block of one. What is learned belongs to the parts, which a copy shares until they change (see
// regression.hpp): a call that fails drops its copy, and whoever reads keeps what was there.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <system_error>
#include <thread>
#include <variant>
#include <vector>

#include "auto/boosting.hpp"
#include "auto/combination.hpp"
#include "auto/curve.hpp"
#include "auto/online_forest.hpp"
#include "auto/regression.hpp"
#include "auto/stream_sample.hpp"
#include "auto/views.hpp"
#include "primitives/not_finite.hpp"

namespace bomkl::automatic {

inline constexpr std::size_t kChunk = 256;       // rows worked on at a time, up to a multiple of it
inline constexpr double kLargestInput = 1e150;   // larger numbers are taken as this: their squares still have a sum
inline constexpr double kFarthestTarget = 1e6;   // scaled targets beyond it are taken as this
inline constexpr double kUncheckedRows = 16384;  // rows after which somebody has to look at a covariance

struct Geometry {  // never changes; `keep` owns the arrays
    Columns columns;
    const double* cuts = nullptr;  // of the columns, where there are trees
    const std::int64_t* starts = nullptr;
    std::vector<float> square_means;  // of normal scores: 1, and 0 for constant columns
    std::shared_ptr<const void> keep;
};

struct FeatureMap {      // likewise
    int view;            // of its kernel; -1 for the columns themselves
    bool both, squares;  // columns: with their normal scores, and with the squares of these
    KernelMap map;
    std::vector<Depths> depths;
    int rank;  // features, the constant included
    std::shared_ptr<const void> keep;

    std::size_t width() const { return (std::size_t(rank) + kTile - 1) / kTile * kTile; }
};

struct Boosted {  // likewise
    TreeNodes trees;
    const std::int32_t* outputs;
    const float* values;
    const double* base;
    std::size_t n_outputs;
};

struct NewtonPart {
    std::shared_ptr<const FeatureMap> features;
    std::shared_ptr<Regression> regression;
    std::optional<Curve> curve;  // of the targets it learns
    double forget;
};

using Part = std::variant<NewtonPart, std::shared_ptr<const Boosted>, std::shared_ptr<OnlineForest>>;

// Views of up to 256 rows, and their codes.
class BlockViews {
public:
    BlockViews(const Geometry& geometry, const std::vector<Part>& parts) : g_(geometry) {
        for (const Part& part : parts)
            if (const auto* newton = std::get_if<NewtonPart>(&part)) {
                const FeatureMap& features = *newton->features;
                needed_[features.view < 0 ? standard : features.view] = true;
                needed_[normal] |= features.view < 0 && features.both;
            } else {
                coded_ = true;
            }
        needed_[standard] |= needed_[relevant_standard];
        needed_[normal] |= needed_[relevant_normal];
        needed_[common] |= needed_[leading];
    }

    void make(const Primitives<float>& with, const double* x, std::size_t n) {
        const std::size_t size = n * g_.columns.columns;
        x_.resize(size);
        for (std::size_t i = 0; i < size; ++i) x_[i] = std::clamp(x[i], -kLargestInput, kLargestInput);
        std::array<float*, n_views> views{};
        for (int view = 0; view < n_views; ++view)
            if (needed_[view]) {
                views_[view].resize(n * view_width(g_.columns, view));
                views[view] = views_[view].data();
            }
        block_views(with, g_.columns, x_.data(), n, views);
        if (coded_) {
            codes_.resize(size);
            code_rows(x_.data(), n, g_.columns.columns, g_.cuts, g_.starts, codes_.data());
        }
    }

    // Features of n rows from `begin` on, n at most 64: out (n, width).
    void features(const Primitives<float>& with, const FeatureMap& f, std::size_t begin, int n, std::vector<float>& values,
                  float* out) const {
        const std::size_t d = std::size_t(g_.columns.columns), width = f.width();
        if (f.view >= 0) {
            values.resize(std::size_t(n) * f.map.landmark_tiles * kTile);
            block_features(with, f.map, f.depths, views_[f.view].data() + begin * f.map.features, n, values.data(), out);
            return;
        }
        for (int t = 0; t < n; ++t) {
            float* row = out + t * width;
            const float *plain = views_[standard].data() + (begin + t) * d, *scores = views_[normal].data() + (begin + t) * d;
            std::copy_n(plain, d, row);
            if (f.both) std::copy_n(scores, d, row + d);
            if (f.squares)
                for (std::size_t j = 0; j < d; ++j) row[2 * d + j] = (scores[j] * scores[j] - g_.square_means[j]) * kRootHalf;
            row[f.rank - 1] = 1.0f;
            std::fill(row + f.rank, row + width, 0.0f);
        }
    }

    const std::uint8_t* codes() const { return codes_.data(); }

private:
    const Geometry& g_;
    std::array<bool, n_views> needed_{};
    bool coded_ = false;
    std::array<std::vector<float>, n_views> views_;
    std::vector<double> x_;
    std::vector<std::uint8_t> codes_;
};

// Scores of several classes, (n, m, outputs), with mean zero.
inline void centre_scores(double* S, std::size_t rows, int outputs) {
    for (std::size_t i = 0; i < rows; ++i) {
        double total = 0;
        for (int k = 0; k < outputs; ++k) total += S[i * outputs + k];
        for (int k = 0; k < outputs; ++k) S[i * outputs + k] -= total / outputs;
    }
}

class RowModel {
public:
    RowModel(std::shared_ptr<const Geometry> geometry, std::vector<Part> parts, std::shared_ptr<CombinationState> combination,
             std::shared_ptr<StreamSample> sample, Task task, int outputs, double centre, double spread)
        : geometry_(std::move(geometry)), parts_(std::move(parts)), combination_(std::move(combination)),
          sample_(std::move(sample)), task_(task), outputs_(outputs), centre_(centre), spread_(spread) {}

    // A copy that may learn while this one stays as it is.
    RowModel fork() const {
        RowModel made = *this;
        for (Part& part : made.parts_)
            if (auto* newton = std::get_if<NewtonPart>(&part))
                newton->regression = std::make_shared<Regression>(*newton->regression);
            else if (auto* forest = std::get_if<std::shared_ptr<OnlineForest>>(&part))
                *forest = std::make_shared<OnlineForest>(**forest);
        if (combination_) made.combination_ = std::make_shared<CombinationState>(*combination_);
        if (sample_) made.sample_ = std::make_shared<StreamSample>(*sample_);
        return made;
    }

    // Scores n rows, each just before all parts learn from it; y are class numbers or targets, `seen` rows came before. Stops
    // at a multiple of 256 rows where somebody has to look at a covariance; returns how many rows were learned.
    std::size_t learn(const Primitives<float>& with, const double* X, const double* y, const double* weight, std::size_t n,
                      std::int64_t seen, int threads, double* out) {
        Combiner combiner(combination_->view(), outputs_, task_);
        BlockViews views(*geometry_, parts_);
        std::size_t begin = 0;
        while (begin < n) {
            const std::size_t count = std::min(kChunk - std::size_t(seen) % kChunk, n - begin), m = parts_.size();
            learn_parts(with, views, X + begin * columns(), y + begin, weight + begin, count, seen, threads);
            for (std::size_t t = 0; t < count; ++t) {
                double *S = S_.data() + t * m * outputs_, *of = out + (begin + t) * outputs_;
                if (task_ == Task::multiclass) centre_scores(S, m, outputs_);
                combiner.score(S, of);
                combiner.learn(S, targets_.data() + t * outputs_, weight[begin + t], combination_->loss_sum.data(),
                               combination_->error_sum.data());
            }
            if (sample_) sample_->add(views.codes(), y + begin, weight + begin, count, std::uint64_t(seen));
            scale(out + begin * outputs_, count * outputs_);
            begin += count;
            seen += std::int64_t(count);
            if (std::size_t(seen) % kChunk == 0 && has_unchecked()) break;
        }
        return begin;
    }

    // Scores (n, parts, outputs) of up to 256 rows, each just before the parts learn from it, without the combination.
    const std::vector<double>& learn_parts(const Primitives<float>& with, BlockViews& views, const double* X, const double* y,
                                           const double* weight, std::size_t n, std::int64_t seen, int threads) {
        const std::size_t m = parts_.size();
        views.make(with, X, n);
        make_targets(y, n);
        S_.resize(n * m * outputs_);
        const auto learn_part = [&](std::size_t i, Scratch& scratch) {
            scratch.scores.resize(n * outputs_);
            learn_one_part(with, parts_[i], views, weight, n, seen, scratch);
            for (std::size_t t = 0; t < n; ++t)
                std::copy_n(scratch.scores.data() + t * outputs_, outputs_, S_.data() + (t * m + i) * outputs_);
        };
        std::vector<std::size_t> order(m);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return cost(a) > cost(b); });
        double total = 0;
        for (std::size_t i = 0; i < m; ++i) total += double(n) * cost(i) * cost(i);
        share_out(m, total, threads, [&](std::size_t i, Scratch& scratch) { learn_part(order[i], scratch); });
        return S_;
    }

    // Makes what `score` reads, which several threads may then do at the same time.
    void prepare() const {
        for (const Part& part : parts_)
            if (const auto* newton = std::get_if<NewtonPart>(&part)) newton->regression->means();
    }

    // Scores of rows by what is known now, after `prepare`.
    void score(const Primitives<float>& with, const double* X, std::size_t n, int threads, double* out) const {
        double total = 0;
        for (std::size_t i = 0; i < parts_.size(); ++i) total += double(n) * cost(i) * cost(i);
        const std::size_t blocks = (n + kBlock - 1) / kBlock;
        share_out(blocks, total, threads, [&](std::size_t i, Scratch& scratch) {
            const std::size_t begin = i * kBlock, count = std::min<std::size_t>(kBlock, n - begin);
            score_block(with, X + begin * columns(), count, scratch, out + begin * outputs_);
        });
    }

    // Scores of one row as `learn` would give them; nobody else may learn meanwhile.
    void score_next(const Primitives<float>& with, const double* x, double* out) const {
        Scratch scratch;
        BlockViews views(*geometry_, parts_);
        views.make(with, x, 1);
        std::vector<double> S(parts_.size() * outputs_);
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            double* f = S.data() + i * outputs_;
            if (const auto* newton = std::get_if<NewtonPart>(&parts_[i])) {
                const float* F = features_of(with, *newton, views, 0, 1, scratch);
                newton->regression->score(with, F, f);
                if (newton->curve) *f = straightened(*newton->curve, *f);
            } else {
                score_trees(parts_[i], views.codes(), 1, f);
            }
        }
        combine(S.data(), 1, out);
    }

    // Scores (n, parts, outputs) of the parts by what is known now.
    void score_parts(const Primitives<float>& with, const double* X, std::size_t n, double* out) const {
        Scratch scratch;
        BlockViews views(*geometry_, parts_);
        for (std::size_t begin = 0; begin < n; begin += kBlock) {
            const std::size_t count = std::min<std::size_t>(kBlock, n - begin);
            part_scores(with, views, X + begin * columns(), count, scratch, out + begin * parts_.size() * outputs_);
        }
    }

    std::size_t columns() const { return std::size_t(geometry_->columns.columns); }
    std::size_t size() const { return parts_.size(); }
    int outputs() const { return outputs_; }
    const Geometry& geometry() const { return *geometry_; }
    std::vector<Part>& parts() { return parts_; }
    const std::shared_ptr<CombinationState>& combination() const { return combination_; }
    const std::shared_ptr<StreamSample>& sample() const { return sample_; }

    // Whether no open block has more rows than it can have after `seen` rows.
    bool fits_after(std::int64_t seen) const {
        const auto fits = [&](const auto& part) { return part.open() <= seen % kBlock; };
        return seen >= 0 && std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
                   if (const auto* newton = std::get_if<NewtonPart>(&part)) return fits(*newton->regression);
                   const auto* forest = std::get_if<std::shared_ptr<OnlineForest>>(&part);
                   return !forest || fits(**forest);
               });
    }

    bool has_unchecked() const {
        return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
            const auto* newton = std::get_if<NewtonPart>(&part);
            return newton && newton->regression->unchecked() >= kUncheckedRows;
        });
    }

private:
    struct Scratch {
        std::vector<float> values;
        Buffer<float> features;
        std::vector<double> scores, bent;
    };

    // Work of a row, about.
    double cost(std::size_t i) const {
        const auto* newton = std::get_if<NewtonPart>(&parts_[i]);
        return newton ? double(newton->regression->rank()) : 60.0;
    }

    const float* features_of(const Primitives<float>& with, const NewtonPart& part, const BlockViews& views, std::size_t begin,
                             int n, Scratch& scratch) const {
        scratch.features.at_least(n * part.features->width());
        views.features(with, *part.features, begin, n, scratch.values, scratch.features.data());
        return scratch.features.data();
    }

    void learn_one_part(const Primitives<float>& with, Part& part, const BlockViews& views, const double* weight, std::size_t n,
                        std::int64_t seen, Scratch& scratch) {
        double* scores = scratch.scores.data();
        if (auto* forest = std::get_if<std::shared_ptr<OnlineForest>>(&part))
            return (*forest)->learn(views.codes(), columns(), targets_.data(), weight, n, seen, scores);
        auto* newton = std::get_if<NewtonPart>(&part);
        if (!newton) return score_trees(part, views.codes(), n, scores);
        const double* y = targets_.data();
        if (newton->curve) {
            scratch.bent.resize(n);
            for (std::size_t t = 0; t < n; ++t) scratch.bent[t] = bent(*newton->curve, targets_[t]);
            y = scratch.bent.data();
        }
        Regression& regression = *newton->regression;
        const double loosen = (1 - newton->forget) * regression.rank();
        for (std::size_t begin = 0; begin < n;) {
            const std::size_t to_boundary = kBlock - (std::size_t(seen) + begin) % kBlock,
                              count = std::min(to_boundary, n - begin);
            const float* F = features_of(with, *newton, views, begin, int(count), scratch);
            regression.learn(with, F, y + begin * outputs_, weight + begin, count, task_, loosen, seen + std::int64_t(begin),
                             scores + begin * outputs_);
            begin += count;
        }
        if (newton->curve)
            for (std::size_t t = 0; t < n; ++t) scores[t] = straightened(*newton->curve, scores[t]);
    }

    void score_trees(const Part& part, const std::uint8_t* codes, std::size_t n, double* scores) const {
        if (const auto* forest = std::get_if<std::shared_ptr<OnlineForest>>(&part))
            return (*forest)->score(codes, columns(), n, scores);
        const Boosted& b = *std::get<std::shared_ptr<const Boosted>>(part);
        boosted_scores(b.trees.nodes, b.trees.roots, b.outputs, b.trees.trees, b.values, b.base, outputs_, codes, n, columns(),
                       scores);
    }

    void part_scores(const Primitives<float>& with, BlockViews& views, const double* X, std::size_t n, Scratch& scratch,
                     double* S) const {
        const std::size_t m = parts_.size();
        views.make(with, X, n);
        scratch.scores.resize(n * outputs_);
        for (std::size_t i = 0; i < m; ++i) {
            double* scores = scratch.scores.data();
            if (const auto* newton = std::get_if<NewtonPart>(&parts_[i])) {
                const Regression& regression = *newton->regression;
                const float* F = features_of(with, *newton, views, 0, int(n), scratch);
                const std::vector<double>& means = regression.means();
                for (std::size_t t = 0; t < n; ++t)
                    for (int k = 0; k < outputs_; ++k)
                        scores[t * outputs_ + k] =
                            with.dot(F + t * regression.width(), means.data() + k * regression.width(), regression.rank());
                if (newton->curve)
                    for (std::size_t t = 0; t < n; ++t) scores[t] = straightened(*newton->curve, scores[t]);
            } else {
                score_trees(parts_[i], views.codes(), n, scores);
            }
            for (std::size_t t = 0; t < n; ++t) std::copy_n(scores + t * outputs_, outputs_, S + (t * m + i) * outputs_);
        }
    }

    void score_block(const Primitives<float>& with, const double* X, std::size_t n, Scratch& scratch, double* out) const {
        BlockViews views(*geometry_, parts_);
        std::vector<double> S(n * parts_.size() * outputs_);
        part_scores(with, views, X, n, scratch, S.data());
        combine(S.data(), n, out);
    }

    void combine(double* S, std::size_t n, double* out) const {
        Combiner combiner(combination_->view(), outputs_, task_);
        const std::size_t m = parts_.size();
        if (task_ == Task::multiclass) centre_scores(S, n * m, outputs_);
        for (std::size_t t = 0; t < n; ++t) combiner.score(S + t * m * outputs_, out + t * outputs_);
        scale(out, n * outputs_);
    }

    void scale(double* out, std::size_t n) const {
        for (std::size_t i = 0; i < n; ++i) {
            out[i] = out[i] * spread_ + centre_;
            if (!std::isfinite(out[i]))
                throw NotFiniteError(
                    "A score is not finite: what was learned no longer fits into floating-point numbers. "
                    "Scale the columns and targets, or begin anew.");
        }
    }

    void make_targets(const double* y, std::size_t n) {
        targets_.assign(n * outputs_, 0.0);
        for (std::size_t t = 0; t < n; ++t)
            if (is_regression(task_))
                targets_[t] = std::clamp((y[t] - centre_) / spread_, -kFarthestTarget, kFarthestTarget);
            else if (task_ == Task::binary)
                targets_[t] = y[t];
            else if (y[t] >= 0 && y[t] < outputs_)
                targets_[t * outputs_ + std::size_t(y[t])] = 1;
            else
                throw std::invalid_argument("there is no such class");
    }

    // work(i, scratch) for i from 0 to n - 1, on several threads where `operations` are many. What any throws, the caller gets.
    template <class Work>
    static void share_out(std::size_t n, double operations, int threads, Work&& work) {
        constexpr double kFewOperations = 4e6;
        if (threads <= 1 || n <= 1 || operations < kFewOperations) {
            static thread_local Scratch scratch;
            for (std::size_t i = 0; i < n; ++i) work(i, scratch);
            return;
        }
        std::atomic<std::size_t> next = 0;
        std::atomic_flag failed;
        std::exception_ptr failure;
        const auto take = [&]() noexcept {
            try {
                Scratch scratch;
                for (std::size_t i; (i = next.fetch_add(1)) < n;) work(i, scratch);
            } catch (...) {
                next = n;
                if (!failed.test_and_set()) failure = std::current_exception();
            }
        };
        {
            std::vector<std::jthread> others;
            try {
                for (std::size_t i = 1; i < std::min(n, std::size_t(threads)); ++i) others.emplace_back(take);
            } catch (const std::system_error&) {  // no more threads to be had: those that are there do the work
            } catch (const std::bad_alloc&) {
            }
            take();
        }
        if (failure) std::rethrow_exception(failure);
    }

    std::shared_ptr<const Geometry> geometry_;
    std::vector<Part> parts_;
    std::shared_ptr<CombinationState> combination_;
    std::shared_ptr<StreamSample> sample_;
    Task task_;
    int outputs_;
    double centre_, spread_;  // of numbers
    std::vector<double> targets_, S_;
};

}  // namespace bomkl::automatic
