// Arrays of Python as parts of the zero-tuning learner, after making sure that they fit together.
#pragma once

#include "auto/curve.hpp"
#include "auto/features.hpp"
#include "auto/newton.hpp"
#include "auto/views.hpp"
#include "bindings/tree_arrays.hpp"

namespace bomkl::automatic {

inline Columns columns_of(const In<double, 1>& mean, const In<double, 1>& deviation, const In<double, 1>& middle, double common,
                          const In<double, 2>& sorted, const In<double, 1>& table, const In<double, 1>& normal_mean,
                          const In<double, 1>& normal_deviation, const In<float, 3>& axes,
                          const In<float, 1>& relevance_standard, const In<float, 1>& relevance_normal, double clip, double far,
                          int leading) {
    const std::size_t d = mean.size();
    require(deviation.size() == d && middle.size() == d && sorted.shape(0) == d && table.size() == 2 * sorted.shape(1) + 1 &&
                normal_mean.size() == d && normal_deviation.size() == d && axes.shape(0) == 1 && axes.shape(1) == d &&
                axes.shape(2) == kTile && relevance_standard.size() == d && relevance_normal.size() == d && leading >= 0 &&
                leading <= kTile,
            "the arrays of a geometry do not fit together");
    return {int(d),
            mean.data(),
            deviation.data(),
            middle.data(),
            common,
            sorted.data(),
            sorted.shape(1),
            table.data(),
            normal_mean.data(),
            normal_deviation.data(),
            axes.data(),
            relevance_standard.data(),
            relevance_normal.data(),
            clip,
            far,
            leading};
}

inline KernelMap kernel_map(int columns, int kernel, double scale, const In<float, 3>& landmarks, const In<float, 1>& norms,
                            const In<float, 3>& whiten, int rank) {
    require(kernel >= 0 && kernel <= int(PoolKernel::laplacian), "unknown kernel");
    require(landmarks.shape(1) == std::size_t(columns) && landmarks.shape(2) == kTile &&
                norms.size() == landmarks.shape(0) * kTile && whiten.shape(2) == kTile && whiten.shape(1) <= norms.size() &&
                rank >= 0 && std::size_t(rank) < whiten.shape(0) * kTile,
            "the shapes of a kernel map do not fit together");
    return {PoolKernel(kernel),      scale,   landmarks.data(), norms.data(), int(whiten.shape(1)),
            int(landmarks.shape(0)), columns, whiten.data(),    rank,         int(whiten.shape(0))};
}

inline Component component(InOut<double, 2>& w, InOut<float, 3>& P, InOut<float, 2>& rows, InOut<float, 2>& U,
                           InOut<double, 2>& M, InOut<double, 1>& c, InOut<double, 2>& a, InOut<float, 3>& V,
                           InOut<double, 1>& trace) {
    const std::size_t width = P.shape(0) * kTile, outputs = w.shape(0);
    require(P.shape(2) == kTile && P.shape(1) <= width && w.shape(1) == width && rows.shape(0) == kBlock &&
                rows.shape(1) == width && U.shape(0) == kBlock && U.shape(1) == width && M.shape(0) == kBlock &&
                M.shape(1) == kBlock && c.size() == kBlock && a.shape(0) == kBlock && a.shape(1) == outputs &&
                V.shape(0) == P.shape(0) && V.shape(1) == kBlock && V.shape(2) == kTile && trace.size() == 2,
            "the arrays of a component do not fit together");
    return {int(P.shape(1)), int(P.shape(0)), int(outputs), w.data(), P.data(), rows.data(),
            U.data(),        M.data(),        c.data(),     a.data(), V.data(), trace.data()};
}

inline Curve curve_of(const In<double, 1>& numbers) {
    require(numbers.size() == 6, "a curve has six numbers");
    const double* c = numbers.data();
    return {c[0], c[1], c[2], c[3], c[4], c[5]};
}

}  // namespace bomkl::automatic
