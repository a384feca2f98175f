// Bounds of what the core stores, checked when it is loaded; bomkl.auto.limits has those that Python needs as well.
#pragma once

#include <cstddef>
#include <limits>

namespace bomkl::automatic {

struct Limits {
    double low = -std::numeric_limits<double>::max(), high = std::numeric_limits<double>::max();
};

inline constexpr std::size_t kAnyLength = std::size_t(-1);  // of the first dimension of an array that is loaded

inline constexpr Limits kSums{0.0};                // of squares, counts and weights
inline constexpr Limits kSizes{5e-324};            // what numbers are divided by: not zero, however small
inline constexpr Limits kReciprocals{0.0, 1e300};  // of deviations; zero for a column that does not count
inline constexpr Limits kScaled{-1e6, 1e6};        // targets and scores in units of the spread of the targets
inline constexpr Limits kStackWeights{-3.0, 3.0};
inline constexpr Limits kNetworkWeights{-1e15, 1e15};  // and their moments; the squares are numbers of single precision
inline constexpr Limits kNetworkSquares{0.0, 1e15};

}  // namespace bomkl::automatic
