// The block of rows at hand: row-major for scoring, and tiled like the pool once one of its rows becomes support.
#pragma once

#include "config.hpp"
#include "pool.hpp"

namespace bomkl {

template <class T>
class Block {
public:
    explicit Block(int features) : features_(features) {}

    const Rows<T>& rows() const { return rows_; }
    int n() const { return n_; }
    const T* row(int t) const { return rows_.x + std::size_t(t) * features_; }
    double squared_norm_of(int t) const { return squared_norm_[t]; }

    // Rows start to start + n of a batch. CSR rows are made dense, here and never more than a block of them.
    void load(const Batch<T>& batch, std::int64_t start, int n) {
        n_ = n;
        tiles_.clear();
        if (batch.values) {
            const std::size_t size = std::size_t(n) * features_;
            dense_.at_least(size);
            std::fill_n(dense_.data(), size, T(0));
            for (int t = 0; t < n; ++t)
                for (std::int64_t p = batch.starts[start + t]; p < batch.starts[start + t + 1]; ++p)
                    dense_.data()[std::size_t(t) * features_ + batch.indices[p]] += batch.values[p];
        }
        const T* x = batch.values ? dense_.data() : batch.dense + start * features_;
        const std::size_t padded = std::size_t((n + kTile - 1) / kTile) * kTile;
        norm_.assign(padded, T(0));
        inverse_length_.assign(padded, T(0));
        squared_norm_.resize(n);
        for (int t = 0; t < n; ++t) {
            squared_norm_[t] = squared_norm(x + std::size_t(t) * features_, features_);
            norm_[t] = T(squared_norm_[t]);
            inverse_length_[t] = inverse_length<T>(squared_norm_[t]);
        }
        rows_ = {x, std::size_t(features_), norm_.data(), inverse_length_.data(), features_};
    }

    const std::vector<Tile<T>>& tiles() {
        if (!tiles_.empty()) return tiles_;
        const int n_tiles = (n_ + kTile - 1) / kTile;
        tiled_.at_least(std::size_t(n_tiles) * kTile * features_);
        for (int q = 0; q < n_tiles; ++q) {
            T* tile = tiled_.data() + std::size_t(q) * kTile * features_;
            const int rows = std::min(kTile, n_ - q * kTile);
            for (int r = 0; r < rows; ++r)
                for (int j = 0; j < features_; ++j) tile[std::size_t(j) * kTile + r] = row(q * kTile + r)[j];
            tiles_.push_back({tile, norm_.data() + q * kTile, inverse_length_.data() + q * kTile, nullptr, 0});
        }
        return tiles_;
    }

private:
    int features_;
    int n_ = 0;
    Rows<T> rows_{};
    Buffer<T> dense_, tiled_;
    std::vector<T> norm_, inverse_length_;
    std::vector<double> squared_norm_;
    std::vector<Tile<T>> tiles_;
};

}  // namespace bomkl
