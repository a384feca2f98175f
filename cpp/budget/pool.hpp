// Support rows shared by all kernels, stored once, in tiles of 64. Growing never copies a row, and neither does copying the
// pool: copies share their tiles, and whoever writes to a shared tile makes it its own first. Copies are made under the lock of
// the model, and dropped at any time.
//
// A tile belongs to a sequence, and every sequence fills its own tiles: rows of one kernel lie together, so that a tile is not
// evaluated with kernels that have hardly a row in it.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "budget/postings.hpp"
#include "primitives/buffer.hpp"
#include "primitives/primitives.hpp"

namespace bomkl {

// Whether nobody else holds it any more. `use_count` looks without order: where others have let go of it, a change of the
// count makes sure that what they did with it is over.
template <class Held>
bool is_only_holder(const std::shared_ptr<Held>& held) {
    if (held.use_count() > 1) return false;
    const std::shared_ptr<Held> ordered = held;
    return true;
}

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

template <class T>
class Pool {
public:
    Pool(int features, bool sparse, int n_sequences) : features_(features), sparse_(sparse), open_(n_sequences, -1) {}

    int features() const { return features_; }
    bool sparse() const { return sparse_; }
    int n_tiles() const { return int(tiles_.size()); }
    int n_slots() const { return tiles_.empty() ? 0 : (n_tiles() - 1) * kTile + tiles_.back()->filled; }
    int n_rows() const { return n_rows_; }
    bool used(int slot) const { return uses_[slot] > 0; }
    const Postings<T>& postings() const { return *postings_; }

    // Store a row in a free slot. Where memory runs out, nothing has changed.
    int add(const Row<T>& row, int sequence = 0) {
        free_.reserve(uses_.size());
        released_.reserve(1);
        if (free_.empty() && (open_[sequence] < 0 || tiles_[open_[sequence]]->filled == kTile)) open_tile(sequence);
        const bool reused = !free_.empty();
        const int slot = reused ? free_.back() : open_[sequence] * kTile + tiles_[open_[sequence]]->filled;
        Stored& tile = own(slot / kTile);
        const int c = slot % kTile;
        if (sparse_) {
            tile.keep(c, row.sparse);
            own_postings().add(slot, tile.sparse[c]);
        } else {
            tile.keep_bytes(c, row.dense);
            for (int j = 0; j < features_; ++j) tile.x()[std::size_t(j) * kTile + c] = row.dense[j];
        }
        if (reused)
            free_.pop_back();
        else
            ++tile.filled;
        uses_[slot] = 0;
        const double square = squared_norm(row, features_);
        tile.norm()[c] = T(square);
        tile.inverse_length()[c] = inverse_length<T>(square);
        *tile.largest_norm() = std::max(*tile.largest_norm(), T(square));
        return slot;
    }
    void retain(int slot) { n_rows_ += ++uses_[slot] == 1; }
    // The slot is kept until `settle`, so that the release can be undone.
    void release(int slot) {
        if (uses_[slot] == 1) released_.push_back(slot);
        n_rows_ -= --uses_[slot] == 0;
    }
    // Free the slots of rows that nobody uses any more. Cannot fail: a row that is released makes room for one that is added.
    void settle() {
        for (const int slot : released_) {
            if (uses_[slot] != 0) continue;
            uses_[slot] = kFree;
            free_.push_back(slot);
            if (sparse_) postings_->remove(slot, sparse_row(slot));
        }
        released_.clear();
    }
    // Forget the row added last to a pool that never releases one.
    void take_back(int slot) {
        --tiles_[slot / kTile]->filled;
        if (sparse_) postings_->remove(slot, sparse_row(slot));
    }
    void undo_retain(int slot) { n_rows_ -= --uses_[slot] == 0; }
    // Rows released since the last `settle` have been retained again; `added` is a slot that is not used after all, or -1.
    void undo_releases(int added) {
        released_.clear();
        if (added < 0) return;
        released_.push_back(added);
        settle();
    }

    void read(int slot, T* row) const {
        const Stored& tile = *tiles_[slot / kTile];
        const int c = slot % kTile;
        if (sparse_) {
            std::fill_n(row, features_, T(0));
            for (int i = 0; i < tile.sparse[c].n; ++i) row[tile.sparse[c].columns[i]] = tile.sparse[c].values[i];
        } else {
            for (int j = 0; j < features_; ++j) row[j] = tile.x()[std::size_t(j) * kTile + c];
        }
    }
    const SparseRow<T>& sparse_row(int slot) const { return tiles_[slot / kTile]->sparse[slot % kTile]; }
    double squared_norm_of(int slot) const { return tiles_[slot / kTile]->norm()[slot % kTile]; }
    Tile<T> tile(int q) const {
        const Stored& t = *tiles_[q];
        return {sparse_ ? nullptr : t.x(), t.norm(),        t.inverse_length(), nullptr,      0,
                t.largest_norm(),          t.sequence == 0, t.sparse.get(),     t.ones.data()};
    }
    std::size_t bytes() const {
        std::size_t total = postings_->bytes() + uses_.capacity() * sizeof(int);
        for (const auto& tile : tiles_) total += tile->bytes();
        return total;
    }

private:
    struct Stored {
        int sequence, features;
        int filled = 0;
        bool only_ones = true;               // so far
        Buffer<T> memory;                    // x, where it is dense; norms; inverse lengths; the largest norm
        Buffer<std::uint8_t> ones;           // x once more, as Tile::bytes has it; empty where it cannot be had
        std::vector<std::vector<T>> values;  // the entries of sparse rows
        std::vector<std::vector<std::int32_t>> columns;
        std::unique_ptr<SparseRow<T>[]> sparse;

        Stored(int n_features, bool is_sparse, int of_sequence)
            : sequence(of_sequence), features(is_sparse ? 0 : n_features), memory(std::size_t(features + 2) * kTile + 1) {
            if (!is_sparse) return;
            values.resize(kTile);
            columns.resize(kTile);
            sparse = std::make_unique<SparseRow<T>[]>(kTile);
        }
        Stored(const Stored& other)
            : sequence(other.sequence), features(other.features), filled(other.filled), only_ones(other.only_ones),
              memory(other.memory), ones(other.ones), values(other.values), columns(other.columns) {
            if (!other.sparse) return;
            sparse = std::make_unique<SparseRow<T>[]>(kTile);
            for (int c = 0; c < kTile; ++c) view(c);
        }

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
            std::vector<T> new_values(row.values, row.values + row.n);
            std::vector<std::int32_t> new_columns(row.columns, row.columns + row.n);
            values[c].swap(new_values);
            columns[c].swap(new_columns);
            view(c);
        }
        void view(int c) { sparse[c] = {values[c].data(), columns[c].data(), int(values[c].size())}; }
        std::size_t bytes() const {
            std::size_t total = memory.size() * sizeof(T) + ones.size();
            for (const auto& v : values) total += v.capacity() * (sizeof(T) + sizeof(std::int32_t));
            return total + values.size() * (sizeof(SparseRow<T>) + 2 * sizeof(std::vector<T>));
        }
    };

    void open_tile(int sequence) {
        uses_.resize(tiles_.size() * kTile + kTile, 0);
        free_.reserve(uses_.size());
        tiles_.push_back(std::make_shared<Stored>(features_, sparse_, sequence));
        open_[sequence] = n_tiles() - 1;
    }
    Stored& own(int q) {
        if (!is_only_holder(tiles_[q])) tiles_[q] = std::make_shared<Stored>(*tiles_[q]);
        return *tiles_[q];
    }
    Postings<T>& own_postings() {
        if (!is_only_holder(postings_)) postings_ = std::make_shared<Postings<T>>(*postings_);
        return *postings_;
    }

    int features_;
    bool sparse_;
    int n_rows_ = 0;
    std::vector<int> open_;  // the tile every sequence fills, -1 where it has none
    static constexpr int kFree = -1;
    std::vector<std::shared_ptr<Stored>> tiles_;
    std::vector<int> uses_;  // of every slot: how many expansions hold its row
    std::vector<int> free_, released_;
    std::shared_ptr<Postings<T>> postings_ = std::make_shared<Postings<T>>();
};

}  // namespace bomkl
