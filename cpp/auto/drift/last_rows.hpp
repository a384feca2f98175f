// The last rows of a stream, with their labels and weights.
//
// Rows are only added behind those that are there, so copies share memory; a full one is moved to new memory. Only the latest
// copy may add rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "auto/components/losses.hpp"

namespace bomkl::automatic {

class LastRows {
public:
    explicit LastRows(std::size_t columns, std::size_t most) : columns_(columns), most_(most) {}

    std::size_t size() const { return end_ - begin_; }
    const double* X(std::size_t last) const { return memory_->X.data() + (end_ - last) * columns_; }
    const double* y(std::size_t last) const { return memory_->y.data() + (end_ - last); }
    const double* weight(std::size_t last) const { return memory_->weight.data() + (end_ - last); }

    void add(const double* x, double y, double weight) {
        if (!memory_ || end_ == 2 * most_) renew();
        std::transform(x, x + columns_, memory_->X.data() + end_ * columns_,
                       [](double each) { return std::clamp(each, -kLargestInput, kLargestInput); });
        memory_->y[end_] = y;
        memory_->weight[end_] = weight;
        begin_ = std::max(begin_, ++end_ > most_ ? end_ - most_ : 0);
    }

    std::size_t bytes() const { return 2 * most_ * (columns_ + 2) * sizeof(double); }

    template <class Archive>
    void archive(Archive& a) {
        std::uint64_t n = size();
        a.count("rows", n, most_);
        std::vector<double> X(n * columns_), y(n), weight(n);
        if (a.saving() && n > 0) {
            std::copy_n(this->X(n), X.size(), X.data());
            std::copy_n(this->y(n), n, y.data());
            std::copy_n(this->weight(n), n, weight.data());
        }
        a.numbers("X", X.data(), X.size());
        a.labels("y", y.data(), y.size());
        a.numbers("weight", weight.data(), weight.size(), 0.0);
        if (!a.saving())
            for (std::size_t i = 0; i < n; ++i) add(X.data() + i * columns_, y[i], weight[i]);
    }

private:
    struct Memory {
        std::vector<double> X, y, weight;
    };

    void renew() {
        auto made = std::make_shared<Memory>();
        made->X.resize(2 * most_ * columns_);
        made->y.resize(2 * most_);
        made->weight.resize(2 * most_);
        const std::size_t n = size();
        if (n > 0) {
            std::copy_n(X(n), n * columns_, made->X.data());
            std::copy_n(y(n), n, made->y.data());
            std::copy_n(weight(n), n, made->weight.data());
        }
        memory_ = std::move(made);
        begin_ = 0;
        end_ = n;
    }

    std::size_t columns_, most_, begin_ = 0, end_ = 0;
    std::shared_ptr<Memory> memory_;
};

}  // namespace bomkl::automatic
