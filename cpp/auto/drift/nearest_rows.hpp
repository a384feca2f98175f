// Votes of the nearest of the last rows, and of a uniform sample of all rows: what comes back is not forgotten.
//
// Rows are kept in tiles of 64, turned so that one product of a row with a tile is 64 distances. Copies share tiles until one
// of them changes a tile.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "auto/components/losses.hpp"
#include "auto/components/products.hpp"
#include "auto/trees/tree_sample.hpp"

namespace bomkl::automatic {

class NearestRows {
public:
    static constexpr std::size_t kExperts = 3;  // nearest of the last few rows, of the last rows, and of all that are kept
    static constexpr int kNearest = 5;

    NearestRows(std::size_t columns, std::uint64_t seed) : columns_(columns), seed_(seed) {
        const std::size_t most = kMostNumbers / columns;
        last_ = std::clamp<std::size_t>(most / 2, kFewest, kLast);
        drawn_ = std::min(kDrawn, most > last_ ? most - last_ : 0);
        for (std::size_t i = 0; i < (last_ + drawn_ + kTile - 1) / kTile; ++i) tiles_.push_back(nullptr);
    }

    std::size_t columns() const { return columns_; }

    // Scores (kExperts, outputs) of a row in its view; those of `base` while there are too few rows.
    void scores(const Primitives<float>& with, const float* x, const double* base, int outputs, Task task, double* out) const {
        Few few, last, all;
        float products[kTile];
        const std::size_t window = std::min(kWindow, last_);
        for (std::size_t q = 0; q < tiles_.size(); ++q) {
            if (!tiles_[q]) continue;
            const Tile& tile = *tiles_[q];
            multiply(with, x, columns_, 1, int(columns_), tile.x.data(), 1, products, kTile);
            for (std::size_t i = 0; i < kTile; ++i) {
                const double distance = tile.length[i] - 2.0 * products[i];
                if (distance < all.worst()) all.take(distance, tile.y[i]);
                if (distance >= few.worst() || q * kTile + i >= last_) continue;  // the fewer rows, the farther the nearest
                if (distance < last.worst()) last.take(distance, tile.y[i]);
                if (is_recent(q * kTile + i, window)) few.take(distance, tile.y[i]);
            }
        }
        few.vote(base, outputs, task, out);
        last.vote(base, outputs, task, out + outputs);
        all.vote(base, outputs, task, out + 2 * outputs);
    }

    void note(const float* x, double y) {
        const std::size_t slot = std::size_t(rows_ % last_);
        if (drawn_ > 0 && rows_ >= last_) {  // the row that leaves the last ones may join the sample
            std::int64_t place;
            sample_places(seed_, rows_ - last_, 1, drawn_, &place);
            if (place >= 0) {
                std::vector<float> old(columns_);
                const double label = row_at(slot, old.data());
                put(last_ + std::size_t(place), old.data(), label);
            }
        }
        put(slot, x, y);
        ++rows_;
    }

    std::size_t bytes() const { return tiles_.size() * (kTile * (columns_ * sizeof(float) + 2 * sizeof(double))); }

    template <class Archive>
    void archive(Archive& a) {
        a.count("rows", rows_);
        const std::size_t n = std::min<std::uint64_t>(rows_, last_), m = std::min<std::uint64_t>(rows_ - n, drawn_);
        std::vector<float> x((n + m) * columns_);
        std::vector<double> y(n + m);
        const auto slot = [&](std::size_t i) { return i < n ? i : last_ + i - n; };
        if (a.saving())
            for (std::size_t i = 0; i < n + m; ++i) y[i] = row_at(slot(i), x.data() + i * columns_);
        a.numbers("x", x.data(), x.size());
        a.labels("y", y.data(), y.size());
        if (!a.saving())
            for (std::size_t i = 0; i < n + m; ++i) put(slot(i), x.data() + i * columns_, y[i]);
    }

private:
    static constexpr std::size_t kMostNumbers = 40000, kFewest = 100, kLast = 1000, kDrawn = 4000, kWindow = 200;

    struct Tile {
        explicit Tile(std::size_t columns) : x(columns * kTile) {
            length.fill(std::numeric_limits<double>::infinity());
            y.fill(0);
        }
        Buffer<float> x;                   // (columns, 64)
        std::array<double, kTile> length;  // squared; infinite where there is no row
        std::array<double, kTile> y;
    };

    struct Few {  // the nearest so far, the farthest of them last
        std::array<double, kNearest> distance, y;
        Few() { distance.fill(std::numeric_limits<double>::infinity()); }
        double worst() const { return distance[kNearest - 1]; }

        void take(double d, double label) {
            int i = kNearest - 1;
            for (; i > 0 && distance[i - 1] > d; --i) {
                distance[i] = distance[i - 1];
                y[i] = y[i - 1];
            }
            distance[i] = d;
            y[i] = label;
        }

        void vote(const double* base, int outputs, Task task, double* out) const {
            if (std::isinf(worst())) {
                std::copy_n(base, outputs, out);
                return;
            }
            double total = 0;
            for (double label : y) total += label;
            if (is_regression(task)) {
                out[0] = total / kNearest;
            } else if (task == Task::binary) {
                out[0] = std::log((total + 0.25) / (kNearest + 0.25 - total));
            } else {
                std::fill_n(out, outputs, 0.5 / outputs);
                for (double label : y) out[std::size_t(label)] += 1;
                for (int k = 0; k < outputs; ++k) out[k] = std::log(out[k] / (kNearest + 0.5));
            }
        }
    };

    bool is_recent(std::size_t slot, std::size_t window) const {
        return slot < last_ && std::size_t((rows_ + last_ - 1 - slot) % last_) < window;
    }

    double row_at(std::size_t slot, float* x) const {
        const Tile& tile = *tiles_[slot / kTile];
        for (std::size_t j = 0; j < columns_; ++j) x[j] = tile.x.data()[j * kTile + slot % kTile];
        return tile.y[slot % kTile];
    }

    void put(std::size_t slot, const float* x, double y) {
        std::shared_ptr<Tile>& tile = tiles_[slot / kTile];
        if (!tile)
            tile = std::make_shared<Tile>(columns_);
        else if (tile.use_count() > 1)
            tile = std::make_shared<Tile>(*tile);
        const std::size_t i = slot % kTile;
        double length = 0;
        for (std::size_t j = 0; j < columns_; ++j) {
            tile->x.data()[j * kTile + i] = x[j];
            length += double(x[j]) * double(x[j]);
        }
        tile->length[i] = length;
        tile->y[i] = y;
    }

    std::size_t columns_, last_ = 0, drawn_ = 0;
    std::uint64_t seed_, rows_ = 0;
    std::vector<std::shared_ptr<Tile>> tiles_;
};

}  // namespace bomkl::automatic
