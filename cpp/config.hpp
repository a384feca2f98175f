// What an engine is told: kernels, rule, combiner, task; and the form in which rows arrive.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "combiner.hpp"
#include "kernels.hpp"
#include "learners/rule.hpp"
#include "not_finite.hpp"

namespace bomkl {

enum class Task { binary, multiclass, regression };

struct Config {
    std::vector<KernelSpec> kernels;
    std::vector<std::string> kernel_names;
    LearnerSpec learner;
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
