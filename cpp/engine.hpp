// The one learning loop: score a block against what is stored, then learn it row by row.
//
// Two ways to hold an expansion. Rules that only add rows (no budget) use the fused path: coefficients lie in the pool's
// tiles, a block is scored in one pass, and a row that becomes support adds its kernel values to the scores of the rows
// after it. All other rules use the listed path: the inner products of the block with the pool are kept, and each row
// maps and sums them over the expansion's own list, so that dropping, scaling and projecting need no bookkeeping.
#pragma once

#include <limits>
#include <thread>

#include "block.hpp"
#include "config.hpp"
#include "learners/bogd.hpp"
#include "learners/bpas.hpp"
#include "learners/forgetron.hpp"
#include "learners/pa.hpp"
#include "learners/perceptron.hpp"
#include "learners/projectron.hpp"
#include "learners/rbp.hpp"
#include "learners/spa.hpp"
#include "philox.hpp"
#include "state.hpp"

namespace bomkl {

template <class T>
class Engine {
public:
    Engine(Config config, int features, const Primitives<T>& primitives, KernelCallback<T> callback)
        : config_(std::move(config)), m_(int(config_.kernels.size())), n_expansions_(config_.n_outputs * m_),
          primitives_(&primitives), callback_(std::move(callback)), state_(features, n_expansions_, m_), block_(features) {
        const LearnerKind kind = config_.learner.kind;
        const bool only_adds = kind == LearnerKind::perceptron || kind == LearnerKind::pa || kind == LearnerKind::spa;
        for (const KernelSpec& k : config_.kernels) {
            has_callable_ |= k.kind == KernelKind::callable;
            has_distance_ |= k.uses_distance();
            has_cosine_ |= k.kind == KernelKind::cosine;
        }
        link_gaussians(config_.kernels, sizeof(T) == 4 ? 1 : 3);
        fused_ = only_adds && config_.budget == 0 && !has_callable_;
        // Gaussians come last, widest first: where one vanishes, so do all after it.
        std::vector<int> order(m_);
        for (int i = 0; i < m_; ++i) order[i] = i;
        std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return rank_key(i) < rank_key(j); });
        rank_.resize(m_);
        for (int i = 0; i < m_; ++i) rank_[order[i]] = i;
    }

    // Scores of rows, nothing learned. Per kernel: out[row][expansion]; combined: out[row][output].
    void score(const Batch<T>& batch, bool per_kernel, double* out, int n_threads) {
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
        Snapshot<T> before(state_, batch.n, fused_);
        try {
            for_each_block(batch, n_threads, [&](int n, std::int64_t start) {
                for (int t = 0; t < n; ++t) {
                    row_scores(t, start + t);
                    const double w = weight ? weight[start + t] : 1;
                    learn_row(t, n, target[start + t], w, delta ? delta[start + t] : 0, out + (start + t) * config_.n_outputs);
                }
            });
        } catch (...) {
            before.restore(state_);
            throw;
        }
    }

    // Go on from arrays that another engine of this configuration wrote; refused where they do not fit together.
    void load(const StateArrays<T>& arrays, const std::vector<double>& log_weights,
              const std::vector<std::int64_t>& kernel_mistakes, std::int64_t mistakes, std::int64_t n_seen) {
        State<T> fresh(features(), n_expansions_, m_);
        const int n = int(arrays.rows.size() / std::max(1, features()));
        for (int s = 0; s < n; ++s) fresh.pool.add(arrays.rows.data() + std::size_t(s) * features());
        std::vector<T> row(features());
        for (int e = 0; e < n_expansions_; ++e) {
            Expansion<T>& expansion = fresh.expansions[e];
            for (std::int64_t j = arrays.term_starts[e]; j < arrays.term_starts[e + 1]; ++j) {
                const int slot = arrays.term_rows[j];
                const T coef = T(arrays.term_coefs[j]);
                if (slot < 0 || slot >= n) throw std::invalid_argument("a support row number is out of range");
                fresh.pool.retain(slot);
                if (fused_) {
                    tile_term(fresh, slot / kTile, e).coef[slot % kTile] = coef;
                    ++fresh.n_support[e];
                    continue;
                }
                expansion.slots.push_back(slot);
                expansion.coefs.push_back(coef);
                fresh.pool.read(slot, row.data());
                expansion.diagonal.push_back(self_value_of(e % m_, row.data()));
            }
            expansion.scale = arrays.scales[e];
            expansion.forgetron = {arrays.forgetron[2 * e], arrays.forgetron[2 * e + 1]};
            expansion.inverse_gram.assign(arrays.inverse_gram.begin() + arrays.gram_starts[e],
                                          arrays.inverse_gram.begin() + arrays.gram_starts[e + 1]);
        }
        for (int s = 0; s < n; ++s)
            if (!fresh.pool.used(s)) throw std::invalid_argument("a support row is used by no kernel");
        fresh.log_weights = log_weights;
        fresh.kernel_mistakes = kernel_mistakes;
        fresh.mistakes = mistakes;
        fresh.n_seen = n_seen;
        state_ = std::move(fresh);
    }
    int features() const { return state_.pool.features(); }
    int n_expansions() const { return n_expansions_; }
    const Config& config() const { return config_; }
    const State<T>& state() const { return state_; }
    std::vector<std::int64_t> n_support() const {
        if (fused_) return state_.n_support;
        std::vector<std::int64_t> out;
        for (const auto& e : state_.expansions) out.push_back(e.size());
        return out;
    }

    // What the update rules call back (see expansion.hpp).
    int slot_of_row() {
        if (row_slot_ < 0) row_slot_ = state_.pool.add(block_.row(row_));
        return row_slot_;
    }
    void append_term(int expansion, double coef) {
        if (T(coef) != 0) new_terms_.push_back({expansion % m_, expansion, T(coef)});
    }
    double score_of(const Expansion<T>& e, int slot) {
        const int kernel = int(&e - state_.expansions.data()) % m_;
        const int n = e.size();
        stored_row_.resize(features());
        state_.pool.read(slot, stored_row_.data());
        stored_values_.resize(n);
        if (config_.kernels[kernel].kind == KernelKind::callable) {
            std::vector<T> others(std::size_t(n) * features());
            for (int j = 0; j < n; ++j) state_.pool.read(e.slots[j], others.data() + std::size_t(j) * features());
            callback_(kernel, stored_row_.data(), 1, others.data(), n, stored_values_.data());
            return e.scale * double(primitives_->weighted_sum(e.coefs.data(), stored_values_.data(), n));
        }
        refresh_views();
        const T norm = T(state_.pool.squared_norm_of(slot)), inverse = inverse_length<T>(norm);
        const Rows<T> one{stored_row_.data(), std::size_t(features()), &norm, &inverse, features()};
        const std::size_t width = views_.size() * kTile;
        stored_inner_.resize(width);
        stored_distance_.resize(width);
        stored_cosine_.resize(width);
        primitives_->inner(one, 0, 1, views_.data(), int(views_.size()), stored_inner_.data(), 0);
        primitives_->relate(one, 0, views_.data(), int(views_.size()), stored_inner_.data(),
                            has_distance_ ? stored_distance_.data() : nullptr, has_cosine_ ? stored_cosine_.data() : nullptr);
        return e.scale * double(primitives_->expand(config_.kernels[kernel], stored_inner_.data(), stored_distance_.data(),
                                                    stored_cosine_.data(), e.slots.data(), e.coefs.data(), n,
                                                    stored_values_.data()));
    }

private:
    std::pair<bool, double> rank_key(int i) const {
        const KernelSpec& k = config_.kernels[i];
        return {k.kind == KernelKind::gaussian, k.kind == KernelKind::gaussian ? k.a : 0.0};
    }
    TileTerm<T>& tile_term(State<T>& state, std::size_t q, int expansion) const {
        if (state.tile_terms.size() <= q) state.tile_terms.resize(q + 1);
        auto& tile = state.tile_terms[q];
        const auto key = [&](int e) { return std::pair(rank_[e % m_], e); };
        auto place = std::lower_bound(tile.begin(), tile.end(), key(expansion),
                                      [&](const TileTerm<T>& term, const auto& k) { return key(term.expansion) < k; });
        if (place == tile.end() || place->expansion != expansion)
            place = tile.insert(place, TileTerm<T>{expansion % m_, expansion, {}});
        return *place;
    }

    int block_rows() const {
        const std::size_t per_row =
            fused_ ? std::size_t(n_expansions_) * kLanes
                   : std::size_t(state_.pool.n_tiles() + 4) * kTile * (has_callable_ ? 1 + m_ : 1);
        const std::size_t fits = (std::size_t(4) << 20) / (per_row * sizeof(T));
        return int(std::clamp<std::size_t>(fits, 12, 252));
    }

    template <class Body>
    void for_each_block(const Batch<T>& batch, int n_threads, Body&& body) {
        for (std::int64_t start = 0; start < batch.n;) {
            const int n = int(std::min<std::int64_t>(block_rows(), batch.n - start));
            block_.load(batch, start, n);
            for (int t = 0; t < n; ++t) check_range(block_.squared_norm_of(t), start + t);
            if (fused_)
                score_fused(n, n_threads);
            else
                relate_listed(n, n_threads);
            body(n, start);
            start += n;
        }
    }

    // No kernel value between rows that pass this can overflow.
    void check_range(double square, std::int64_t row) const {
        const double limit = double(std::numeric_limits<T>::max()) / 1024;
        if (!(square < limit))
            throw NotFiniteError("X must be smaller: the squared norm of row " + std::to_string(row) + " is " +
                            std::to_string(square) + ", too large for " + dtype_name() + ". Scale the columns.");
        for (int i = 0; i < m_; ++i) {
            const double value = largest_kernel_value(config_.kernels[i], square);
            if (config_.kernels[i].kind == KernelKind::polynomial && !(value < limit))
                throw NotFiniteError("The kernel " + config_.kernel_names[i] + " overflows " + dtype_name() + " on row " +
                                std::to_string(row) + " of X: k(x, x) is " + std::to_string(value) +
                                ". Scale the columns, or use a smaller degree or gamma.");
        }
    }
    static const char* dtype_name() { return sizeof(T) == 4 ? "float32" : "float64"; }

    template <class Work>
    static void in_parallel(int n, int n_threads, double operations, Work&& work) {
        n_threads = operations < 4e6 ? 1 : std::min(n_threads, (n + 5) / 6);
        if (n_threads <= 1) return work(0, n);
        std::vector<std::thread> threads;
        const int share = (n / n_threads + 5) / 6 * 6;
        for (int i = 1; i < n_threads; ++i) {
            const int begin = std::min(n, i * share), end = i + 1 == n_threads ? n : std::min(n, (i + 1) * share);
            threads.emplace_back([&work, begin, end] { work(begin, end); });
        }
        work(0, std::min(n, share));
        for (auto& thread : threads) thread.join();
    }

    void refresh_views() {
        const int n_tiles = state_.pool.n_tiles();
        views_.resize(n_tiles);
        view_terms_.resize(n_tiles);
        for (int q = 0; q < n_tiles; ++q) {
            views_[q] = state_.pool.tile(q);
            if (!fused_ || std::size_t(q) >= state_.tile_terms.size()) continue;
            view_terms_[q].clear();
            for (const TileTerm<T>& term : state_.tile_terms[q])
                view_terms_[q].push_back({term.kernel, term.expansion, term.coef});
            views_[q].terms = view_terms_[q].data();
            views_[q].n_terms = int(view_terms_[q].size());
        }
    }

    void score_fused(int n, int n_threads) {
        const std::size_t size = std::size_t(n) * n_expansions_ * kLanes;
        partial_.at_least(size);
        std::fill_n(partial_.data(), size, T(0));
        refresh_views();
        in_parallel(n, n_threads, double(n) * views_.size() * kTile * (features() + 16), [&](int begin, int end) {
            primitives_->evaluate(block_.rows(), begin, end, views_.data(), int(views_.size()), config_.kernels.data(),
                                  partial_.data(), n_expansions_);
        });
    }

    void relate_listed(int n, int n_threads) {
        refresh_views();
        const int n_tiles = int(views_.size());
        inner_stride_ = std::size_t(n_tiles) * kTile + (n + kTile - 1) / kTile * kTile;
        inner_.at_least(n * inner_stride_);
        for (int t = 0; t < n; ++t)
            std::fill_n(inner_.data() + t * inner_stride_ + std::size_t(n_tiles) * kTile,
                        inner_stride_ - std::size_t(n_tiles) * kTile, T(0));
        in_parallel(n, n_threads, double(n) * n_tiles * kTile * features(), [&](int begin, int end) {
            primitives_->inner(block_.rows(), begin, end, views_.data(), n_tiles, inner_.data(), inner_stride_);
        });
        if (has_callable_) call_kernels(n);
    }

    void call_kernels(int n) {
        const int slots = state_.pool.n_slots(), d = features();
        std::vector<T> stored(std::size_t(slots) * d), values(std::size_t(n) * std::max(slots, n));
        for (int s = 0; s < slots; ++s) state_.pool.read(s, stored.data() + std::size_t(s) * d);
        called_.resize(m_);
        called_block_.resize(m_);
        for (int i = 0; i < m_; ++i) {
            if (config_.kernels[i].kind != KernelKind::callable) continue;
            called_[i].assign(n * inner_stride_, T(0));
            if (slots > 0) callback_(i, block_.row(0), n, stored.data(), slots, values.data());
            for (int t = 0; t < n; ++t)
                for (int s = 0; s < slots; ++s) called_[i][t * inner_stride_ + s] = values[std::size_t(t) * slots + s];
            called_block_[i].resize(std::size_t(n) * n);
            callback_(i, block_.row(0), n, block_.row(0), n, called_block_[i].data());
        }
    }

    void row_scores(int t, std::int64_t number) {
        row_ = t;
        f_.resize(n_expansions_);
        if (fused_) {
            const T* lanes = partial_.data() + std::size_t(t) * n_expansions_ * kLanes;
            for (int e = 0; e < n_expansions_; ++e)
                f_[e] = state_.n_support[e] ? double(primitives_->sum_lanes(lanes + e * kLanes)) : 0.0;
        } else {
            listed_scores(t);
        }
        const double limit = double(std::numeric_limits<T>::max()) * 1e-6;  // a step from here is still finite
        for (int e = 0; e < n_expansions_; ++e)
            if (!(std::fabs(f_[e]) < limit))
                throw NotFiniteError("The score of kernel " + config_.kernel_names[e % m_] + " on row " +
                                std::to_string(number) + " of X overflows " + dtype_name() + " (" + std::to_string(f_[e]) +
                                "): the steps diverge. Scale the columns, take a smaller step, or set normalize_step=True.");
    }

    void listed_scores(int t) {
        const T* inner = inner_.data() + t * inner_stride_;
        distance_.resize(inner_stride_);
        cosine_.resize(inner_stride_);
        if (int(views_.size()) != state_.pool.n_tiles()) refresh_views();
        if (has_distance_ || has_cosine_)
            primitives_->relate(block_.rows(), t, views_.data(), int(views_.size()), inner,
                                has_distance_ ? distance_.data() : nullptr, has_cosine_ ? cosine_.data() : nullptr);
        values_start_.resize(n_expansions_);
        std::size_t total = 0;
        for (int e = 0; e < n_expansions_; ++e) {
            values_start_[e] = total;
            total += state_.expansions[e].slots.size();
        }
        if (values_.size() < total) values_.resize(total);
        static const KernelSpec identity{KernelKind::linear};
        for (int e = 0; e < n_expansions_; ++e) {
            const Expansion<T>& expansion = state_.expansions[e];
            const bool called = config_.kernels[e % m_].kind == KernelKind::callable;
            const T* source = called ? called_[e % m_].data() + t * inner_stride_ : inner;
            f_[e] = expansion.scale *
                    double(primitives_->expand(called ? identity : config_.kernels[e % m_], source, distance_.data(),
                                               cosine_.data(), expansion.slots.data(), expansion.coefs.data(),
                                               expansion.size(), values_.data() + values_start_[e]));
        }
    }

    // Weighted score or vote of one output; with `selected`, of the selected kernels alone.
    double combine(int c, const std::vector<char>* selected) {
        relative_.resize(m_);
        relative_weights(state_.log_weights.data() + c * m_, m_, relative_.data());
        double total = 0, score = 0;
        for (int i = 0; i < m_; ++i) total += relative_[i];
        for (int i = 0; i < m_; ++i) {
            if (selected && !(*selected)[i]) continue;
            const double f = f_[c * m_ + i];
            score += relative_[i] / total * (config_.vote ? (f >= 0 ? 1.0 : -1.0) : f);
        }
        return score;
    }

    double self_value(int kernel, int t, int n) const {
        if (config_.kernels[kernel].kind == KernelKind::callable) return called_block_[kernel][std::size_t(t) * n + t];
        return self_kernel(config_.kernels[kernel], block_.squared_norm_of(t));
    }
    double self_value_of(int kernel, const T* row) {
        if (config_.kernels[kernel].kind != KernelKind::callable)
            return self_kernel(config_.kernels[kernel], squared_norm(row, features()));
        T value;
        callback_(kernel, row, 1, row, 1, &value);
        return value;
    }

    void learn_row(int t, int n, double target, double weight, double delta, double* out) {
        row_slot_ = -1;
        new_terms_.clear();
        int best = 0;
        selected_.resize(m_);
        for (int c = 0; c < config_.n_outputs; ++c) {
            Draws draws(config_.seed, std::uint64_t(state_.n_seen), std::uint64_t(c));
            select(c, delta, draws);
            out[c] = combine(c, config_.select_combination ? &selected_ : nullptr);
            if (out[c] > out[best]) best = c;
            if (weight > 0) update_output(c, t, n, target, weight, draws);
        }
        if (weight <= 0) return;
        if (config_.task == Task::binary)
            state_.mistakes += (target > 0 ? 1 : -1) * out[0] <= 0;
        else if (config_.task == Task::multiclass)
            state_.mistakes += best != int(target);
        ++state_.n_seen;
        if (fused_ && !new_terms_.empty()) store_new_terms(t, n);
        if (!fused_ && row_slot_ >= 0) relate_new_row(t, n);
    }

    void select(int c, double delta, Draws& draws) {
        if (!config_.select) return std::fill(selected_.begin(), selected_.end(), char(1));
        relative_.resize(m_);
        relative_weights(state_.log_weights.data() + c * m_, m_, relative_.data());
        for (int i = 0; i < m_; ++i)
            selected_[i] = draws.uniform(i, Purpose::selection) < (1 - delta) * relative_[i] + delta;
    }

    void update_output(int c, int t, int n, double target, double weight, Draws& draws) {
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
            if (active) update_expansion(e, t, n, y, f, weight, draws);
            if (combiner.hedge && (active || !combiner.discount_selected_only))
                log_weights[i] += weight * charged_loss(combiner.loss, y, f, config_.epsilon) * combiner.log_gamma;
        }
        if (combiner.share > 0) share_weights(log_weights, m_, combiner.share, relative_);
    }

    void update_expansion(int e, int t, int n, double y, double f, double weight, Draws& draws) {
        const bool regression = config_.task == Task::regression;
        Example x;
        x.regression = regression;
        x.residual = y - f;
        x.agreement = y * f;
        x.direction = regression ? (x.residual > 0 ? 1.0 : -1.0) : y;
        x.loss = regression ? std::max(0.0, std::fabs(x.residual) - config_.epsilon) : std::max(0.0, 1 - x.agreement);
        x.weight = weight;
        const double self = self_value(e % m_, t, n);
        x.step_norm = config_.normalize_step ? self : 1;
        const LearnerSpec& spec = config_.learner;
        x.draw = 0;
        if (spec.kind == LearnerKind::spa && x.loss > 0) x.draw = draws.uniform(e % m_, Purpose::sparsity);
        if (spec.kind == LearnerKind::rbp && x.agreement <= 0) x.draw = draws.uniform(e % m_, Purpose::victim);
        if (fused_) {
            GrowingSupport support(*this, e);
            if (spec.kind == LearnerKind::perceptron) perceptron(support, x, spec);
            if (spec.kind == LearnerKind::pa) pa(support, x, spec);
            if (spec.kind == LearnerKind::spa) spa(support, x, spec);
            return;
        }
        Support<T, Engine> support(*this, state_.pool, state_.expansions[e], config_.budget,
                                   values_.data() + values_start_[e], self);
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

    // The row just learned, for the rows after it in the block.
    void store_new_terms(int t, int n) {
        const int slot = slot_of_row();
        std::sort(new_terms_.begin(), new_terms_.end(),
                  [&](const auto& a, const auto& b) { return rank_[a.kernel] < rank_[b.kernel]; });
        for (const NewTerm<T>& term : new_terms_) {
            tile_term(state_, slot / kTile, term.expansion).coef[slot % kTile] = term.coef;
            state_.pool.retain(slot);
            ++state_.n_support[term.expansion];
        }
        if (t + 1 == n) return;
        primitives_->append(block_.rows(), t, n, block_.tiles().data(), new_terms_.data(), int(new_terms_.size()), slot % kLanes,
                            config_.kernels.data(), partial_.data(), n_expansions_);
    }

    void relate_new_row(int t, int n) {
        if (t + 1 == n || !state_.pool.used(row_slot_)) return;
        const std::vector<Tile<T>>& tiles = block_.tiles();
        const int first = (t + 1) / kTile, n_tiles = int(tiles.size()) - first;
        column_.resize(std::size_t(n_tiles) * kTile);
        primitives_->inner(block_.rows(), t, t + 1, tiles.data() + first, n_tiles, column_.data(), 0);
        for (int r = t + 1; r < n; ++r) inner_.data()[r * inner_stride_ + row_slot_] = column_[r - first * kTile];
        for (int i = 0; i < m_; ++i)
            if (config_.kernels[i].kind == KernelKind::callable)
                for (int r = t + 1; r < n; ++r)
                    called_[i][r * inner_stride_ + row_slot_] = called_block_[i][std::size_t(r) * n + t];
    }

    Config config_;
    int m_, n_expansions_;
    const Primitives<T>* primitives_;
    KernelCallback<T> callback_;
    State<T> state_;
    bool fused_ = false, has_callable_ = false, has_distance_ = false, has_cosine_ = false;
    std::vector<int> rank_;

    // the block at hand
    Block<T> block_;
    std::vector<Tile<T>> views_;
    std::vector<std::vector<Term<T>>> view_terms_;
    Buffer<T> partial_;  // fused path: lanes of every row and expansion
    Buffer<T> inner_;    // listed path: inner products of every row with every slot
    std::size_t inner_stride_ = 0;
    std::vector<std::vector<T>> called_, called_block_;

    // the row at hand
    int row_ = 0, row_slot_ = -1;
    std::vector<double> f_, relative_;
    std::vector<char> selected_;
    std::vector<NewTerm<T>> new_terms_;
    std::vector<T> distance_, cosine_, values_, column_;
    std::vector<std::size_t> values_start_;
    std::vector<T> stored_row_, stored_values_, stored_inner_, stored_distance_, stored_cosine_;
};

}  // namespace bomkl
