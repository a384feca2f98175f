// What the kernels are maps of, between a line of rows and every slot of the pool: slot by slot, row beside row.
#pragma once

#include "budget/kernels.hpp"
#include "primitives/primitives.hpp"

namespace bomkl {

template <class T>
struct RelatedLine {
    const T* of[kSources];
    const T* nearest;  // no squared distance to a slot is less

    const T* operator[](const PreparedKernel<T>& k) const { return of[int(k.source)]; }
    // Whether a Gaussian is zero on all of it.
    bool vanishes(const PreparedKernel<T>& k) const { return k.kind == kGaussian && *nearest >= k.furthest; }
};

template <class T>
inline constexpr int kRoomForAdded{2 * kLine<T>};  // some rules add a row twice and drop it once

}  // namespace bomkl
