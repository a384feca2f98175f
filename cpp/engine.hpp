// The one learning loop: score a block against what is stored, then learn it row by row.
#pragma once

#include <cstdio>
#include <limits>

#include "learners/bogd.hpp"
#include "learners/bpas.hpp"
#include "learners/forgetron.hpp"
#include "learners/pa.hpp"
#include "learners/perceptron.hpp"
#include "learners/projectron.hpp"
#include "learners/rbp.hpp"
#include "learners/spa.hpp"
#include "philox.hpp"
#include "scores.hpp"

namespace bomkl {

template <class T>
class Engine {
public:
    Engine(Config config, int features, bool sparse, const Primitives<T>& primitives, KernelCallback<T> callback)
        : config_(linked(std::move(config))), m_(int(config_.kernels.size())), n_expansions_(config_.n_outputs * m_),
          state_(features, sparse, n_expansions_, m_), scores_(config_, primitives, std::move(callback), state_) {}

    // Scores of rows, nothing learned. Per kernel: out[row][expansion]; combined: out[row][output].
    void score(const Batch<T>& batch, bool per_kernel, double* out, int n_threads) {
        for (int c = 0; c < config_.n_outputs; ++c) weigh(c);
        for_each_block(batch, n_threads, [&](int n, std::int64_t start) {
            for (int t = 0; t < n; ++t) {
                row_scores(t, start + t);
                double* row_out = out + (start + t) * (per_kernel ? n_expansions_ : config_.n_outputs);
                for (int c = 0; c < config_.n_outputs; ++c)
                    if (per_kernel)
                        std::copy_n(f_.data() + c * m_, m_, row_out + c * m_);
                    else
                        row_out[c] = combine(c, nullptr);
            }
        });
    }

    // Scores of rows just before each was learned. Where anything goes wrong the state is as before the call.
    // target: class index (binary: 0 or 1) or number; weight and delta may be null.
    void learn(const Batch<T>& batch, const double* target, const double* weight, const double* delta, double* out,
               int n_threads) {
        // a single row is checked before anything changes, unless a callable can fail halfway
        const bool needed = batch.n > 1 || scores_.has_callable();
        Snapshot<T> before(state_, needed, scores_.fused());
        try {
            for_each_block(batch, n_threads, [&](int n, std::int64_t start) {
                for (int t = 0; t < n; ++t) {
                    row_scores(t, start + t);
                    const double w = weight ? weight[start + t] : 1;
                    learn_row(target[start + t], w, delta ? delta[start + t] : 0, out + (start + t) * config_.n_outputs);
                }
            });
        } catch (...) {
            before.restore(state_);
            scores_.forget_views();
            throw;
        }
    }

    // Go on from arrays that another engine of this configuration wrote; refused where they do not fit together.
    void load(const StateArrays<T>& arrays, const std::vector<double>& log_weights,
              const std::vector<std::int64_t>& kernel_mistakes, std::int64_t mistakes, std::int64_t n_seen) {
        State<T> fresh(features(), sparse(), n_expansions_, m_);
        const std::vector<int> slots = load_rows(arrays, fresh);
        for (int e = 0; e < n_expansions_; ++e) {
            Expansion<T>& expansion = fresh.expansions[e];
            for (std::int64_t j = arrays.term_starts[e]; j < arrays.term_starts[e + 1]; ++j) {
                const int slot = slots[arrays.term_rows[j]];
                const T coef = T(arrays.term_coefs[j]);
                fresh.pool.retain(slot);
                if (scores_.fused()) {
                    scores_.tile_term(fresh, slot / kTile, e).coef[slot % kTile] = coef;
                    ++fresh.n_support[e];
                    continue;
                }
                expansion.slots.push_back(slot);
                expansion.coefs.push_back(coef);
                const double self = scores_.self_value_of(e % m_, row_of(arrays, arrays.term_rows[j]));
                expansion.diagonal.push_back(replacement_norm(self));
            }
            expansion.scale = arrays.scales[e];
            expansion.forgetron = {arrays.forgetron[2 * e], arrays.forgetron[2 * e + 1]};
            expansion.inverse_gram.assign(arrays.inverse_gram.begin() + arrays.gram_starts[e],
                                          arrays.inverse_gram.begin() + arrays.gram_starts[e + 1]);
        }
        fresh.log_weights = log_weights;
        fresh.kernel_mistakes = kernel_mistakes;
        fresh.mistakes = mistakes;
        fresh.n_seen = n_seen;
        state_ = std::move(fresh);
        scores_.forget_views();
    }
    bool sparse() const { return state_.pool.sparse(); }
    int features() const { return state_.pool.features(); }
    int n_expansions() const { return n_expansions_; }
    const Config& config() const { return config_; }
    const State<T>& state() const { return state_; }
    std::vector<std::int64_t> n_support() const {
        if (scores_.fused()) return state_.n_support;
        std::vector<std::int64_t> out;
        for (const auto& e : state_.expansions) out.push_back(e.size());
        return out;
    }

    // What the update rules call back (see expansion.hpp).
    int slot_of_row() {
        if (row_slot_ < 0) {
            row_slot_ = state_.pool.add(scores_.block().row(row_));
            scores_.row_changed(row_slot_);
        }
        return row_slot_;
    }
    void append_term(int expansion, double coef) {
        if (T(coef) != 0) new_terms_.push_back({expansion % m_, expansion, T(coef)});
    }
    double score_of(const Expansion<T>& e, int slot) { return scores_.score_of(e, slot); }

private:
    Row<T> row_of(const StateArrays<T>& arrays, int s) const {
        if (!sparse()) return {arrays.rows.data() + std::size_t(s) * features(), {}};
        const std::int64_t begin = arrays.row_starts[s];
        return {nullptr, {arrays.row_values.data() + begin, arrays.row_columns.data() + begin,
                          int(arrays.row_starts[s + 1] - begin)}};
    }
    // Rows in their order into the sequences they were in: their order in each is what the scores depend on.
    std::vector<int> load_rows(const StateArrays<T>& arrays, State<T>& fresh) const {
        constexpr int kUnused = -1, kSeveral = -2;
        std::vector<int> kernel(arrays.n_rows, kUnused), slots;
        for (int e = 0; e < n_expansions_; ++e)
            for (std::int64_t j = arrays.term_starts[e]; j < arrays.term_starts[e + 1]; ++j) {
                const int s = arrays.term_rows[j];
                if (s < 0 || s >= arrays.n_rows) throw std::invalid_argument("a support row number is out of range");
                kernel[s] = kernel[s] == kUnused || kernel[s] == e % m_ ? e % m_ : kSeveral;
            }
        for (int s = 0; s < arrays.n_rows; ++s) {
            if (kernel[s] == kUnused) throw std::invalid_argument("a support row is used by no kernel");
            const bool own = scores_.fused() && kernel[s] != kSeveral;
            slots.push_back(fresh.pool.add(row_of(arrays, s), scores_.sequence(kernel[s], own)));
        }
        return slots;
    }

    static Config linked(Config config) {
        link_gaussians(config.kernels, sizeof(T) == 4 ? 2 : 3);
        return config;
    }

    template <class Body>
    void for_each_block(const Batch<T>& batch, int n_threads, Body&& body) {
        for (std::int64_t start = 0; start < batch.n;) {
            const int n = int(std::min<std::int64_t>(scores_.block_rows(n_threads), batch.n - start));
            scores_.load_block(batch, start, n);
            for (int t = 0; t < n; ++t)
                if (const double square = scores_.block().squared_norm_of(t); !(square < safe_norm_))
                    check_range(square, start + t);
            scores_.score_block(n_threads);
            body(n, start);
            start += n;
        }
    }

    // A squared norm up to which no kernel value can overflow.
    double safe_norm() const {
        double square = range_limit();
        for (const KernelSpec& k : config_.kernels)
            while (k.kind == KernelKind::polynomial && square > 0 && !(largest_kernel_value(k, square) < range_limit()))
                square /= 2;
        return square;
    }
    static double range_limit() { return double(std::numeric_limits<T>::max()) / 1024; }

    // No kernel value between rows that pass this can overflow.
    void check_range(double square, std::int64_t row) const {
        const double limit = range_limit();
        if (!(square < limit))
            throw NotFiniteError("X must be smaller: the squared norm of row " + std::to_string(row) + " is " +
                            short_text(square) + ", too large for " + dtype_name() + ". Scale the columns.");
        for (int i = 0; i < m_; ++i) {
            const double value = largest_kernel_value(config_.kernels[i], square);
            if (config_.kernels[i].kind == KernelKind::polynomial && !(value < limit))
                throw NotFiniteError("The kernel " + config_.kernel_names[i] + " overflows " + dtype_name() + " on row " +
                                std::to_string(row) + " of X: k(x, x) is " + short_text(value) +
                                ". Scale the columns, or use a smaller degree, gamma or coef0.");
        }
    }
    static std::string short_text(double number) {
        char text[32];
        std::snprintf(text, sizeof text, "%.3g", number);
        return text;
    }
    static const char* dtype_name() { return sizeof(T) == 4 ? "float32" : "float64"; }

    void row_scores(int t, std::int64_t number) {
        row_ = t;
        scores_.score_row(t, f_);
        const double limit = double(std::numeric_limits<T>::max()) * 1e-6;  // a step from here is still finite
        for (int e = 0; e < n_expansions_; ++e)
            if (!(std::fabs(f_[e]) < limit))
                throw NotFiniteError("The score of kernel " + config_.kernel_names[e % m_] + " on row " +
                                std::to_string(number) + " of X overflows " + dtype_name() + " (" + short_text(f_[e]) +
                                "): the steps diverge. Scale the columns, take a smaller step, or set normalize_step=True.");
    }

    // The weights of one output as they are now, for combine and select.
    void weigh(int c) {
        relative_.resize(n_expansions_);
        total_.resize(config_.n_outputs);
        total_[c] = relative_weights(state_.log_weights.data() + c * m_, m_, relative_.data() + c * m_);
    }

    // Weighted score or vote of one output; with `selected`, of the selected kernels alone.
    double combine(int c, const std::vector<char>* selected) const {
        double score = 0;
        for (int i = 0; i < m_; ++i) {
            if (selected && !(*selected)[i]) continue;
            const double f = f_[c * m_ + i];
            score += relative_[c * m_ + i] / total_[c] * (config_.vote ? (f >= 0 ? 1.0 : -1.0) : f);
        }
        return score;
    }

    void learn_row(double target, double weight, double delta, double* out) {
        row_slot_ = -1;
        new_terms_.clear();
        int best = 0;
        selected_.resize(m_);
        for (int c = 0; c < config_.n_outputs; ++c) {
            Draws draws(config_.seed, std::uint64_t(state_.n_seen), std::uint64_t(c));
            weigh(c);
            select(c, delta, draws);
            out[c] = combine(c, config_.select_combination ? &selected_ : nullptr);
            if (out[c] > out[best]) best = c;
            if (weight > 0) update_output(c, target, weight, draws);
        }
        if (weight <= 0) return;
        if (config_.task == Task::binary)
            state_.mistakes += (target > 0 ? 1 : -1) * out[0] <= 0;
        else if (config_.task == Task::multiclass)
            state_.mistakes += best != int(target);
        ++state_.n_seen;
        if (!new_terms_.empty()) scores_.add_terms(row_, new_terms_);
        if (row_slot_ >= 0) scores_.relate_new_row(row_, row_slot_);
    }

    void select(int c, double delta, Draws& draws) {
        if (!config_.select) return std::fill(selected_.begin(), selected_.end(), char(1));
        for (int i = 0; i < m_; ++i)
            selected_[i] = draws.uniform(i, Purpose::selection) < (1 - delta) * relative_[c * m_ + i] + delta;
    }

    void update_output(int c, double target, double weight, Draws& draws) {
        const CombinerSpec& combiner = config_.combiner;
        const double y = config_.task == Task::regression   ? target
                         : config_.task == Task::binary     ? (target > 0 ? 1.0 : -1.0)
                                                            : (int(target) == c ? 1.0 : -1.0);
        double* log_weights = state_.log_weights.data() + c * m_;
        for (int i = 0; i < m_; ++i) {
            const int e = c * m_ + i;
            const bool active = !config_.select_updates || selected_[i];
            const double f = f_[e];
            if (config_.task != Task::regression) state_.kernel_mistakes[e] += y * f <= 0;
            if (active) update_expansion(e, y, f, weight, draws);
            if (combiner.hedge && (active || !combiner.discount_selected_only))
                log_weights[i] += weight * charged_loss(combiner.loss, y, f, config_.epsilon) * combiner.log_gamma;
        }
        if (combiner.share > 0) share_weights(log_weights, m_, combiner.share, shared_);
    }

    // What k(x, x) counts as when a row replaces another.
    double replacement_norm(double self) const { return config_.learner.unit_norm ? 1 : self; }

    void update_expansion(int e, double y, double f, double weight, Draws& draws) {
        const bool regression = config_.task == Task::regression;
        Example x;
        x.regression = regression;
        x.residual = y - f;
        x.agreement = y * f;
        x.direction = regression ? (x.residual > 0 ? 1.0 : -1.0) : y;
        x.loss = regression ? std::max(0.0, std::fabs(x.residual) - config_.epsilon) : std::max(0.0, 1 - x.agreement);
        x.weight = weight;
        const double self = scores_.self_value(e % m_, row_);
        x.step_norm = config_.normalize_step ? self : 1;
        const LearnerSpec& spec = config_.learner;
        x.draw = 0;
        if (spec.kind == LearnerKind::spa && x.loss > 0) x.draw = draws.uniform(e % m_, Purpose::sparsity);
        if (spec.kind == LearnerKind::rbp && x.agreement <= 0) x.draw = draws.uniform(e % m_, Purpose::victim);
        if (scores_.fused()) {
            GrowingSupport support(*this, e);
            if (spec.kind == LearnerKind::perceptron) perceptron(support, x, spec);
            if (spec.kind == LearnerKind::pa) pa(support, x, spec);
            if (spec.kind == LearnerKind::spa) spa(support, x, spec);
            return;
        }
        Support<T, Engine> support(*this, state_.pool, state_.expansions[e], config_.budget,
                                   scores_.values_of(e), replacement_norm(self));
        switch (spec.kind) {
            case LearnerKind::perceptron: return perceptron(support, x, spec);
            case LearnerKind::pa: return pa(support, x, spec);
            case LearnerKind::spa: return spa(support, x, spec);
            case LearnerKind::rbp: return rbp(support, x, spec);
            case LearnerKind::forgetron: return forgetron(support, x, spec);
            case LearnerKind::bogd: return bogd(support, x, spec);
            case LearnerKind::bpas: return bpas(support, x, spec);
            case LearnerKind::projectron: return projectron(support, x, spec);
        }
    }

    const Config config_;
    const int m_, n_expansions_;
    const double safe_norm_ = safe_norm();
    State<T> state_;
    BlockScores<T> scores_;

    // the row at hand
    int row_ = 0, row_slot_ = -1;
    std::vector<double> f_, relative_, total_, shared_;
    std::vector<char> selected_;
    std::vector<NewTerm<T>> new_terms_;
};

}  // namespace bomkl
