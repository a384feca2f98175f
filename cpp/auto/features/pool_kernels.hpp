// The functions of the kernels in the pool of the Auto models. Each is a struct here, listed at the end, and a class in
// src/bomkl/auto/features/pool_kernels.py, which has the plain definition.
#pragma once

#include <cstddef>
#include <string_view>

#include "auto/components/products.hpp"

namespace bomkl::automatic {

struct KernelMap;

// Kernel values of n rows against the landmarks, n at most kBlock: out (n, 64 * landmark_tiles).
using KernelValues = void (*)(const Primitives<float>& with, const KernelMap& map, const float* x, int n, float* out);

struct KernelMap {
    KernelValues values;
    double scale;            // as the class in Python chooses it
    const float* landmarks;  // packed [tile][d][64]
    const float* norms;      // squared lengths of the landmarks, as many as columns of the tiles
    int n_landmarks, landmark_tiles, features;
    const float* whiten;   // packed [tile][landmark][64]
    int rank, rank_tiles;  // column `rank` of the features is the constant 1

    std::size_t values_width() const { return std::size_t(landmark_tiles) * kTile; }
};

inline void inner_products(const Primitives<float>& with, const KernelMap& map, const float* x, int n, float* out) {
    multiply(with, x, map.features, n, map.features, map.landmarks, map.landmark_tiles, out, map.values_width());
}

struct GaussianValues {  // exp(-scale |x - z|^2)
    static constexpr std::string_view name = "gaussian";

    static void values(const Primitives<float>& with, const KernelMap& map, const float* x, int n, float* out) {
        inner_products(with, map, x, n, out);
        for (int t = 0; t < n; ++t) {
            float norm = 0;
            for (int j = 0; j < map.features; ++j)
                norm += x[std::size_t(t) * map.features + j] * x[std::size_t(t) * map.features + j];
            with.gaussians(out + t * map.values_width(), map.values_width(), norm, map.norms, float(map.scale));
        }
    }
};

struct PolynomialValues {  // (1 + scale x z)^2
    static constexpr std::string_view name = "polynomial";

    static void values(const Primitives<float>& with, const KernelMap& map, const float* x, int n, float* out) {
        inner_products(with, map, x, n, out);
        const float scale = float(map.scale);
        for (std::size_t j = 0; j < n * map.values_width(); ++j) {
            const float base = 1.0f + out[j] * scale;
            out[j] = base * base;
        }
    }
};

struct LaplacianValues {  // exp(-scale |x - z|_1)
    static constexpr std::string_view name = "laplacian";

    static void values(const Primitives<float>& with, const KernelMap& map, const float* x, int n, float* out) {
        for (int t = 0; t < n; ++t)
            with.city_block(x + std::size_t(t) * map.features, map.features, map.landmarks, map.landmark_tiles,
                            out + t * map.values_width());
        with.exp_many(out, n * map.values_width(), -float(map.scale));
    }
};

template <class... Kernels>
struct PoolKernels {
    // The function of a name; null where there is none.
    static KernelValues find(std::string_view name) {
        KernelValues found = nullptr;
        ((Kernels::name == name ? void(found = &Kernels::values) : void()), ...);
        return found;
    }
};

using AllPoolKernels = PoolKernels<  //
    GaussianValues,                  //
    PolynomialValues,                //
    LaplacianValues>;

}  // namespace bomkl::automatic
