// A bounded sample of the stream that trees are grown from: every row so far is in it with the same probability.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "auto/trees/tree_sample.hpp"

namespace bomkl::automatic {

struct CodedRows {
    std::size_t columns;
    std::vector<std::uint8_t> codes;  // (n, columns)
    std::vector<double> y, weight;    // class numbers or targets, and weights

    void put(std::size_t at, const std::uint8_t* row, double label, double w) {
        if (at >= y.size()) {
            codes.resize((at + 1) * columns);
            y.resize(at + 1);
            weight.resize(at + 1);
        }
        std::copy_n(row, columns, codes.begin() + at * columns);
        y[at] = label;
        weight[at] = w;
    }
};

// Which rows it has is a function of their numbers. Rows wait before they join the others, so that copies share those.
class StreamSample {
public:
    StreamSample(std::uint64_t size, std::uint64_t seed, CodedRows rows)
        : size_(size), seed_(seed), rows_(std::make_shared<CodedRows>(std::move(rows))), waiting_{rows_->columns, {}, {}, {}} {}

    // Takes up rows, before which `seen` rows came.
    void add(const std::uint8_t* codes, const double* y, const double* weight, std::size_t n, std::uint64_t seen) {
        for (std::size_t i = 0; i < n; ++i) {
            std::int64_t place;
            sample_places(seed_, seen + i, 1, size_, &place);
            if (place < 0) continue;
            waiting_.put(places_.size(), codes + i * waiting_.columns, y[i], weight[i]);
            places_.push_back(std::size_t(place));
        }
        if (places_.size() >= kMostWaiting) *this = StreamSample(size_, seed_, together());
    }

    // All of its rows; of several rows for one place the last.
    CodedRows together() const {
        CodedRows made = *rows_;
        for (std::size_t i = 0; i < places_.size(); ++i)
            made.put(places_[i], waiting_.codes.data() + i * waiting_.columns, waiting_.y[i], waiting_.weight[i]);
        return made;
    }

    std::size_t columns() const { return rows_->columns; }
    std::size_t bytes() const { return rows_->codes.size() + 2 * sizeof(double) * rows_->y.size(); }

private:
    static constexpr std::size_t kMostWaiting = 256;
    std::uint64_t size_, seed_;
    std::shared_ptr<const CodedRows> rows_;
    CodedRows waiting_;
    std::vector<std::size_t> places_;
};

}  // namespace bomkl::automatic
