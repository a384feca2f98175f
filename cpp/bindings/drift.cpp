// The part of bomkl._core that follows drift.
#include "auto/drift/drift_experts.hpp"
#include "bindings/auto_arrays.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

using namespace nanobind::literals;

namespace bomkl {

namespace {

using namespace automatic;

// What something is as a dict of plain values and arrays.
class Saving {
public:
    nb::dict out;
    static constexpr bool saving() { return true; }

    template <class T>
    void numbers(const char* name, const T* data, std::size_t n, double = 0) {
        out[name] = to_numpy(std::vector<T>(data, data + n));
    }
    void labels(const char* name, const double* data, std::size_t n) { numbers(name, data, n); }
    void count(const char* name, const std::uint64_t& value, std::uint64_t = 0) { out[name] = value; }
    void integer(const char* name, const std::int64_t& value) { out[name] = value; }
    void flag(const char* name, const bool& value) { out[name] = value; }
    void integers(const char* name, const std::vector<int>& values) { out[name] = nb::cast(values); }

    template <class T>
    void part(const char* name, T& each) {
        out[name] = saved(each);
    }
    template <class T>
    void parts(const char* name, T& some) {
        nb::list list;
        for (auto& each : some) list.append(saved(each));
        out[name] = list;
    }
    template <class T, class Make>
    void optional(const char* name, std::optional<T>& each, Make&&) {
        out[name] = each ? nb::object(saved(*each)) : nb::none();
    }
    void events(const char* name, std::vector<DriftEvent>& some, std::size_t, std::size_t) {
        nb::list list;
        for (DriftEvent& each : some) {
            nb::dict event;
            event["row"] = each.row;
            event["age"] = each.age;
            event["sudden"] = each.sudden;
            event["strength"] = each.strength;
            event["shifts"] = to_numpy(std::vector<double>(each.shifts));
            event["weights"] = to_numpy(std::vector<double>(each.weights));
            list.append(event);
        }
        out[name] = list;
    }

private:
    template <class T>
    static nb::dict saved(T& each) {
        Saving inside;
        each.archive(inside);
        return inside.out;
    }
};

// The way back: refuses what does not fit.
class Loading {
public:
    Loading(nb::dict in, double classes) : in_(std::move(in)), classes_(classes) {}
    static constexpr bool saving() { return false; }

    template <class T>
    void numbers(const char* name, T* data, std::size_t n, double low = -std::numeric_limits<double>::infinity()) {
        In<T, 1> array;
        check(name, nb::try_cast(value(name), array, false) && array.size() == n &&
                        std::all_of(array.data(), array.data() + n, [&](T x) { return std::isfinite(x) && double(x) >= low; }));
        std::copy_n(array.data(), n, data);
    }
    void labels(const char* name, double* data, std::size_t n) {
        numbers(name, data, n);
        check(name, classes_ == 0 ||
                        std::all_of(data, data + n, [&](double y) { return y >= 0 && y < classes_ && y == std::floor(y); }));
    }
    void count(const char* name, std::uint64_t& number, std::uint64_t most = std::uint64_t(1) << 62) {
        check(name, nb::try_cast(value(name), number, false) && number <= most);
    }
    void integer(const char* name, std::int64_t& number) {
        check(name, nb::try_cast(value(name), number, false) && number >= 0 && number < std::int64_t(1) << 62);
    }
    void flag(const char* name, bool& value) { check(name, nb::try_cast(this->value(name), value, false)); }
    void integers(const char* name, std::vector<int>& values) {
        check(name, nb::try_cast(value(name), values, false) && values.size() <= 64 &&
                        std::all_of(values.begin(), values.end(), [](int part) { return part >= 0; }));
    }

    template <class T>
    void part(const char* name, T& each) {
        load(name, value(name), each);
    }
    template <class T>
    void parts(const char* name, T& some) {
        nb::list list;
        check(name, nb::try_cast(value(name), list, false) && list.size() == some.size());
        for (std::size_t i = 0; i < some.size(); ++i) load(name, list[i], some[i]);
    }
    template <class T, class Make>
    void optional(const char* name, std::optional<T>& each, Make&& make) {
        each.reset();
        if (value(name).is_none()) return;
        make();
        load(name, value(name), *each);
    }
    void events(const char* name, std::vector<DriftEvent>& some, std::size_t columns, std::size_t experts) {
        nb::list list;
        check(name, nb::try_cast(value(name), list, false) && list.size() <= 256);
        for (nb::handle each : list) {
            nb::dict event;
            check(name, nb::try_cast(each, event, false));
            Loading inside(event, classes_);
            DriftEvent made{0, 0, false, 0, std::vector<double>(columns), std::vector<double>(experts)};
            inside.integer("row", made.row);
            inside.integer("age", made.age);
            inside.flag("sudden", made.sudden);
            inside.numbers("strength", &made.strength);
            inside.numbers("shifts", made.shifts.data(), columns);
            inside.numbers("weights", made.weights.data(), experts);
            inside.end();
            some.push_back(std::move(made));
        }
    }

    void numbers(const char* name, double* number) {
        check(name, nb::try_cast(value(name), *number, false) && std::isfinite(*number));
    }

    void end() { check("more than this version knows", in_.size() == taken_); }

private:
    nb::object value(const char* name) {
        check(name, in_.contains(name));
        if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
            names_.push_back(name);
            ++taken_;
        }
        return in_[name];
    }
    template <class T>
    void load(const char* name, nb::handle from, T& each) {
        nb::dict dict;
        check(name, nb::try_cast(from, dict, false));
        Loading inside(dict, classes_);
        each.archive(inside);
        inside.end();
    }
    static void check(const char* name, bool holds) {
        if (!holds) throw std::invalid_argument(std::string("The saved experts of drift are damaged: ") + name + ".");
    }

    nb::dict in_;
    double classes_;
    std::size_t taken_ = 0;
    std::vector<std::string> names_;
};

std::shared_ptr<DriftExperts> make_experts(Task task, int classes, std::size_t columns, std::int64_t budget, std::uint64_t seed,
                                           std::int64_t seen) {
    require(classes >= 2 && columns > 0 && budget > 0 && seen >= 0, "experts of drift are for some columns and classes");
    return std::make_shared<DriftExperts>(task, classes, columns, budget, seed, seen);
}

nb::dict experts_state(DriftExperts& experts) {
    Saving saving;
    experts.archive(saving);
    return saving.out;
}

void restore_experts(DriftExperts& experts, nb::dict state, int classes) {
    Loading loading(state, is_regression(experts.task()) ? 0 : classes);
    experts.archive(loading);
    loading.end();
}

nb::list groups_of(DriftExperts& experts) {
    nb::list out;
    for (DriftGroup& group : experts.groups()) {
        nb::list regressions;
        for (auto& each : group.regressions) regressions.append(nb::cast(each));
        Saving rise;
        group.rise.archive(rise);
        out.append(nb::make_tuple(group.parts, regressions,
                                  group.combination ? nb::cast(group.combination) : nb::object(nb::none()), rise.out));
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
    Loading loading(rise, 0);
    group.rise.archive(loading);
    loading.end();
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
        .def("state", &experts_state)
        .def("restore", &restore_experts, "state"_a, "classes"_a)
        .def("fork", [](const DriftExperts& experts) { return std::make_shared<DriftExperts>(experts.fork()); })
        .def(
            "add_class", [](DriftExperts& experts, double log_odds) { experts.add_class(primitives(), log_odds); },
            "log_odds"_a)
        .def("learn_without_model", &learn_without_model, "X"_a, "y"_a, "weight"_a, "out"_a)
        .def("score_without_model", &score_without_model, "out"_a);
}

}  // namespace bomkl
