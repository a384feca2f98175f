// Boosted trees that are grown from a sample of coded rows, in small steps.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "auto/growth/hash_sample.hpp"
#include "auto/trees/boosting.hpp"

namespace bomkl::automatic {

class GrowingTrees {
public:
    // From the first rows of the sample, which may go on growing.
    GrowingTrees(HashSample sample, std::size_t rows, int outputs, Task task, const Boosting& settings, std::uint64_t seed)
        : sample_(std::move(sample)), rows_(rows), y_(rows_ * std::size_t(outputs)), weight_(rows_),
          booster_(Sample(y_.data(), weight_.data(), int(rows_), int(sample_.columns()), outputs, task), settings, seed) {}
    GrowingTrees(const GrowingTrees&) = delete;

    void step() {
        if (filled_ < rows_)
            fill();
        else if (booster_.grown() < booster_.trees())
            booster_.step();
    }
    bool done() const { return filled_ == rows_ && booster_.grown() == booster_.trees(); }
    double share() const { return 0.05 * double(filled_) / double(std::max<std::size_t>(rows_, 1)) + 0.95 * booster_.share(); }
    std::size_t bytes() const { return 8 * (y_.size() + weight_.size()) + booster_.bytes(); }
    const BoostedTrees& result() const { return booster_.result(); }

private:
    static constexpr std::size_t kCells = 1 << 20;  // that a step takes from the sample

    void fill() {
        Sample& to = booster_.sample();
        const std::size_t d = sample_.columns(), end = std::min(rows_, filled_ + kCells / d + 1);
        for (std::size_t t = filled_; t < end; ++t) {
            const std::uint8_t* const codes = sample_.codes_of(t);
            for (std::size_t j = 0; j < d; ++j) to.columns[j * rows_ + t] = codes[j];
            weight_[t] = sample_.weight_of(t);
            const double y = sample_.y_of(t);
            if (to.task == Task::multiclass)
                y_[t * std::size_t(to.outputs) + std::size_t(y)] = 1;
            else
                y_[t] = y;
        }
        filled_ = end;
    }

    HashSample sample_;
    std::size_t rows_, filled_ = 0;
    std::vector<double> y_, weight_;
    Booster booster_;
};

}  // namespace bomkl::automatic
