// The model of a learner between two rebuilds: rows in, scores out.
//
// A block of rows goes through the views of the columns, the features of each component, the component itself and the
// combination; a single row is a block of one. What is learned belongs to the parts, which a copy shares until they change (see
// regression.hpp): a call that fails drops its copy, and whoever reads keeps what was there.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numeric>
#include <vector>

#include "auto/components/combination.hpp"
#include "auto/drift/drift_experts.hpp"
#include "auto/rows/model_parts.hpp"
#include "auto/rows/share_out.hpp"
#include "auto/trees/stream_sample.hpp"
#include "primitives/not_finite.hpp"

namespace bomkl::automatic {

inline constexpr std::size_t kChunk = 256;       // rows worked on at a time, up to a multiple of it
inline constexpr double kFarthestTarget = 1e6;   // scaled targets beyond it are taken as this
inline constexpr double kUncheckedRows = 16384;  // rows after which somebody has to look at a covariance

class RowModel {
public:
    RowModel(std::shared_ptr<const Geometry> geometry, std::vector<Part> parts, std::shared_ptr<CombinationState> combination,
             std::shared_ptr<StreamSample> sample, std::shared_ptr<DriftExperts> drift, Task task, int outputs, double centre,
             double spread)
        : geometry_(std::move(geometry)), parts_(std::move(parts)), combination_(std::move(combination)),
          sample_(std::move(sample)), drift_(std::move(drift)), task_(task), outputs_(outputs), centre_(centre),
          spread_(spread) {}

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
        if (drift_) made.drift_ = std::make_shared<DriftExperts>(drift_->fork());
        return made;
    }

    // Scores n rows, each just before all parts learn from it; y are class numbers or targets, `seen` rows came before. Stops
    // at a multiple of 256 rows where somebody has to look at a covariance; returns how many rows were learned.
    std::size_t learn(const Primitives<float>& with, const double* X, const double* y, const double* weight, std::size_t n,
                      std::int64_t seen, int threads, double* out) {
        Combiner combiner(combination_->view(), outputs_, task_);
        BlockViews views(*geometry_, parts_, bool(drift_));
        FirstFeatures first;
        std::size_t begin = 0;
        while (begin < n) {
            const std::size_t count = std::min(kChunk - std::size_t(seen) % kChunk, n - begin), m = parts_.size();
            const bool kept = drift_ && !drift_->resting();
            if (kept) make_room(first, count);
            learn_parts(with, views, X + begin * columns(), y + begin, weight + begin, count, seen, threads,
                        kept ? &first : nullptr);
            for (std::size_t t = 0; t < count; ++t) {
                double *S = S_.data() + t * m * outputs_, *of = out + (begin + t) * outputs_;
                if (task_ == Task::multiclass) centre_scores(S, m, outputs_);
                combiner.score(S, of);
                combiner.learn(S, targets_.data() + t * outputs_, weight[begin + t], combination_->loss_sum.data(),
                               combination_->error_sum.data());
            }
            if (sample_) sample_->add(views.codes(), y + begin, weight + begin, count, std::uint64_t(seen));
            scale(out + begin * outputs_, count * outputs_);
            if (drift_)
                drift_->learn(with, *this, first, views.standard_rows(), X + begin * columns(), y + begin, targets_.data(),
                              weight + begin, count, out + begin * outputs_);
            begin += count;
            seen += std::int64_t(count);
            if (std::size_t(seen) % kChunk == 0 && has_unchecked()) break;
        }
        return begin;
    }

    // Scores (n, parts, outputs) of up to 256 rows, each just before the parts learn from it, without the combination.
    const std::vector<double>& learn_parts(const Primitives<float>& with, BlockViews& views, const double* X, const double* y,
                                           const double* weight, std::size_t n, std::int64_t seen, int threads,
                                           FirstFeatures* first = nullptr) {
        const std::size_t m = parts_.size();
        views.make(with, X, n);
        targets_of(y, n, targets_);
        S_.resize(n * m * outputs_);
        const auto learn_part = [&](std::size_t i, Scratch& scratch) {
            scratch.scores.resize(n * outputs_);
            learn_one_part(with, parts_[i], views, weight, n, seen, scratch, first ? &first->parts[i] : nullptr);
            for (std::size_t t = 0; t < n; ++t)
                std::copy_n(scratch.scores.data() + t * outputs_, outputs_, S_.data() + (t * m + i) * outputs_);
        };
        std::vector<std::size_t> order(m);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return cost(a) > cost(b); });
        double total = 0;
        for (std::size_t i = 0; i < m; ++i) total += double(n) * cost(i) * cost(i);
        share_out<Scratch>(m, total, threads, [&](std::size_t i, Scratch& scratch) { learn_part(order[i], scratch); });
        return S_;
    }

    // Makes what `score` reads, which several threads may then do at the same time.
    void prepare() const {
        for (const Part& part : parts_)
            if (const auto* newton = std::get_if<NewtonPart>(&part)) newton->prepare();
        if (drift_) drift_->prepare();
    }

    // Scores of rows by what is known now, after `prepare`.
    void score(const Primitives<float>& with, const double* X, std::size_t n, int threads, double* out) const {
        double total = 0;
        for (std::size_t i = 0; i < parts_.size(); ++i) total += double(n) * cost(i) * cost(i);
        const std::size_t blocks = (n + kBlock - 1) / kBlock;
        share_out<Scratch>(blocks, total, threads, [&](std::size_t i, Scratch& scratch) {
            const std::size_t begin = i * kBlock, count = std::min<std::size_t>(kBlock, n - begin);
            score_block(with, X + begin * columns(), count, scratch, out + begin * outputs_);
        });
    }

    // Scores of one row as `learn` would give them; nobody else may learn meanwhile.
    void score_next(const Primitives<float>& with, const double* x, double* out) const {
        Scratch scratch;
        BlockViews views(*geometry_, parts_, bool(drift_));
        FirstFeatures first;
        const bool kept = drift_ && !drift_->resting();
        if (kept) make_room(first, 1);
        views.make(with, x, 1);
        std::vector<double> S(parts_.size() * outputs_);
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            double* f = S.data() + i * outputs_;
            if (const auto* newton = std::get_if<NewtonPart>(&parts_[i])) {
                const float* F = features_of(with, *newton, views, 0, 1, scratch);
                if (kept) keep(F, 1, newton->features->width(), 0, first.parts[i]);
                newton->regression->score(with, F, f);
                if (newton->curve) *f = straightened(*newton->curve, *f);
            } else {
                score_trees(parts_[i], views.codes(), columns(), 1, outputs_, f);
            }
        }
        combine(S.data(), 1, out);
        if (drift_) drift_->score(with, *this, first, views.standard_rows(), 1, true, out);
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
    const std::shared_ptr<DriftExperts>& drift() const { return drift_; }

    // ------------------------------------------------------------ what experts of drift need

    // Groups begin again, because the parts are others than before. Once the budget is `full`, the rows that the model was
    // built from can be near to others.
    void restart_drift(const Primitives<float>& with, const double* X, const double* y, std::size_t n, bool full) {
        if (full && !drift_->nearest()) {
            drift_->keep_nearest();
            BlockViews views(*geometry_, {}, true);
            for (std::size_t begin = 0; begin < n; begin += kChunk) {
                const std::size_t count = std::min(kChunk, n - begin);
                views.make(with, X + begin * columns(), count);
                for (std::size_t t = 0; t < count; ++t)
                    drift_->nearest()->note(views.standard_rows() + t * columns(), y[begin + t]);
            }
        }
        drift_->restart(with, *this, full);
    }

    void first_features(const Primitives<float>& with, const double* X, std::size_t n, FirstFeatures& first) const {
        make_room(first, n);
        if (n == 0) return;
        Scratch scratch;
        BlockViews views(*geometry_, parts_);
        views.make(with, X, n);
        for (std::size_t i = 0; i < parts_.size(); ++i)
            if (first.parts[i].kept > 0) {
                const auto& newton = std::get<NewtonPart>(parts_[i]);
                for (std::size_t begin = 0; begin < n; begin += kBlock) {
                    const std::size_t count = std::min<std::size_t>(kBlock, n - begin);
                    keep(features_of(with, newton, views, begin, int(count), scratch), count, newton.features->width(), begin,
                         first.parts[i]);
                }
            }
    }

    // Parts that groups use: all regressions, or the columns and the kernel of least loss.
    std::vector<int> drift_parts(bool all) const {
        std::vector<int> chosen;
        int columns = -1, kernel = -1;
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            const auto* newton = std::get_if<NewtonPart>(&parts_[i]);
            if (!newton || newton->curve || newton->features->rank < 2) continue;
            chosen.push_back(int(i));
            int& best = newton->features->view < 0 ? columns : kernel;
            if (best < 0 || combination_->loss_sum[i] < combination_->loss_sum[best]) best = int(i);
        }
        if (all) return chosen;
        chosen.clear();
        for (int each : {std::min(columns, kernel), std::max(columns, kernel)})
            if (each >= 0) chosen.push_back(each);
        return chosen;
    }

    // Whether experts of drift use features that the parts have.
    bool fits_drift() const {
        if (!drift_) return true;
        FirstFeatures first;
        make_room(first, 0);
        return drift_->fits(first);
    }

    double unscaled(double score) const { return score * spread_ + centre_; }

    // Means of rows in deviations of the rows that the model was built from.
    void add_shifts(const double* X, std::size_t n, double* shifts) const {
        const Columns& c = geometry_->columns;
        for (std::size_t t = 0; t < n; ++t)
            for (std::size_t j = 0; j < columns(); ++j)
                shifts[j] += std::clamp((X[t * columns() + j] - c.mean[j]) / c.deviation[j], -c.clip, c.clip) / double(n);
    }

    void targets_of(const double* y, std::size_t n, std::vector<double>& targets) const {
        targets.assign(n * outputs_, 0.0);
        for (std::size_t t = 0; t < n; ++t)
            if (is_regression(task_))
                targets[t] = std::clamp((y[t] - centre_) / spread_, -kFarthestTarget, kFarthestTarget);
            else if (!(y[t] >= 0 && y[t] < std::max(outputs_, 2)))
                throw std::invalid_argument("there is no such class");
            else if (task_ == Task::binary)
                targets[t] = y[t];
            else
                targets[t * outputs_ + std::size_t(y[t])] = 1;
    }

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
        return std::any_of(parts_.begin(), parts_.end(),
                           [](const Part& part) {
                               const auto* newton = std::get_if<NewtonPart>(&part);
                               return newton && newton->regression->unchecked() >= kUncheckedRows;
                           }) ||
               (drift_ && drift_->has_unchecked(kUncheckedRows));
    }

private:
    // Work of a row, about.
    double cost(std::size_t i) const {
        const auto* newton = std::get_if<NewtonPart>(&parts_[i]);
        return newton ? double(newton->regression->rank()) : 60.0;
    }

    void learn_one_part(const Primitives<float>& with, Part& part, const BlockViews& views, const double* weight, std::size_t n,
                        std::int64_t seen, Scratch& scratch, FirstFeatures::Of* first) {
        double* scores = scratch.scores.data();
        if (auto* forest = std::get_if<std::shared_ptr<OnlineForest>>(&part))
            return (*forest)->learn(views.codes(), columns(), targets_.data(), weight, n, seen, scores);
        auto* newton = std::get_if<NewtonPart>(&part);
        if (!newton) return score_trees(part, views.codes(), columns(), n, outputs_, scores);
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
            if (first) keep(F, count, newton->features->width(), begin, *first);
            regression.learn(with, F, y + begin * outputs_, weight + begin, count, task_, loosen, seen + std::int64_t(begin),
                             scores + begin * outputs_);
            begin += count;
        }
        if (newton->curve)
            for (std::size_t t = 0; t < n; ++t) scores[t] = straightened(*newton->curve, scores[t]);
    }

    void make_room(FirstFeatures& first, std::size_t rows) const {
        first.parts.resize(parts_.size());
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            const auto* newton = std::get_if<NewtonPart>(&parts_[i]);
            if (!newton || newton->curve) continue;
            FirstFeatures::Of& of = first.parts[i];
            of.columns = newton->features->view < 0;
            of.kept = std::min(newton->features->rank - 1, kMostFirst);
            if (of.columns) {
                const auto& varies = geometry_->square_means;
                const int times = (newton->features->rank - 1) / int(columns());
                of.varying = int(std::count(varies.begin(), varies.end(), 1.0f));
                of.kept = of.varying * times <= kMostFirst ? newton->features->rank - 1 : int(columns());
                of.varying *= of.kept / int(columns());
            }
            of.ridge = std::max(newton->regression->rank() / newton->regression->arrays().trace[0], 1e-6);
            of.values.at_least(rows * std::size_t(of.kept));
        }
    }

    static void keep(const float* F, std::size_t n, std::size_t width, std::size_t begin, FirstFeatures::Of& of) {
        for (std::size_t t = 0; t < n; ++t) std::copy_n(F + t * width, of.kept, of.values.data() + (begin + t) * of.kept);
    }

    void part_scores(const Primitives<float>& with, BlockViews& views, const double* X, std::size_t n, Scratch& scratch,
                     double* S, FirstFeatures* first = nullptr) const {
        const std::size_t m = parts_.size();
        views.make(with, X, n);
        scratch.scores.resize(n * outputs_);
        for (std::size_t i = 0; i < m; ++i) {
            double* scores = scratch.scores.data();
            if (const auto* newton = std::get_if<NewtonPart>(&parts_[i])) {
                score_newton(with, *newton, views, n, scratch, scores, first ? &first->parts[i] : nullptr);
                if (newton->curve)
                    for (std::size_t t = 0; t < n; ++t) scores[t] = straightened(*newton->curve, scores[t]);
            } else {
                score_trees(parts_[i], views.codes(), columns(), n, outputs_, scores);
            }
            for (std::size_t t = 0; t < n; ++t) std::copy_n(scores + t * outputs_, outputs_, S + (t * m + i) * outputs_);
        }
    }

    // Scores of n rows by a regression, n at most 64. Weights of the kernel values save most of making features.
    void score_newton(const Primitives<float>& with, const NewtonPart& part, const BlockViews& views, std::size_t n,
                      Scratch& scratch, double* scores, FirstFeatures::Of* first) const {
        const FeatureMap& features = *part.features;
        const std::vector<double>& means = part.regression->means();
        const bool kernel = features.view >= 0;
        const float* F = kernel ? views.kernel_values(with, features, 0, int(n), scratch.values)
                                : features_of(with, part, views, 0, int(n), scratch);
        const std::size_t stride = kernel ? features.map.values_width() : features.width();
        const std::size_t used = kernel ? features.map.n_landmarks : features.rank, width = kernel ? used : stride;
        const std::vector<double>& w = kernel ? part.weights_of_values() : means;
        for (std::size_t t = 0; t < n; ++t)
            for (int k = 0; k < outputs_; ++k) {
                const double constant = kernel ? means[k * features.width() + features.rank - 1] : 0.0;
                scores[t * outputs_ + k] = constant + with.dot(F + t * stride, w.data() + k * width, used);
            }
        if (!first || first->kept == 0) return;
        if (kernel) {
            const int tiles = (first->kept + kTile - 1) / kTile;
            scratch.features.at_least(n * features.width());
            whitened(with, features.map, features.depths, F, int(n), tiles, scratch.features.data());
            F = scratch.features.data();
        }
        keep(F, n, features.width(), 0, *first);
    }

    void score_block(const Primitives<float>& with, const double* X, std::size_t n, Scratch& scratch, double* out) const {
        BlockViews views(*geometry_, parts_, bool(drift_));
        FirstFeatures first;
        const bool kept = drift_ && !drift_->resting();
        if (kept) make_room(first, n);
        std::vector<double> S(n * parts_.size() * outputs_);
        part_scores(with, views, X, n, scratch, S.data(), kept ? &first : nullptr);
        combine(S.data(), n, out);
        if (drift_) drift_->score(with, *this, first, views.standard_rows(), n, false, out);
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

    std::shared_ptr<const Geometry> geometry_;
    std::vector<Part> parts_;
    std::shared_ptr<CombinationState> combination_;
    std::shared_ptr<StreamSample> sample_;
    std::shared_ptr<DriftExperts> drift_;
    Task task_;
    int outputs_;
    double centre_, spread_;  // of numbers
    std::vector<double> targets_, S_;
};

}  // namespace bomkl::automatic
