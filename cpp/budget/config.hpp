// What an engine is told: kernels, rule, combiner, task; and the form in which rows arrive.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "all_learners.hpp"
#include "budget/combiner.hpp"
#include "budget/kernels.hpp"
#include "primitives/not_finite.hpp"

namespace bomkl {

using AnyLearner = BOMKL_ALL_LEARNERS(std::variant);

enum class Task { binary, multiclass, regression };

// The learner of this name, from the parameters of the Python class.
template <std::size_t I = 0>
AnyLearner learner_named(const std::string& name, const Parameters& parameters) {
    if constexpr (I == std::variant_size_v<AnyLearner>) {
        throw std::invalid_argument("the compiled core has no learner " + name);
    } else {
        using Candidate = std::variant_alternative_t<I, AnyLearner>;
        if (name != Candidate::name) return learner_named<I + 1>(name, parameters);
        AnyLearner learner{std::in_place_index<I>, parameters};
        parameters.require_all_taken();
        return learner;
    }
}

// What a learner declares (see Rule).
inline bool only_adds(const AnyLearner& learner) {
    return std::visit([](const auto& rule) { return rule.only_adds; }, learner);
}
inline std::int64_t matrix_size(const AnyLearner& learner, std::int64_t n, std::int64_t budget) {
    return std::visit([&](const auto& rule) { return rule.matrix_size(n, budget); }, learner);
}
inline int n_frequencies(const AnyLearner& learner) {
    return std::visit([](const auto& rule) { return rule.n_frequencies; }, learner);
}
inline bool reads_values(const AnyLearner& learner) {
    return std::visit([](const auto& rule) { return rule.reads_values; }, learner);
}
inline Looks looks(const AnyLearner& learner) {
    return std::visit([](const auto& rule) { return rule.looks; }, learner);
}
inline bool unit_norm(const AnyLearner& learner) {
    return std::visit([](const auto& rule) { return rule.unit_norm; }, learner);
}

struct Config {
    explicit Config(AnyLearner rule) : learner(std::move(rule)) {}

    std::vector<KernelSpec> kernels;
    std::vector<std::string> kernel_names;
    AnyLearner learner;
    CombinerSpec combiner;
    Task task = Task::binary;
    int n_outputs = 1;
    bool vote = false;
    bool select = false;  // kernels are selected at random for ...
    bool select_updates = false;
    bool select_combination = false;
    bool normalize_step = false;
    int budget = 0;  // 0: none
    double epsilon = 0;
    std::uint64_t seed = 0;
};

template <class T>
struct Batch {  // dense rows, or CSR where values is set
    std::int64_t n = 0;
    const T* dense = nullptr;
    const T* values = nullptr;
    const std::int32_t* indices = nullptr;
    const std::int64_t* starts = nullptr;
};

// Kernel values of a Python callable: (kernel, X, rows of X, Z, rows of Z, out)
template <class T>
using KernelCallback = std::function<void(int, const T*, int, const T*, int, T*)>;

}  // namespace bomkl
