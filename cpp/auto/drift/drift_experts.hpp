// Experts that follow a stream that changes, beside a model that never forgets.
//
// Groups of regressions forget at different speeds; labels and nearest rows say what came last. One combination joins them to
// the model, and begins with the model alone. While nothing speaks for drift, or they do not help against it, most of them
// sleep, and two groups keep watch. Where nothing has hinted at drift for long, these rest: they look at a part of the rows
// only. Evidence is looked at after every row, so it does not matter how rows are split into calls.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "auto/drift/drift_group.hpp"
#include "auto/drift/expert_stack.hpp"
#include "auto/drift/last_rows.hpp"
#include "auto/drift/nearest_rows.hpp"
#include "auto/drift/recent_labels.hpp"
#include "auto/drift/running_scales.hpp"
#include "primitives/not_finite.hpp"

namespace bomkl::automatic {

class DriftExperts {
public:
    static constexpr std::size_t kGroups = 3, kSentinels = 2;

    DriftExperts(Task task, int classes, std::size_t columns, std::int64_t budget, std::uint64_t seed, std::int64_t seen)
        : task_(task), outputs_(task == Task::multiclass ? classes : 1), columns_(columns),
          seed_(seed), groups_{{{0.97, 31, false, {}, {}, {}, {}},
                                {0.999, 63, true, {}, {}, {}, {}},
                                {0.99, 63, true, {}, {}, {}, {}}}},
          labels_(is_regression(task), classes), stack_(int(size())), last_(columns, kBuffer), seen_(seen),
          awake_until_(seen + kFirst * budget) {}

    // Experts: the model, groups, nearest rows, labels, and last a mixture of all those.
    std::size_t size() const { return 1 + kGroups + NearestRows::kExperts + labels_.size() + 1; }
    std::size_t columns() const { return columns_; }
    int outputs() const { return outputs_; }
    Task task() const { return task_; }
    bool awake() const { return awake_; }
    bool resting() const { return resting_; }  // whether the groups leave these rows out
    std::int64_t seen() const { return seen_; }
    std::array<DriftGroup, kGroups>& groups() { return groups_; }
    std::shared_ptr<CombinationState>& stack() { return stack_.combination(); }
    std::vector<double> influence() const { return stack_.influence(); }  // of the experts in the combination, sum 1
    const std::vector<DriftEvent>& events() const { return events_; }
    std::optional<NearestRows>& nearest() { return nearest_; }
    const LastRows& last() const { return last_; }

    DriftExperts fork() const {
        DriftExperts made = *this;
        for (DriftGroup& group : made.groups_) group.fork();
        made.stack_.fork();
        return made;
    }

    bool has_unchecked(double rows) const {
        return std::any_of(groups_.begin(), groups_.end(), [&](const DriftGroup& group) { return group.has_unchecked(rows); });
    }

    void prepare() const {
        for (const DriftGroup& group : groups_) group.prepare();
    }

    void add_class(const Primitives<float>& with, double log_odds) {
        task_ = Task::multiclass;
        labels_.add_class();
        outputs_ = outputs_ == 1 ? 3 : outputs_ + 1;
        for (DriftGroup& group : groups_) group.add_class(with, log_odds);
    }

    // The model was made anew: groups begin again from the last rows. `full`: it will not be made anew again.
    template <class Model>
    void restart(const Primitives<float>& with, const Model& model, bool full) {
        settled_ = full;
        sentinels_ = model.drift_parts(false);
        begin_groups(with, model, {0, 1, 2}, kBuffer, false);
    }

    // The parts of the model are about to change.
    void stop_groups() {
        for (DriftGroup& group : groups_) group.stop();
        sentinels_.clear();
    }

    // Whether all of it fits the first features of a model.
    bool fits(const FirstFeatures& F) const {
        return std::all_of(groups_.begin(), groups_.end(), [&](const DriftGroup& group) { return group.fits(F); }) &&
               std::all_of(sentinels_.begin(), sentinels_.end(),
                           [&](int part) { return part >= 0 && std::size_t(part) < F.parts.size() && F.parts[part].kept > 0; });
    }

    void keep_nearest() { nearest_.emplace(columns_, seed_); }

    // Rows before there is a model: `out` (n, outputs) holds what it says, and then what all say.
    void learn_without_model(const Primitives<float>& with, const double* X, const double* y, const double* weight,
                             std::size_t n, double* out) {
        Combiner combiner = stack_.combiner(outputs_, task_);
        for (std::size_t t = 0; t < n; ++t)
            learn_row(with, combiner, nullptr, X + t * columns_, y[t], weight[t], nullptr, out + t * outputs_);
    }

    // The same with a model: features F (none while groups rest) and standard view of the rows, and their targets as the model
    // learns them.
    template <class Model>
    void learn(const Primitives<float>& with, const Model& model, const FirstFeatures& F, const float* standard,
               const double* X, const double* y, const double* targets, const double* weight, std::size_t n, double* out) {
        const std::size_t o = std::size_t(outputs_);
        std::array<Ahead, kGroups> ahead;
        std::vector<double> said(kGroups * o);
        Combiner combiner = stack_.combiner(outputs_, task_);
        FirstFeatures late;  // of the rows after a rest that ended among these
        const FirstFeatures* features = &F;
        std::size_t from = 0;
        const auto go_ahead = [&](std::size_t g, std::size_t begin) {
            ahead[g].begin = begin;
            ahead[g].combiner.reset();
            if (!speaks(g) || begin == n) return;
            groups_[g].learn_regressions(with, *features, begin - from, n - begin, targets + begin * o, weight + begin, seen_,
                                         task_, outputs_, ahead[g].S);
            ahead[g].combiner.emplace(groups_[g].combination->view(), outputs_, task_);
        };
        for (std::size_t g = 0; g < kGroups; ++g) go_ahead(g, 0);
        for (std::size_t t = 0; t < n; ++t) {
            for (std::size_t g = 0; g < kGroups; ++g) {
                double* of = said.data() + g * o;
                if (!speaks(g)) {
                    std::copy_n(out + t * o, o, of);
                    continue;
                }
                const double* S = ahead[g].S.data() + (t - ahead[g].begin) * groups_[g].parts.size() * o;
                groups_[g].combine_and_learn(*ahead[g].combiner, S, targets + t * o, weight[t], of);
                for (std::size_t k = 0; k < o; ++k) of[k] = model.unscaled(of[k]);
            }
            learn_row(with, combiner, standard + t * columns_, X + t * columns_, y[t], weight[t], said.data(), out + t * o);
            const bool rested = resting_;
            const std::vector<std::size_t> begun = decide(with, model);
            if (rested && !begun.empty()) {
                from = t + 1;
                model.first_features(with, X + from * columns_, n - from, late);
                features = &late;
            }
            for (std::size_t g : begun) go_ahead(g, t + 1);
        }
    }

    // Scores of rows by what is known now; `out` holds those of the model, and then those of all.
    template <class Model>
    void score(const Primitives<float>& with, const Model& model, const FirstFeatures& F, const float* standard, std::size_t n,
               bool as_next, double* out) const {
        const std::size_t o = std::size_t(outputs_);
        std::vector<double> said(kGroups * n * o), row(kGroups * o);
        for (std::size_t g = 0; g < kGroups; ++g)
            if (speaks(g)) groups_[g].score(with, F, n, task_, outputs_, as_next, said.data() + g * n * o);
        for (std::size_t t = 0; t < n; ++t) {
            for (std::size_t g = 0; g < kGroups; ++g)
                for (std::size_t k = 0; k < o; ++k)
                    row[g * o + k] = speaks(g) ? model.unscaled(said[(g * n + t) * o + k]) : out[t * o + k];
            score_row(with, standard + t * columns_, row.data(), out + t * o);
        }
    }

    void score_row(const Primitives<float>& with, const float* standard, const double* said, double* out) const {
        std::vector<double> S(size() * outputs_), base(out, out + outputs_);
        const double unit = parts_of_row(with, standard, said, base.data(), S.data());
        Combiner combiner = stack_.combiner(outputs_, task_);
        combine(combiner, S, base.data(), unit, out);
    }

    std::size_t bytes() const {
        std::size_t total = last_.bytes() + (nearest_ ? nearest_->bytes() : 0);
        for (const DriftGroup& group : groups_) total += group.bytes();
        return total;
    }

    std::vector<double> label_scores() const { return labels_.scores(outputs_); }

    double unit() const { return is_regression(task_) ? errors_.deviation() : 1.0; }

    template <class Archive>
    void archive(Archive& a) {
        a.integer("seen", seen_);
        a.integer("awake_until", awake_until_);
        a.integer("watch_until", watch_until_);
        a.integer("evidence_at", evidence_at_);
        a.flag("awake", awake_);
        a.flag("resting", resting_);
        a.flag("settled", settled_);
        a.numbers("errors", errors_.sums.data(), errors_.sums.size(), 0.0);
        a.numbers("weights", weights_.sums.data(), weights_.sums.size(), 0.0);
        a.numbers("mixture", stack_.mixture().data(), stack_.mixture().size(), 0.0);
        a.integers("sentinels", sentinels_);
        a.part("labels", labels_);
        a.part("rise", rise_);
        a.part("last", last_);
        a.parts("better", better_);
        a.optional("nearest", nearest_, [&] { keep_nearest(); });
        a.events("events", events_, columns_, size());
    }

private:
    struct Ahead {  // what the regressions of a group have learned of a block, of which all others learn one row at a time
        std::size_t begin;
        std::vector<double> S;
        std::optional<Combiner> combiner;
    };

    static constexpr std::size_t kBuffer = 256, kMostEvents = 256;
    static constexpr std::int64_t kFirst = 2, kStay = 2000;  // experts are awake for so many budgets, and rows after evidence
    static constexpr std::int64_t kAgain = 16000;            // rows asleep after which evidence wakes experts that did not help
    static constexpr std::int64_t kRest = 256, kRests = 8;   // at rest, groups learn from one of 8 blocks of 256 rows
    static constexpr double kHintOfRise = 3, kHintOfEvidence = 100;  // that end a rest
    static constexpr double kHelp = 0.05;  // weight of those that may sleep, from which they stay awake
    static constexpr double kFarthest = 6, kLargestLoss = 15;

    bool speaks(std::size_t g) const { return groups_[g].works() && !resting_; }

    // Scores of all experts as the combination takes them: S (size, outputs). Returns the unit of numbers.
    double parts_of_row(const Primitives<float>& with, const float* standard, const double* said, const double* base,
                        double* S) const {
        const std::size_t o = std::size_t(outputs_);
        std::copy_n(base, o, S);
        double* at = S + o;
        for (std::size_t g = 0; g < kGroups; ++g, at += o) std::copy_n(said ? said + g * o : base, o, at);
        if (nearest_ && awake_ && standard)
            nearest_->scores(with, standard, base, outputs_, task_, at);
        else
            for (std::size_t i = 0; i < NearestRows::kExperts; ++i) std::copy_n(base, o, at + i * o);
        at += NearestRows::kExperts * o;
        labels_.scores(base, outputs_, at);
        at += labels_.size() * o;
        double unit = this->unit();
        if (is_regression(task_)) {  // relative to the model, and in units of its errors: it does not matter where a series is
            for (const double* each = at - labels_.size(); each < at; ++each)
                unit = std::max(unit, std::abs(*each - base[0]) / kFarthest);
            for (std::size_t i = 0; i + 1 < size(); ++i) S[i] = std::clamp((S[i] - base[0]) / unit, -kFarthest, kFarthest);
        } else if (task_ == Task::multiclass) {
            centre_scores(S, size() - 1, outputs_);
        }
        stack_.mix(S, outputs_, task_, at);
        return unit;
    }

    void combine(Combiner& combiner, const std::vector<double>& S, const double* base, double unit, double* out) const {
        combiner.score(S.data(), out);
        if (is_regression(task_)) out[0] = base[0] + unit * out[0];
        for (int k = 0; k < outputs_; ++k)
            if (!std::isfinite(out[k]))
                throw NotFiniteError(
                    "A score is not finite: what was learned no longer fits into floating-point numbers. "
                    "Scale the columns and targets, or begin anew.");
    }

    // Loss and mistake of scores: two ways to be better than the model. Of numbers there is the loss alone.
    std::array<double, 2> losses(const double* scores, double y, const double* target, double unit) const {
        if (!is_regression(task_))
            return {point_loss(scores, target, outputs_, task_), point_error(scores, target, outputs_, task_)};
        const double error = (scores[0] - y) / unit;
        return {std::min(0.5 * error * error, kLargestLoss), 0};
    }

    void learn_row(const Primitives<float>& with, Combiner& combiner, const float* standard, const double* x, double y,
                   double weight, const double* said, double* out) {
        const std::size_t o = std::size_t(outputs_);
        static thread_local std::vector<double> S, base, target;
        S.resize(size() * o);
        base.assign(out, out + o);
        target.assign(o, 0.0);
        const double wide = parts_of_row(with, standard, said, base.data(), S.data()), unit = this->unit();
        combine(combiner, S, base.data(), wide, out);
        const double sharpness = is_regression(task_) ? rise_.sharpness() : 1;
        const bool first = !weights_.known();  // before it, a model of numbers knows neither their place nor their scale
        const double relative = weights_.add(weight);
        if (is_regression(task_))
            target[0] = std::clamp((y - base[0]) / wide, -kFarthest, kFarthest);
        else
            target[task_ == Task::binary ? 0 : std::size_t(y)] = task_ == Task::binary ? y : 1;
        labels_.note(y, relative);
        if (nearest_ && standard) nearest_->note(standard, y);
        last_.add(x, y, weight);
        ++seen_;
        evidence_ = rising_ = 0;
        group_rise_.fill(0);
        if (first && is_regression(task_)) return;
        stack_.learn(combiner, S.data(), target.data(), relative, sharpness);
        const auto of_model = losses(base.data(), y, target.data(), unit), of_all = losses(out, y, target.data(), unit);
        const auto better = [&](std::size_t i, const std::array<double, 2>& theirs) {
            for (std::size_t k = 0; k < 2; ++k)
                evidence_ = std::max(evidence_, better_[2 * i + k].add(of_model[k] - theirs[k]));
        };
        better(0, of_all);
        for (std::size_t g = 0; g < kGroups; ++g) {
            if (!said || !speaks(g)) continue;
            const auto own = losses(said + g * o, y, target.data(), unit);
            if (g < kSentinels) better(1 + g, own);
            if (groups_[g].resets) group_rise_[g] = groups_[g].rise.add(own[0]);
        }
        if (!is_regression(task_) || errors_.known())
            rising_ = rise_.add(of_all[0]);  // before the first error there is no unit
        if (is_regression(task_)) errors_.add(base[0] - y);
    }

    // After a row: who wakes, falls asleep or begins anew. Returns the groups that have to learn the rows that are there.
    template <class Model>
    std::vector<std::size_t> decide(const Primitives<float>& with, const Model& model) {
        std::vector<std::size_t> begun;
        const bool sudden = rising_ > LossRise::kAlarm;
        if (sudden || (settled_ && evidence_ > BetterBy::kLevel)) note_evidence(model, sudden);
        if (settled_ && awake_ != (seen_ < awake_until_)) {
            awake_ = !awake_;
            for (std::size_t i = kGroups; awake_ && i <= kGroups + NearestRows::kExperts; ++i) stack_.give_back(i);
            watch_until_ = seen_ + kStay;
            begin_groups(with, model, begun = {0, 2}, kBuffer, false);
            if (std::exchange(resting_, false)) begun.push_back(1);
            return begun;
        }
        if (rising_ > kHintOfRise || evidence_ > kHintOfEvidence) watch_until_ = seen_ + kStay;
        if (seen_ % kRest == 0) resting_ = settled_ && !awake_ && seen_ >= watch_until_ && seen_ / kRest % kRests != 0;
        for (std::size_t g = 0; g < kGroups; ++g)
            if (group_rise_[g] > LossRise::kAlarm) {
                begun.push_back(g);
                begin_groups(with, model, {g}, std::size_t(groups_[g].rise.age()), true);
            }
        return begun;
    }

    template <class Model>
    void note_evidence(const Model& model, bool sudden) {
        const bool calm = evidence_at_ == 0 || seen_ > evidence_at_ + kStay;
        const std::vector<double> weights = influence();
        const double help = std::accumulate(&weights[kGroups], &weights[kGroups + 1 + NearestRows::kExperts], 0.0);
        const bool worth_it = awake_ ? help > kHelp : seen_ > awake_until_ + kAgain;
        if (sudden || calm || worth_it) awake_until_ = std::max(awake_until_, seen_ + kStay);
        evidence_at_ = seen_;
        if (sudden || calm) {
            std::vector<double> shifts(columns_, 0.0);
            model.add_shifts(last_.X(last_.size()), last_.size(), shifts.data());
            if (events_.size() == kMostEvents) events_.erase(events_.begin());
            const double strength = sudden ? rising_ : std::log(evidence_);
            events_.push_back({seen_, sudden ? rise_.age() : 0, sudden, strength, std::move(shifts), {}});
        }
        if (sudden) rise_ = LossRise();
        if (!events_.empty()) events_.back().weights = weights;
    }

    // Parts that a group learns: the one of long memory all, which it would need long to know again; asleep, the others few.
    template <class Model>
    std::vector<int> parts_of(const Model& model, std::size_t g) const {
        return awake_ || g == 1 ? model.drift_parts(true) : g == 0 ? sentinels_ : std::vector<int>();
    }

    // Groups begin anew from the last rows; if asked, with the weights of their regressions.
    template <class Model>
    void begin_groups(const Primitives<float>& with, const Model& model, const std::vector<std::size_t>& which,
                      std::size_t rows, bool keep_weights) {
        const std::size_t n = std::min(rows, last_.size());
        FirstFeatures F;
        std::vector<double> targets;
        model.first_features(with, n ? last_.X(n) : nullptr, n, F);
        if (n) model.targets_of(last_.y(n), n, targets);
        for (std::size_t g : which) {
            DriftGroup& group = groups_[g];
            const std::vector<int> parts = parts_of(model, g);
            const auto weights = group.combination;
            group.stop();
            if (parts.empty()) continue;
            group.begin(F, parts, outputs_);
            if (n) group.learn(with, F, targets.data(), last_.weight(n), n, seen_ - std::int64_t(n), task_, outputs_);
            if (n && keep_weights && weights) group.combination = weights;
        }
    }

    Task task_;
    int outputs_;
    std::size_t columns_;
    std::uint64_t seed_;
    std::array<DriftGroup, kGroups> groups_;
    RecentLabels labels_;
    std::optional<NearestRows> nearest_;  // once the views of the columns stay
    ExpertStack stack_;
    LastRows last_;
    std::array<BetterBy, 2 * (1 + kSentinels)> better_;  // than the model, by loss and by mistakes: all together, each sentinel
    LossRise rise_;
    ErrorSize errors_;  // of the model
    MeanWeight weights_;
    std::int64_t seen_, awake_until_, watch_until_ = 0, evidence_at_ = 0;  // 0: none so far
    bool awake_ = true, settled_ = false, resting_ = false;
    std::vector<int> sentinels_;  // parts of the model that the fast group keeps while most sleep
    std::vector<DriftEvent> events_;
    double evidence_ = 0, rising_ = 0;  // of the row learned last
    std::array<double, kGroups> group_rise_{};
};

}  // namespace bomkl::automatic
