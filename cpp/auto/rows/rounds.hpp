// Learning in rounds of sums: what a block of rows adds to the information of a component and of the combination.
//
// The sums are whole numbers of a fixed unit, so that they are the same in whatever order blocks are added, by however many
// threads or machines. A block is computed in single precision by products of a fixed order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "auto/components/combination.hpp"
#include "auto/components/products.hpp"

namespace bomkl::automatic {

// Units of the sums of a round of at most 2^log_rows rows. No sum can overflow:
// - an entry of the information of one row is at most 2^16 in size (see kMostInformation), so that a round stays below
//   2^(16 + log_rows) / unit <= 2^62, and a block below 2^(16 + 9) / unit <= 2^51, where doubles still hold whole numbers;
// - any other number of one block is taken as at most 2^48. It has a coarse part, a multiple of 2^(log_rows - 14), and a
//   fine part for what is left, at most 2^(log_rows - 15).
struct Units {
    explicit Units(int log_rows)
        : information(std::ldexp(1.0, std::min(26, 46 - log_rows))), coarse(std::ldexp(1.0, 14 - log_rows)),
          fine(std::ldexp(1.0, std::min(45, 77 - 2 * log_rows))) {}
    double information, coarse, fine;  // units to one
};

inline constexpr double kMostInformation = 65536.0;
inline constexpr int kMostBlockRows = 512;
inline constexpr int kMostLogRows = 38;

inline void add_number(double value, const Units& units, std::int64_t* coarse, std::int64_t* fine) {
    value = std::clamp(value, -0x1p48, 0x1p48);
    const double whole = std::nearbyint(value * units.coarse);
    *coarse += std::int64_t(whole);
    *fine += std::int64_t(std::nearbyint((value - whole / units.coarse) * units.fine));
}

// Pull of one row on its scores (the negative gradient of its loss) and its curvature, one for all outputs.
inline double pull_and_curvature(const double* f, const double* y, int outputs, Task task, double* p, double* pull) {
    means(f, outputs, task, p);
    double h = is_regression(task) ? 1.0 : 1e-5;
    for (int k = 0; k < outputs; ++k) {
        pull[k] = y[k] - p[k];
        if (!is_regression(task)) h = std::max(h, p[k] * (1 - p[k]));
        if (task == Task::huber) {
            h = kHuber / std::max(std::abs(pull[k]), kHuber);
            pull[k] = std::clamp(pull[k], -kHuber, kHuber);
        }
    }
    return h;
}

// Entries of the lower block triangle of a symmetric matrix: for each tile of 64 columns the rows from its diagonal on.
inline std::size_t triangle_size(int rank) {
    std::size_t size = 0;
    for (int first = 0; first < rank; first += kTile) size += std::size_t(rank - first) * kTile;
    return size;
}

// out (rank, rank) = matrix + the information of a triangle of whole units.
inline void add_triangle(const double* matrix, const std::int64_t* triangle, double units, int rank, double* out) {
    const auto at = [rank](int i, int j) { return std::size_t(i) * rank + j; };
    for (int first = 0; first < rank; first += kTile)
        for (int i = first; i < rank; ++i, triangle += kTile)
            for (int j = first; j < std::min(first + kTile, i + 1); ++j) {
                const double gain = double(triangle[j - first]) / units;
                out[at(i, j)] = matrix[at(i, j)] + gain;
                out[at(j, i)] = matrix[at(j, i)] + gain;
            }
}

// One component: scores of a block of n rows of features at means w (outputs, width), and what the block adds:
// information += sum of h x x', pull += sum of x (y - p), both weighted.
struct ComponentSums {
    std::int64_t* information;    // triangle_size(rank)
    std::int64_t *coarse, *fine;  // (outputs, rank)
};

inline void component_sums(const Primitives<float>& with, const float* F, int n, std::size_t width, int rank, const double* w,
                           int outputs, const double* y, const double* weight, Task task, const Units& units, double* scores,
                           const ComponentSums& sums) {
    std::vector<float> pulls(std::size_t(outputs) * n), curvature(n);
    std::vector<double> p(outputs), pull(outputs);
    for (int t = 0; t < n; ++t) {
        const float* x = F + t * width;
        double* f = scores + std::size_t(t) * outputs;
        for (int k = 0; k < outputs; ++k) f[k] = with.dot(x, w + k * width, rank);
        const double h = pull_and_curvature(f, y + std::size_t(t) * outputs, outputs, task, p.data(), pull.data());
        float length = 0;
        for (int j = 0; j < rank; ++j) length += x[j] * x[j];
        const double most = kMostInformation / (1.01 * h * std::max(double(length), 1e-6));  // 1.01: `length` is rounded
        const double counted = std::min(weight[t], most);
        curvature[t] = float(counted * h);
        for (int k = 0; k < outputs; ++k) pulls[std::size_t(k) * n + t] = float(counted * pull[k]);
    }
    std::vector<float> transposed(std::size_t(rank) * n), tile(std::size_t(n) * kTile),
        out(std::size_t(std::max(rank, outputs)) * kTile);
    transpose(F, n, rank, width, transposed.data(), n);
    std::int64_t* information = sums.information;
    for (int first = 0; first < rank; first += kTile) {
        for (int t = 0; t < n; ++t) std::copy_n(F + t * width + first, kTile, tile.data() + std::size_t(t) * kTile);
        multiply(with, pulls.data(), n, outputs, n, tile.data(), 1, out.data(), kTile);
        for (int k = 0; k < outputs; ++k)
            for (int j = 0; j < std::min(kTile, rank - first); ++j)
                add_number(double(out[std::size_t(k) * kTile + j]), units, sums.coarse + std::size_t(k) * rank + first + j,
                           sums.fine + std::size_t(k) * rank + first + j);
        for (int t = 0; t < n; ++t)
            for (int j = 0; j < kTile; ++j) tile[std::size_t(t) * kTile + j] *= curvature[t];
        multiply(with, transposed.data() + std::size_t(first) * n, n, rank - first, n, tile.data(), 1, out.data(), kTile);
        with.add_fixed(out.data(), std::size_t(rank - first) * kTile, units.information, information);
        information += std::size_t(rank - first) * kTile;
    }
}

// The combination at fixed weights. Numbers of the sums, in this order: curvature (stacks, m, m) and pull (stacks, m) of the
// stacks; losses of the components (m), of the stacks and the mixture (stacks + 1); errors of the components (m); loss and
// error of the combined score.
inline std::size_t combination_size(int m, int stacks) {
    return std::size_t(stacks) * m * (m + 1) + 2 * std::size_t(m) + stacks + 1 + 2;
}

inline void combination_sums(Combiner& combine, int m, int stacks, int outputs, Task task, const double* S, std::size_t n,
                             const double* y, const double* weight, const Units& units, double* out, std::int64_t* coarse,
                             std::int64_t* fine) {
    std::vector<double> sums(combination_size(m, stacks));
    double* const curvature = sums.data();
    double* const pull = curvature + std::size_t(stacks) * m * m;
    double* const loss = pull + std::size_t(stacks) * m;
    double* const candidate_loss = loss + m;
    double* const error = candidate_loss + stacks + 1;
    double* const combined = error + m;
    for (std::size_t t = 0; t < n; ++t) {
        const double* s = S + t * m * outputs;
        const double* target = y + t * outputs;
        double* score = out + t * outputs;
        combine.score(s, score);
        for (int j = 0; j < stacks; ++j)
            combine.stack_terms(j, target, weight[t], pull + std::size_t(j) * m, [&](const double* x, double h) {
                double* c = curvature + std::size_t(j) * m * m;
                for (int i = 0; i < m; ++i)
                    for (int l = 0; l < m; ++l) c[i * m + l] += h * x[i] * x[l];
            });
        for (int j = 0; j <= stacks; ++j)
            candidate_loss[j] += weight[t] * point_loss(combine.candidate(j), target, outputs, task);
        for (int i = 0; i < m; ++i) {
            loss[i] += weight[t] * point_loss(s + std::size_t(i) * outputs, target, outputs, task);
            error[i] += point_error(s + std::size_t(i) * outputs, target, outputs, task);
        }
        combined[0] += weight[t] * point_loss(score, target, outputs, task);
        combined[1] += point_error(score, target, outputs, task);
    }
    for (std::size_t i = 0; i < sums.size(); ++i) add_number(sums[i], units, coarse + i, fine + i);
}

// ---------------------------------------------------------------- symmetric equations

// Cholesky's method in blocks of 64 columns, in place on the lower triangle of A (rank, rank); the products are the core's
// own. Returns false where A is not positive definite.
inline bool cholesky(const Primitives<double>& with, double* A, int rank) {
    const auto row = [&](int i) { return A + std::size_t(i) * rank; };
    std::vector<double> inverse(std::size_t(kTile) * kTile), tile(std::size_t(kTile) * kTile), panel, out;
    const auto product = [&](const double* rows, std::size_t stride, int n, int k) {  // out (n, 64) = rows (n, k) tile (k, 64)
        out.resize(std::size_t(n) * kTile);
        const Rows<double> block{rows, stride, nullptr, nullptr, k};
        const Tile<double> columns{tile.data(), nullptr, nullptr, nullptr, 0};
        with.inner(block, 0, n, &columns, 1, out.data(), kTile);
    };
    for (int first = 0; first < rank; first += kTile) {
        const int size = std::min(kTile, rank - first), last = first + size, below = rank - last;
        for (int i = first; i < last; ++i)
            for (int j = first; j <= i; ++j) {
                double left = row(i)[j];
                const double whole = left;
                for (int l = first; l < j; ++l) left -= row(i)[l] * row(j)[l];
                if (i == j && !(left > 1e-14 * std::abs(whole))) return false;
                row(i)[j] = i == j ? std::sqrt(left) : left / row(j)[j];
            }
        if (below == 0) break;
        std::fill(inverse.begin(), inverse.end(), 0.0);
        for (int c = 0; c < size; ++c)
            for (int i = c; i < size; ++i) {
                double left = i == c ? 1.0 : 0.0;
                for (int l = c; l < i; ++l) left -= row(first + i)[first + l] * inverse[l * kTile + c];
                inverse[i * kTile + c] = left / row(first + i)[first + i];
            }
        for (int j = 0; j < size; ++j)
            for (int c = 0; c < kTile; ++c) tile[j * kTile + c] = inverse[c * kTile + j];
        product(row(last) + first, rank, below, size);
        panel = out;  // (below, 64): what is below the diagonal block
        for (int i = 0; i < below; ++i) std::copy_n(panel.data() + std::size_t(i) * kTile, size, row(last + i) + first);
        for (int next = 0; next < below; next += kTile) {
            const int columns = std::min(kTile, below - next);
            for (int j = 0; j < size; ++j)
                for (int c = 0; c < kTile; ++c)
                    tile[j * kTile + c] = c < columns ? panel[std::size_t(next + c) * kTile + j] : 0;
            product(panel.data() + std::size_t(next) * kTile, kTile, below - next, size);
            for (int i = next; i < below; ++i)
                for (int c = 0; c < columns; ++c) row(last + i)[last + next + c] -= out[std::size_t(i - next) * kTile + c];
        }
    }
    return true;
}

// Solves A x = b for the n columns of b (rank, n) in place, A symmetric; false where A is not positive definite.
inline bool solve_symmetric(const Primitives<double>& with, const double* A, int rank, double* b, int n) {
    std::vector<double> factor(A, A + std::size_t(rank) * rank);
    if (!cholesky(with, factor.data(), rank)) return false;
    const auto row = [&](int i) { return factor.data() + std::size_t(i) * rank; };
    for (int i = 0; i < rank; ++i) {
        double* x = b + std::size_t(i) * n;
        for (int j = 0; j < i; ++j)
            for (int k = 0; k < n; ++k) x[k] -= row(i)[j] * b[std::size_t(j) * n + k];
        for (int k = 0; k < n; ++k) x[k] /= row(i)[i];
    }
    for (int i = rank - 1; i >= 0; --i) {
        double* x = b + std::size_t(i) * n;
        for (int k = 0; k < n; ++k) x[k] /= row(i)[i];
        for (int j = 0; j < i; ++j)
            for (int k = 0; k < n; ++k) b[std::size_t(j) * n + k] -= row(i)[j] * x[k];
    }
    return true;
}

}  // namespace bomkl::automatic
