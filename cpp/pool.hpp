// Support rows shared by all kernels, stored once, in tiles of 64. Growing never copies a row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "primitives.hpp"

namespace bomkl {

template <class T>
class Buffer {  // zeroed memory on a cache line boundary
public:
    explicit Buffer(std::size_t n = 0) : n_(n), data_(allocate(n)) {}
    Buffer(const Buffer& other) : Buffer(other.n_) {
        if (n_) std::memcpy(data_, other.data_, n_ * sizeof(T));
    }
    Buffer(Buffer&& other) noexcept : n_(other.n_), data_(other.data_) { other.n_ = 0, other.data_ = nullptr; }
    Buffer& operator=(Buffer other) noexcept {
        std::swap(n_, other.n_);
        std::swap(data_, other.data_);
        return *this;
    }
    ~Buffer() { std::free(data_); }
    T* data() { return data_; }
    const T* data() const { return data_; }
    std::size_t size() const { return n_; }
    void at_least(std::size_t n) {
        if (n > n_) *this = Buffer(n);
    }

private:
    static T* allocate(std::size_t n) {
        if (n == 0) return nullptr;
        const std::size_t bytes = (n * sizeof(T) + 63) / 64 * 64;
        void* memory = std::aligned_alloc(64, bytes);
        if (!memory) throw std::bad_alloc();
        std::memset(memory, 0, bytes);
        return static_cast<T*>(memory);
    }
    std::size_t n_;
    T* data_;
};

template <class T>
double squared_norm(const T* row, int features) {
    double sum = 0;
    for (int j = 0; j < features; ++j) sum += double(row[j]) * double(row[j]);
    return sum;
}

template <class T>
T inverse_length(double squared_norm) {
    return squared_norm > 0 ? T(1 / std::sqrt(squared_norm)) : T(0);
}

template <class T>
class Pool {
public:
    explicit Pool(int features) : features_(features) {}

    int features() const { return features_; }
    int n_slots() const { return n_slots_; }
    int n_tiles() const { return int(tiles_.size()); }
    int n_rows() const { return n_slots_ - int(free_.size()); }
    bool used(int slot) const { return uses_[slot] > 0; }

    int add(const T* row) {
        int slot;
        if (free_.empty()) {
            slot = n_slots_++;
            if (n_slots_ > n_tiles() * kTile) grow();
        } else {
            slot = free_.back();
            free_.pop_back();
        }
        T* column = tiles_[slot / kTile].data() + slot % kTile;
        for (int j = 0; j < features_; ++j) column[std::size_t(j) * kTile] = row[j];
        const double square = squared_norm(row, features_);
        norm_[slot] = T(square);
        inverse_length_[slot] = inverse_length<T>(square);
        return slot;
    }
    void retain(int slot) { ++uses_[slot]; }
    void release(int slot) {
        if (--uses_[slot] == 0) free_.push_back(slot);
    }
    // Forget the newest rows; only for pools that never release one.
    void truncate(int n_slots) {
        std::fill(uses_.begin() + n_slots, uses_.begin() + n_slots_, 0);
        n_slots_ = n_slots;
        tiles_.resize((n_slots + kTile - 1) / kTile);
    }
    void read(int slot, T* row) const {
        const T* column = tiles_[slot / kTile].data() + slot % kTile;
        for (int j = 0; j < features_; ++j) row[j] = column[std::size_t(j) * kTile];
    }
    double squared_norm_of(int slot) const { return norm_[slot]; }
    Tile<T> tile(int q) const {
        return {tiles_[q].data(), norm_.data() + q * kTile, inverse_length_.data() + q * kTile, nullptr, 0};
    }
    std::size_t bytes() const { return tiles_.size() * kTile * (features_ + 2) * sizeof(T) + uses_.size() * sizeof(int); }

private:
    void grow() {
        tiles_.emplace_back(std::size_t(features_) * kTile);
        const std::size_t n = tiles_.size() * kTile;
        norm_.resize(n, T(0));
        inverse_length_.resize(n, T(0));
        uses_.resize(n, 0);
    }
    int features_;
    int n_slots_ = 0;
    std::vector<Buffer<T>> tiles_;
    std::vector<T> norm_, inverse_length_;
    std::vector<int> uses_;  // how many expansions hold the row
    std::vector<int> free_;
};

}  // namespace bomkl
