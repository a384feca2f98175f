// Eigenvalues and eigenvectors of a symmetric matrix: Householder reflections to three diagonals, then QL steps with implicit
// shifts (Golub and Van Loan, chapter 8). All sums run in a fixed order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "primitives/not_finite.hpp"

namespace bomkl {

class SymmetricEigen {
public:
    // `matrix` is n x n, row-major; both triangles are read.
    SymmetricEigen(int n, std::vector<double> matrix)
        : n_(n), a_(std::move(matrix)), d_(n), e_(n), z_(std::size_t(n) * n, 0.0) {
        for (int i = 0; i < n_; ++i) z(i)[i] = 1;
        reduce();
        diagonalize();
    }
    double value(int i) const { return d_[i]; }  // in no order
    const double* vector(int i) const { return z_.data() + std::size_t(i) * n_; }

private:
    double* a(int i) { return a_.data() + std::size_t(i) * n_; }
    double* z(int i) { return z_.data() + std::size_t(i) * n_; }

    // a becomes H a H for reflections H that clear a column each; z, their product.
    void reduce() {
        std::vector<double> v(n_), p(n_);
        double largest = 0;
        for (double value : a_) largest = std::max(largest, std::fabs(value));
        // what is below is rounding; squares of much less, as narrow Gaussians have, would underflow
        const double least = std::pow(std::numeric_limits<double>::epsilon() * largest, 2);
        for (int k = 0; k + 2 < n_; ++k) {
            double square = 0;
            for (int i = k + 2; i < n_; ++i) square += a(i)[k] * a(i)[k];
            if (square <= least) continue;
            const double first = a(k + 1)[k], length = std::copysign(std::sqrt(first * first + square), first);
            for (int i = k + 1; i < n_; ++i) v[i] = a(i)[k];
            v[k + 1] += length;
            const double beta = 2 / (v[k + 1] * v[k + 1] + square);
            for (int i = k; i < n_; ++i) p[i] = 0;
            for (int i = k + 1; i < n_; ++i)
                for (int j = k; j < n_; ++j) p[j] += v[i] * a(i)[j];
            double along = 0;
            for (int i = k + 1; i < n_; ++i) along += beta * p[i] * v[i];
            for (int i = k + 1; i < n_; ++i) p[i] = beta * (p[i] - along / 2 * v[i]);
            for (int i = k + 1; i < n_; ++i)
                for (int j = k + 1; j < n_; ++j) a(i)[j] -= v[i] * p[j] + p[i] * v[j];
            a(k + 1)[k] = -length;
            for (int j = 0; j < n_; ++j) p[j] = 0;
            for (int i = k + 1; i < n_; ++i)
                for (int j = 0; j < n_; ++j) p[j] += v[i] * z(i)[j];
            for (int i = k + 1; i < n_; ++i)
                for (int j = 0; j < n_; ++j) z(i)[j] -= beta * v[i] * p[j];
        }
        for (int i = 0; i < n_; ++i) {
            d_[i] = a(i)[i];
            e_[i] = i + 1 < n_ ? a(i + 1)[i] : 0;
            size_ = std::max({size_, std::fabs(d_[i]), std::fabs(e_[i])});
        }
    }

    // Beside the size of the whole matrix: eigenvalues that are mere rounding would never come apart.
    bool negligible(int m) const { return std::fabs(e_[m]) <= std::numeric_limits<double>::epsilon() * size_; }
    void diagonalize() {
        constexpr int kMostSteps = 100;  // two or three are common
        for (int first = 0; first < n_; ++first)
            for (int steps = 0;; ++steps) {
                int last = first;
                while (last + 1 < n_ && !negligible(last)) ++last;
                if (last == first) break;
                if (steps == kMostSteps) throw NotFiniteError("The eigenvalues of a kernel matrix cannot be found.");
                step(first, last);
            }
    }
    void step(int first, int last) {
        double g = (d_[first + 1] - d_[first]) / (2 * e_[first]);
        g = d_[last] - d_[first] + e_[first] / (g + std::copysign(std::hypot(g, 1.0), g));
        double s = 1, c = 1, shift = 0;
        for (int i = last - 1; i >= first; --i) {
            const double f = s * e_[i], b = c * e_[i];
            const double r = std::hypot(f, g);
            e_[i + 1] = r;
            if (r == 0) {
                d_[i + 1] -= shift;
                e_[last] = 0;
                return;
            }
            s = f / r;
            c = g / r;
            g = d_[i + 1] - shift;
            const double turned = (d_[i] - g) * s + 2 * c * b;
            shift = s * turned;
            d_[i + 1] = g + shift;
            g = c * turned - b;
            double* const lower = z(i);
            double* const upper = z(i + 1);
            for (int k = 0; k < n_; ++k) {
                const double was = upper[k];
                upper[k] = s * lower[k] + c * was;
                lower[k] = c * lower[k] - s * was;
            }
        }
        d_[first] -= shift;
        e_[first] = g;
        e_[last] = 0;
    }

    int n_;
    double size_ = 0;  // largest number on the three diagonals
    std::vector<double> a_, d_, e_, z_;
};

}  // namespace bomkl
