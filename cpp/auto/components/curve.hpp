// Targets on a curved scale: like the target itself around where it starts, like its logarithm far from there.
//
// Prices, counts and times differ by factors more than by amounts, so what makes them so is closer to a polynomial there.
#pragma once

#include <algorithm>
#include <cmath>

namespace bomkl::automatic {

struct Curve {
    double start, unit;      // where it begins, and how far from there it bends
    double mean, deviation;  // of the bent targets of the kept rows
    double low, high;        // scores beyond these are taken as these
};

inline double bent(const Curve& curve, double target) {
    return (std::asinh((target - curve.start) / curve.unit) - curve.mean) / curve.deviation;
}

inline double straightened(const Curve& curve, double score) {
    return curve.start + curve.unit * std::sinh(curve.mean + curve.deviation * std::clamp(score, curve.low, curve.high));
}

}  // namespace bomkl::automatic
