// The configuration of an engine as Python hands it over: names and numbers in dictionaries.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <climits>
#include <map>
#include <stdexcept>
#include <string>

#include "budget/engine.hpp"

namespace bomkl {

namespace nb = nanobind;

// {"name": ..., parameter: number, ...}
inline AnyLearner parse_learner(const nb::dict& d) {
    std::map<std::string, double> values;
    for (const auto& [key, value] : d)
        if (const auto name = nb::cast<std::string>(key); name != "name") values[name] = nb::cast<double>(value);
    return learner_named(nb::cast<std::string>(d["name"]), Parameters(std::move(values)));
}

inline Config parse_config(const nb::dict& d) {
    Config c(parse_learner(nb::cast<nb::dict>(d["learner"])));
    for (nb::handle item : nb::cast<nb::list>(d["kernels"])) {
        const auto k = nb::cast<nb::dict>(item);  // name, label, and where it is native, its numbers
        const auto number = [&](const char* key, double otherwise) {
            return k.contains(key) ? nb::cast<double>(k[key]) : otherwise;
        };
        KernelSpec spec = k["name"].is_none() ? KernelSpec{kCallable} : kernel_named(nb::cast<std::string>(k["name"]));
        spec.a = spec.root = number("a", 0);
        spec.b = number("b", 0);
        spec.degree = int(number("degree", 1));
        c.kernel_names.push_back(nb::cast<std::string>(k["label"]));
        c.kernels.push_back(spec);
    }
    const auto combiner = nb::cast<nb::dict>(d["combiner"]);
    c.combiner = {nb::cast<bool>(combiner["hedge"]), Loss(nb::cast<int>(combiner["loss"])),
                  nb::cast<double>(combiner["log_gamma"]), nb::cast<double>(combiner["share"]),
                  nb::cast<bool>(combiner["discount_selected_only"])};
    c.task = Task(nb::cast<int>(d["task"]));
    c.n_outputs = nb::cast<int>(d["n_outputs"]);
    c.vote = nb::cast<bool>(d["vote"]);
    c.select = nb::cast<bool>(d["select"]);
    c.select_updates = c.select && nb::cast<bool>(d["select_updates"]);
    c.select_combination = c.select && nb::cast<bool>(d["select_combination"]);
    c.normalize_step = nb::cast<bool>(d["normalize_step"]);
    c.budget = nb::cast<int>(d["budget"]);
    c.epsilon = nb::cast<double>(d["epsilon"]);
    c.seed = nb::cast<std::uint64_t>(d["seed"]);
    const bool fits = c.task == Task::multiclass ? c.n_outputs >= 1 : c.n_outputs == 1;
    if (!fits || c.kernels.empty() || c.kernels.size() > std::size_t(INT_MAX / c.n_outputs))
        throw std::invalid_argument("the numbers of outputs and kernels do not fit the task");
    return c;
}

}  // namespace bomkl
