// Rows that trees are grown from, and the draws that growing makes.
//
// Growing reads rows in their order with one thread and draws by counter, so that the same rows give the same trees.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "auto/components/losses.hpp"
#include "primitives/philox.hpp"

namespace bomkl::automatic {

// Where rows go in a uniform sample of `size` rows of a stream (Vitter's algorithm R), -1 for nowhere: a function of the seed
// and the number of the row.
inline void sample_places(std::uint64_t seed, std::uint64_t first, std::size_t n, std::uint64_t size, std::int64_t* places) {
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t row = first + i;
        const auto word = philox({row, 0, 0, 0}, {seed, 0})[0];
        const auto place = row < size ? row : std::uint64_t((static_cast<unsigned __int128>(word) * (row + 1)) >> 64);
        places[i] = place < size ? std::int64_t(place) : -1;
    }
}

struct Sample {  // rows to grow from
    int n, d;
    std::vector<std::uint8_t> columns;  // (d, n) codes
    const double* y;                    // (n, outputs) as the components learn them; whoever grows keeps it
    const double* weight;
    int outputs;
    Task task;

    Sample(const std::uint8_t* codes, const double* y, const double* weight, int n, int d, int outputs, Task task)
        : n(n), d(d), columns(std::size_t(n) * d), y(y), weight(weight), outputs(outputs), task(task) {
        for (int t = 0; t < n; ++t)
            for (int j = 0; j < d; ++j) columns[std::size_t(j) * n + t] = codes[std::size_t(t) * d + j];
    }
    // To be filled in.
    Sample(const double* y, const double* weight, int n, int d, int outputs, Task task)
        : n(n), d(d), columns(std::size_t(n) * d), y(y), weight(weight), outputs(outputs), task(task) {}
    const std::uint8_t* column(int j) const { return columns.data() + std::size_t(j) * n; }
};

// Draws in order: the i-th is a function of the key and i.
class Sequence {
public:
    explicit Sequence(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
    int below(int n) {  // 0, ..., n - 1
        if (at_ % 4 == 0) words_ = philox({at_ / 4, 0, 0, 0}, {seed_, stream_});
        return int((words_[at_++ % 4] >> 32) * std::uint64_t(n) >> 32);
    }

private:
    std::uint64_t seed_, stream_, at_ = 0;
    std::array<std::uint64_t, 4> words_{};
};

// Puts the rows of [begin, end) that go left before the others, each in their order; returns where the others begin.
template <class Left>
int divide_rows(std::vector<int>& rows, int begin, int end, std::vector<int>& scratch, Left&& goes_left) {
    int left = begin, right = 0;
    for (int i = begin; i < end; ++i) {  // branch-free: a processor would often mispredict
        const int r = rows[i];
        const bool is_left = goes_left(r);
        rows[left] = r;
        scratch[right] = r;
        left += is_left;
        right += !is_left;
    }
    std::copy_n(scratch.begin(), right, rows.begin() + left);
    return left;
}

}  // namespace bomkl::automatic
