// The linear part of Auto models for very wide rows: AdaGrad with implicit steps on the non-zeros of a row.
//
// A full covariance of d columns takes d^2 numbers. Here a column has one sum of squared gradients S, shared by all outputs,
// and one weight for each output; rows and columns that are zero cost nothing. The step of a row goes along its gradient, as
// far as the loss after the step asks for, so that no row, scale or weight can make it diverge.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "auto/components/losses.hpp"
#include "auto/hashed/hashing.hpp"

namespace bomkl::automatic {

// Rows as their non-zeros: row t has those from starts[t] to starts[t + 1].
struct NonZeros {
    const std::int64_t* starts;
    const std::int32_t* places;  // of a column in the arrays of the model; -1 where it has none yet
    const double* values;
};

// Sums of squared gradients S (rates), divided by fade, and weights w (rates, outputs) of some columns.
struct ColumnArrays {
    std::vector<double> S;
    std::vector<float> w;
};

// The same of all columns. Copies share them, and what few rows change stays apart in a copy at first: so learning one row in a
// copy takes no longer than the row is wide.
//
// What stays apart is written to the shared arrays when the copy is copied in turn and learns on, provided that nobody is left
// who needs what was there: everybody who shares the arrays has the same columns apart, and looks there first.
class SharedColumns {
public:
    SharedColumns(int rates, int outputs) : rates_(rates), outputs_(outputs), all_(std::make_shared<ColumnArrays>()) {}

    int rates() const { return rates_; }
    int outputs() const { return outputs_; }
    std::size_t room() const { return all_->S.size() / rates_; }
    std::size_t bytes() const { return sizeof(double) * all_->S.size() + sizeof(float) * all_->w.size(); }

    // Has room for columns, zeros at first; it grows by half, so that time stays linear.
    void reserve(std::size_t columns) {
        if (columns > room()) copy(std::max(columns, room() + room() / 2));
    }

    // Columns that are about to change, at most so many.
    void begin(std::size_t columns) {
        if (apart_ && apart_.use_count() == all_.use_count()) {
            write_apart(*all_);
            apart_.reset();
        }
        if (all_.use_count() == 1) return;
        const bool own = !apart_ || apart_.use_count() == 1;
        if (!own || 4 * (columns + (apart_ ? apart_->places.size() : 0)) > room())
            copy(room());
        else if (!apart_)
            apart_ = std::make_shared<Apart>();
    }

    // Makes sure that a column may change, then finds it. Pointers to others may change until all columns of a row are known.
    void own(std::int32_t column) {
        if (!apart_ || !apart_->places.emplace(column, apart_->places.size()).second) return;
        const double* S = all_->S.data() + std::size_t(column) * rates_;
        const float* w = all_->w.data() + std::size_t(column) * rates_ * outputs_;
        apart_->S.insert(apart_->S.end(), S, S + rates_);
        apart_->w.insert(apart_->w.end(), w, w + rates_ * outputs_);
    }
    double* S(std::int32_t column) { return const_cast<double*>(std::as_const(*this).S(column)); }
    float* w(std::int32_t column) { return const_cast<float*>(std::as_const(*this).w(column)); }
    const double* S(std::int32_t column) const {
        const auto [from, place] = find(column);
        return from->S.data() + place * rates_;
    }
    const float* w(std::int32_t column) const {
        const auto [from, place] = find(column);
        return from->w.data() + place * rates_ * outputs_;
    }

    // Multiplies all sums.
    void fade(double factor) {
        if (apart_ || all_.use_count() > 1) copy(room());
        for (double& sum : all_->S) sum *= factor;
    }

private:
    struct Apart : ColumnArrays {
        std::unordered_map<std::int32_t, std::size_t> places;
    };

    std::pair<const ColumnArrays*, std::size_t> find(std::int32_t column) const {
        if (apart_)
            if (const auto found = apart_->places.find(column); found != apart_->places.end())
                return {apart_.get(), found->second};
        return {all_.get(), std::size_t(column)};
    }

    void write_apart(ColumnArrays& to) const {
        for (const auto& [column, place] : apart_->places) {
            std::copy_n(apart_->S.data() + place * rates_, rates_, to.S.data() + std::size_t(column) * rates_);
            std::copy_n(apart_->w.data() + place * rates_ * outputs_, rates_ * outputs_,
                        to.w.data() + std::size_t(column) * rates_ * outputs_);
        }
    }

    void copy(std::size_t room) {
        auto made = std::make_shared<ColumnArrays>(*all_);
        made->S.resize(room * rates_);
        made->w.resize(room * rates_ * outputs_);
        if (apart_) write_apart(*made);
        apart_.reset();
        all_ = std::move(made);
    }

    int rates_, outputs_;
    std::shared_ptr<ColumnArrays> all_;
    std::shared_ptr<Apart> apart_;  // after `all_`: whoever is being copied or dropped shares the arrays at least
};

struct WideLinear {
    explicit WideLinear(std::vector<double> rate, int outputs)
        : rate(std::move(rate)), columns(int(this->rate.size()), outputs), bias(this->rate.size() * outputs),
          bias_sum(this->rate.size()) {}

    int rates() const { return columns.rates(); }
    int outputs() const { return columns.outputs(); }

    std::vector<double> rate;  // step sizes
    SharedColumns columns;
    std::vector<double> bias;               // (rates, outputs)
    std::vector<double> bias_sum;           // (rates)
    std::array<double, 2> active = {0, 0};  // non-zeros, constants included, and rows so far
    double fade = 1;                        // forget^(rows since S was last multiplied by it)
};

// One column of a row, with the weights and sums of all rates.
struct WideEntry {
    double value;
    double* S;
    float* w;
};

inline constexpr double kLeastGradient = 1e-3;  // squared; steps do not grow without bound where all gradients were tiny

// Scores (rates, outputs) of row t.
inline void wide_score(const WideLinear& m, const NonZeros& rows, std::size_t t, double* f) {
    const int width = m.rates() * m.outputs();
    std::copy_n(m.bias.data(), width, f);
    for (std::int64_t e = rows.starts[t]; e < rows.starts[t + 1]; ++e) {
        if (rows.places[e] < 0) continue;
        const float* own = m.columns.w(rows.places[e]);
        for (int k = 0; k < width; ++k) f[k] += double(own[k]) * rows.values[e];
    }
}

// The part of a step along the gradient `a` that the gradient after it still asks for: the t in [0, 1] where
// gradient(f + t reach a) = t a, for several classes in the component of the row's own class.
inline double implicit_part(const double* f, const double* y, const double* a, double reach, int outputs, Task task, double* g,
                            double* p) {
    if (is_regression(task)) return a[0] == 0 ? 1.0 : std::min(1.0, (y[0] - f[0]) / (a[0] * (1 + reach)));
    const auto own = task == Task::binary ? 0 : std::max_element(y, y + outputs) - y;
    double low = 0, high = 1;
    for (int round = 0; round < 20; ++round) {
        const double middle = 0.5 * (low + high);
        for (int k = 0; k < outputs; ++k) g[k] = f[k] + middle * reach * a[k];
        means(g, outputs, task, p);
        (std::abs(y[own] - p[own]) > middle * std::abs(a[own]) ? low : high) = middle;
    }
    return low;
}

// Learns a row by the step size of number r; f are its scores by it.
inline void wide_learn(WideLinear& m, const std::vector<WideEntry>& row, int r, const double* f, const double* y, double weight,
                       Task task, double* a, double* g, double* p) {
    const int outputs = m.outputs();
    means(f, outputs, task, p);
    double size = 0;
    for (int k = 0; k < outputs; ++k) {
        a[k] = y[k] - p[k];
        if (task == Task::huber) a[k] = std::clamp(a[k], -kHuber, kHuber);
        size += a[k] * a[k];
    }
    const double rate = m.rate[r] * std::sqrt(m.active[1] / m.active[0]), fade = m.fade;
    const auto pace = [&](double sum, double squared) {
        return rate / std::sqrt(std::max(sum * fade + kLeastGradient * squared, 1e-300));
    };
    m.bias_sum[r] += weight * size / fade;
    double reach = pace(m.bias_sum[r], 1.0);
    for (const WideEntry& each : row) {
        const double squared = each.value * each.value;
        each.S[r] += weight * size * squared / fade;
        reach += squared * pace(each.S[r], squared);
    }
    const double part = weight * implicit_part(f, y, a, weight * reach, outputs, task, g, p);
    for (int k = 0; k < outputs; ++k) m.bias[std::size_t(r) * outputs + k] += part * pace(m.bias_sum[r], 1.0) * a[k];
    for (const WideEntry& each : row) {
        const double step = part * each.value * pace(each.S[r], each.value * each.value);
        float* own = each.w + r * outputs;
        for (int k = 0; k < outputs; ++k) own[k] = float(own[k] + step * a[k]);
    }
}

// Scores (n, rates, outputs) of rows, each just before it is learned.
inline void wide_rows(WideLinear& m, const NonZeros& rows, const double* y, const double* weight, std::size_t n, Task task,
                      double forget, double* scores) {
    constexpr double faded = 1e-100;
    const int rates = m.rates(), outputs = m.outputs();
    std::vector<double> a(outputs), g(outputs), p(outputs);
    std::vector<WideEntry> row;
    m.columns.begin(std::size_t(rows.starts[n]));
    for (std::size_t t = 0; t < n; ++t) {
        m.active[0] += double(rows.starts[t + 1] - rows.starts[t]) + 1;
        m.active[1] += 1;
        m.fade *= forget;
        if (m.fade < faded) {
            m.columns.fade(m.fade);
            for (double& sum : m.bias_sum) sum *= m.fade;
            m.fade = 1;
        }
        row.clear();
        for (std::int64_t e = rows.starts[t]; e < rows.starts[t + 1]; ++e) m.columns.own(rows.places[e]);
        for (std::int64_t e = rows.starts[t]; e < rows.starts[t + 1]; ++e)
            row.push_back({rows.values[e], m.columns.S(rows.places[e]), m.columns.w(rows.places[e])});
        double* f = scores + t * rates * outputs;
        wide_score(m, rows, t, f);
        for (int r = 0; r < rates; ++r)
            wide_learn(m, row, r, f + r * outputs, y + t * outputs, weight[t], task, a.data(), g.data(), p.data());
    }
}

// Count sketch: each column goes, with a random sign, to one of `width` columns. Inner products and distances are kept
// in expectation, with a variance of about their square / width.
inline void sketch_rows(const std::int64_t* starts, const std::int32_t* columns, const double* values, std::size_t n,
                        std::uint64_t seed, std::size_t width, double* out) {
    std::fill_n(out, n * width, 0.0);
    for (std::size_t t = 0; t < n; ++t)
        for (std::int64_t e = starts[t]; e < starts[t + 1]; ++e) {
            const std::uint64_t random = mixed(seed ^ mixed(std::uint64_t(columns[e])));
            out[t * width + (random >> 1) % width] += random & 1 ? values[e] : -values[e];
        }
}

}  // namespace bomkl::automatic
