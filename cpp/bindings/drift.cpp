// The part of bomkl._core that follows drift.
#include "auto/drift/drift_experts.hpp"
#include "bindings/archive.hpp"
#include "bindings/auto_arrays.hpp"

#include <nanobind/stl/pair.h>

#include <utility>

using namespace nanobind::literals;

namespace bomkl {

namespace {

using namespace automatic;

std::shared_ptr<DriftExperts> make_experts(Task task, int classes, std::size_t columns, std::int64_t budget, std::uint64_t seed,
                                           std::int64_t seen) {
    require(classes >= 2 && columns > 0 && budget > 0 && seen >= 0, "experts of drift are for some columns and classes");
    return std::make_shared<DriftExperts>(task, classes, columns, budget, seed, seen);
}

void restore_experts(DriftExperts& experts, nb::dict state, int classes) {
    Loading::into(experts, std::move(state), "experts", is_regression(experts.task()) ? 0 : classes);
}

nb::list groups_of(DriftExperts& experts) {
    nb::list out;
    for (DriftGroup& group : experts.groups()) {
        nb::list regressions;
        for (auto& each : group.regressions) regressions.append(nb::cast(each));
        out.append(nb::make_tuple(group.parts, regressions,
                                  group.combination ? nb::cast(group.combination) : nb::object(nb::none()),
                                  Saving::saved(group.rise)));
    }
    return out;
}

void set_group(DriftExperts& experts, std::size_t g, std::vector<int> parts, nb::list regressions, nb::object combination,
               nb::dict rise) {
    require(g < DriftExperts::kGroups && parts.size() == regressions.size() && parts.empty() == combination.is_none(),
            "a group has a regression for each part");
    DriftGroup& group = experts.groups()[g];
    group.stop();
    group.parts = std::move(parts);
    for (nb::handle each : regressions) group.regressions.push_back(nb::cast<std::shared_ptr<Regression>>(each));
    for (const auto& each : group.regressions)
        require(each->outputs() == experts.outputs(), "a regression does not fit its group");
    if (!combination.is_none()) {
        group.combination = nb::cast<std::shared_ptr<CombinationState>>(combination);
        require(std::size_t(group.combination->components) == group.parts.size(), "the combination does not fit its group");
    }
    Loading::into(group.rise, std::move(rise), "rise");
}

void set_stack(DriftExperts& experts, std::shared_ptr<CombinationState> stack) {
    require(std::size_t(stack->components) == experts.size(), "the combination does not fit the experts");
    experts.stack() = std::move(stack);
}

void learn_without_model(DriftExperts& experts, In<double, 2> X, In<double, 1> y, In<double, 1> weight, InOut<double, 2> out) {
    const std::size_t n = X.shape(0);
    require(X.shape(1) == experts.columns() && y.size() == n && weight.size() == n && out.shape(0) == n &&
                out.shape(1) == std::size_t(experts.outputs()),
            "the rows do not fit the experts");
    if (!is_regression(experts.task()))
        for (std::size_t t = 0; t < n; ++t)
            require(y.data()[t] >= 0 && y.data()[t] < std::max(experts.outputs(), 2), "there is no such class");
    experts.learn_without_model(primitives(), X.data(), y.data(), weight.data(), n, out.data());
}

void score_without_model(const DriftExperts& experts, InOut<double, 2> out) {
    require(out.shape(1) == std::size_t(experts.outputs()), "the scores do not fit the experts");
    for (std::size_t t = 0; t < out.shape(0); ++t)
        experts.score_row(primitives(), nullptr, nullptr, out.data() + t * out.shape(1));
}

}  // namespace

void bind_drift(nb::module_& m) {
    nb::class_<DriftExperts>(m, "DriftExperts")
        .def_static("of", &make_experts, "task"_a, "classes"_a, "columns"_a, "budget"_a, "seed"_a, "seen"_a)
        .def_prop_ro("size", &DriftExperts::size)
        .def_prop_ro("seen", &DriftExperts::seen)
        .def_prop_ro("awake", &DriftExperts::awake)
        .def_prop_ro("resting", &DriftExperts::resting)
        .def_prop_ro("nbytes", &DriftExperts::bytes)
        .def(
            "sudden_since",
            [](const DriftExperts& experts, std::int64_t row) {
                std::vector<std::pair<std::int64_t, std::int64_t>> found;
                for (const DriftEvent& each : experts.events())
                    if (each.sudden && each.row > row) found.push_back({each.row, each.age});
                return found;
            },
            "row"_a)
        .def("last_rows",
             [](const DriftExperts& experts) {
                 const LastRows& last = experts.last();
                 const std::size_t n = last.size(), columns = experts.columns();
                 std::vector<double> X(n * columns), y(n), weight(n);
                 if (n > 0) {
                     std::copy_n(last.X(n), X.size(), X.data());
                     std::copy_n(last.y(n), n, y.data());
                     std::copy_n(last.weight(n), n, weight.data());
                 }
                 return nb::make_tuple(to_numpy(std::move(X), {n, columns}), to_numpy(std::move(y)),
                                       to_numpy(std::move(weight)));
             })
        .def_prop_ro("groups", &groups_of)
        .def("stop_groups", &DriftExperts::stop_groups)
        .def("set_group", &set_group, "number"_a, "parts"_a, "regressions"_a, "combination"_a.none(), "rise"_a)
        .def_prop_ro("stack", [](DriftExperts& experts) { return experts.stack(); })
        .def("set_stack", &set_stack, "stack"_a)
        .def("influence", [](const DriftExperts& experts) { return to_numpy(experts.influence()); })
        .def_prop_ro("unit", &DriftExperts::unit)
        .def("label_scores",
             [](const DriftExperts& experts) {
                 std::vector<double> scores = experts.label_scores();
                 const std::size_t outputs = std::size_t(experts.outputs()), n = scores.size() / outputs;
                 return to_numpy(std::move(scores), {n, outputs});
             })
        .def("state", &Saving::saved<DriftExperts>)
        .def("restore", &restore_experts, "state"_a, "classes"_a)
        .def("fork", [](const DriftExperts& experts) { return std::make_shared<DriftExperts>(experts.fork()); })
        .def(
            "add_class", [](DriftExperts& experts, double log_odds) { experts.add_class(primitives(), log_odds); },
            "log_odds"_a)
        .def("learn_without_model", &learn_without_model, "X"_a, "y"_a, "weight"_a, "out"_a)
        .def("score_without_model", &score_without_model, "out"_a);
}

}  // namespace bomkl
