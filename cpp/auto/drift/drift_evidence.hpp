// Evidence that a stream changes, from the losses of its rows.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bomkl::automatic {

// Whether one predictor is better than another by now: an e-detector. Several bets are made on the difference of their losses,
// each begun anew whenever it has lost what it won. If the differences have mean zero or less given the past, the mean of the
// bets' wealth reaches a level in no fewer rows than the level, on average, however often one looks.
struct BetterBy {
    static constexpr std::array<double, 5> kBets{0.02, 0.05, 0.1, 0.2, 0.4};
    static constexpr double kLevel = 2000;
    std::array<double, 5> wealth{1, 1, 1, 1, 1};

    // Takes the loss of one less that of the other; returns the evidence so far, which begins anew above the level.
    double add(double gain) {
        double mean = 0;
        for (std::size_t i = 0; i < kBets.size(); ++i)
            mean += wealth[i] = std::max(wealth[i], 1.0) * (1 + kBets[i] * std::clamp(gain, -1.0, 1.0));
        mean /= kBets.size();
        if (mean > kLevel) wealth.fill(1);
        return mean;
    }

    template <class Archive>
    void archive(Archive& a) {
        a.numbers("wealth", wealth.data(), wealth.size(), 0.0);
    }
};

// Whether the losses of the last rows are above those of all rows before them.
struct LossRise {
    static constexpr int kWindow = 100;
    static constexpr double kCalm = 200;      // rows before the window that it needs
    static constexpr double kAlarm = 4.0;     // standard errors
    static constexpr double kUnlikely = 3.2;  // deviations of a normal law that are as unlikely
    static constexpr double kDoubtful = 2.5;  // standard errors from which on it matters how losses are spread
    static constexpr double kLargest = 3.0;   // losses beyond it are taken as this
    std::array<double, kWindow> recent{};     // that of row n at n modulo the window
    std::array<double, 5> sums{};             // rows; the sum of the window; rows before it, their sum and sum of squares

    // Takes a loss; returns how many standard errors the window is above what came before.
    double add(double loss) {
        loss = std::min(loss, kLargest);
        double& slot = recent[std::size_t(sums[0]) % kWindow];
        if (sums[0] >= kWindow) {
            sums[1] -= slot;
            sums[2] += 1;
            sums[3] += slot;
            sums[4] += slot * slot;
        }
        slot = loss;
        sums[0] += 1;
        sums[1] += loss;
        if (sums[2] < kCalm) return 0;
        const double mean = sums[3] / sums[2], rise = sums[1] / kWindow - mean;
        const double variance = std::max(sums[4] / sums[2] - mean * mean, 1e-6);
        const double errors = rise / std::sqrt(variance / kWindow);
        return errors > kDoubtful ? by_bennett(rise, variance, errors) : errors;
    }

    // By how much the mean loss of the last rows is below what it would be, were nothing better than the model: in the unit of
    // a model that is far off, the losses of all others hardly differ. At least 1.
    double sharpness() const {
        constexpr double few = 20, usual = 0.5, least = 1e-8;
        if (sums[0] < few) return 1;
        const double mean = sums[1] / std::min(sums[0], double(kWindow));
        return std::max(usual / std::max(mean, least), 1.0);
    }

    // How many rows ago the rise began: the age of which the losses since differ most from those before, by least squares.
    int age() const {
        const double mean = sums[3] / sums[2];
        double sum = 0, best = 0;
        int age = 1;
        for (int i = 1; i <= kWindow; ++i) {
            sum += recent[std::size_t(sums[0] + kWindow - i) % kWindow] - mean;
            if (sum > 0 && sum * sum / i > best) {
                best = sum * sum / i;
                age = i;
            }
        }
        return age;
    }

    // Fewer standard errors where losses are rarely large, as of a rare class: that two of them are in one window is no sign of
    // drift. By Bennett's inequality, an alarm is as unlikely as one in some fifteen hundred windows, 3.2 deviations of a
    // normal law, which is what four errors are for losses that are often large. How large they are, the window itself tells.
    double by_bennett(double rise, double variance, double errors) const {
        double second = 0, third = 0;
        for (double loss : recent) {
            const double from = loss - sums[1] / kWindow;
            second += from * from;
            third += from * from * from;
        }
        if (third <= 0) return errors;
        const double jump = third / second;
        rise -= jump / sums[2];  // the rows before may just have missed one such loss
        variance += jump * jump / sums[2];
        if (rise <= 0) return 0;
        const double u = jump * rise / variance;
        if (u < 1e-3) return errors;
        const double deviations = std::sqrt(2 * kWindow * variance * ((1 + u) * std::log1p(u) - u)) / jump;
        return std::min(errors, deviations * kAlarm / kUnlikely);
    }

    template <class Archive>
    void archive(Archive& a) {
        a.numbers("recent", recent.data(), recent.size());
        a.numbers("sums", sums.data(), sums.size());
    }
};

struct DriftEvent {  // what was noticed
    std::int64_t row;
    std::int64_t age;             // rows since the loss rose, 0 where it did not
    bool sudden;                  // whether the loss rose; else, other experts are better than the model
    double strength;              // standard errors, or the logarithm of the evidence
    std::vector<double> shifts;   // of the columns' means in the last rows, in deviations of the first rows
    std::vector<double> weights;  // of the experts, at the last row of evidence
};

}  // namespace bomkl::automatic
