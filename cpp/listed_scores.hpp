// Scores under rules that drop, scale or project: every expansion is a list of slots with coefficients.
//
// Rows are looked at ahead of their turn, a line of them at once. What the kernels are maps of is computed between the rows
// of a line and every slot of the pool, slot by slot, with the rows of the line side by side: so a slot of a list is one
// vector, wherever it lies. Kernel values with every list are then laid out row by row, in the order of the list. What is
// learned meanwhile moves nothing: a support row that is dropped leaves a gap, which each later row closes when its turn
// comes, and one that is added has its kernel values with the later rows behind the others. Sums are made when a row is
// scored, over the list in its order, with its coefficients of that moment: nothing depends on how far was looked ahead.
//
// A row or two are not worth that. They, and Python callables, gather from all slots what their lists need.
#pragma once

#include <cstring>

#include "scores.hpp"

namespace bomkl {

template <class T>
class ListedScores : public BlockScores<T> {
public:
    using Base = BlockScores<T>;

    ListedScores(const Config& config, const Primitives<T>& primitives, KernelCallback<T> callback, State<T>& state)
        : Base(config, primitives, state), callback_(std::move(callback)), calls_(has_callable(config.kernels)),
          ahead_(n_expansions_), values_of_(n_expansions_) {
        for (const PreparedKernel<T>& k : prepared_)
            if (k.kind != kCallable) needed_[int(k.source)] = true;
    }

    int block_rows(int n_threads) const override {
        const std::size_t slots = std::size_t(state_.pool.n_tiles() + 1) * kTile;
        if (calls_) return Base::rows_within(4 << 20, slots * (1 + m_) * sizeof(T), 12, 252, n_threads);
        const std::size_t sources = std::count(needed_, needed_ + kSources, true);
        const int rows = Base::rows_within(kCached, slots * sources * sizeof(T), kLine<T>, kTile, n_threads);
        return rows / kLine<T> * kLine<T>;
    }

    void score_block(int n_threads, const std::function<void()>& pause) override {
        this->refresh_views();
        line_ = kNone;
        const int n = block_.n();
        n_slots_ = std::size_t(state_.pool.n_tiles()) * kTile + (n + kTile - 1) / kTile * kTile;
        looks_ahead_ = n >= kWorthALine;
        if (looks_ahead_) relate_lines(n_threads, pause);
        if (calls_) call_kernels();
    }

    void score_row(int t, double* f) override {
        stored_slot_ = kNone;
        if (looks_ahead_) {
            if (t / kLine<T> != line_) map_line(t / kLine<T>);
            for (int e = 0; e < n_expansions_; ++e)
                values_of_[e] = ahead_[e].vanishes ? zeros_.data() : without_gaps(e, t % kLine<T>);
        } else {
            gather_row(t);
        }
        for (int e = 0; e < n_expansions_; ++e) {
            const Expansion<T>& expansion = state_.expansions[e];
            if (is_callable(e)) {
                const T* const called = called_[e % m_].data() + t * n_slots_;
                for (int j = 0; j < expansion.size(); ++j) values_of_[e][j] = called[expansion.slots[j]];
            }
            if (looks_ahead_ && ahead_[e].vanishes)
                f[e] = 0;
            else
                f[e] =
                    expansion.scale * double(primitives_.weighted_sum(expansion.coefs.data(), values_of_[e], expansion.size()));
        }
    }

    // Kernel values between the row last scored and the support of an expansion, in the order of its list.
    const T* values_of(int expansion) const { return values_of_[expansion]; }

    double self_value(int kernel, int t) const override {
        if (config_.kernels[kernel].kind != kCallable) return Base::self_value(kernel, t);
        return called_block_[kernel][std::size_t(t) * block_.n() + t];
    }
    double self_value_of(int kernel, const Row<T>& row) {
        if (config_.kernels[kernel].kind != kCallable)
            return self_kernel(config_.kernels[kernel], squared_norm(row, state_.pool.features()));
        T value;
        callback_(kernel, row.dense, 1, row.dense, 1, &value);
        return value;
    }

    // f of an expansion on one of its own support rows.
    double score_of(int expansion, int slot) {
        const Expansion<T>& e = state_.expansions[expansion];
        const int kernel = expansion % m_, n = e.size();
        stored_values_.resize(n);
        if (is_callable(expansion)) {
            call_kernel(kernel, slot, e);
            return e.scale * double(primitives_.weighted_sum(e.coefs.data(), stored_values_.data(), n));
        }
        if (slot != stored_slot_) relate_slot(slot);
        return e.scale * double(primitives_.expand(prepared_[kernel], stored_from_[prepared_[kernel]], e.slots.data(),
                                                   e.coefs.data(), n, stored_values_.data()));
    }
    // Kernel values between one support row of an expansion and all of them.
    const T* values_at(int expansion, int slot) {
        score_of(expansion, slot);
        return stored_values_.data();
    }

    // An expansion of the row last scored has got it as its last support row, or has dropped one. Cannot fail.
    void support_added(int expansion) noexcept {
        if (line_ == kNone) return;
        Ahead& ahead = ahead_[expansion];
        if (ahead.columns == ahead.room || added_.size() == added_.capacity()) return void(line_ = kNone);
        added_.push_back({expansion, ahead.columns++});
    }
    void support_dropped(int expansion, int place) noexcept {
        if (line_ == kNone) return;
        std::vector<int>& gaps = ahead_[expansion].gaps;
        if (gaps.size() == gaps.capacity()) return void(line_ = kNone);
        auto gap = gaps.begin();
        for (; gap != gaps.end() && *gap <= place; ++gap) ++place;
        gaps.insert(gap, place);
    }

    void row_changed(int slot) { this->tile_changed(slot / kTile); }

    // Row t has become support in this slot: the rows after it need to be related to it.
    void relate_new_row(int t, int slot) {
        const int n = block_.n();
        if (t + 1 < n && looks_ahead_) {
            if (!block_.rows().sparse)
                relate_new_slot(t, slot);
            else
                relate_new_slot_by_row(t, slot);
            if ((t + 1) / kLine<T> == line_) map_added(slot);
        }
        added_.clear();
        for (int i = 0; i < m_ && calls_; ++i)
            if (config_.kernels[i].kind == kCallable)
                for (int r = t + 1; r < n; ++r) called_[i][r * n_slots_ + slot] = called_block_[i][std::size_t(r) * n + t];
    }

private:
    using Base::block_, Base::config_, Base::m_, Base::n_expansions_, Base::prepared_, Base::primitives_, Base::state_,
        Base::views_;
    static constexpr int kNone = -1;
    static constexpr int kWorthALine = 3;               // rows
    static constexpr int kRoomForAdded = 2 * kLine<T>;  // some rules add a row twice and drop it once
    static constexpr std::size_t kCached = 256 << 10;   // a part of the second cache

    // What the kernels are maps of, between one row and every slot.
    struct SourcesOfRow {
        const T* of[kSources];
        const T* operator[](const PreparedKernel<T>& k) const { return of[int(k.source)]; }
    };
    // Kernel values of one expansion with the rows of a line: row r has them from start + r * stride on.
    struct Ahead {
        std::size_t start = 0, stride = 0;
        int columns = 0, room = 0;
        bool vanishes = false;  // all of them are zero, and none is written
        std::vector<int> gaps;  // columns of support rows that were dropped since, ascending
    };
    struct Added {
        int expansion, column;
    };

    static void make_room(Buffer<T>& buffer, std::size_t n) {
        if (buffer.size() < n) buffer.at_least(n + n / 2);
    }
    bool is_callable(int expansion) const { return config_.kernels[expansion % m_].kind == kCallable; }
    T* line_of(int source, int line) { return lines_[source].data() + line * n_slots_ * kLine<T>; }

    SourcesOfRow relate_row(const Rows<T>& rows, int r, const T* inner, std::vector<T>* memory) const {
        SourcesOfRow from{};
        T* out[kSources] = {};
        from.of[int(Source::inner_product)] = inner;
        for (int s = 0; s < kSources; ++s) {
            if (Source(s) == Source::inner_product || !needed_[s]) continue;
            memory[s].resize(views_.size() * kTile);
            from.of[s] = out[s] = memory[s].data();
        }
        primitives_.relate(rows, r, views_.data(), int(views_.size()), inner, out);
        return from;
    }

    void relate_lines(int n_threads, const std::function<void()>& pause) {
        const int n = block_.n(), n_lines = (n + kLine<T> - 1) / kLine<T>, n_tiles = int(views_.size());
        for (int s = 0; s < kSources; ++s)
            if (needed_[s]) make_room(lines_[s], n_lines * n_slots_ * kLine<T>);
        nearest_.resize(n_lines);
        const std::vector<Tile<T>>& tiles = block_.tiles();
        const Rows<T>& rows = block_.rows();
        in_parallel(
            n_lines, n_threads, double(n) * n_tiles * kTile * state_.pool.features(),
            [&](int begin, int end) {
                for (int line = begin; line < end; ++line) {
                    const int first = line * kLine<T>, of_line = std::min(kLine<T>, n - first);
                    T* out[kSources];
                    for (int s = 0; s < kSources; ++s) out[s] = needed_[s] ? line_of(s, line) : nullptr;
                    nearest_[line] = rows.sparse
                                         ? relate_line_by_rows(first, of_line, out)
                                         : primitives_.relate_line(rows, first, of_line, tiles[first / kTile].x + first % kTile,
                                                                   views_.data(), n_tiles, out);
                }
            },
            pause);
    }
    // Where rows have few entries: row by row, then turned round.
    T relate_line_by_rows(int first, int n, T* const* out) const {
        const int n_slots = int(views_.size()) * kTile;
        std::vector<T> rows[kSources], of_row[kSources];
        for (int s = 0; s < kSources; ++s)
            if (out[s]) rows[s].resize(std::size_t(n) * n_slots);
        std::vector<T> inner(n_slots);
        for (int r = 0; r < n; ++r) {
            this->inner_with_pool(block_.rows(), first + r, inner.data());
            const SourcesOfRow from = relate_row(block_.rows(), first + r, inner.data(), of_row);
            for (int s = 0; s < kSources; ++s)
                if (out[s]) std::copy_n(from.of[s], n_slots, rows[s].begin() + std::size_t(r) * n_slots);
        }
        for (int s = 0; s < kSources; ++s)
            if (out[s]) primitives_.turn_rows(rows[s].data(), n, n_slots, out[s]);
        const std::vector<T>& squares = rows[int(Source::squared_distance)];
        return squares.empty() ? T(0) : *std::min_element(squares.begin(), squares.end());
    }
    // The new row in this slot with the lines of the rows after it.
    void relate_new_slot(int t, int slot) {
        this->refresh_views();
        const int n = block_.n();
        for (int line = (t + 1) / kLine<T>; line * kLine<T> < n; ++line) {
            const int first = line * kLine<T>;
            T* out[kSources];
            for (int s = 0; s < kSources; ++s) out[s] = needed_[s] ? line_of(s, line) + std::size_t(slot) * kLine<T> : nullptr;
            comes_near(line, primitives_.relate_slot(
                                 block_.rows(), first, std::max(0, t + 1 - first), std::min(kLine<T>, n - first),
                                 block_.tiles()[first / kTile].x + first % kTile, views_[slot / kTile], slot % kTile, out));
        }
    }
    void relate_new_slot_by_row(int t, int slot) {
        this->relate_to_later(t);
        const int n = block_.n();
        const std::vector<Tile<T>>& tiles = block_.tiles();
        for (int q = (t + 1) / kTile; q < int(tiles.size()); ++q) {
            alignas(64) T related[kSources][kTile];
            const T* const inner = this->column_.data() + q * kTile;
            T* out[kSources];
            for (int s = 0; s < kSources; ++s) out[s] = needed_[s] && Source(s) != Source::inner_product ? related[s] : nullptr;
            primitives_.relate(block_.rows(), t, tiles.data() + q, 1, inner, out);
            const int begin = std::max(q * kTile, (t + 1) / kLine<T> * kLine<T>), end = std::min(n, (q + 1) * kTile);
            for (int first = begin; first < end; first += kLine<T>) {
                const int line = first / kLine<T>;
                for (int s = 0; s < kSources; ++s)
                    if (needed_[s])
                        std::copy_n((out[s] ? out[s] : inner) + first % kTile, kLine<T>,
                                    line_of(s, line) + std::size_t(slot) * kLine<T>);
                const T* const squares = related[int(Source::squared_distance)];
                if (out[int(Source::squared_distance)])
                    for (int r = std::max(first, t + 1); r < std::min(n, first + kLine<T>); ++r)
                        comes_near(line, squares[r % kTile]);
            }
        }
    }
    // A squared distance of a slot to a row of a line.
    void comes_near(int line, T square) { nearest_[line] = std::min(nearest_[line], square); }

    void map_line(int line) {
        line_ = line;
        std::size_t total = 0;
        for (int e = 0; e < n_expansions_; ++e) {
            Ahead& ahead = ahead_[e];
            ahead.start = total;
            ahead.columns = state_.expansions[e].size();
            ahead.room = ahead.columns + kRoomForAdded;
            ahead.stride = std::size_t(ahead.room + 2 * kLine<T> - 1) / kLine<T> * kLine<T>;
            ahead.vanishes = vanishes(e);
            ahead.gaps.clear();
            ahead.gaps.reserve(kRoomForAdded);
            total += ahead.stride * kLine<T>;
            zeros_.at_least(ahead.room);
        }
        make_room(ahead_values_, total);
        added_.clear();
        added_.reserve(2 * n_expansions_);
        for (int e = 0; e < n_expansions_; ++e) {
            if (is_callable(e) || ahead_[e].vanishes) continue;
            const PreparedKernel<T>& k = prepared_[e % m_];
            const Expansion<T>& expansion = state_.expansions[e];
            primitives_.map_line(k, line_of(int(k.source), line), expansion.slots.data(), expansion.size(),
                                 ahead_values_.data() + ahead_[e].start, ahead_[e].stride);
        }
    }
    // Whether a Gaussian is zero on all of the line.
    bool vanishes(int e) const {
        const PreparedKernel<T>& k = prepared_[e % m_];
        return k.kind == kGaussian && nearest_[line_] >= k.furthest;
    }
    void map_added(int slot) {
        for (const Added& added : added_) {
            if (is_callable(added.expansion)) continue;
            const Ahead& ahead = ahead_[added.expansion];
            if (ahead.vanishes && vanishes(added.expansion)) continue;
            if (ahead.vanishes) return void(line_ = kNone);
            const PreparedKernel<T>& k = prepared_[added.expansion % m_];
            primitives_.map_column(k, line_of(int(k.source), line_) + std::size_t(slot) * kLine<T>,
                                   ahead_values_.data() + ahead.start + added.column, ahead.stride);
        }
    }
    T* without_gaps(int e, int row) {
        const Ahead& ahead = ahead_[e];
        T* const values = ahead_values_.data() + ahead.start + row * ahead.stride;
        const std::size_t n_gaps = ahead.gaps.size();
        std::size_t leading = 0;
        while (leading < n_gaps && ahead.gaps[leading] == int(leading)) ++leading;
        if (leading < n_gaps) {
            T* to = values + ahead.gaps[leading];
            for (std::size_t i = leading; i < n_gaps; ++i) {
                const int from = ahead.gaps[i] + 1, until = i + 1 < n_gaps ? ahead.gaps[i + 1] : ahead.columns;
                std::memmove(to, values + from, (until - from) * sizeof(T));
                to += until - from;
            }
        }
        return values + leading;
    }

    void gather_row(int t) {
        this->refresh_views();
        row_inner_.resize(views_.size() * kTile);
        this->inner_with_pool(block_.rows(), t, row_inner_.data());
        const SourcesOfRow from = relate_row(block_.rows(), t, row_inner_.data(), row_sources_);
        std::size_t total = 0;
        for (int e = 0; e < n_expansions_; ++e) total += state_.expansions[e].size();
        make_room(ahead_values_, total);
        total = 0;
        for (int e = 0; e < n_expansions_; ++e) {
            const Expansion<T>& expansion = state_.expansions[e];
            values_of_[e] = ahead_values_.data() + total;
            total += expansion.size();
            if (!is_callable(e))
                primitives_.expand(prepared_[e % m_], from[prepared_[e % m_]], expansion.slots.data(), expansion.coefs.data(),
                                   expansion.size(), values_of_[e]);
        }
    }

    void call_kernels() {
        const int n = block_.n(), slots = state_.pool.n_slots(), d = state_.pool.features();
        std::vector<T> stored(std::size_t(slots) * d), values(std::size_t(n) * std::max(slots, n));
        for (int s = 0; s < slots; ++s) state_.pool.read(s, stored.data() + std::size_t(s) * d);
        called_.resize(m_);
        called_block_.resize(m_);
        for (int i = 0; i < m_; ++i) {
            if (config_.kernels[i].kind != kCallable) continue;
            called_[i].assign(n * n_slots_, T(0));
            if (slots > 0) callback_(i, block_.rows().x, n, stored.data(), slots, values.data());
            for (int t = 0; t < n; ++t)
                for (int s = 0; s < slots; ++s) called_[i][t * n_slots_ + s] = values[std::size_t(t) * slots + s];
            called_block_[i].resize(std::size_t(n) * n);
            callback_(i, block_.rows().x, n, block_.rows().x, n, called_block_[i].data());
        }
    }
    void call_kernel(int kernel, int slot, const Expansion<T>& e) {
        const int d = state_.pool.features();
        std::vector<T> row(d), others(std::size_t(e.size()) * d);
        state_.pool.read(slot, row.data());
        for (int j = 0; j < e.size(); ++j) state_.pool.read(e.slots[j], others.data() + std::size_t(j) * d);
        callback_(kernel, row.data(), 1, others.data(), e.size(), stored_values_.data());
    }

    void relate_slot(int slot) {
        this->refresh_views();
        const bool sparse = state_.pool.sparse();
        const int features = state_.pool.features();
        if (!sparse) {
            stored_row_.resize(features);
            state_.pool.read(slot, stored_row_.data());
        }
        const T norm = T(state_.pool.squared_norm_of(slot)), inverse = inverse_length<T>(norm);
        const SparseRow<T> entries = sparse ? state_.pool.sparse_row(slot) : without_zeros(stored_row_);
        const Rows<T> one{sparse ? nullptr : stored_row_.data(),
                          std::size_t(features),
                          &norm,
                          &inverse,
                          features,
                          sparse || 2 * entries.n < features ? &entries : nullptr};
        stored_inner_.resize(views_.size() * kTile);
        this->inner_with_pool(one, 0, stored_inner_.data());
        stored_from_ = relate_row(one, 0, stored_inner_.data(), stored_sources_);
        stored_slot_ = slot;
    }
    SparseRow<T> without_zeros(const std::vector<T>& row) {
        entry_values_.clear();
        entry_columns_.clear();
        for (std::size_t j = 0; j < row.size(); ++j)
            if (row[j] != 0) entry_values_.push_back(row[j]), entry_columns_.push_back(std::int32_t(j));
        return {entry_values_.data(), entry_columns_.data(), int(entry_values_.size())};
    }

    KernelCallback<T> callback_;
    bool calls_;
    bool needed_[kSources] = {};  // which sources the kernels are maps of
    std::size_t n_slots_ = 0;     // room for all slots that there can be until the block is learned

    bool looks_ahead_ = false;
    Buffer<T> lines_[kSources];  // of every line of the block and slot: the source, row beside row
    int line_ = kNone;           // the line that ahead_values_ is about; kNone where they do not hold any more
    std::vector<T> nearest_;     // of every line: no squared distance to a slot is less
    Buffer<T> ahead_values_, zeros_;
    std::vector<Ahead> ahead_;
    std::vector<Added> added_;  // by the row last scored
    std::vector<T*> values_of_;

    std::vector<T> row_inner_, row_sources_[kSources];
    std::vector<std::vector<T>> called_, called_block_;  // kernel values of callables with every slot, and within the block

    int stored_slot_ = kNone;  // the slot that stored_from_ is about
    SourcesOfRow stored_from_{};
    std::vector<T> stored_row_, stored_inner_, stored_values_, entry_values_, stored_sources_[kSources];
    std::vector<std::int32_t> entry_columns_;
};

}  // namespace bomkl
