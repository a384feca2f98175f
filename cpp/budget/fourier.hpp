// Random Fourier features (Rahimi and Recht, 2007). A kernel of x - z that is the transform of a distribution of frequencies u
// is the mean of cos(u.(x - z)), and so, for draws of u, about the inner product of the features cos(u.x) and sin(u.x) of both.
//
// A frequency is a draw that all kernels share, times a factor of the kernel (see kernel.hpp): normal columns for kernels of
// the Euclidean distance, Cauchy columns for those of the sum of absolute differences. Rows are multiplied once with each of
// the two, whatever the number of kernels, and what a kernel learns does not depend on its place among them. All draws are
// functions of the seed, the frequency and the column: they are made anew where a model is loaded.
#pragma once

#include <numbers>
#include <optional>
#include <vector>

#include "budget/kernels.hpp"
#include "primitives/buffer.hpp"
#include "primitives/philox.hpp"
#include "primitives/primitives.hpp"

namespace bomkl {

template <class T>
class Frequencies {
public:
    Frequencies(const std::vector<KernelSpec>& kernels, const std::vector<std::string>& names, int n, int features,
                std::uint64_t seed)
        : n_(n), features_(features), seed_(seed) {
        if (double(n_tiles()) * kTile * features > kMostNumbers)
            throw std::invalid_argument("FOGD stores n_frequencies x n_features_in_ numbers, here " + std::to_string(n) +
                                        " x " + std::to_string(features) +
                                        ", which is too many. Use fewer frequencies, or another learner for rows this wide.");
        for (std::size_t i = 0; i < kernels.size(); ++i) {
            bases_.push_back(kernels[i].kind != kCallable && kernels[i].source == Source::taxicab ? kTaxicab : kEuclidean);
            factors_.push_back(factors_of(kernels[i], names[i]));
        }
        for (int base = 0; base < kBases; ++base)
            if (std::find(bases_.begin(), bases_.end(), base) != bases_.end()) draw(base);
    }

    static constexpr int kBases = 2;

    int size() const { return n_; }
    int n_features() const { return 2 * n_; }
    int n_tiles() const { return (n_ + kTile - 1) / kTile; }
    bool has_base(int base) const { return !tiles_[base].empty(); }
    int base_of(int kernel) const { return bases_[kernel]; }
    const std::vector<Tile<T>>& tiles(int base) const { return tiles_[base]; }
    const double* factors(int kernel) const { return factors_[kernel].data(); }
    double amplitude() const { return 1 / std::sqrt(double(n_)); }  // features have length 1, as k(x, x) is

    // Draws of the frequencies of a kernel, one frequency after another.
    std::vector<double> draws(int kernel) const {
        std::vector<double> out(std::size_t(n_) * features_);
        for (int r = 0; r < n_; ++r)
            for (int j = 0; j < features_; ++j)
                out[std::size_t(r) * features_ + j] = double(memory_[bases_[kernel]].data()[place(r, j)]);
        return out;
    }
    std::size_t bytes() const {
        std::size_t total = factors_.size() * n_ * sizeof(double);
        for (const auto& memory : memory_) total += memory.size() * sizeof(T);
        return total;
    }

private:
    static constexpr int kEuclidean = 0, kTaxicab = 1;
    static constexpr double kMostNumbers = 0x1p31;

    std::size_t place(int r, int j) const { return (std::size_t(r / kTile) * features_ + j) * kTile + r % kTile; }
    std::vector<double> factors_of(const KernelSpec& k, const std::string& name) const {
        std::vector<double> out(n_);
        for (int r = 0; r < n_; ++r) {
            Draws draws(seed_, std::uint64_t(r), 0);
            const double u = draws.uniform(0, Purpose::frequency_factor), v = draws.uniform(1, Purpose::frequency_factor);
            const std::optional<double> factor = frequency_factor(k, u, v);
            if (!factor)
                throw std::invalid_argument("FOGD needs kernels that have a Fourier transform, which " + name + " has not");
            out[r] = *factor;
        }
        return out;
    }
    void draw(int base) {
        memory_[base] = Buffer<T>(std::size_t(n_tiles()) * kTile * features_);
        for (int r = 0; r < n_; ++r) {
            Draws draws(seed_, std::uint64_t(r), 0);
            for (int j = 0; j < features_; ++j)
                memory_[base].data()[place(r, j)] = T(base == kEuclidean ? normal(draws, j) : cauchy(draws, j));
        }
        for (int q = 0; q < n_tiles(); ++q) {
            Tile<T> tile{};
            tile.x = memory_[base].data() + std::size_t(q) * kTile * features_;
            tiles_[base].push_back(tile);
        }
    }
    // Box and Muller: two uniform numbers make two normal ones.
    static double normal(Draws& draws, int j) {
        const int pair = j - j % 2;
        const double radius = std::sqrt(-2 * std::log1p(-draws.uniform(pair, Purpose::frequency)));
        const double angle = 2 * std::numbers::pi * draws.uniform(pair + 1, Purpose::frequency);
        return radius * (j % 2 == 0 ? std::cos(angle) : std::sin(angle));
    }
    static double cauchy(Draws& draws, int j) {
        return std::tan(std::numbers::pi * (draws.uniform(j, Purpose::taxicab_frequency) - 0.5));
    }

    int n_, features_;
    std::uint64_t seed_;
    std::vector<int> bases_;                    // of every kernel
    std::vector<std::vector<double>> factors_;  // of every kernel and frequency
    Buffer<T> memory_[kBases];                  // tiled like rows of the pool
    std::vector<Tile<T>> tiles_[kBases];
};

}  // namespace bomkl
