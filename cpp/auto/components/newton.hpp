// Online Newton regression in blocks of 64 rows.
//
// What depends on earlier rows of a block is a column of its own, so the bits do not depend on how rows are cut into calls.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "auto/components/losses.hpp"
#include "auto/components/products.hpp"
#include "primitives/buffer.hpp"

namespace bomkl::automatic {

// One component: Gaussian posterior with means w (outputs, width) and covariance P, packed [tile][rank][64], as of the start
// of the open block, and the rows of that block so far. V[t] = P_t x_t, the gain direction of row t, is never formed
// before the block is full: with M[s][t] = c[s] (x_s P_s x_t), V = L^-1 U where L = I + (strict lower part of M^T).
struct Component {
    int rank, tiles, outputs;
    double* w;
    float* P;
    float* rows;    // (64, width) features of the open block
    float* U;       // (64, width) rows times P
    double* M;      // (64, 64)
    double* c;      // (64) what each row takes from the covariance along V
    double* a;      // (64, outputs) steps along V
    float* V;       // packed [tile][64][64]: gain directions of the open block, kept only while forgetting
    double* trace;  // (2) largest trace that forgetting may bring P to, and the trace as of the last row
    std::size_t width() const { return std::size_t(tiles) * kTile; }
};

// Solves L^T b = a for each output: the sum of a[s] V[s] is the sum of b[s] U[s].
inline std::vector<double> steps_along_rows(const Component& m, int n) {
    std::vector<double> b(m.a, m.a + std::size_t(n) * m.outputs);
    for (int t = n - 1; t >= 0; --t)
        for (int s = 0; s < t; ++s)
            for (int k = 0; k < m.outputs; ++k)
                b[std::size_t(s) * m.outputs + k] -= m.M[s * kBlock + t] * b[std::size_t(t) * m.outputs + k];
    return b;
}

// Means with the rows of the open block learned: out (outputs, width).
inline void current_means(const Component& m, int n, double* out) {
    std::copy_n(m.w, m.outputs * m.width(), out);
    const std::vector<double> b = steps_along_rows(m, n);
    constexpr std::size_t some = 8;  // means that stay in registers
    for (int k = 0; k < m.outputs; ++k)
        for (std::size_t j = 0; j < m.width(); j += some) {
            double w[some];
            std::copy_n(out + k * m.width() + j, some, w);
            for (int s = 0; s < n; ++s) {
                const double step = b[std::size_t(s) * m.outputs + k];
                const float* u = m.U + s * m.width() + j;
                for (std::size_t i = 0; i < some; ++i) w[i] += step * double(u[i]);
            }
            std::copy_n(w, some, out + k * m.width() + j);
        }
}

// V^T of the n rows of the open block, (width, 64) with zeros beyond column n, from V = L^-1 U.
inline Buffer<float> gain_directions(const Primitives<float>& with, const Component& m, int n) {
    const std::size_t width = m.width();
    const Buffer<float>::Raw raw;
    Buffer<float> inverse(std::size_t(n) * kTile, raw), u_transposed(width * n, raw), v_transposed(width * kTile, raw);
    with.invert(m.M, n, inverse.data());
    transpose(m.U, n, width, width, u_transposed.data(), n);
    multiply(with, u_transposed.data(), n, int(width), n, inverse.data(), 1, v_transposed.data(), kTile);
    return v_transposed;
}

inline double trace(const Component& m) {
    double sum = 0;
    for (int j = 0; j < m.rank; ++j) sum += m.P[(std::size_t(j / kTile) * m.rank + j) * kTile + j % kTile];
    return sum;
}

// Makes the open block of n rows, at least one, part of w and P; `before` is the covariance so far, perhaps P itself.
inline void close_block(const Primitives<float>& with, Component& m, int n, const float* before) {
    const std::size_t width = m.width();
    std::vector<double> w(m.outputs * width);
    current_means(m, n, w.data());
    std::copy(w.begin(), w.end(), m.w);
    const Buffer<float> v_transposed = gain_directions(with, m, n);

    // P -= V^T c V, on and above the diagonal; the rest is its mirror image, to the bit, and has to be. Learning shrinks an
    // error E of P with P itself, to (I - c v x^T) E (I - c v x^T)^T, but only where E is symmetric: the change v v^T is
    // symmetric whatever v is, so what makes P differ from its mirror image stays for ever, while P goes to zero. In the end v
    // = P^T x is no longer P x, and the change takes from P what is not there.
    alignas(64) float scaled[kTile * kTile];
    const auto tile = [&](int q) { return m.P + std::size_t(q) * m.rank * kTile; };
    for (int q = 0; q < m.tiles; ++q) {
        const int first = q * kTile, rows = std::min(m.rank, first + kTile);
        transpose(v_transposed.data() + std::size_t(first) * kTile, kTile, n, kTile, scaled, kTile);
        for (int t = 0; t < n; ++t)
            for (int i = 0; i < kTile; ++i) scaled[std::size_t(t) * kTile + i] *= float(m.c[t]);
        const Rows<float> directions = rows_of(v_transposed.data(), kTile, n);
        with.subtract_inner(directions, rows, scaled, before + std::size_t(q) * m.rank * kTile, tile(q));
        float* diagonal = tile(q) + std::size_t(first) * kTile;
        for (int i = 1; i < rows - first; ++i)
            for (int j = 0; j < i; ++j) diagonal[std::size_t(i) * kTile + j] = diagonal[std::size_t(j) * kTile + i];
        for (int p = 0; p < q; ++p)
            transpose(tile(q) + std::size_t(p) * kTile * kTile, kTile, rows - first, kTile,
                      tile(p) + std::size_t(first) * kTile, kTile);
    }
    m.trace[1] = trace(m);
}

// Forgetting.
//
// A row changes the covariance along its gain direction v = P x only: P' = P - c v v^T, so that its own variance q = x P x
// becomes q (1 - c q). Learning takes c = h / (1 + h q), where h is the curvature of its loss. Forgetting takes off
// loosen h / q, as much as lets q rest at loosen / (1 - loosen h): what rows like it bring is forgotten as fast as it comes.
// Two bounds keep the filter stable for any rows, ranks and weights:
//   (1) loosen h <= 1/2. Then c q > -1/2: one row makes its own variance at most half as large again.
//   (2) trace P <= limit, that of the prior: where a row would pass it, c is raised to where it does not.
// Stability. c <= h / (1 + h q) < 1 / q, so P stays positive definite; with (2) its eigenvalues never exceed the limit.
// Scores stay finite: by the formula of Sherman and Morrison P'^-1 = P^-1 + k x x^T with k = c / (1 - c q) <= h. For the losses
// of numbers the step is a = h (y - f) / (1 + h q) (Huber's too, with its own h), so with E = w P^-1 w
//   E' <= (w + a v)^T (P^-1 + h x x^T) (w + a v) = E + h y^2 - h (y - f)^2 / (1 + h q) <= E + h y^2,
// hence f^2 <= q E <= |x|^2 limit (E_0 + sum of h y^2): no faster than the root of the number of rows. For classes
// |a| <= weight, so |w| grows by at most weight limit |x| a row.
inline constexpr double kMostForgetting = 0.5;

inline double forgetting(double h, double q, double loosen) { return std::min(loosen * h, kMostForgetting) / q; }

// Where the trace may still grow, c itself; else the c at which it reaches its limit.
inline double bounded_by_trace(double c, double squared_length, double trace, double limit) {
    if (c >= 0 || trace - c * squared_length <= limit) return c;
    return -std::max(limit - trace, 0.0) / squared_length;
}

// The implicit step of one row: what its loss, taken after the step, asks for. q is the variance of its score.
inline double newton_step(const double* f, const double* y, double weight, double q, int outputs, Task task, double loosen,
                          double* a, double* g, double* p) {
    if (is_regression(task)) {
        const double residual = (y[0] - f[0]) / (1 + weight * q);
        double h = weight;
        a[0] = weight * residual;
        if (task == Task::huber && std::abs(residual) > kHuber) {
            a[0] = std::copysign(weight * kHuber, residual);
            h = weight * kHuber / std::max(std::abs(y[0] - f[0]) - q * weight * kHuber, kHuber);
        }
        return h / (1 + h * q) - forgetting(h, q, loosen);
    }
    const double reach = q * weight;
    std::copy_n(f, outputs, g);
    for (int round = 0; round < 12; ++round) {  // g = f + q weight (y - p(g))
        if (task == Task::binary) {
            p[0] = 1 / (1 + std::exp(-g[0]));
        } else {
            const double top = *std::max_element(g, g + outputs);
            double total = 0;
            for (int k = 0; k < outputs; ++k) total += p[k] = std::exp(g[k] - top);
            for (int k = 0; k < outputs; ++k) p[k] /= total;
        }
        double change = 0;
        for (int k = 0; k < outputs; ++k) {
            double next = g[k] - (g[k] - f[k] - reach * (y[k] - p[k])) / (1 + reach * p[k] * (1 - p[k]));
            const double low = f[k] - reach * (1 - y[k]);
            next = std::clamp(next, low, low + reach);
            change = std::max(change, std::abs(next - g[k]));
            g[k] = next;
        }
        if (change < 1e-6) break;
    }
    double h = 1e-5;
    for (int k = 0; k < outputs; ++k) {
        a[k] = weight * (y[k] - p[k]);
        h = std::max(h, p[k] * (1 - p[k]));
    }
    h *= weight;
    return h / (1 + h * q) - forgetting(4 * h, q, loosen);  // of two even classes 4 h is the weight
}

// V[u] = U[u] - sum over s < u of M[s][u] V[s]; returns its squared length.
inline double gain_direction(const Primitives<float>& with, Component& m, int u) {
    float factors[kBlock];
    for (int s = 0; s < u; ++s) factors[s] = float(m.M[s * kBlock + u]);
    double part[kLanes] = {};
    for (int q = 0; q < m.tiles; ++q)
        with.next_direction(factors, u, m.U + u * m.width() + std::size_t(q) * kTile, m.V + std::size_t(q) * kBlock * kTile,
                            part);
    double length = 0;
    for (double each : part) length += each;
    return length;
}

// Scores features x as row u of the open block. column[s], for s < u, is x_s P x at first, x_s P_s x in the end.
inline void score_row(const Primitives<float>& with, const Component& m, int u, const float* x, double* column, double* f) {
    for (int k = 0; k < m.outputs; ++k) f[k] = with.dot(x, m.w + k * m.width(), m.rank);
    with.eliminate(m.M, u, column);
    for (int k = 0; k < m.outputs; ++k) {
        double sum = f[k];
        for (int s = 0; s < u; ++s) sum += m.a[s * m.outputs + k] * column[s];
        f[k] = sum;
    }
}

// Learns row u of the open block after `score_row`; own is x_u P x_u. Only what belongs to row u changes.
inline void learn_row(const Primitives<float>& with, Component& m, int u, const double* column, double own, const double* f,
                      const double* y, double weight, Task task, double loosen, double* g, double* p) {
    for (int s = 0; s < u; ++s) {
        own -= m.c[s] * column[s] * column[s];
        m.M[s * kBlock + u] = m.c[s] * column[s];
    }
    const double q = std::max(own, 1e-12);
    const double change = newton_step(f, y, weight, q, m.outputs, task, loosen, m.a + u * m.outputs, g, p);
    m.c[u] = own > 0 ? change : 0;  // a variance of zero or less is rounding: leave the covariance alone
    if (loosen > 0) {
        const double squared_length = gain_direction(with, m, u);
        m.c[u] = bounded_by_trace(m.c[u], squared_length, m.trace[1], m.trace[0]);
        m.trace[1] -= m.c[u] * squared_length;
    }
}

}  // namespace bomkl::automatic
