// Scores of the block at hand under every expansion, kept right while its rows become support.
//
// Two ways to hold an expansion. Rules that only add rows (no budget) use the fused path: coefficients lie in the pool's
// tiles, a block is scored in one pass, and a row that becomes support adds its kernel values to the scores of the rows
// after it. All other rules, and Python callables, use the listed path: the inner products of the block with the pool are
// kept, and each row maps and sums them over the expansion's own list, so that dropping, scaling and projecting need no
// bookkeeping. Rules of Fourier features need no support rows: the features of a block depend on nothing that is learned.
#pragma once

#include "block.hpp"
#include "config.hpp"
#include "parallel.hpp"
#include "state.hpp"

namespace bomkl {

template <class T>
class BlockScores {
public:
    BlockScores(const Config& config, const Primitives<T>& primitives, KernelCallback<T> callback, State<T>& state)
        : config_(config), m_(int(config.kernels.size())), n_expansions_(config.n_outputs * m_), primitives_(&primitives),
          callback_(std::move(callback)), state_(state), prepared_(config.kernels.begin(), config.kernels.end()),
          block_(state.pool.features(), state.pool.sparse()) {
        primitives_->tabulate(prepared_.data(), m_);
        for (const PreparedKernel<T>& k : prepared_) {
            has_callable_ |= k.kind == kCallable;
            needed_[int(k.source)] = true;
        }
        fused_ = only_adds(config_.learner) && config_.budget == 0 && !has_callable_;
        featured_ = n_frequencies(config_.learner) > 0;
        // Gaussians come last, widest first: where one vanishes, so do all after it.
        std::vector<int> order(m_);
        for (int i = 0; i < m_; ++i) order[i] = i;
        std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return rank_key(i) < rank_key(j); });
        rank_.resize(m_);
        for (int i = 0; i < m_; ++i) rank_[order[i]] = i;
    }

    bool fused() const { return fused_; }
    bool has_callable() const { return has_callable_; }
    const Block<T>& block() const { return block_; }

    // How many rows a block may have so that what every thread keeps of it stays small.
    int block_rows(int n_threads) const {
        const std::size_t per_row = featured_ ? std::size_t(m_) * 2 * n_frequencies(config_.learner)
                                    : fused_  ? std::size_t(n_expansions_) * kLaneSets * kLanes
                                              : std::size_t(state_.pool.n_tiles() + 4) * kTile * (has_callable_ ? 1 + m_ : 1);
        const std::size_t fits = (std::size_t(4) << 20) / (per_row * sizeof(T));
        const int rows = int(std::clamp<std::size_t>(fits, 12, 252));
        return n_threads > 1 ? 2 * rows * std::min(n_threads, 16) : rows;  // starting threads takes time, too
    }

    void load_block(const Batch<T>& batch, std::int64_t start, int n) { block_.load(batch, start, n); }

    // Everything about the loaded block that does not depend on its own rows.
    void score_block(int n_threads, const std::function<void()>& pause) {
        if (featured_)
            make_features(block_.n(), n_threads, pause);
        else if (fused_)
            score_fused(block_.n(), n_threads, pause);
        else
            relate_listed(block_.n(), n_threads, pause);
    }

    // f of every expansion on row t, all rows before it learned.
    void score_row(int t, std::vector<double>& f) {
        f.resize(n_expansions_);
        if (featured_) {
            for (int e = 0; e < n_expansions_; ++e)
                f[e] = double(primitives_->weighted_sum(state_.expansions[e].coefs.data(), features_of(e % m_, t),
                                                        state_.frequencies->n_features()));
            return;
        }
        if (!fused_) return listed_scores(t, f);
        const T* const lanes = partial_.data() + std::size_t(t) * n_expansions_ * (kLaneSets * kLanes);
        primitives_->sum_lanes(lanes, n_expansions_, f.data());
    }

    // Listed path: kernel values between the row last scored and the support of an expansion, in the order of its list.
    T* values_of(int e) { return values_.data() + values_start_[e]; }

    // Fourier features of row t of the block.
    const T* features_of(int kernel, int t) const { return waves_.data() + features_start(kernel, t); }

    // k(x, x) of row t of the block, and of any row.
    double self_value(int kernel, int t) const {
        if (config_.kernels[kernel].kind == kCallable) return called_block_[kernel][std::size_t(t) * block_.n() + t];
        return self_kernel(config_.kernels[kernel], block_.squared_norm_of(t));
    }
    double self_value_of(int kernel, const Row<T>& row) {
        if (config_.kernels[kernel].kind != kCallable)
            return self_kernel(config_.kernels[kernel], squared_norm(row, state_.pool.features()));
        T value;
        callback_(kernel, row.dense, 1, row.dense, 1, &value);
        return value;
    }

    // Listed path: f of an expansion on one of its own support rows.
    double score_of(int expansion, int slot) {
        const Expansion<T>& e = state_.expansions[expansion];
        const int kernel = expansion % m_;
        const int n = e.size();
        stored_values_.resize(n);
        if (!state_.pool.sparse()) {
            stored_row_.resize(state_.pool.features());
            state_.pool.read(slot, stored_row_.data());
        }
        if (config_.kernels[kernel].kind == kCallable) {
            std::vector<T> others(std::size_t(n) * state_.pool.features());
            for (int j = 0; j < n; ++j) state_.pool.read(e.slots[j], others.data() + std::size_t(j) * state_.pool.features());
            callback_(kernel, stored_row_.data(), 1, others.data(), n, stored_values_.data());
            return e.scale * double(primitives_->weighted_sum(e.coefs.data(), stored_values_.data(), n));
        }
        refresh_views();
        const T norm = T(state_.pool.squared_norm_of(slot)), inverse = inverse_length<T>(norm);
        const bool sparse = state_.pool.sparse();
        const int features = state_.pool.features();
        const SparseRow<T> entries = sparse ? state_.pool.sparse_row(slot) : without_zeros(stored_row_);
        const Rows<T> one{sparse ? nullptr : stored_row_.data(),
                          std::size_t(features),
                          &norm,
                          &inverse,
                          features,
                          sparse || 2 * entries.n < features ? &entries : nullptr};
        const std::size_t width = views_.size() * kTile;
        stored_inner_.resize(width);
        inner_with_pool(one, 0, 1, stored_inner_.data(), width);
        const SourcesOfRow from = stored_sources_.relate(*this, one, 0, stored_inner_.data(), width);
        return e.scale * double(primitives_->expand(prepared_[kernel], from[prepared_[kernel]], e.slots.data(), e.coefs.data(),
                                                    n, stored_values_.data()));
    }

    // Listed path: kernel values between one support row of an expansion and all of them.
    const T* values_at(int expansion, int slot) {
        score_of(expansion, slot);
        return stored_values_.data();
    }

    TileTerm<T>& tile_term(State<T>& state, std::size_t q, int expansion) const {
        auto& tile = state.own_terms(q);
        const auto key = [&](int e) { return std::pair(rank_[e % m_], e); };
        auto place = std::lower_bound(tile.begin(), tile.end(), key(expansion),
                                      [&](const TileTerm<T>& term, const auto& k) { return key(term.expansion) < k; });
        if (place == tile.end() || place->expansion != expansion)
            place = tile.insert(place, TileTerm<T>{expansion % m_, expansion, {}});
        return *place;
    }

    // The sequence of the pool that rows used by these kernels belong to (see State).
    static int sequence(int first_kernel, bool only_one) { return only_one ? 1 + first_kernel : 0; }

    // Fused path: row t becomes support with these coefficients.
    void add_terms(int t, std::vector<NewTerm<T>>& terms) {
        std::sort(terms.begin(), terms.end(), [&](const auto& a, const auto& b) {
            return std::pair(rank_[a.kernel], a.expansion) < std::pair(rank_[b.kernel], b.expansion);
        });
        const bool only_one = terms.front().kernel == terms.back().kernel;
        changed_tiles_.reserve(changed_tiles_.size() + 1);
        const int slot = state_.pool.add(block_.row(t), sequence(terms.front().kernel, only_one));
        try {  // make room first: the rest cannot fail
            for (const NewTerm<T>& term : terms) tile_term(state_, slot / kTile, term.expansion);
        } catch (...) {
            state_.pool.take_back(slot);
            row_changed(slot);
            throw;
        }
        for (const NewTerm<T>& term : terms) {
            tile_term(state_, slot / kTile, term.expansion).coef[slot % kTile] = term.coef;
            state_.pool.retain(slot);
            ++state_.n_support[term.expansion];
        }
        row_changed(slot);
        if (t + 1 == block_.n()) return;
        relate_to_later(t);
        primitives_->append(block_.rows(), t, block_.n(), block_.tiles().data(), column_.data(), terms.data(),
                            int(terms.size()), !only_one, slot % kLanes, prepared_.data(), partial_.data(), n_expansions_);
    }

    // What is cached about the row in this slot, or about the whole state, no longer holds.
    void row_changed(int slot) { changed_tiles_.push_back(slot / kTile); }
    void forget_views() {
        views_.clear();
        changed_tiles_.clear();
    }

    // Listed path: row t has become support in this slot; the rows after it need their inner products with it.
    void relate_new_row(int t, int slot) {
        const int n = block_.n();
        if (t + 1 == n) return;
        relate_to_later(t);
        for (int r = t + 1; r < n; ++r) inner_.data()[r * inner_stride_ + slot] = column_[r];
        for (int i = 0; i < m_; ++i)
            if (config_.kernels[i].kind == kCallable)
                for (int r = t + 1; r < n; ++r) called_[i][r * inner_stride_ + slot] = called_block_[i][std::size_t(r) * n + t];
    }

private:
    // What the kernels are maps of, between one row and every slot.
    struct SourcesOfRow {
        const T* of[kSources];
        const T* operator[](const PreparedKernel<T>& k) const { return of[int(k.source)]; }
    };
    struct Sources {
        std::vector<T> memory[kSources];
        SourcesOfRow relate(const BlockScores& scores, const Rows<T>& rows, int r, const T* inner, std::size_t width) {
            SourcesOfRow from{};
            T* out[kSources] = {};
            bool any = false;
            from.of[int(Source::inner_product)] = inner;
            for (int s = 0; s < kSources; ++s) {
                if (Source(s) == Source::inner_product || !scores.needed_[s]) continue;
                memory[s].resize(width);
                from.of[s] = out[s] = memory[s].data();
                any = true;
            }
            if (any) scores.primitives_->relate(rows, r, scores.views_.data(), int(scores.views_.size()), inner, out);
            return from;
        }
    };

    std::pair<bool, double> rank_key(int i) const {
        const KernelSpec& k = config_.kernels[i];
        return {k.kind == kGaussian, k.kind == kGaussian ? k.a : 0.0};
    }

    SparseRow<T> without_zeros(const std::vector<T>& row) {
        entry_values_.clear();
        entry_columns_.clear();
        for (std::size_t j = 0; j < row.size(); ++j)
            if (row[j] != 0) entry_values_.push_back(row[j]), entry_columns_.push_back(std::int32_t(j));
        return {entry_values_.data(), entry_columns_.data(), int(entry_values_.size())};
    }

    // Inner products of row t with the rows after it, into column_.
    void relate_to_later(int t) {
        column_.resize(std::size_t(block_.n() + kTile - 1) / kTile * kTile);
        block_.inner_with_later(*primitives_, t, (t + 1) / kTile * kTile, column_.data());
    }

    void refresh_view(int q) {
        views_[q] = state_.pool.tile(q);
        view_terms_[q].clear();
        if (!fused_ || std::size_t(q) >= state_.tile_terms.size()) return;
        for (const TileTerm<T>& term : *state_.tile_terms[q])
            view_terms_[q].push_back({term.kernel, term.expansion, term.coef});
        views_[q].terms = view_terms_[q].data();
        views_[q].n_terms = int(view_terms_[q].size());
    }
    void refresh_views() {
        const int known = int(views_.size()), n_tiles = state_.pool.n_tiles();
        views_.resize(n_tiles);
        view_terms_.resize(std::max(view_terms_.size(), views_.size()));
        for (int q = known; q < n_tiles; ++q) refresh_view(q);
        for (const int q : changed_tiles_) refresh_view(q);
        changed_tiles_.clear();
    }

    void score_fused(int n, int n_threads, const std::function<void()>& pause) {
        const std::size_t row_lanes = std::size_t(n_expansions_) * (kLaneSets * kLanes);
        partial_.at_least(n * row_lanes);
        refresh_views();
        const int n_tiles = int(views_.size());
        in_parallel(
            n, n_threads, double(n) * n_tiles * kTile * (state_.pool.features() + 16),
            [&](int begin, int end) {
                std::fill(partial_.data() + begin * row_lanes, partial_.data() + end * row_lanes, T(0));
                if (!state_.pool.sparse())
                    return primitives_->evaluate(block_.rows(), begin, end, views_.data(), n_tiles, prepared_.data(),
                                                 partial_.data(), n_expansions_);
                std::vector<T> inner(std::size_t(n_tiles) * kTile);
                for (int t = begin; t < end; ++t) {
                    inner_with_sparse_pool(block_.rows().sparse[t], inner.data());
                    primitives_->evaluate_related(block_.rows(), t, views_.data(), n_tiles, inner.data(), prepared_.data(),
                                                  partial_.data(), n_expansions_);
                }
            },
            pause);
    }

    std::size_t features_start(int kernel, int t) const {
        return (std::size_t(t) * m_ + kernel) * state_.frequencies->n_features();
    }
    void make_features(int n, int n_threads, const std::function<void()>& pause) {
        const Frequencies<T>& frequencies = *state_.frequencies;
        const int size = frequencies.size(), n_tiles = frequencies.n_tiles();
        const std::size_t stride = std::size_t(n_tiles) * kTile;
        inner_.at_least(n * stride);
        waves_.at_least(std::size_t(n) * m_ * frequencies.n_features());
        in_parallel(
            n, n_threads, double(n) * size * (state_.pool.features() + 32.0 * m_),
            [&](int begin, int end) {
                for (int base = 0; base < frequencies.kBases; ++base) {
                    if (!frequencies.has_base(base)) continue;
                    primitives_->inner(block_.rows(), begin, end, frequencies.tiles(base).data(), n_tiles, inner_.data(),
                                       stride);
                    for (int t = begin; t < end; ++t)
                        for (int i = 0; i < m_; ++i)
                            if (frequencies.base_of(i) == base)
                                primitives_->waves(inner_.data() + t * stride, frequencies.factors(i), size,
                                                   frequencies.amplitude(), waves_.data() + features_start(i, t));
                }
            },
            pause);
    }

    // Inner products of rows with all slots: out[row * stride + slot].
    void inner_with_pool(const Rows<T>& rows, int begin, int end, T* out, std::size_t stride) const {
        const int n_tiles = int(views_.size());
        if (!state_.pool.sparse()) return primitives_->inner(rows, begin, end, views_.data(), n_tiles, out, stride);
        for (int t = begin; t < end; ++t) inner_with_sparse_pool(rows.sparse[t], out + t * stride);
    }
    void inner_with_sparse_pool(const SparseRow<T>& row, T* out) const {
        std::fill_n(out, views_.size() * kTile, T(0));
        state_.pool.postings().inner(*primitives_, row, out);
    }

    void relate_listed(int n, int n_threads, const std::function<void()>& pause) {
        refresh_views();
        const int n_tiles = int(views_.size());
        inner_stride_ = std::size_t(n_tiles) * kTile + (n + kTile - 1) / kTile * kTile;
        inner_.at_least(n * inner_stride_);
        for (int t = 0; t < n; ++t)
            std::fill_n(inner_.data() + t * inner_stride_ + std::size_t(n_tiles) * kTile,
                        inner_stride_ - std::size_t(n_tiles) * kTile, T(0));
        in_parallel(
            n, n_threads, double(n) * n_tiles * kTile * state_.pool.features(),
            [&](int begin, int end) { inner_with_pool(block_.rows(), begin, end, inner_.data(), inner_stride_); }, pause);
        if (has_callable_) call_kernels(n);
    }

    void call_kernels(int n) {
        const int slots = state_.pool.n_slots(), d = state_.pool.features();
        std::vector<T> stored(std::size_t(slots) * d), values(std::size_t(n) * std::max(slots, n));
        for (int s = 0; s < slots; ++s) state_.pool.read(s, stored.data() + std::size_t(s) * d);
        called_.resize(m_);
        called_block_.resize(m_);
        for (int i = 0; i < m_; ++i) {
            if (config_.kernels[i].kind != kCallable) continue;
            called_[i].assign(n * inner_stride_, T(0));
            if (slots > 0) callback_(i, block_.rows().x, n, stored.data(), slots, values.data());
            for (int t = 0; t < n; ++t)
                for (int s = 0; s < slots; ++s) called_[i][t * inner_stride_ + s] = values[std::size_t(t) * slots + s];
            called_block_[i].resize(std::size_t(n) * n);
            callback_(i, block_.rows().x, n, block_.rows().x, n, called_block_[i].data());
        }
    }

    void listed_scores(int t, std::vector<double>& f) {
        refresh_views();
        const SourcesOfRow from = sources_.relate(*this, block_.rows(), t, inner_.data() + t * inner_stride_, inner_stride_);
        values_start_.resize(n_expansions_);
        std::size_t total = 0;
        for (int e = 0; e < n_expansions_; ++e) {
            values_start_[e] = total;
            total += state_.expansions[e].slots.size();
        }
        if (values_.size() < total) values_.resize(total);
        static const PreparedKernel<T> identity{kernel_named("Linear")};
        for (int e = 0; e < n_expansions_; ++e) {
            const Expansion<T>& expansion = state_.expansions[e];
            const bool called = config_.kernels[e % m_].kind == kCallable;
            const T* source = called ? called_[e % m_].data() + t * inner_stride_ : from[prepared_[e % m_]];
            f[e] = expansion.scale *
                   double(primitives_->expand(called ? identity : prepared_[e % m_], source, expansion.slots.data(),
                                              expansion.coefs.data(), expansion.size(), values_.data() + values_start_[e]));
        }
    }

    const Config& config_;
    int m_, n_expansions_;
    const Primitives<T>* primitives_;
    KernelCallback<T> callback_;
    State<T>& state_;
    bool fused_ = false, featured_ = false, has_callable_ = false;
    bool needed_[kSources] = {};  // which sources the kernels are maps of
    std::vector<int> rank_;

    std::vector<PreparedKernel<T>> prepared_;
    Block<T> block_;
    std::vector<Tile<T>> views_;
    std::vector<int> changed_tiles_;  // whose views are out of date
    std::vector<std::vector<Term<T>>> view_terms_;
    Buffer<T> waves_;    // Fourier features of every row and kernel
    Buffer<T> partial_;  // fused path: lanes of every row and expansion
    Buffer<T> inner_;    // listed path: inner products of every row with every slot
    std::size_t inner_stride_ = 0;
    std::vector<std::vector<T>> called_, called_block_;  // kernel values of callables with every slot, and within the block
    std::vector<T> values_, column_;
    Sources sources_, stored_sources_;
    std::vector<std::size_t> values_start_;
    std::vector<std::int32_t> entry_columns_;
    std::vector<T> entry_values_, stored_row_, stored_values_, stored_inner_;
};

}  // namespace bomkl
