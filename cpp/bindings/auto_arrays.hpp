// Arrays of Python as parts of the zero-tuning learner, after making sure that they fit together.
#pragma once

#include "auto/curve.hpp"
#include "auto/features.hpp"
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

inline KernelMap kernel_map(int columns, std::string_view kernel, double scale, const In<float, 3>& landmarks,
                            const In<float, 1>& norms, const In<float, 3>& whiten, int rank) {
    const KernelValues values = AllPoolKernels::find(kernel);
    require(values, "cpp/auto/pool_kernels.hpp has no kernel of that name");
    require(landmarks.shape(1) == std::size_t(columns) && landmarks.shape(2) == kTile &&
                norms.size() == landmarks.shape(0) * kTile && whiten.shape(2) == kTile && whiten.shape(1) <= norms.size() &&
                rank >= 0 && std::size_t(rank) < whiten.shape(0) * kTile,
            "the shapes of a kernel map do not fit together");
    return {values,        scale, landmarks.data(),    norms.data(), int(whiten.shape(1)), int(landmarks.shape(0)), columns,
            whiten.data(), rank,  int(whiten.shape(0))};
}

inline Curve curve_of(const In<double, 1>& numbers) {
    require(numbers.size() == 6, "a curve has six numbers");
    const double* c = numbers.data();
    return {c[0], c[1], c[2], c[3], c[4], c[5]};
}

}  // namespace bomkl::automatic
