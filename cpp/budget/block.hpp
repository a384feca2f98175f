// The block of rows at hand: as rows for scoring, and tiled like the pool once one of them becomes support.
#pragma once

#include "budget/config.hpp"
#include "budget/pool.hpp"

namespace bomkl {

template <class T>
class Block {
public:
    // `sparse`: rows are never made dense
    Block(int features, bool sparse) : features_(features), sparse_(sparse) {}

    const Rows<T>& rows() const { return rows_; }
    int n() const { return n_; }
    Row<T> row(int t) const {
        if (sparse_) return {nullptr, entries_[t]};
        return {rows_.x + std::size_t(t) * features_, {}};
    }
    double squared_norm_of(int t) const { return squared_norm_[t]; }

    // Rows start to start + n of a batch.
    void load(const Batch<T>& batch, std::int64_t start, int n) {
        n_ = n;
        tiles_.clear();
        if (batch.values) collect(batch, start);
        const T* given = batch.values ? nullptr : batch.dense + start * features_;
        const bool few = given ? drop_zeros(given) : mostly_zeros(values_.size());
        const T* x = sparse_ ? nullptr : given ? given : made_dense();
        const std::size_t padded = std::size_t((n + kTile - 1) / kTile) * kTile;
        norm_.assign(padded, T(0));
        inverse_length_.assign(padded, T(0));
        squared_norm_.resize(n);
        rows_ = {x,
                 std::size_t(features_),
                 norm_.data(),
                 inverse_length_.data(),
                 features_,
                 sparse_ || few ? entries_.data() : nullptr};
        if (few && !sparse_) collect_ones();
        for (int t = 0; t < n; ++t) {
            squared_norm_[t] = squared_norm(rows_.sparse ? Row<T>{nullptr, entries_[t]} : row(t), features_);
            norm_[t] = T(squared_norm_[t]);
            inverse_length_[t] = inverse_length<T>(squared_norm_[t]);
        }
    }

    const std::vector<Tile<T>>& tiles() {
        if (!tiles_.empty()) return tiles_;
        const int n_tiles = (n_ + kTile - 1) / kTile;
        if (sparse_) {
            entries_.resize(std::size_t(n_tiles) * kTile);
            number_columns();
        } else
            tiled_.at_least(std::size_t(n_tiles) * kTile * features_);
        tiles_.reserve(n_tiles);
        for (int q = 0; q < n_tiles; ++q) {
            const T* x = sparse_ ? nullptr : transposed(q);
            const T* norms = norm_.data() + q * kTile;
            tiles_.push_back({x, norms, inverse_length_.data() + q * kTile, nullptr, 0, std::max_element(norms, norms + kTile),
                              0, sparse_ ? entries_.data() + q * kTile : nullptr});
        }
        if (sparse_) rows_.sparse = entries_.data();
        return tiles_;
    }

    // Inner products of row t with the rows from `first` on, which is a multiple of a tile: out[row].
    void inner_with_later(const Primitives<T>& primitives, int t, int first, T* out) {
        const std::vector<Tile<T>>& all = tiles();
        if (!sparse_) {
            primitives.inner(rows_, t, t + 1, all.data() + first / kTile, int(all.size()) - first / kTile, out + first, 0);
            return;
        }
        const SparseRow<T> x = renumbered(t);
        for (int i = 0; i < x.n; ++i) spread_[x.columns[i]] = x.values[i];
        std::fill_n(out + first, int(all.size()) * kTile - first, T(0));
        for (int r = first; r < n_; ++r) out[r] = primitives.gather_inner(renumbered(r), spread_.data());
        for (int i = 0; i < x.n; ++i) spread_[x.columns[i]] = T(0);
    }

private:
    // Columns that occur in the block get numbers without gaps: memory then grows with the entries, not with the columns.
    void number_columns() {
        std::vector<std::int32_t> occurring = columns_;
        std::sort(occurring.begin(), occurring.end());
        occurring.erase(std::unique(occurring.begin(), occurring.end()), occurring.end());
        numbers_.resize(columns_.size());
        for (std::size_t i = 0; i < columns_.size(); ++i)
            numbers_[i] = std::int32_t(std::lower_bound(occurring.begin(), occurring.end(), columns_[i]) - occurring.begin());
        spread_.assign(occurring.size(), T(0));
    }
    SparseRow<T> renumbered(int t) const {
        const SparseRow<T>& x = entries_[t];
        return {x.values, numbers_.data() + (x.columns - columns_.data()), x.n};
    }
    void collect_ones() {
        int most = 0;
        for (const SparseRow<T>& row : entries_) most = std::max(most, row.n);
        if (most > kMostOnes || !std::all_of(values_.begin(), values_.end(), [](T value) { return value == 1; })) return;
        const int n_ones = (most + 1) / 2 * 2;
        ones_.assign(std::size_t(n_) * n_ones, features_);
        for (int t = 0; t < n_; ++t) std::copy_n(entries_[t].columns, entries_[t].n, ones_.begin() + std::size_t(t) * n_ones);
        rows_.ones = ones_.data();
        rows_.n_ones = n_ones;
    }
    bool mostly_zeros(std::size_t entries) const { return 2 * entries < std::size_t(n_) * features_; }

    // The entries of CSR rows: columns ascending, repeated ones added up, no zeros.
    void collect(const Batch<T>& batch, std::int64_t start) {
        values_.clear();
        columns_.clear();
        ends_.clear();
        for (int t = 0; t < n_; ++t) {
            const std::int64_t begin = batch.starts[start + t], end = batch.starts[start + t + 1];
            if (ascending(batch, begin, end))
                for (std::int64_t p = begin; p < end; ++p) keep(batch.indices[p], batch.values[p]);
            else
                collect_unordered(batch, begin, end);
            ends_.push_back(values_.size());
        }
        point_to_entries();
    }
    static bool ascending(const Batch<T>& batch, std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin + 1; p < end; ++p)
            if (batch.indices[p] <= batch.indices[p - 1]) return false;
        return true;
    }
    void collect_unordered(const Batch<T>& batch, std::int64_t begin, std::int64_t end) {
        std::vector<std::int64_t> order(end - begin);
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = begin + std::int64_t(i);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::int64_t a, std::int64_t b) { return batch.indices[a] < batch.indices[b]; });
        for (std::size_t i = 0; i < order.size();) {
            const std::int32_t column = batch.indices[order[i]];
            T sum = 0;
            for (; i < order.size() && batch.indices[order[i]] == column; ++i) sum += batch.values[order[i]];
            keep(column, sum);
        }
    }
    // The same for dense rows; false where that does not pay.
    bool drop_zeros(const T* x) {
        const std::size_t size = std::size_t(n_) * features_;
        std::size_t entries = 0;
        for (std::size_t i = 0; i < size; ++i) entries += x[i] != 0;
        if (!sparse_ && !mostly_zeros(entries)) return false;
        values_.clear();
        columns_.clear();
        ends_.clear();
        for (int t = 0; t < n_; ++t) {
            for (int j = 0; j < features_; ++j) keep(j, x[std::size_t(t) * features_ + j]);
            ends_.push_back(values_.size());
        }
        point_to_entries();
        return true;
    }
    void keep(std::int32_t column, T value) {
        if (value == 0) return;
        columns_.push_back(column);
        values_.push_back(value);
    }
    void point_to_entries() {
        entries_.resize(n_);
        std::size_t begin = 0;
        for (int t = 0; t < n_; ++t) {
            entries_[t] = {values_.data() + begin, columns_.data() + begin, int(ends_[t] - begin)};
            begin = ends_[t];
        }
    }
    const T* made_dense() {
        const std::size_t size = std::size_t(n_) * features_;
        dense_.at_least(size);
        std::fill_n(dense_.data(), size, T(0));
        for (int t = 0; t < n_; ++t)
            for (int i = 0; i < entries_[t].n; ++i)
                dense_.data()[std::size_t(t) * features_ + entries_[t].columns[i]] = entries_[t].values[i];
        return dense_.data();
    }
    const T* transposed(int q) {
        T* tile = tiled_.data() + std::size_t(q) * kTile * features_;
        const int rows = std::min(kTile, n_ - q * kTile);
        if (rows_.sparse) {
            std::fill_n(tile, std::size_t(kTile) * features_, T(0));
            for (int r = 0; r < rows; ++r) {
                const SparseRow<T>& x = entries_[q * kTile + r];
                for (int i = 0; i < x.n; ++i) tile[std::size_t(x.columns[i]) * kTile + r] = x.values[i];
            }
            return tile;
        }
        for (int r = 0; r < rows; ++r) {
            const T* x = rows_.x + std::size_t(q * kTile + r) * features_;
            for (int j = 0; j < features_; ++j) tile[std::size_t(j) * kTile + r] = x[j];
        }
        // with rows of an earlier block there, distances would seem to lose their digits and be computed anew
        for (int j = 0; j < features_; ++j)
            std::fill(tile + std::size_t(j) * kTile + rows, tile + std::size_t(j + 1) * kTile, T(0));
        return tile;
    }

    int features_;
    bool sparse_;
    int n_ = 0;
    Rows<T> rows_{};
    Buffer<T> dense_, tiled_;
    std::vector<T> spread_;
    std::vector<T> norm_, inverse_length_;
    std::vector<double> squared_norm_;
    std::vector<Tile<T>> tiles_;
    // rows without their zeros
    std::vector<T> values_;
    std::vector<std::int32_t> columns_, numbers_;
    std::vector<std::size_t> ends_;
    std::vector<SparseRow<T>> entries_;
    std::vector<std::int32_t> ones_;
};

}  // namespace bomkl
