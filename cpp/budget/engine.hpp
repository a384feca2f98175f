// The one learning loop: score a block against what is stored, then learn it row by row.
#pragma once

#include "budget/scorer.hpp"
#include "budget/undo.hpp"

namespace bomkl {

template <class T>
class Engine {
public:
    Engine(std::shared_ptr<const Config> config, const Primitives<T>& primitives, KernelCallback<T> callback, State<T> state)
        : shared_config_(std::move(config)), config_(*shared_config_), m_(int(config_.kernels.size())),
          n_expansions_(config_.n_outputs * m_), primitives_(primitives), callback_(std::move(callback)),
          state_(std::move(state)), scorer_(config_, primitives_, callback_, state_), scores_(scorer_.block_scores()),
          growing_(dynamic_cast<GrowingScores<T>*>(&scores_)), listed_(dynamic_cast<ListedScores<T>*>(&scores_)),
          features_(dynamic_cast<FeatureScores<T>*>(&scores_)), undo_(state_, keeps_diagonal_) {}

    static std::shared_ptr<const Config> linked(Config config) {
        link_gaussians(config.kernels, sizeof(T) == 4 ? 2 : 3);
        return std::make_shared<const Config>(std::move(config));
    }
    static State<T> empty_state(const Config& config, int features, bool sparse,
                                std::shared_ptr<const Frequencies<T>> frequencies = nullptr) {
        const int m = int(config.kernels.size()), n = n_frequencies(config.learner);
        State<T> state(features, sparse, config.n_outputs * m, m);
        if (n == 0) return state;
        if (!frequencies)
            frequencies = std::make_shared<Frequencies<T>>(config.kernels, config.kernel_names, n, features, config.seed);
        state.frequencies = std::move(frequencies);
        for (Expansion<T>& expansion : state.expansions) expansion.coefs.assign(2 * n, T(0));
        return state;
    }

    // A few rows are scored as the engine is.
    bool scores_at_once(std::int64_t n, int n_threads) {
        if (listed_) listed_->may_be_rough(false);
        return n <= scores_.block_rows(n_threads);
    }
    void score(const Batch<T>& batch, bool per_kernel, double* out, int n_threads, const std::function<void()>& pause) {
        try {
            scorer_.score(batch, per_kernel, out, n_threads, pause);
        } catch (...) {
            scores_.forget_views();
            throw;
        }
    }
    // For many, a copy is scored (copies share their rows), so that nobody waits for more than a block.
    struct Copy {
        explicit Copy(const Engine& engine)
            : config(engine.shared_config_), state(engine.state_),
              scorer(*config, engine.primitives_, engine.callback_, state) {}
        const std::shared_ptr<const Config> config;
        State<T> state;
        Scorer<T> scorer;
    };

    // Scores of rows from `start` on, a block of them, just before each was learned; returns where the next block starts.
    // target: class index (binary: 0 or 1) or number; weight and delta may be null. Where the one row of a batch fails, the
    // state is as before. Where one of several does, nobody may use the engine any more.
    std::int64_t learn_block(const Batch<T>& batch, std::int64_t start, const double* target, const double* weight,
                             const double* delta, double* out, int n_threads, const std::function<void()>& pause) {
        try {
            row_slot_ = -1;
            if (listed_) listed_->may_be_rough(true);
            if (batch.n == 1) undo_.begin();
            const int n = scorer_.load_block(batch, start, n_threads, pause);
            typename Scorer<T>::Pauses pauses(scores_, pause, batch.n == 1);
            for (int t = 0; t < n; ++t) {
                row_ = t;
                row_slot_ = -1;
                scorer_.score_row(t, start + t);
                const double w = weight ? weight[start + t] : 1;
                learn_row(target[start + t], w, delta ? delta[start + t] : 0, out + (start + t) * config_.n_outputs);
                pauses.row_done();
            }
            undo_.end();
            return start + n;
        } catch (...) {
            undo_.restore(row_slot_);
            scores_.forget_views();
            throw;
        }
    }

    // Go on from arrays that another engine of this configuration wrote; refused where they do not fit together.
    void load(const StateArrays<T>& arrays, const std::vector<double>& log_weights,
              const std::vector<std::int64_t>& kernel_mistakes, std::int64_t mistakes, std::int64_t n_seen) {
        State<T> fresh = empty_state(config_, features(), sparse(), state_.frequencies);
        require_valid(arrays);
        const std::vector<int> slots = load_rows(arrays, fresh);
        for (int e = 0; e < n_expansions_; ++e) {
            Expansion<T>& expansion = fresh.expansions[e];
            for (std::int64_t j = arrays.term_starts[e]; j < arrays.term_starts[e + 1]; ++j) {
                const int slot = slots[arrays.term_rows[j]];
                const T coef = T(arrays.term_coefs[j]);
                fresh.pool.retain(slot);
                if (growing_) {
                    growing_->tile_term(fresh, slot / kTile, e).coef[slot % kTile] = coef;
                    ++fresh.n_support[e];
                    continue;
                }
                expansion.slots.push_back(slot);
                expansion.coefs.push_back(coef);
                if (!keeps_diagonal_) continue;
                const double self = listed_->self_value_of(e % m_, row_of(arrays, arrays.term_rows[j]));
                expansion.diagonal.push_back(replacement_norm(self));
            }
            std::copy_n(arrays.feature_weights.begin() + e * n_features(), n_features(), expansion.coefs.begin());
            expansion.scale = arrays.scales[e];
            expansion.forgetron = {arrays.forgetron[2 * e], arrays.forgetron[2 * e + 1]};
            expansion.inverse_gram.assign(arrays.inverse_gram.begin() + arrays.gram_starts[e],
                                          arrays.inverse_gram.begin() + arrays.gram_starts[e + 1]);
        }
        fresh.log_weights = log_weights;
        fresh.kernel_mistakes = kernel_mistakes;
        fresh.mistakes = mistakes;
        fresh.n_seen = n_seen;
        std::swap(state_, fresh);
        scores_.forget_views();
    }
    bool sparse() const { return state_.pool.sparse(); }
    int features() const { return state_.pool.features(); }
    const State<T>& state() const { return state_; }
    std::vector<std::int64_t> n_support() const {
        if (growing_) return state_.n_support;
        std::vector<std::int64_t> out;
        for (const auto& e : state_.expansions) out.push_back(e.size());
        return out;
    }

    // What the update rules call back (see expansion.hpp).
    int slot_of_row() {
        if (row_slot_ < 0) {
            row_slot_ = state_.pool.add(scores_.block().row(row_));
            listed_->row_changed(row_slot_);
        }
        return row_slot_;
    }
    void append_term(int expansion, double coef) {
        if (T(coef) != 0) new_terms_.push_back({expansion % m_, expansion, T(coef)});
    }
    double score_of_oldest(int expansion) { return listed_->score_of_oldest(expansion); }
    const T* values_at(int expansion, int slot) { return listed_->values_at(expansion, slot); }
    bool values_vanish(int expansion) const { return listed_->values_vanish(expansion); }
    void support_added(int expansion, int slot, T coef) { listed_->support_added(expansion, slot, coef); }
    void support_dropped(int expansion, int place, int slot, T coef) { listed_->support_dropped(expansion, place, slot, coef); }
    void coefs_changed(int expansion) { listed_->coefs_changed(expansion); }
    bool keeps_diagonal() const { return keeps_diagonal_; }
    const Primitives<T>& primitives() const { return primitives_; }
    RowUndo<T>& undo() { return undo_; }

private:
    Row<T> row_of(const StateArrays<T>& arrays, int s) const {
        if (!sparse()) return {arrays.rows.data() + std::size_t(s) * features(), {}};
        const std::int64_t begin = arrays.row_starts[s];
        return {nullptr,
                {arrays.row_values.data() + begin, arrays.row_columns.data() + begin, int(arrays.row_starts[s + 1] - begin)}};
    }
    void require_valid(const StateArrays<T>& arrays) const {
        const auto require = [](bool holds, const char* rule) {
            if (!holds) throw std::invalid_argument(rule);
        };
        for (int s = 0; s < arrays.n_rows; ++s) scorer_.check_range(squared_norm(row_of(arrays, s), features()), s);
        const double largest = double(std::numeric_limits<T>::max());
        std::vector<int> last_user(arrays.n_rows, -1);
        for (int e = 0; e < n_expansions_; ++e) {
            require(std::isfinite(arrays.scales[e]) && arrays.scales[e] > 0, "a scale is not a number above zero");
            require(arrays.forgetron[2 * e] >= 0 && std::isfinite(arrays.forgetron[2 * e]) &&
                        std::isfinite(arrays.forgetron[2 * e + 1]),
                    "the progress of a Forgetron is not a number");
            const std::int64_t begin = arrays.term_starts[e], end = arrays.term_starts[e + 1];
            require(config_.budget == 0 || end - begin <= config_.budget, "a kernel has more support rows than its budget");
            for (std::int64_t j = begin; j < end; ++j) {
                const int s = arrays.term_rows[j];
                require(s >= 0 && s < arrays.n_rows, "a support row number is out of range");
                require(last_user[s] != e, "a kernel has a support row twice");
                last_user[s] = e;
                require(std::fabs(arrays.term_coefs[j]) <= largest, "a coefficient is not finite");
            }
        }
        require(arrays.feature_weights.size() == std::size_t(n_expansions_) * n_features(),
                "feature_weights has the wrong length");
        require(n_features() == 0 || arrays.n_rows == 0, "a model of Fourier features has support rows");
        for (const double number : arrays.feature_weights)
            require(std::fabs(number) <= largest, "a weight of a feature is not finite");
        for (const double number : arrays.inverse_gram) require(std::isfinite(number), "inverse_gram is not finite");
    }
    // Rows in their order into the sequences they were in: their order in each is what the scores depend on.
    std::vector<int> load_rows(const StateArrays<T>& arrays, State<T>& fresh) const {
        constexpr int kUnused = -1, kSeveral = -2;
        std::vector<int> kernel(arrays.n_rows, kUnused), slots;
        for (int e = 0; e < n_expansions_; ++e)
            for (std::int64_t j = arrays.term_starts[e]; j < arrays.term_starts[e + 1]; ++j) {
                const int s = arrays.term_rows[j];
                kernel[s] = kernel[s] == kUnused || kernel[s] == e % m_ ? e % m_ : kSeveral;
            }
        for (int s = 0; s < arrays.n_rows; ++s) {
            if (kernel[s] == kUnused) throw std::invalid_argument("a support row is used by no kernel");
            const bool own = growing_ && kernel[s] != kSeveral;
            slots.push_back(fresh.pool.add(row_of(arrays, s), GrowingScores<T>::sequence(kernel[s], own)));
        }
        return slots;
    }

    // Fourier features of each kernel, 0 where the rule has none.
    int n_features() const { return 2 * n_frequencies(config_.learner); }

    void learn_row(double target, double weight, double delta, double* out) {
        new_terms_.clear();
        int best = 0;
        selected_.resize(m_);
        for (int c = 0; c < config_.n_outputs; ++c) {
            Draws draws(config_.seed, std::uint64_t(state_.n_seen), std::uint64_t(c));
            scorer_.weigh(c);
            select(c, delta, draws);
            out[c] = scorer_.combine(c, config_.select_combination ? &selected_ : nullptr);
            if (out[c] > out[best]) best = c;
            if (weight > 0)
                std::visit([&](const auto& rule) { update_output(rule, c, target, weight, draws); }, config_.learner);
        }
        if (weight <= 0) return;
        if (config_.task == Task::binary)
            state_.mistakes += (target > 0 ? 1 : -1) * out[0] <= 0;
        else if (config_.task == Task::multiclass)
            state_.mistakes += best != int(target);
        ++state_.n_seen;
        if (!new_terms_.empty()) growing_->add_terms(row_, new_terms_);
        state_.pool.settle();
        if (row_slot_ >= 0) listed_->relate_new_row(row_, row_slot_);
    }

    void select(int c, double delta, Draws& draws) {
        if (!config_.select) return std::fill(selected_.begin(), selected_.end(), char(1));
        for (int i = 0; i < m_; ++i)
            selected_[i] = draws.uniform(i, Purpose::selection) < (1 - delta) * scorer_.relative_weights_of(c)[i] + delta;
    }

    template <class Learner>
    void update_output(const Learner& rule, int c, double target, double weight, Draws& draws) {
        const CombinerSpec& combiner = config_.combiner;
        const double y = config_.task == Task::regression ? target
                         : config_.task == Task::binary   ? (target > 0 ? 1.0 : -1.0)
                                                          : (int(target) == c ? 1.0 : -1.0);
        double* log_weights = state_.log_weights.data() + c * m_;
        for (int i = 0; i < m_; ++i) {
            const int e = c * m_ + i;
            const bool active = !config_.select_updates || selected_[i];
            const double f = scorer_.f()[e];
            if (config_.task != Task::regression) state_.kernel_mistakes[e] += y * f <= 0;
            if (active) update_expansion(rule, e, y, f, weight, draws);
            if (combiner.hedge && (active || !combiner.discount_selected_only))
                log_weights[i] += weight * charged_loss(combiner.loss, y, f, config_.epsilon) * combiner.log_gamma;
        }
        if (combiner.share > 0) share_weights(log_weights, m_, combiner.share, shared_);
        for (int i = 0; i < m_; ++i)
            if (!std::isfinite(log_weights[i]))
                throw NotFiniteError("The loss of kernel " + config_.kernel_names[i] + " overflows (its score is " +
                                     Scorer<T>::short_text(scorer_.f()[c * m_ + i]) +
                                     "): the steps diverge. Scale the columns and the targets, take a smaller step, or set "
                                     "normalize_step=True.");
    }

    // What k(x, x) counts as when a row replaces another.
    double replacement_norm(double self) const { return unit_norm_ ? 1 : self; }

    template <class Learner>
    void update_expansion(const Learner& rule, int e, double y, double f, double weight, Draws& draws) {
        const bool regression = config_.task == Task::regression;
        Example x;
        x.regression = regression;
        x.residual = y - f;
        x.agreement = y * f;
        x.direction = regression ? (x.residual > 0 ? 1.0 : -1.0) : y;
        x.loss = regression ? std::max(0.0, std::fabs(x.residual) - config_.epsilon) : std::max(0.0, 1 - x.agreement);
        x.weight = weight;
        x.kernel = e % m_;
        x.draws = &draws;
        const double self = config_.normalize_step || (listed_ && keeps_diagonal_) ? scores_.self_value(e % m_, row_) : 1;
        x.step_norm = config_.normalize_step ? self : 1;
        if constexpr (Learner::fourier) {
            FeatureWeights<T, Engine> weights(*this, primitives_, state_.expansions[e], e,
                                              features_->features_of(e % m_, row_));
            return rule.learn(weights, x);
        } else {
            if constexpr (Learner::only_adds)
                if (growing_) {
                    GrowingSupport support(*this, e);
                    return rule.learn(support, x);
                }
            Support<T, Engine, Learner::reads_values> support(*this, state_.pool, state_.expansions[e], e, config_.budget,
                                                              listed_->values_of(e), replacement_norm(self));
            rule.learn(support, x);
        }
    }

    const std::shared_ptr<const Config> shared_config_;
    const Config& config_;
    const int m_, n_expansions_;
    const bool unit_norm_ = unit_norm(config_.learner);
    const bool keeps_diagonal_ = reads_values(config_.learner) && !unit_norm_;  // see Expansion
    const Primitives<T>& primitives_;
    const KernelCallback<T> callback_;
    State<T> state_;
    Scorer<T> scorer_;
    BlockScores<T>& scores_;
    GrowingScores<T>* const growing_;  // the scores; two of the three are null
    ListedScores<T>* const listed_;
    FeatureScores<T>* const features_;
    RowUndo<T> undo_;

    // the row at hand
    int row_ = 0, row_slot_ = -1;
    std::vector<double> shared_;
    std::vector<char> selected_;
    std::vector<NewTerm<T>> new_terms_;
};

}  // namespace bomkl
