// The place of a value among sorted ones.
#pragma once

#include <cstddef>

namespace bomkl::automatic {

// As std::lower_bound, and 0 for NaN like it. Which half a value is in cannot be foreseen, so that a processor that guesses it
// is wrong every other time: steps are added up instead.
inline std::size_t count_below(const double* sorted, std::size_t n, double value) {
    const double* at = sorted;
    while (n > 1) {
        const std::size_t half = n / 2;
        at += half * std::size_t(at[half - 1] < value);
        n -= half;
    }
    return std::size_t(at - sorted) + std::size_t(n == 1 && *at < value);
}

}  // namespace bomkl::automatic
