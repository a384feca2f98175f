// The loops of the zero-tuning learner: kernel features of rows, online Newton regression in blocks, combination.
//
// Every number of a row is computed by the same operations in the same order however many rows come with it: products are
// sums over k in order (Primitives::inner), and what depends on earlier rows of a block is a column of its own. That is why
// cutting a stream into calls differently changes no bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "primitives.hpp"

namespace bomkl::automatic {

inline constexpr int kBlock = 64;  // rows that share one update of the covariance
static_assert(kBlock == kTile, "a block is one tile");

enum class Task { binary, multiclass, squared, huber };

inline bool is_regression(Task task) { return task == Task::squared || task == Task::huber; }
inline constexpr double kHuber = 1.0;  // where Huber's loss turns linear, in units of the scaled target

inline Rows<float> rows_of(const float* x, std::size_t stride, int k) { return {x, stride, nullptr, nullptr, k}; }

// out (n, 64 * n_tiles) = a (n, k) times b, whose columns are packed in tiles of 64: b[tile][k][64].
inline void multiply(const Primitives<float>& with, const float* a, std::size_t stride, int n, int k, const float* b,
                     int n_tiles, float* out, std::size_t out_stride) {
    const Rows<float> rows = rows_of(a, stride, k);
    for (int q = 0; q < n_tiles; ++q) {
        const Tile<float> tile{b + std::size_t(q) * k * kTile, nullptr, nullptr, nullptr, 0};
        with.inner(rows, 0, n, &tile, 1, out + std::size_t(q) * kTile, out_stride);
    }
}

// out (columns, rows) = in (rows, columns), transposed by squares that stay in the nearest cache.
inline void transpose(const float* in, std::size_t rows, std::size_t columns, std::size_t stride, float* out,
                      std::size_t out_stride) {
    constexpr std::size_t side = 16;
    for (std::size_t i = 0; i < rows; i += side)
        for (std::size_t j = 0; j < columns; j += side)
            for (std::size_t b = j; b < std::min(j + side, columns); ++b)
                for (std::size_t a = i; a < std::min(i + side, rows); ++a) out[b * out_stride + a] = in[a * stride + b];
}

// A sum in 16 interleaved parts: the compiler may keep them in vectors without changing a bit.
inline double dot(const float* x, const double* w, std::size_t n) {
    double part[16] = {};
    std::size_t j = 0;
    for (; j + 16 <= n; j += 16)
        for (int i = 0; i < 16; ++i) part[i] += double(x[j + i]) * w[j + i];
    for (; j < n; ++j) part[j % 16] += double(x[j]) * w[j];
    double sum = 0;
    for (int i = 0; i < 16; ++i) sum += part[i];
    return sum;
}

// ---------------------------------------------------------------- features

struct KernelMap {
    bool polynomial;
    double scale;              // Gaussian: 1 / (2 sigma^2); polynomial: 1 / d
    const float* landmarks;    // packed [tile][d][64]
    const float* norms;        // squared lengths of the landmarks, as many as columns of the tiles
    int n_landmarks, landmark_tiles, features;
    const float* whiten;       // packed [tile][landmark][64]
    int rank, rank_tiles;      // column `rank` of the features is the constant 1
};

// Kernel values of n rows against the landmarks, n at most kBlock: out (n, 64 * landmark_tiles).
inline void kernel_values(const Primitives<float>& with, const KernelMap& map, const float* x, int n, float* out) {
    const std::size_t width = std::size_t(map.landmark_tiles) * kTile;
    multiply(with, x, map.features, n, map.features, map.landmarks, map.landmark_tiles, out, width);
    const float scale = float(map.scale);
    for (int t = 0; t < n; ++t) {
        float* row = out + t * width;
        if (map.polynomial) {
            for (std::size_t j = 0; j < width; ++j) {
                const float base = 1.0f + row[j] * scale;
                row[j] = base * base;
            }
            continue;
        }
        float norm = 0;
        for (int j = 0; j < map.features; ++j) norm += x[std::size_t(t) * map.features + j] * x[std::size_t(t) * map.features + j];
        for (std::size_t j = 0; j < width; ++j)  // without arithmetic in a branch, so that the compiler may use vectors
            row[j] = -scale * std::max(norm + map.norms[j] - 2.0f * row[j], 0.0f);
        with.exp_many(row, width);
    }
}

// How many rows of a matrix packed in tiles are not zero in a tile: of a triangular one, half on average.
inline int depth(const float* tile, int rows) {
    const auto zero = [](float value) { return value == 0.0f; };
    while (rows > 0 && std::all_of(tile + std::size_t(rows - 1) * kTile, tile + std::size_t(rows) * kTile, zero)) --rows;
    return rows;
}

inline void kernel_features(const Primitives<float>& with, const KernelMap& map, const float* x, std::size_t n, float* out) {
    const std::size_t width = std::size_t(map.rank_tiles) * kTile, values_width = std::size_t(map.landmark_tiles) * kTile;
    std::vector<float> values(kBlock * values_width);
    const auto tile = [&](int q) { return map.whiten + std::size_t(q) * map.n_landmarks * kTile; };
    std::vector<int> depths(map.rank_tiles);
    for (int q = 0; q < map.rank_tiles; ++q) depths[q] = depth(tile(q), map.n_landmarks);
    for (std::size_t begin = 0; begin < n; begin += kBlock) {
        const int count = int(std::min<std::size_t>(kBlock, n - begin));
        kernel_values(with, map, x + begin * map.features, count, values.data());
        for (int q = 0; q < map.rank_tiles; ++q)
            multiply(with, values.data(), values_width, count, depths[q], tile(q), 1, out + begin * width + q * kTile, width);
        for (int t = 0; t < count; ++t) out[(begin + t) * width + map.rank] = 1.0f;
    }
}

// Normal scores: the place of each value among the sorted values of its column, looked up in a table of 2 n + 1 entries.
inline void normal_scores(const double* x, std::size_t n, std::size_t d, const double* sorted, std::size_t length,
                          const double* table, const double* mean, const double* deviation, float* out) {
    for (std::size_t j = 0; j < d; ++j) {
        const double* begin = sorted + j * length;
        const double* end = begin + length;
        for (std::size_t t = 0; t < n; ++t) {
            const double value = x[t * d + j];
            const double* low = std::lower_bound(begin, end, value);
            const double* high = low != end && *low == value ? std::upper_bound(low, end, value) : low;
            out[t * d + j] = float((table[(low - begin) + (high - begin)] - mean[j]) / deviation[j]);
        }
    }
}

// ---------------------------------------------------------------- losses

// Predictive means: probabilities of the classes, or the prediction itself.
inline void means(const double* f, int outputs, Task task, double* p) {
    if (is_regression(task)) {
        std::copy_n(f, outputs, p);
    } else if (task == Task::binary) {
        p[0] = 1 / (1 + std::exp(-std::clamp(f[0], -15.0, 15.0)));
    } else {
        const double top = *std::max_element(f, f + outputs);
        double total = 0;
        for (int k = 0; k < outputs; ++k) total += p[k] = std::exp(std::max(f[k] - top, -15.0));
        for (int k = 0; k < outputs; ++k) p[k] /= total;
    }
}

// The inverse of `means`: log odds, log probabilities, or the prediction itself.
inline void scores_of_means(const double* p, int outputs, Task task, double* f) {
    constexpr double tiny = 1e-12;
    if (is_regression(task))
        std::copy_n(p, outputs, f);
    else if (task == Task::binary)
        f[0] = std::log(std::max(p[0], tiny) / std::max(1 - p[0], tiny));
    else
        for (int k = 0; k < outputs; ++k) f[k] = std::log(std::max(p[k], tiny));
}

inline double point_loss(const double* f, const double* y, int outputs, Task task) {
    constexpr double most = 10.0;  // one outlier must not decide between components for ever
    if (is_regression(task)) {
        const double r = std::abs(f[0] - y[0]);
        if (task == Task::huber && r > kHuber) return std::min(kHuber * (r - 0.5 * kHuber), most);
        return std::min(0.5 * r * r, most);
    }
    if (task == Task::binary) {
        const double s = std::clamp(f[0], -15.0, 15.0);
        return y[0] > 0.5 ? std::log1p(std::exp(-s)) : std::log1p(std::exp(s));
    }
    const double top = *std::max_element(f, f + outputs);
    double total = 0, own = 0;
    for (int k = 0; k < outputs; ++k) {
        const double relative = std::max(f[k] - top, -15.0);
        total += std::exp(relative);
        if (y[k] > 0.5) own = relative;
    }
    return std::log(total) - own;
}

// 0 or 1 for classes (a score of zero is a mistake), the squared error for numbers.
inline double point_error(const double* f, const double* y, int outputs, Task task) {
    if (is_regression(task)) return (f[0] - y[0]) * (f[0] - y[0]);
    if (task == Task::binary) return (y[0] > 0.5 ? f[0] : -f[0]) <= 0 ? 1 : 0;
    const auto own = std::max_element(y, y + outputs) - y;
    return std::max_element(f, f + outputs) - f != own ? 1 : 0;
}

// ---------------------------------------------------------------- online Newton regression in blocks

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
    for (int k = 0; k < m.outputs; ++k)
        for (int s = 0; s < n; ++s) {
            const double step = b[std::size_t(s) * m.outputs + k];
            const float* u = m.U + s * m.width();
            double* w = out + k * m.width();
            for (std::size_t j = 0; j < m.width(); ++j) w[j] += step * double(u[j]);
        }
}

// Makes the open block of n rows part of w and P.
inline void close_block(const Primitives<float>& with, Component& m, int n) {
    if (n == 0) return;
    const std::size_t width = m.width();
    std::vector<double> w(m.outputs * width);
    current_means(m, n, w.data());
    std::copy(w.begin(), w.end(), m.w);

    double inverse[kBlock][kBlock] = {};
    for (int t = 0; t < n; ++t) {
        inverse[t][t] = 1;
        for (int s = 0; s < t; ++s) {
            const double factor = m.M[s * kBlock + t];
            for (int u = 0; u <= s; ++u) inverse[t][u] -= factor * inverse[s][u];
        }
    }
    // V^T = U^T L^-T: its columns beyond n are zero
    std::vector<float> inverse_transposed(std::size_t(n) * kTile), u_transposed(width * n), v_transposed(width * kTile);
    for (int s = 0; s < n; ++s)
        for (int t = s; t < n; ++t) inverse_transposed[std::size_t(s) * kTile + t] = float(inverse[t][s]);
    transpose(m.U, n, width, width, u_transposed.data(), n);
    multiply(with, u_transposed.data(), n, int(width), n, inverse_transposed.data(), 1, v_transposed.data(), kTile);

    // P -= V^T c V, on and above the diagonal tiles; the rest is its mirror image
    std::vector<float> scaled(std::size_t(kTile) * kTile), change(width * kTile);
    const auto tile = [&](int q) { return m.P + std::size_t(q) * m.rank * kTile; };
    for (int q = 0; q < m.tiles; ++q) {
        const int first = q * kTile, rows = std::min(m.rank, first + kTile);
        transpose(v_transposed.data() + std::size_t(first) * kTile, kTile, n, kTile, scaled.data(), kTile);
        for (int t = 0; t < n; ++t)
            for (int i = 0; i < kTile; ++i) scaled[std::size_t(t) * kTile + i] *= float(m.c[t]);
        multiply(with, v_transposed.data(), kTile, rows, n, scaled.data(), 1, change.data(), kTile);
        for (std::size_t i = 0; i < std::size_t(rows) * kTile; ++i) tile(q)[i] -= change[i];
        for (int p = 0; p < q; ++p)
            transpose(tile(q) + std::size_t(p) * kTile * kTile, kTile, rows - first, kTile,
                      tile(p) + std::size_t(first) * kTile, kTile);
    }
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
        return h / (1 + h * q) - loosen * h / q;
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
    return h / (1 + h * q) - loosen * 4 * h / q;  // forget in this row's direction as fast as it brings information
}

// Scores n rows of features, each just before it is learned. `open` rows of the block are there already; `to_boundary` more
// make it full, later blocks have 64. Returns how many rows the open block has in the end.
inline int newton_rows(const Primitives<float>& with, Component& m, const float* F, const double* y, const double* weight,
                       std::size_t n, Task task, double loosen, int open, int to_boundary, double* scores) {
    const std::size_t width = m.width();
    const int outputs = m.outputs;
    std::vector<float> transposed(std::size_t(m.rank) * kTile), G(kBlock * kTile);
    std::vector<double> g(outputs), p(outputs);
    for (std::size_t done = 0; done < n;) {
        const int fresh = int(std::min<std::size_t>(to_boundary, n - done)), last = open + fresh;
        std::copy_n(F + done * width, fresh * width, m.rows + open * width);
        multiply(with, m.rows + open * width, width, fresh, m.rank, m.P, m.tiles, m.U + open * width, width);
        transpose(m.rows + open * width, fresh, m.rank, width, transposed.data(), kTile);
        multiply(with, m.U, width, last, m.rank, transposed.data(), 1, G.data(), kTile);
        for (int u = open; u < last; ++u) {
            const std::size_t row = done + (u - open);
            double column[kBlock];  // x_s P_s x_u for s <= u
            for (int s = 0; s <= u; ++s) column[s] = double(G[s * kTile + (u - open)]);
            double* f = scores + row * outputs;
            for (int k = 0; k < outputs; ++k) f[k] = dot(m.rows + u * width, m.w + k * width, m.rank);
            for (int s = 0; s < u; ++s) {
                const double value = column[s];
                for (int k = 0; k < outputs; ++k) f[k] += m.a[s * outputs + k] * value;
                const double* factors = m.M + s * kBlock;
                for (int v = s + 1; v < u; ++v) column[v] -= factors[v] * value;
                column[u] -= m.c[s] * value * value;
                m.M[s * kBlock + u] = m.c[s] * value;
            }
            const double q = std::max(column[u], 1e-12);
            const double change = newton_step(f, y + row * outputs, weight[row], q, outputs, task, loosen,
                                              m.a + u * outputs, g.data(), p.data());
            m.c[u] = column[u] > 0 ? change : 0;  // a variance of zero or less is rounding: leave the covariance alone
        }
        open = last;
        done += fresh;
        to_boundary -= fresh;
        if (to_boundary == 0) {
            close_block(with, m, open);
            open = 0;
            to_boundary = kBlock;
        }
    }
    return open;
}

// ---------------------------------------------------------------- combination

inline constexpr double kClip = 6.0;  // component scores beyond it say no more to a stack

// Newton stacks (w, P), a Hedge mixture of the components (weights) and Hedge over all of those (log_final).
struct Combination {
    int components, stacks;
    double* w;          // (stacks, components)
    double* P;          // (stacks, components, components)
    double* weights;    // (components)
    double* log_final;  // (stacks + 1)
    double share;
};

class Combiner {
public:
    Combiner(Combination parts, int outputs, Task task)
        : c_(parts), outputs_(outputs), task_(task), clipped_(std::size_t(parts.components) * outputs),
          f_(std::size_t(parts.stacks + 1) * outputs), p_(outputs), mix_(outputs), final_(parts.stacks + 1),
          loss_(parts.components), x_(parts.components), v_(parts.components), gradient_(parts.components),
          mean_(parts.components) {}

    // S (components, outputs): scores of one row, for several classes with mean zero. out (outputs).
    void score(const double* S, double* out) {
        for (std::size_t i = 0; i < clipped_.size(); ++i) clipped_[i] = std::clamp(S[i], -kClip, kClip);
        std::fill(f_.begin(), f_.end(), 0.0);
        for (int j = 0; j < c_.stacks; ++j)
            for (int i = 0; i < c_.components; ++i)
                for (int k = 0; k < outputs_; ++k) f(j)[k] += c_.w[j * c_.components + i] * clipped_[i * outputs_ + k];
        std::fill(mix_.begin(), mix_.end(), 0.0);
        for (int i = 0; i < c_.components; ++i) {
            means(S + std::size_t(i) * outputs_, outputs_, task_, p_.data());
            for (int k = 0; k < outputs_; ++k) mix_[k] += c_.weights[i] * p_[k];
        }
        scores_of_means(mix_.data(), outputs_, task_, f(c_.stacks));
        shares(c_.log_final, c_.stacks + 1, final_.data());
        std::fill(mix_.begin(), mix_.end(), 0.0);
        for (int j = 0; j <= c_.stacks; ++j) {
            means(f(j), outputs_, task_, p_.data());
            for (int k = 0; k < outputs_; ++k) mix_[k] += final_[j] * p_[k];
        }
        scores_of_means(mix_.data(), outputs_, task_, out);
    }

    // Learns the row that `score` was called with last.
    void learn(const double* S, const double* y, double weight, double* loss_sum, double* error_sum) {
        const int m = c_.components, all = c_.stacks + 1;
        for (int j = 0; j < all; ++j) c_.log_final[j] -= weight * point_loss(f(j), y, outputs_, task_);
        shares(c_.log_final, all, final_.data());
        for (int j = 0; j < all; ++j) c_.log_final[j] = std::log((1 - c_.share) * final_[j] + c_.share / all);

        for (int i = 0; i < m; ++i) {
            loss_[i] = point_loss(S + std::size_t(i) * outputs_, y, outputs_, task_);
            loss_sum[i] += weight * loss_[i];
            error_sum[i] += point_error(S + std::size_t(i) * outputs_, y, outputs_, task_);
        }
        const double best = *std::min_element(loss_.begin(), loss_.end());
        double total = 0;
        for (int i = 0; i < m; ++i) total += c_.weights[i] *= std::exp(-weight * (loss_[i] - best));
        for (int i = 0; i < m; ++i) c_.weights[i] = (1 - c_.share) * c_.weights[i] / total + c_.share / m;
        for (int j = 0; j < c_.stacks; ++j) learn_stack(j, y, weight);
    }

private:
    double* f(int j) { return f_.data() + std::size_t(j) * outputs_; }

    static void shares(const double* log_weights, int n, double* out) {
        const double top = *std::max_element(log_weights, log_weights + n);
        double total = 0;
        for (int j = 0; j < n; ++j) total += out[j] = std::exp(log_weights[j] - top);
        for (int j = 0; j < n; ++j) out[j] /= total;
    }

    void learn_stack(int j, const double* y, double weight) {
        const int m = c_.components;
        double* P = c_.P + std::size_t(j) * m * m;
        means(f(j), outputs_, task_, p_.data());
        std::fill(gradient_.begin(), gradient_.end(), 0.0);
        std::fill(mean_.begin(), mean_.end(), 0.0);
        for (int k = 0; k < outputs_; ++k) {
            double residual = y[k] - p_[k];
            if (task_ == Task::huber) residual = std::clamp(residual, -kHuber, kHuber);
            for (int i = 0; i < m; ++i) {
                mean_[i] += p_[k] * clipped_[i * outputs_ + k];
                gradient_[i] += weight * residual * clipped_[i * outputs_ + k];
            }
        }
        for (int k = 0; k < outputs_; ++k) {  // curvature: one rank-one term per output
            double h = weight;
            if (task_ == Task::binary) h *= std::max(p_[k] * (1 - p_[k]), 1e-4);
            if (task_ == Task::multiclass) h *= p_[k];
            if (task_ == Task::huber) h *= kHuber / std::max(std::abs(y[k] - p_[k]), kHuber);
            for (int i = 0; i < m; ++i)
                x_[i] = clipped_[i * outputs_ + k] - (task_ == Task::multiclass ? mean_[i] : 0.0);
            double q = 0;
            for (int i = 0; i < m; ++i) {
                v_[i] = 0;
                for (int l = 0; l < m; ++l) v_[i] += P[i * m + l] * x_[l];
                q += v_[i] * x_[i];
            }
            const double shrink = h / (1 + h * q);
            for (int i = 0; i < m; ++i)
                for (int l = 0; l < m; ++l) P[i * m + l] -= shrink * v_[i] * v_[l];
        }
        for (int i = 0; i < m; ++i)
            for (int l = 0; l < m; ++l) c_.w[j * m + i] += P[i * m + l] * gradient_[l];
    }

    Combination c_;
    int outputs_;
    Task task_;
    std::vector<double> clipped_, f_, p_, mix_, final_, loss_, x_, v_, gradient_, mean_;
};

}  // namespace bomkl::automatic
