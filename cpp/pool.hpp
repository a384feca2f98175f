// Support rows shared by all kernels, stored once, in tiles of 64. Growing never copies a row.
//
// A tile belongs to a sequence, and every sequence fills its own tiles: rows of one kernel lie together, so that a tile is not
// evaluated with kernels that have hardly a row in it.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "buffer.hpp"
#include "postings.hpp"
#include "primitives.hpp"

namespace bomkl {

template <class T>
struct Row {  // one row in the form its pool stores: `dense`, or where that is null, `sparse`
    const T* dense = nullptr;
    SparseRow<T> sparse;
};

template <class T>
double squared_norm(const Row<T>& row, int features) {
    double sum = 0;
    const T* entries = row.dense ? row.dense : row.sparse.values;
    const int n = row.dense ? features : row.sparse.n;
    for (int j = 0; j < n; ++j) sum += double(entries[j]) * double(entries[j]);
    return sum;
}

template <class T>
T inverse_length(double squared_norm) {
    return squared_norm > 0 ? T(1 / std::sqrt(squared_norm)) : T(0);
}

// Where a pool that never releases a row ended at some time.
struct PoolMark {
    int n_tiles;
    std::vector<int> open, filled;  // of every sequence: its open tile, and the rows in it
};

template <class T>
class Pool {
public:
    Pool(int features, bool sparse, int n_sequences) : features_(features), sparse_(sparse), open_(n_sequences, -1) {}

    int features() const { return features_; }
    bool sparse() const { return sparse_; }
    int n_tiles() const { return int(tiles_.size()); }
    int n_slots() const { return tiles_.empty() ? 0 : (n_tiles() - 1) * kTile + tiles_.back().filled; }
    int n_rows() const { return n_rows_; }
    bool used(int slot) const { return tiles_[slot / kTile].uses[slot % kTile] > 0; }
    int sequence_of(int tile) const { return tiles_[tile].sequence; }
    int filled(int tile) const { return tiles_[tile].filled; }
    const Postings<T>& postings() const { return postings_; }

    int add(const Row<T>& row, int sequence = 0) {
        int slot;
        if (free_.empty()) {
            if (open_[sequence] < 0 || tiles_[open_[sequence]].filled == kTile) {
                open_[sequence] = n_tiles();
                tiles_.emplace_back(features_, sparse_, sequence);
            }
            slot = open_[sequence] * kTile + tiles_[open_[sequence]].filled++;
        } else {
            slot = free_.back();
            free_.pop_back();
        }
        Stored& tile = tiles_[slot / kTile];
        const int c = slot % kTile;
        if (sparse_) {
            tile.keep(c, row.sparse);
            postings_.add(slot, tile.sparse[c]);
        } else {
            for (int j = 0; j < features_; ++j) tile.x()[std::size_t(j) * kTile + c] = row.dense[j];
            tile.keep_bytes(c, row.dense);
        }
        const double square = squared_norm(row, features_);
        tile.norm()[c] = T(square);
        tile.inverse_length()[c] = inverse_length<T>(square);
        *tile.largest_norm() = std::max(*tile.largest_norm(), T(square));
        return slot;
    }
    void retain(int slot) { n_rows_ += ++tiles_[slot / kTile].uses[slot % kTile] == 1; }
    void release(int slot) {
        Stored& tile = tiles_[slot / kTile];
        if (--tile.uses[slot % kTile] > 0) return;
        --n_rows_;
        free_.push_back(slot);
        if (sparse_) postings_.remove(slot, tile.sparse[slot % kTile]);
    }

    PoolMark mark() const {
        PoolMark mark{n_tiles(), open_, {}};
        for (const int q : open_) mark.filled.push_back(q < 0 ? 0 : tiles_[q].filled);
        return mark;
    }
    // Forget the rows added since; only for pools that never release one.
    void cut_back(const PoolMark& mark) {
        for (std::size_t sequence = 0; sequence < mark.open.size(); ++sequence)
            if (mark.open[sequence] >= 0) forget(mark.open[sequence], mark.filled[sequence]);
        while (n_tiles() > mark.n_tiles) {
            forget(n_tiles() - 1, 0);
            tiles_.pop_back();
        }
        open_ = mark.open;
    }

    void read(int slot, T* row) const {
        const Stored& tile = tiles_[slot / kTile];
        const int c = slot % kTile;
        if (sparse_) {
            std::fill_n(row, features_, T(0));
            for (int i = 0; i < tile.sparse[c].n; ++i) row[tile.sparse[c].columns[i]] = tile.sparse[c].values[i];
        } else {
            for (int j = 0; j < features_; ++j) row[j] = tile.x()[std::size_t(j) * kTile + c];
        }
    }
    const SparseRow<T>& sparse_row(int slot) const { return tiles_[slot / kTile].sparse[slot % kTile]; }
    double squared_norm_of(int slot) const { return tiles_[slot / kTile].norm()[slot % kTile]; }
    Tile<T> tile(int q) const {
        const Stored& t = tiles_[q];
        return {sparse_ ? nullptr : t.x(), t.norm(), t.inverse_length(), nullptr, 0, t.largest_norm(), t.sequence == 0,
                t.sparse.get(), t.ones.data()};
    }
    std::size_t bytes() const {
        std::size_t total = postings_.bytes();
        for (const Stored& tile : tiles_) total += tile.bytes();
        return total;
    }

private:
    struct Stored {
        int sequence, features;
        int filled = 0;
        bool only_ones = true;  // so far
        Buffer<T> memory;       // x, where it is dense; norms; inverse lengths; the largest norm
        Buffer<std::uint8_t> ones;  // x once more, as Tile::bytes has it; empty where it cannot be had
        std::vector<int> uses;  // how many expansions hold the row
        std::vector<std::vector<T>> values;  // the entries of sparse rows
        std::vector<std::vector<std::int32_t>> columns;
        std::unique_ptr<SparseRow<T>[]> sparse;

        Stored(int n_features, bool is_sparse, int of_sequence)
            : sequence(of_sequence), features(is_sparse ? 0 : n_features), memory(std::size_t(features + 2) * kTile + 1),
              uses(kTile, 0) {
            if (!is_sparse) return;
            values.resize(kTile);
            columns.resize(kTile);
            sparse = std::make_unique<SparseRow<T>[]>(kTile);
        }
        Stored(const Stored& other)
            : sequence(other.sequence), features(other.features), filled(other.filled),
              only_ones(other.only_ones), memory(other.memory), ones(other.ones), uses(other.uses), values(other.values),
              columns(other.columns) {
            if (!other.sparse) return;
            sparse = std::make_unique<SparseRow<T>[]>(kTile);
            for (int c = 0; c < kTile; ++c) view(c);
        }
        Stored(Stored&&) = default;

        T* x() { return memory.data(); }
        T* norm() { return memory.data() + std::size_t(features) * kTile; }
        T* inverse_length() { return norm() + kTile; }
        T* largest_norm() { return norm() + 2 * kTile; }
        const T* x() const { return memory.data(); }
        const T* norm() const { return memory.data() + std::size_t(features) * kTile; }
        const T* inverse_length() const { return norm() + kTile; }
        const T* largest_norm() const { return norm() + 2 * kTile; }

        void keep_bytes(int c, const T* row) {
            for (int j = 0; only_ones && j < features; ++j) only_ones = row[j] == 0 || row[j] == 1;
            if (!only_ones) return void(ones = Buffer<std::uint8_t>());
            ones.at_least(std::size_t(features + 2) * kTile);
            std::uint8_t* const column = ones.data() + c;
            std::uint8_t& square = column[std::size_t(features + 1) * kTile] = 0;
            for (int j = 0; j < features; ++j) square += column[std::size_t(j) * kTile] = row[j] == 1;
        }
        void keep(int c, const SparseRow<T>& row) {
            values[c].assign(row.values, row.values + row.n);
            columns[c].assign(row.columns, row.columns + row.n);
            view(c);
        }
        void view(int c) { sparse[c] = {values[c].data(), columns[c].data(), int(values[c].size())}; }
        std::size_t bytes() const {
            std::size_t total = memory.size() * sizeof(T) + ones.size() + kTile * sizeof(int);
            for (const auto& v : values) total += v.capacity() * (sizeof(T) + sizeof(std::int32_t));
            return total + values.size() * (sizeof(SparseRow<T>) + 2 * sizeof(std::vector<T>));
        }
    };

    void forget(int q, int filled) {
        Stored& tile = tiles_[q];
        for (int c = filled; c < tile.filled; ++c) {
            n_rows_ -= tile.uses[c] > 0;
            tile.uses[c] = 0;
            if (sparse_) postings_.remove(q * kTile + c, tile.sparse[c]);
        }
        tile.filled = filled;
    }

    int features_;
    bool sparse_;
    int n_rows_ = 0;
    std::vector<int> open_;  // the tile every sequence fills, -1 where it has none
    std::vector<Stored> tiles_;
    std::vector<int> free_;
    Postings<T> postings_;
};

}  // namespace bomkl
