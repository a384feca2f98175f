// What the last labels or targets say about the next, without a look at the row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "auto/components/losses.hpp"

namespace bomkl::automatic {

class RecentLabels {
public:
    RecentLabels(bool regression, int classes) : regression_(regression), classes_(regression ? 2 : classes) {
        decays_ = regression ? std::vector<double>{0.0, 0.5, 0.95} : std::vector<double>{0.0, 0.95};
        sums_.assign((decays_.size() + !regression) * classes_, 0.0);
    }

    std::size_t size() const { return decays_.size(); }

    // Scores (size, outputs); of numbers those of `base` before the first target.
    void scores(const double* base, int outputs, double* out) const {
        if (regression_) {
            for (std::size_t i = 0; i < size(); ++i)
                out[i] =
                    sums_[2 * i] > 0 ? std::clamp(sums_[2 * i + 1] / sums_[2 * i], -kLargestInput, kLargestInput) : base[0];
            return;
        }
        const double* always = sums_.data() + size() * classes_;
        double all = 0;
        for (int k = 0; k < classes_; ++k) all += always[k] + 1;
        for (std::size_t i = 0; i < size(); ++i) {
            const double* counts = sums_.data() + i * classes_;
            const auto count = [&](int k) { return counts[k] + kPrior * (always[k] + 1) / all; };
            if (outputs == 1) {
                out[i] = std::log(count(1) / count(0));
                continue;
            }
            double total = 0;
            for (int k = 0; k < classes_; ++k) total += count(k);
            for (int k = 0; k < classes_; ++k) out[i * outputs + k] = std::log(count(k) / total);
        }
    }

    // Without a model: of numbers, NaN before the first target.
    std::vector<double> scores(int outputs) const {
        std::vector<double> out(size() * outputs), unknown(outputs, std::nan(""));
        scores(unknown.data(), outputs, out.data());
        return out;
    }

    void note(double y, double weight) {
        for (std::size_t i = 0; i < size(); ++i) {
            double* counts = sums_.data() + i * classes_;
            for (int k = 0; k < classes_; ++k) counts[k] *= decays_[i];
            if (regression_) {
                counts[0] += weight;
                counts[1] += weight * y;
            } else {
                counts[int(y)] += weight;
            }
        }
        if (!regression_) sums_[size() * classes_ + std::size_t(y)] += weight;
    }

    void add_class() {
        std::vector<double> wider((size() + 1) * (classes_ + 1), 0.0);
        for (std::size_t i = 0; i <= size(); ++i)
            std::copy_n(sums_.data() + i * classes_, classes_, wider.data() + i * (classes_ + 1));
        sums_ = std::move(wider);
        ++classes_;
    }

    template <class Archive>
    void archive(Archive& a) {
        a.numbers("sums", sums_.data(), sums_.size());
    }

private:
    static constexpr double kPrior = 0.5;  // labels' worth of the frequencies of all rows in those of the last ones
    bool regression_;
    int classes_;
    std::vector<double> decays_;
    // Of classes, weights of the last labels, and in the last line of all; of numbers, weights and their sums with targets.
    std::vector<double> sums_;
};

}  // namespace bomkl::automatic
