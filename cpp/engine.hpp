// The one learning loop: score a block against what is stored, then learn it row by row.
//
// Two ways to hold an expansion. Rules that only add rows (no budget) use the fused path: coefficients lie in the pool's
// tiles, a block is scored in one pass, and a row that becomes support adds its kernel values to the scores of the rows
// after it. All other rules use the listed path: the inner products of the block with the pool are kept, and each row
// maps and sums them over the expansion's own list, so that dropping, scaling and projecting need no bookkeeping.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "combiner.hpp"
#include "expansion.hpp"
#include "learners/bogd.hpp"
#include "learners/bpas.hpp"
#include "learners/forgetron.hpp"
#include "learners/pa.hpp"
#include "learners/perceptron.hpp"
#include "learners/projectron.hpp"
#include "learners/rbp.hpp"
#include "learners/spa.hpp"
#include "philox.hpp"
#include "pool.hpp"

namespace bomkl {

enum class Task { binary, multiclass, regression };

struct Config {
    std::vector<KernelSpec> kernels;
    std::vector<std::string> kernel_names;
    LearnerSpec learner;
    CombinerSpec combiner;
    Task task = Task::binary;
    int n_outputs = 1;
    bool vote = false;
    bool select = false;  // kernels are selected at random for ...
    bool select_updates = false;
    bool select_combination = false;
    bool normalize_step = false;
    int budget = 0;  // 0: none
    double epsilon = 0;
    std::uint64_t seed = 0;
};

struct NotFinite : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <class T>
struct Batch {  // dense rows, or CSR where values is set
    std::int64_t n = 0;
    const T* dense = nullptr;
    const T* values = nullptr;
    const std::int32_t* indices = nullptr;
    const std::int64_t* starts = nullptr;
};

// Kernel values of a Python callable: (kernel, X, rows of X, Z, rows of Z, out)
template <class T>
using KernelCallback = std::function<void(int, const T*, int, const T*, int, T*)>;

template <class T>
class Engine {
public:
    Engine(Config config, int features, const Primitives<T>& primitives, KernelCallback<T> callback)
        : config_(std::move(config)), m_(int(config_.kernels.size())), n_expansions_(config_.n_outputs * m_),
          primitives_(&primitives), callback_(std::move(callback)), state_(features, n_expansions_, m_) {
        const LearnerKind kind = config_.learner.kind;
        const bool only_adds = kind == LearnerKind::perceptron || kind == LearnerKind::pa || kind == LearnerKind::spa;
        for (const KernelSpec& k : config_.kernels) {
            has_callable_ |= k.kind == KernelKind::callable;
            has_distance_ |= k.uses_distance();
            has_cosine_ |= k.kind == KernelKind::cosine;
        }
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
        Snapshot before = snapshot(batch.n);
        try {
            for_each_block(batch, n_threads, [&](int n, std::int64_t start) {
                block_tiles_ready_ = false;
                for (int t = 0; t < n; ++t) {
                    row_scores(t, start + t);
                    const double w = weight ? weight[start + t] : 1;
                    learn_row(t, n, target[start + t], w, delta ? delta[start + t] : 0, out + (start + t) * config_.n_outputs);
                }
            });
        } catch (...) {
            restore(std::move(before));
            throw;
        }
    }

    // ---- state, as plain arrays -----------------------------------------------------------------------------------------
    struct Terms {  // one expansion, rows numbered as in rows()
        std::vector<std::int32_t> rows;
        std::vector<double> coefs;
    };
    std::vector<T> rows() const {
        std::vector<T> out;
        std::vector<T> row(features());
        for (int s = 0; s < state_.pool.n_slots(); ++s)
            if (state_.pool.used(s)) {
                state_.pool.read(s, row.data());
                out.insert(out.end(), row.begin(), row.end());
            }
        return out;
    }
    // Coefficients as stored; multiply by scale() for the true ones.
    std::vector<Terms> terms() const {
        std::vector<Terms> out(n_expansions_);
        std::vector<int> number(state_.pool.n_slots());
        for (int s = 0, next = 0; s < state_.pool.n_slots(); ++s)
            if (state_.pool.used(s)) number[s] = next++;
        if (!fused_)
            for (int e = 0; e < n_expansions_; ++e)
                for (int j = 0; j < state_.expansions[e].size(); ++j) {
                    out[e].rows.push_back(number[state_.expansions[e].slots[j]]);
                    out[e].coefs.push_back(state_.expansions[e].coefs[j]);
                }
        else
            for (std::size_t q = 0; q < state_.tile_terms.size(); ++q)
                for (const StoredTerm& term : state_.tile_terms[q])
                    for (int c = 0; c < kTile; ++c)
                        if (term.coef[c] != 0) {
                            out[term.expansion].rows.push_back(number[q * kTile + c]);
                            out[term.expansion].coefs.push_back(term.coef[c]);
                        }
        return out;
    }
    void load(const std::vector<T>& rows, const std::vector<Terms>& terms, const std::vector<double>& log_weights,
              const std::vector<double>& scales, const std::vector<double>& forgetron,
              const std::vector<std::vector<double>>& inverse_grams, const std::vector<std::int64_t>& kernel_mistakes,
              std::int64_t mistakes, std::int64_t n_seen) {
        State fresh(features(), n_expansions_, m_);
        const int n = int(rows.size() / std::max(1, features()));
        for (int s = 0; s < n; ++s) fresh.pool.add(rows.data() + std::size_t(s) * features());
        std::swap(state_, fresh);
        try {
            std::vector<T> row(features());
            for (int e = 0; e < n_expansions_; ++e) {
                Expansion<T>& expansion = state_.expansions[e];
                for (std::size_t j = 0; j < terms[e].rows.size(); ++j) {
                    const int slot = terms[e].rows[j];
                    if (slot < 0 || slot >= n) throw std::invalid_argument("a support row number is out of range");
                    state_.pool.retain(slot);
                    if (fused_) {
                        stored_term(slot / kTile, e).coef[slot % kTile] = T(terms[e].coefs[j]);
                        ++state_.n_support[e];
                        continue;
                    }
                    expansion.slots.push_back(slot);
                    expansion.coefs.push_back(T(terms[e].coefs[j]));
                    expansion.diagonal.push_back(self_value_of_slot(e % m_, slot, row));
                }
                expansion.scale = scales[e];
                expansion.forgetron = {forgetron[2 * e], forgetron[2 * e + 1]};
                expansion.inverse_gram = inverse_grams[e];
            }
            for (int s = 0; s < n; ++s)
                if (!state_.pool.used(s)) throw std::invalid_argument("a support row is used by no kernel");
        } catch (...) {
            std::swap(state_, fresh);
            throw;
        }
        state_.log_weights = log_weights;
        state_.kernel_mistakes = kernel_mistakes;
        state_.mistakes = mistakes;
        state_.n_seen = n_seen;
    }
    int features() const { return state_.pool.features(); }
    int n_rows() const { return state_.pool.n_rows(); }
    int n_expansions() const { return n_expansions_; }
    const Config& config() const { return config_; }
    const std::vector<double>& log_weights() const { return state_.log_weights; }
    const std::vector<std::int64_t>& kernel_mistakes() const { return state_.kernel_mistakes; }
    std::int64_t mistakes() const { return state_.mistakes; }
    std::int64_t n_seen() const { return state_.n_seen; }
    std::vector<std::int64_t> n_support() const {
        if (fused_) return state_.n_support;
        std::vector<std::int64_t> out;
        for (const auto& e : state_.expansions) out.push_back(e.size());
        return out;
    }
    std::vector<double> scales() const {
        std::vector<double> out;
        for (const auto& e : state_.expansions) out.push_back(e.scale);
        return out;
    }
    std::vector<double> forgetron_progress() const {
        std::vector<double> out;
        for (const auto& e : state_.expansions) out.insert(out.end(), {e.forgetron.mistakes, e.forgetron.damage});
        return out;
    }
    const std::vector<double>& inverse_gram(int e) const { return state_.expansions[e].inverse_gram; }
    std::size_t bytes() const {
        std::size_t total = state_.pool.bytes();
        for (const auto& tile : state_.tile_terms) total += tile.capacity() * sizeof(StoredTerm);
        for (const auto& e : state_.expansions)
            total += e.slots.capacity() * sizeof(int) + e.coefs.capacity() * sizeof(T) +
                     (e.diagonal.capacity() + e.inverse_gram.capacity()) * sizeof(double);
        return total;
    }

    // ---- what the update rules call back (see expansion.hpp) --------------------------------------------------------------
    int slot_of_row() {
        if (row_slot_ < 0) row_slot_ = state_.pool.add(rows_.x + row_ * rows_.stride);
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
    struct StoredTerm {
        int kernel, expansion;
        alignas(64) T coef[kTile];
    };
    struct State {
        State(int features, int n_expansions, int m)
            : pool(features), expansions(n_expansions), log_weights(n_expansions, -std::log(double(m))),
              n_support(n_expansions, 0), kernel_mistakes(n_expansions, 0) {}
        Pool<T> pool;
        std::vector<Expansion<T>> expansions;             // listed path
        std::vector<std::vector<StoredTerm>> tile_terms;  // fused path
        std::vector<double> log_weights;
        std::vector<std::int64_t> n_support;  // fused path
        std::vector<std::int64_t> kernel_mistakes;
        std::int64_t mistakes = 0, n_seen = 0;
    };
    struct Snapshot {
        std::unique_ptr<State> whole;
        int n_slots = 0;
        std::vector<double> log_weights;
        std::vector<std::int64_t> n_support, kernel_mistakes;
        std::int64_t mistakes = 0, n_seen = 0;
        bool empty = true;
    };

    // A single row is checked before anything changes, so it needs no snapshot; a growing pool is only cut back.
    Snapshot snapshot(std::int64_t n) const {
        Snapshot s;
        if (n <= 1) return s;
        s.empty = false;
        if (!fused_) {
            s.whole = std::make_unique<State>(state_);
            return s;
        }
        s.n_slots = state_.pool.n_slots();
        s.log_weights = state_.log_weights;
        s.n_support = state_.n_support;
        s.kernel_mistakes = state_.kernel_mistakes;
        s.mistakes = state_.mistakes;
        s.n_seen = state_.n_seen;
        return s;
    }
    void restore(Snapshot s) {
        if (s.empty) return;
        if (s.whole) {
            state_ = std::move(*s.whole);
            return;
        }
        state_.pool.truncate(s.n_slots);
        state_.tile_terms.resize(state_.pool.n_tiles());
        if (s.n_slots % kTile != 0)
            for (StoredTerm& term : state_.tile_terms.back())
                std::fill(term.coef + s.n_slots % kTile, term.coef + kTile, T(0));
        state_.log_weights = std::move(s.log_weights);
        state_.n_support = std::move(s.n_support);
        state_.kernel_mistakes = std::move(s.kernel_mistakes);
        state_.mistakes = s.mistakes;
        state_.n_seen = s.n_seen;
    }

    std::pair<bool, double> rank_key(int i) const {
        const KernelSpec& k = config_.kernels[i];
        return {k.kind == KernelKind::gaussian, k.kind == KernelKind::gaussian ? k.a : 0.0};
    }
    StoredTerm& stored_term(std::size_t q, int expansion) {
        if (state_.tile_terms.size() <= q) state_.tile_terms.resize(q + 1);
        auto& tile = state_.tile_terms[q];
        const auto key = [&](int e) { return std::pair(rank_[e % m_], e); };
        auto place = std::lower_bound(tile.begin(), tile.end(), key(expansion),
                                      [&](const StoredTerm& term, const auto& k) { return key(term.expansion) < k; });
        if (place == tile.end() || place->expansion != expansion)
            place = tile.insert(place, StoredTerm{expansion % m_, expansion, {}});
        return *place;
    }

    // ---- blocks ---------------------------------------------------------------------------------------------------------
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
            prepare_rows(batch, start, n);
            if (fused_)
                score_fused(n, n_threads);
            else
                relate_listed(n, n_threads);
            body(n, start);
            start += n;
        }
    }

    void prepare_rows(const Batch<T>& batch, std::int64_t start, int n) {
        const int d = features();
        if (batch.values) {
            dense_.at_least(std::size_t(n) * d);
            std::fill_n(dense_.data(), std::size_t(n) * d, T(0));
            for (int t = 0; t < n; ++t)
                for (std::int64_t p = batch.starts[start + t]; p < batch.starts[start + t + 1]; ++p)
                    dense_.data()[std::size_t(t) * d + batch.indices[p]] += batch.values[p];
        }
        const T* x = batch.values ? dense_.data() : batch.dense + start * d;
        norm_.resize(n);
        inverse_length_.resize(n);
        squared_norm_.resize(n);
        for (int t = 0; t < n; ++t) {
            squared_norm_[t] = squared_norm(x + std::size_t(t) * d, d);
            check_range(squared_norm_[t], start + t);
            norm_[t] = T(squared_norm_[t]);
            inverse_length_[t] = inverse_length<T>(squared_norm_[t]);
        }
        rows_ = {x, std::size_t(d), norm_.data(), inverse_length_.data(), d};
    }

    // No kernel value between rows that pass this can overflow.
    void check_range(double square, std::int64_t row) const {
        const double limit = double(std::numeric_limits<T>::max()) / 1024;
        if (!(square < limit))
            throw NotFinite("X must be smaller: the squared norm of row " + std::to_string(row) + " is " +
                            std::to_string(square) + ", too large for " + dtype_name() + ". Scale the columns.");
        for (int i = 0; i < m_; ++i) {
            const double value = largest_kernel_value(config_.kernels[i], square);
            if (config_.kernels[i].kind == KernelKind::polynomial && !(value < limit))
                throw NotFinite("The kernel " + config_.kernel_names[i] + " overflows " + dtype_name() + " on row " +
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
            for (const StoredTerm& term : state_.tile_terms[q])
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
            primitives_->evaluate(rows_, begin, end, views_.data(), int(views_.size()), config_.kernels.data(),
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
            primitives_->inner(rows_, begin, end, views_.data(), n_tiles, inner_.data(), inner_stride_);
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
            if (slots > 0) callback_(i, rows_.x, n, stored.data(), slots, values.data());
            for (int t = 0; t < n; ++t)
                for (int s = 0; s < slots; ++s) called_[i][t * inner_stride_ + s] = values[std::size_t(t) * slots + s];
            called_block_[i].resize(std::size_t(n) * n);
            callback_(i, rows_.x, n, rows_.x, n, called_block_[i].data());
        }
    }

    // ---- one row ---------------------------------------------------------------------------------------------------------
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
                throw NotFinite("The score of kernel " + config_.kernel_names[e % m_] + " on row " +
                                std::to_string(number) + " of X overflows " + dtype_name() + " (" + std::to_string(f_[e]) +
                                "): the steps diverge. Scale the columns, take a smaller step, or set normalize_step=True.");
    }

    void listed_scores(int t) {
        const T* inner = inner_.data() + t * inner_stride_;
        distance_.resize(inner_stride_);
        cosine_.resize(inner_stride_);
        if (int(views_.size()) != state_.pool.n_tiles()) refresh_views();
        if (has_distance_ || has_cosine_)
            primitives_->relate(rows_, t, views_.data(), int(views_.size()), inner,
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
        return self_kernel(config_.kernels[kernel], squared_norm_[t]);
    }
    double self_value_of_slot(int kernel, int slot, std::vector<T>& row) {
        state_.pool.read(slot, row.data());
        if (config_.kernels[kernel].kind != KernelKind::callable)
            return self_kernel(config_.kernels[kernel], squared_norm(row.data(), features()));
        T value;
        callback_(kernel, row.data(), 1, row.data(), 1, &value);
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

    // The row just learned, as a column for the rows after it in the block.
    void need_block_tiles(int n) {
        if (block_tiles_ready_) return;
        const int n_tiles = (n + kTile - 1) / kTile, d = features();
        block_x_.at_least(std::size_t(n_tiles) * kTile * d);
        norm_.resize(std::size_t(n_tiles) * kTile, T(0));
        inverse_length_.resize(std::size_t(n_tiles) * kTile, T(0));
        rows_.norm = norm_.data();
        rows_.inverse_length = inverse_length_.data();
        block_tiles_.resize(n_tiles);
        for (int q = 0; q < n_tiles; ++q) {
            T* tile = block_x_.data() + std::size_t(q) * kTile * d;
            const int rows = std::min(kTile, n - q * kTile);
            for (int r = 0; r < rows; ++r) {
                const T* x = rows_.x + std::size_t(q * kTile + r) * rows_.stride;
                for (int j = 0; j < d; ++j) tile[std::size_t(j) * kTile + r] = x[j];
            }
            block_tiles_[q] = {tile, norm_.data() + q * kTile, inverse_length_.data() + q * kTile, nullptr, 0};
        }
        block_tiles_ready_ = true;
    }

    void store_new_terms(int t, int n) {
        const int slot = slot_of_row();
        std::sort(new_terms_.begin(), new_terms_.end(),
                  [&](const auto& a, const auto& b) { return rank_[a.kernel] < rank_[b.kernel]; });
        for (const NewTerm<T>& term : new_terms_) {
            stored_term(slot / kTile, term.expansion).coef[slot % kTile] = term.coef;
            state_.pool.retain(slot);
            ++state_.n_support[term.expansion];
        }
        if (t + 1 == n) return;
        need_block_tiles(n);
        primitives_->append(rows_, t, n, block_tiles_.data(), new_terms_.data(), int(new_terms_.size()), slot % kLanes,
                            config_.kernels.data(), partial_.data(), n_expansions_);
    }

    void relate_new_row(int t, int n) {
        if (t + 1 == n || !state_.pool.used(row_slot_)) return;
        need_block_tiles(n);
        const int first = (t + 1) / kTile, n_tiles = int(block_tiles_.size()) - first;
        column_.resize(std::size_t(n_tiles) * kTile);
        primitives_->inner(rows_, t, t + 1, block_tiles_.data() + first, n_tiles, column_.data(), 0);
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
    State state_;
    bool fused_ = false, has_callable_ = false, has_distance_ = false, has_cosine_ = false;
    std::vector<int> rank_;

    // the block at hand
    Rows<T> rows_{};
    Buffer<T> dense_, partial_, inner_, block_x_;
    std::size_t inner_stride_ = 0;
    std::vector<T> norm_, inverse_length_, column_;
    std::vector<double> squared_norm_;
    std::vector<Tile<T>> views_, block_tiles_;
    std::vector<std::vector<Term<T>>> view_terms_;
    std::vector<std::vector<T>> called_, called_block_;
    bool block_tiles_ready_ = false;

    // the row at hand
    int row_ = 0, row_slot_ = -1;
    std::vector<double> f_, relative_;
    std::vector<char> selected_;
    std::vector<NewTerm<T>> new_terms_;
    std::vector<T> distance_, cosine_, values_;
    std::vector<std::size_t> values_start_;
    std::vector<T> stored_row_, stored_values_, stored_inner_, stored_distance_, stored_cosine_;
};

}  // namespace bomkl
