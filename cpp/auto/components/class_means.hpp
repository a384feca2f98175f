// Classes as normal clouds around means of their own, all of one covariance: what few rows of a class tell.
//
// The score of a class is the log density of the row given the rows of the class so far, if the means of the classes are normal
// around the mean of all rows: a class of few rows is wide. There are two shapes of the clouds. One has the columns as its
// axes, the other has the covariance that the classes share, drawn to the first where rows are few.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "auto/limits.hpp"

namespace bomkl::automatic {

inline constexpr int kCloudShapes = 2;
inline constexpr double kFarthestCell = 64.0;  // deviations beyond it tell an outlier, and how far out it is does not matter
inline constexpr double kLargestDeviation = 1e100;     // larger ones are taken as this, so that sums of squares stay finite
inline constexpr double kLeastBetween = 0.05;          // variance of the class means, in units of the variance within classes
inline constexpr double kLeastLogProbability = -15.0;  // below the likeliest class

inline double dot_of(const double* a, const double* b, std::size_t n) {
    constexpr std::size_t kAtOnce = 8;
    double part[kAtOnce] = {};
    std::size_t j = 0;
    for (; j + kAtOnce <= n; j += kAtOnce)
        for (std::size_t i = 0; i < kAtOnce; ++i) part[i] += a[j + i] * b[j + i];
    for (; j < n; ++j) part[0] += a[j] * b[j];
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

inline std::size_t packed_size(std::size_t d) { return d * (d + 1) / 2; }
inline std::size_t packed_row(std::size_t i) { return i * (i + 1) / 2; }

// Lower factor of a packed positive definite matrix, in its place.
inline void factorise(std::vector<double>& A, std::size_t d) {
    for (std::size_t i = 0; i < d; ++i) {
        double* row = A.data() + packed_row(i);
        for (std::size_t j = 0; j < i; ++j) {
            const double* other = A.data() + packed_row(j);
            row[j] = (row[j] - dot_of(row, other, j)) / other[j];
        }
        row[i] = std::sqrt(std::max(row[i] - dot_of(row, row, i), 1e-12));
    }
}

struct CloudShape {                // as of some row count; never changes
    std::vector<double> origin;    // mean of all rows
    std::vector<double> per_unit;  // 1 / deviation of each column, 0 for constant ones
    std::vector<double> axes;      // variances within classes, in these units
    std::vector<double> factor;    // packed, of the covariance within classes
    std::array<double, kCloudShapes> between{1, 1};
};

class ClassMeans {
public:
    ClassMeans(std::size_t columns, std::size_t classes)
        : mean(columns), total(columns), within(packed_size(columns)), columns_(columns) {
        auto first = std::make_shared<CloudShape>();
        first->origin.resize(columns);
        first->per_unit.resize(columns);
        first->axes.assign(columns, 1.0);
        first->factor.resize(packed_size(columns));
        for (std::size_t j = 0; j < columns; ++j) first->factor[packed_row(j) + j] = 1;
        shape = std::move(first);
        for (std::size_t k = 0; k < classes; ++k) add_class();
    }

    std::size_t columns() const { return columns_; }
    std::size_t classes() const { return counts.size(); }
    std::size_t bytes() const {
        return sizeof(double) * (4 * means.size() + 3 * columns_ + 2 * within.size() + 3 * counts.size());
    }

    void add_class() {
        counts.push_back(0);
        means.resize(means.size() + columns_);
        for (auto& each : centres_) each.resize(means.size());
        for (auto& each : clouds_) each.emplace_back();
        place(counts.size() - 1);
    }

    // Log probabilities (kCloudShapes, classes) of the classes of one row.
    void score(const double* x, double* out) const {
        std::vector<double> u(columns_), z(columns_);
        in_units(x, u.data());
        for (int s = 0; s < kCloudShapes; ++s, out += classes()) {
            whiten(s, u.data(), z.data());
            const double squared = dot_of(z.data(), z.data(), columns_);
            for (std::size_t k = 0; k < classes(); ++k) {
                const Cloud& cloud = clouds_[s][k];
                const double product = dot_of(z.data(), centres_[s].data() + k * columns_, columns_);
                out[k] = cloud.constant - 0.5 * std::max(squared - 2 * product + cloud.squared, 0.0) / cloud.width;
            }
            to_log_probabilities(out);
        }
    }

    void learn(const double* x, std::size_t k, double weight) {
        double *own = means.data() + k * columns_, &n = counts[k];
        const double root = n > 0 ? std::sqrt(weight * (n / (n + weight))) : 0.0, part = weight / (n + weight);
        const double all_part = weight / (weights + weight);
        std::vector<double> e(columns_);
        for (std::size_t j = 0; j < columns_; ++j) {
            e[j] = n > 0 ? bounded(x[j] - own[j]) * root : 0.0;
            own[j] = n > 0 ? own[j] + bounded(x[j] - own[j]) * part : bounded(x[j]);
            const double before = rows > 0 ? bounded(x[j] - mean[j]) : 0.0;
            mean[j] = rows > 0 ? mean[j] + before * all_part : bounded(x[j]);
            total[j] += weight * std::max(before * bounded(x[j] - mean[j]), 0.0);  // below 0 only by rounding
        }
        if (n > 0) {
            for (std::size_t i = 0; i < columns_; ++i) {
                double* row = within.data() + packed_row(i);
                for (std::size_t j = 0; j <= i; ++j) row[j] += e[i] * e[j];
            }
            freedom += weight;
        }
        n += weight;
        weights += weight;
        if (++rows >= look_at)
            look();
        else
            place(k);
    }

    template <class Archive>
    void archive(Archive& a) {
        const std::size_t d = columns_, packed = packed_size(d);
        CloudShape form = *shape;
        a.array("counts", counts, {kAnyLength}, kSums);
        a.array("means", means, {classes(), d});
        a.array("mean", mean, {d});
        a.array("total", total, {d}, kSums);
        a.array("within", within, {packed});
        a.array("origin", form.origin, {d});
        a.array("per_unit", form.per_unit, {d}, kReciprocals);
        a.array("axes", form.axes, {d}, kSizes);
        a.array("factor", form.factor, {packed});
        std::vector<double> between(form.between.begin(), form.between.end()), sums{freedom, weights};
        a.array("between", between, {std::size_t(kCloudShapes)}, kSizes);
        a.array("weights", sums, {2}, kSums);
        a.integer("rows", rows);
        a.integer("look_at", look_at, 1);
        for (std::size_t j = 0; j < d; ++j)
            a.require("factor", form.factor[packed_row(j) + j] > 0, "one whose diagonal is positive");
        if (a.saving()) return;
        std::copy_n(between.begin(), kCloudShapes, form.between.begin());
        freedom = sums[0], weights = sums[1];
        shape = std::make_shared<CloudShape>(std::move(form));
        derive();
    }

    std::vector<double> counts, means;   // of the classes: weight of the rows, and (classes, columns)
    std::vector<double> mean, total;     // of all rows: means, and sums of squared deviations
    std::vector<double> within;          // packed sums of products of deviations from the class means
    double freedom = 0, weights = 0;     // weight of the rows in `within`, and of all
    std::int64_t rows = 0, look_at = 1;  // rows so far, and when the shape is taken anew
    std::shared_ptr<const CloudShape> shape;

private:
    // Makes what is derived from these.
    void derive() {
        for (int s = 0; s < kCloudShapes; ++s) {
            centres_[s].resize(means.size());
            clouds_[s].resize(counts.size());
        }
        for (std::size_t k = 0; k < counts.size(); ++k) place(k);
    }

    struct Cloud {
        double width = 1, squared = 0, constant = 0;
    };

    static double bounded(double deviation) { return std::clamp(deviation, -kLargestDeviation, kLargestDeviation); }

    void in_units(const double* x, double* u) const {
        for (std::size_t j = 0; j < columns_; ++j)
            u[j] = std::clamp(bounded(x[j] - shape->origin[j]) * shape->per_unit[j], -kFarthestCell, kFarthestCell);
    }

    // Coordinates of variance 1 within classes.
    void whiten(int s, const double* u, double* z) const {
        if (s == 0) {
            for (std::size_t j = 0; j < columns_; ++j) z[j] = u[j] / std::sqrt(shape->axes[j]);
            return;
        }
        for (std::size_t i = 0; i < columns_; ++i) {
            const double* row = shape->factor.data() + packed_row(i);
            z[i] = (u[i] - dot_of(row, z, i)) / row[i];
        }
    }

    void place(std::size_t k) {
        std::vector<double> u(columns_);
        in_units(means.data() + k * columns_, u.data());
        if (counts[k] == 0) std::fill(u.begin(), u.end(), 0.0);
        const auto varying =
            double(std::count_if(shape->per_unit.begin(), shape->per_unit.end(), [](double p) { return p > 0; }));
        for (int s = 0; s < kCloudShapes; ++s) {
            double* centre = centres_[s].data() + k * columns_;
            whiten(s, u.data(), centre);
            const double variance = 1 / (counts[k] + 1 / shape->between[s]);
            for (std::size_t j = 0; j < columns_; ++j) centre[j] *= counts[k] * variance;
            Cloud& cloud = clouds_[s][k];
            cloud.width = 1 + variance;
            cloud.squared = dot_of(centre, centre, columns_);
            cloud.constant = std::log(counts[k] + 0.5) - 0.5 * varying * std::log(cloud.width);
        }
    }

    // Takes the shape of the clouds from all rows so far.
    void look() {
        constexpr double drawn = 5;  // rows a column that the covariance is worth before any came
        constexpr double least = 1e-6;
        auto made = std::make_shared<CloudShape>();
        const std::size_t d = columns_;
        made->origin = mean;
        made->per_unit.resize(d);
        double sum = 0, varying = 0;
        for (std::size_t j = 0; j < d; ++j) {
            const double deviation = std::sqrt(total[j] / weights);
            if (!(deviation > 1e-12 * std::abs(mean[j]) && deviation > 1e-150)) continue;
            made->per_unit[j] = 1 / deviation;
            sum += within[packed_row(j) + j] / deviation / deviation;
            varying += 1;
        }
        const double trust = freedom / (freedom + drawn * double(d));
        const double usual = freedom > 0 && varying > 0 ? std::max(sum / freedom / varying, least) : 1.0;
        const double rest = (1 - trust) * usual + least * usual, per_row = freedom > 0 ? trust / freedom : 0.0;
        made->factor.resize(packed_size(d));
        made->axes.resize(d);
        for (std::size_t i = 0; i < d; ++i) {
            double* row = made->factor.data() + packed_row(i);
            for (std::size_t j = 0; j <= i; ++j)
                row[j] = within[packed_row(i) + j] * made->per_unit[i] * made->per_unit[j] * per_row;
            made->axes[i] = row[i] += rest;
        }
        factorise(made->factor, d);
        shape = made;
        for (int s = 0; s < kCloudShapes; ++s) made->between[s] = between(s, varying);
        derive();
        look_at = rows + std::max<std::int64_t>({1, rows / 10, std::int64_t(d) / 16});
    }

    // Variance of the class means that is not noise.
    double between(int s, double varying) const {
        std::vector<double> u(columns_), z(columns_);
        double squares = 0, noise = 0, seen = 0;
        for (std::size_t k = 0; k < classes(); ++k) {
            if (counts[k] <= 0) continue;
            in_units(means.data() + k * columns_, u.data());
            whiten(s, u.data(), z.data());
            squares += dot_of(z.data(), z.data(), columns_) / std::max(varying, 1.0);
            noise += 1 / std::max(counts[k], 1e-3);
            seen += 1;
        }
        return seen > 0 ? std::max((squares - noise) / seen, kLeastBetween) : 1.0;
    }

    void to_log_probabilities(double* out) const {
        const double top = *std::max_element(out, out + classes());
        double sum = 0;
        for (std::size_t k = 0; k < classes(); ++k) sum += std::exp(out[k] = std::max(out[k] - top, kLeastLogProbability));
        const double log_sum = std::log(sum);
        for (std::size_t k = 0; k < classes(); ++k) out[k] -= log_sum;
    }

    std::size_t columns_;
    std::array<std::vector<double>, kCloudShapes> centres_;  // (classes, columns), drawn to the mean of all rows
    std::array<std::vector<Cloud>, kCloudShapes> clouds_;
};

}  // namespace bomkl::automatic
