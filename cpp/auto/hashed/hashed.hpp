// Linear models of hashed features: values of cells, pairs of values, words and character n-grams.
//
// Each of the three has a bias and the standardised numbers of the row beside its features, and two ways to learn. AdaGrad
// follows what changes over time. Newton steps, 1 / (1 / variance + sum of curvatures), shrink a weight by how rarely it was
// seen. All steps are implicit (see wide.hpp), so that no row, scale or weight can make them diverge.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "auto/components/losses.hpp"
#include "auto/components/wide.hpp"
#include "auto/hashed/hashed_columns.hpp"
#include "auto/hashed/hashed_table.hpp"

namespace bomkl::automatic {

inline constexpr int kWays = 2;  // to learn, of each model
inline constexpr int kModels = 3;
inline constexpr double kMostOfEntry = 1e30;  // weights and sums stay within it, so that single precision holds them

struct Way {
    bool newton;
    double rate;  // of a Newton step, the variance of a weight that was never seen
};
inline constexpr std::array<std::array<Way, kWays>, kModels> kHashedWays{{
    {{{true, 10.0}, {true, 1.0}}},   // values: identifiers have few rows each
    {{{false, 1.0}, {false, 4.0}}},  // pairs: what they say goes out of date
    {{{false, 4.0}, {true, 10.0}}},  // words
}};

// At most 2^24 weights a model and way, and 2^20 places, of which 2^18 are in use (and for one row more).
inline int place_bits(int outputs) { return std::clamp(24 - int(std::bit_width(unsigned(outputs) - 1)), 10, kMostPlaceBits); }

// One model. An entry holds, for each way, the weights of the outputs, then one sum for each way.
struct HashedLinear {
    PlaceTable table;
    std::vector<float> dense;   // entries of the bias and of the numbers of the slots
    std::vector<double> parts;  // of each slot: how much what it added to scores went the way of the targets, summed over rows
    double nonzeros = 0, rows = 0, targets = 0;  // sums over rows

    HashedLinear(int outputs, std::size_t slots)
        : table(kWays * (outputs + 1)), dense((1 + slots) * table.width()), parts(slots) {}
};

// A model with the features of one row, whose entries stay where they are.
class HashedStep {
public:
    explicit HashedStep(int outputs) : outputs_(outputs), a_(outputs), g_(outputs), p_(outputs) {}

    // Scores (kWays, outputs) of a row without a change.
    void score(const HashedLinear& model, const std::vector<std::pair<std::uint32_t, double>>& numbers,
               std::initializer_list<const std::vector<HashedFeature>*> features, std::uint32_t mask, double* out) {
        std::fill_n(out, std::size_t(kWays) * outputs_, 0.0);
        const std::size_t width = std::size_t(model.table.width());
        add(model.dense.data(), 1.0, out);
        for (const auto& [slot, value] : numbers) add(model.dense.data() + (1 + slot) * width, value, out);
        for (const auto* some : features)
            for (const HashedFeature& each : *some)
                if (const float* entry = model.table.find(std::uint32_t(each.hash) & mask)) add(entry, each.value, out);
    }

    // Scores of a row just before it is learned.
    void score_and_learn(HashedLinear& model, const std::array<Way, kWays>& ways,
                         const std::vector<std::pair<std::uint32_t, double>>& numbers,
                         std::initializer_list<const std::vector<HashedFeature>*> features, std::uint32_t mask, const double* y,
                         double weight, Task task, double* out) {
        if (model.table.size() >= kMostInUse)
            model.table.forget_half(kWays * outputs_);  // those with the smallest sums are rare
        for (const auto* some : features)
            for (const HashedFeature& each : *some) model.table.insert(std::uint32_t(each.hash) & mask);
        entries_.clear();
        const std::size_t width = std::size_t(model.table.width());
        entries_.push_back({model.dense.data(), 1.0});
        for (const auto& [slot, value] : numbers) entries_.push_back({model.dense.data() + (1 + slot) * width, value});
        for (const auto* some : features)
            for (const HashedFeature& each : *some)
                entries_.push_back({model.table.at(std::uint32_t(each.hash) & mask), each.value});
        std::fill_n(out, std::size_t(kWays) * outputs_, 0.0);
        for (const auto& [entry, value] : entries_) add(entry, value, out);
        note_parts(model, numbers, features, y, task);
        model.nonzeros += double(entries_.size());
        model.rows += 1;
        for (int way = 0; way < kWays; ++way) learn(model, ways[std::size_t(way)], way, y, weight, task, out + way * outputs_);
    }

private:
    void add(const float* entry, double value, double* out) const {
        for (int i = 0; i < kWays * outputs_; ++i) out[i] += double(entry[i]) * value;
    }

    // Adds up how much the slots helped, by the first way to learn: what they added to the score, times the distance of the
    // target from the mean; of several classes, what they added to the row's own less that of another. A pair is shared by two.
    void note_parts(HashedLinear& model, const std::vector<std::pair<std::uint32_t, double>>& numbers,
                    std::initializer_list<const std::vector<HashedFeature>*> features, const double* y, Task task) {
        parts_.assign(model.parts.size(), 0.0);
        std::size_t at = 1;
        const bool several = task == Task::multiclass;
        const int own_class = several ? int(std::max_element(y, y + outputs_) - y) : 0,
                  other_class = (own_class + 1) % outputs_;
        const double far = several ? 1.0 : std::clamp(y[0] - (model.rows > 0 ? model.targets / model.rows : 0.0), -10.0, 10.0);
        const auto part = [&] {
            const auto& [entry, value] = entries_[at];
            return (double(entry[own_class]) - (several ? double(entry[other_class]) : 0.0)) * value * far;
        };
        for (const auto& [slot, value] : numbers) parts_[slot] += part(), ++at;
        for (const auto* some : features)
            for (const HashedFeature& each : *some) {
                const double own = part() * (each.other < 0 ? 1.0 : 0.5);
                parts_[std::size_t(each.slot)] += own;
                if (each.other >= 0) parts_[std::size_t(each.other)] += own;
                ++at;
            }
        for (std::size_t s = 0; s < parts_.size(); ++s) model.parts[s] += parts_[s];
        model.targets += several ? 0.0 : y[0];
    }

    void learn(const HashedLinear& model, Way how, int way, const double* y, double weight, Task task, const double* f) {
        means(f, outputs_, task, p_.data());
        double size = 0, curve = 0;
        for (int k = 0; k < outputs_; ++k) {
            a_[k] = y[k] - p_[k];
            if (task == Task::huber) a_[k] = std::clamp(a_[k], -kHuber, kHuber);
            size += a_[k] * a_[k];
            curve += p_[k] * (1 - p_[k]);
        }
        curve = is_regression(task) ? 1.0 : std::max(task == Task::multiclass ? curve / 2 : curve, 1e-4);
        const double gain = std::min(weight * (how.newton ? curve : size), 1e300);  // infinite, times 0, it would be no number
        const double rate = how.newton ? 1 / how.rate : how.rate * std::sqrt(model.rows / model.nonzeros);
        const auto pace = [&](double sum, double squared) {
            return how.newton ? 1 / (rate + sum) : rate / std::sqrt(std::max(sum + kLeastGradient * squared, 1e-30));
        };
        const int sum = kWays * outputs_ + way;
        double reach = 0;
        for (const auto& [entry, value] : entries_) {
            const double squared = value * value;
            entry[sum] = float(std::min(entry[sum] + gain * squared, kMostOfEntry));
            reach += squared * pace(entry[sum], squared);
        }
        const double part = weight * implicit_part(f, y, a_.data(), weight * reach, outputs_, task, g_.data(), p_.data());
        for (const auto& [entry, value] : entries_) {
            const double step = part * value * pace(entry[sum], value * value);
            float* own = entry + way * outputs_;
            for (int k = 0; k < outputs_; ++k) own[k] = float(std::clamp(own[k] + step * a_[k], -kMostOfEntry, kMostOfEntry));
        }
    }

    struct Entry {
        float* entry;
        double value;
    };

    int outputs_;
    std::vector<double> a_, g_, p_, parts_;
    std::vector<Entry> entries_;
};

// The three models and the columns that they learn from. Copies share what neither has changed.
class HashedModel {
public:
    HashedModel(std::size_t columns, int outputs) : outputs_(outputs), slots_(columns * kSlots) {
        for (int m = 0; m < kModels; ++m) models_.emplace_back(outputs, slots_.size());
    }

    int outputs() const { return outputs_; }
    std::size_t columns() const { return slots_.size() / kSlots; }
    std::vector<Slot>& slots() { return slots_; }
    const std::vector<Slot>& slots() const { return slots_; }
    std::vector<HashedLinear>& models() { return models_; }
    const std::vector<HashedLinear>& models() const { return models_; }
    std::uint32_t mask() const { return (std::uint32_t(1) << place_bits(outputs_)) - 1; }

    // Scores (n, kModels * kWays, outputs) of rows, each just before it is learned.
    void score_and_learn(const std::vector<CellColumn>& cells, std::size_t n, const double* y, const double* weight, Task task,
                         double* out) {
        HashedRow row;
        HashedStep step(outputs_);
        const std::size_t stride = std::size_t(kWays) * outputs_;
        for (std::size_t t = 0; t < n; ++t, out += kModels * stride) {
            row.read(slots_, cells, t);
            const double* target = y + t * outputs_;
            step.score_and_learn(models_[0], kHashedWays[0], row.numbers, {&row.values}, mask(), target, weight[t], task, out);
            step.score_and_learn(models_[1], kHashedWays[1], row.numbers, {&row.values, &row.pairs}, mask(), target, weight[t],
                                 task, out + stride);
            step.score_and_learn(models_[2], kHashedWays[2], row.numbers, {&row.words}, mask(), target, weight[t], task,
                                 out + 2 * stride);
            row.learn(slots_, cells, t);
        }
    }

    void score(const std::vector<CellColumn>& cells, std::size_t n, double* out) const {
        HashedRow row;
        HashedStep step(outputs_);
        const std::size_t stride = std::size_t(kWays) * outputs_;
        for (std::size_t t = 0; t < n; ++t, out += kModels * stride) {
            row.read(slots_, cells, t);
            step.score(models_[0], row.numbers, {&row.values}, mask(), out);
            step.score(models_[1], row.numbers, {&row.values, &row.pairs}, mask(), out + stride);
            step.score(models_[2], row.numbers, {&row.words}, mask(), out + 2 * stride);
        }
    }

    // Calls visit(model, feature, entry) for each feature of a row that a model has met.
    template <class Visit>
    void each_feature(const std::vector<CellColumn>& cells, std::size_t t, Visit&& visit) const {
        HashedRow row;
        row.read(slots_, cells, t);
        const std::array<std::vector<const std::vector<HashedFeature>*>, kModels> features{
            {{&row.values}, {&row.values, &row.pairs}, {&row.words}}};
        for (std::size_t m = 0; m < kModels; ++m)
            for (const auto* some : features[m])
                for (const HashedFeature& each : *some)
                    if (const float* entry = models_[m].table.find(std::uint32_t(each.hash) & mask())) visit(m, each, entry);
    }

    // Makes room for one more class, which starts like the others: steps are small, and a constant far below theirs would keep
    // it there. Of two classes there was one output.
    void add_class() {
        const int before = outputs_;
        outputs_ = before == 1 ? 3 : before + 1;
        const auto widened = [&](const float* from, float* to) {
            for (int way = 0; way < kWays; ++way) {
                for (int k = 0; k < before; ++k) to[way * outputs_ + k] = from[way * before + k];
                if (before == 1) {
                    to[way * outputs_] = -0.5f * from[way];
                    to[way * outputs_ + 1] = 0.5f * from[way];
                }
                to[kWays * outputs_ + way] = from[kWays * before + way];
            }
        };
        for (HashedLinear& model : models_) {
            HashedLinear wider(outputs_, slots_.size());
            wider.nonzeros = model.nonzeros, wider.rows = model.rows, wider.parts = model.parts;
            const std::size_t from = std::size_t(model.table.width()), to = std::size_t(wider.table.width());
            for (std::size_t i = 0; i < model.dense.size() / from; ++i)
                widened(model.dense.data() + i * from, wider.dense.data() + i * to);
            model.table.each([&](std::uint32_t place, const float* entry) {
                place &= mask();  // with more classes there are fewer places; of two that fall together, the larger sum stays
                const float* there = wider.table.find(place);
                if (there && there[kWays * outputs_] >= entry[kWays * before]) return;
                wider.table.insert(place);
                widened(entry, wider.table.at(place));
            });
            model = std::move(wider);
        }
    }

    // Goes on with targets that are factor * target + shift of what they were.
    void rescale(double shift, double factor) {
        constexpr double most = kMostOfEntry;
        factor = std::min(factor, 1e300);  // infinite after targets of 1e-320, and then, times 0, no number
        shift = std::clamp(shift, -1e300, 1e300);
        std::vector<std::uint32_t> places;
        for (std::size_t m = 0; m < models_.size(); ++m) {
            HashedLinear& model = models_[m];
            model.targets = std::clamp(model.targets * factor + shift * model.rows, -1e300, 1e300);
            const auto scale = [&](float* entry, double start) {
                for (int i = 0; i < kWays * outputs_; ++i) entry[i] = float(std::clamp(entry[i] * factor + start, -most, most));
                for (int way = 0; way < kWays; ++way)
                    if (!kHashedWays[m][std::size_t(way)].newton) {  // curvatures have no unit
                        float& sum = entry[kWays * outputs_ + way];
                        sum = float(std::min(sum * factor * factor, most));
                    }
            };
            const std::size_t width = std::size_t(model.table.width());
            for (std::size_t i = 0; i < model.dense.size(); i += width) scale(model.dense.data() + i, i == 0 ? shift : 0.0);
            places.clear();
            model.table.each([&](std::uint32_t place, const float*) { places.push_back(place); });
            for (std::uint32_t place : places) scale(model.table.at(place), 0.0);
        }
    }

    std::size_t bytes() const {
        std::size_t total = slots_.size() * sizeof(Slot);
        for (const Slot& slot : slots_)
            total += slot.distinct.bytes() + slot.names.bytes() + (slot.kept ? slot.kept->size() * sizeof(double) : 0);
        for (const HashedLinear& model : models_) total += model.table.bytes() + model.dense.size() * sizeof(float);
        return total;
    }

private:
    int outputs_;
    std::vector<Slot> slots_;
    std::vector<HashedLinear> models_;
};

}  // namespace bomkl::automatic
