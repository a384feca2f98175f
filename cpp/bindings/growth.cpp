// The part of bomkl._core that grows beside a learner: see auto/growth/growth_model.hpp.
#include "auto/growth/growth_model.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>

#include "auto/growth/growing_trees.hpp"
#include "bindings/archive.hpp"
#include "bindings/auto_arrays.hpp"

using namespace nanobind::literals;

namespace bomkl {

namespace {

using namespace automatic;

GrowthModel make_growth(In<double, 1> cuts, In<std::int64_t, 1> starts, double centre, double spread, int outputs, Task task,
                        std::uint64_t seed) {
    require(starts.size() > 1 && outputs > 0 && (task == Task::multiclass || outputs == 1),
            "the settings of growth are out of range");
    require_coding(cuts, starts, starts.size() - 1);
    auto coding = std::make_shared<GrowthCoding>(GrowthCoding{vector_of(cuts), vector_of(starts), centre, spread});
    return {std::move(coding), outputs, task, seed};
}

template <class T>
void require_rows(const GrowthModel& model, const In<T, 2>& X, const In<double, 2>& said) {
    require(X.shape(1) == model.columns() && said.shape(0) == X.shape(0) && said.shape(1) == std::size_t(model.outputs()),
            "the rows do not fit the model");
}

void require_targets(const GrowthModel& model, const In<double, 1>& y, std::size_t n) {
    require(y.size() == n, "the rows do not fit the model");
    for (std::size_t t = 0; t < n; ++t)
        require(is_regression(model.task()) ? std::isfinite(y.data()[t])
                                            : y.data()[t] >= 0 && y.data()[t] < std::max(model.outputs(), 2),
                "a class or target is out of range");
}

// A copy that has learned from one row of weight 1, and the scores of the row before that.
auto after_row(const GrowthModel& model, In<double, 2> x, In<double, 1> y, In<double, 2> said, std::uint64_t seen) {
    require_rows(model, x, said);
    require(x.shape(0) == 1, "there is one row");
    require_targets(model, y, 1);
    GrowthModel after = model;
    const double weight = 1;
    std::vector<double> scores(std::size_t(model.outputs()));
    after.learn(primitives(), x.data(), y.data(), &weight, said.data(), 1, seen, scores.data());
    const std::size_t outputs = scores.size();
    return std::make_pair(std::move(after), to_numpy(std::move(scores), {1, outputs}));
}

// Rows are numbers, or codes of numbers.
template <class T>
auto learn(GrowthModel& model, In<T, 2> X, In<double, 1> y, In<double, 1> weight, In<double, 2> said, std::uint64_t seen) {
    const std::size_t n = X.shape(0), outputs = std::size_t(model.outputs());
    require_rows(model, X, said);
    require_targets(model, y, n);
    require(weight.size() == n, "the rows do not fit the model");
    std::vector<double> out(n * outputs);
    {
        const ReleaseForMany release(n);
        model.learn(primitives(), X.data(), y.data(), weight.data(), said.data(), n, seen, out.data());
    }
    return to_numpy(std::move(out), {n, outputs});
}

auto score(const GrowthModel& model, In<double, 2> X, In<double, 2> said) {
    const std::size_t n = X.shape(0), outputs = std::size_t(model.outputs());
    require_rows(model, X, said);
    std::vector<double> out(n * outputs);
    {
        const ReleaseForMany release(n);
        model.score(primitives(), X.data(), said.data(), n, out.data());
    }
    return to_numpy(std::move(out), {n, outputs});
}

auto inputs(const GrowthModel& model, In<double, 2> X, In<double, 2> said) {
    require_rows(model, X, said);
    return to_numpy(model.inputs(primitives(), X.data(), said.data(), X.shape(0)),
                    {X.shape(0), std::size_t(kInputs), std::size_t(model.outputs())});
}

void require_boosted(const GrowthModel& model, const Boosted& trees, int outputs) {
    require(trees.n_outputs == std::size_t(outputs) && fit_columns(trees.trees, std::size_t(1) << 31, model.columns()),
            "boosted trees do not fit the model");
}

template <bool anew>
void set_trees(GrowthModel& model, std::shared_ptr<Boosted> trees) {
    require_boosted(model, *trees, model.outputs());
    if (anew)
        model.set_trees(std::move(trees));
    else
        model.restore(std::move(trees));
}

void add_class(GrowthModel& model, double log_odds, std::shared_ptr<Boosted> trees) {
    if (trees) require_boosted(model, *trees, model.outputs() == 1 ? 3 : model.outputs() + 1);
    model.add_class(log_odds, std::move(trees));
}

template <bool anew>
void set_network(GrowthModel& model, const Network& network, std::size_t begin, std::size_t rows, std::size_t at_once) {
    require(network.columns() == model.columns() && network.outputs() == model.outputs() && network.task() == model.task() &&
                begin + rows <= model.sample().size() && (rows == 0 || at_once > 0),
            "the network does not fit the model");
    if (anew)
        model.set_network(network, begin, rows, at_once);
    else
        model.restore(network, begin, rows, at_once);
}

int checked_input(int input) {
    require(input == GrowthModel::trees || input == GrowthModel::network, "trees or the network are judged");
    return input;
}

auto grow(const GrowthModel& model, std::size_t rows, int outputs, Task task, const Boosting& settings, std::uint64_t seed) {
    require(rows > 0 && rows <= model.sample().size() && outputs >= 1 && rows < (std::size_t(1) << 31),
            "the rows to grow trees from are out of range");
    for (std::size_t i = 0; task == Task::multiclass && i < rows; ++i)
        require(model.sample().y_of(i) < outputs, "a class of the sample is not among the outputs");
    return std::make_shared<GrowingTrees>(model.sample(), rows, outputs, task, settings, seed);
}

}  // namespace

void bind_growth(nb::module_& m) {
    nb::class_<GrowingTrees>(m, "GrowingTrees")
        .def(
            "step", [](GrowingTrees& growing) { growing.step(); }, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("done", &GrowingTrees::done)
        .def_prop_ro("share", &GrowingTrees::share)
        .def_prop_ro("nbytes", &GrowingTrees::bytes)
        .def("result", [](const GrowingTrees& growing) { return arrays_of(growing.result()); });
    auto bound = nb::class_<GrowthModel>(m, "GrowthModel");
    with_state<GrowthModel>(bound)
        .def_static("of", &make_growth, "cuts"_a, "starts"_a, "centre"_a, "spread"_a, "outputs"_a, "task"_a, "seed"_a)
        .def("score_and_learn", &learn<double>, "X"_a, "y"_a, "weight"_a, "said"_a, "seen"_a)
        .def("score_and_learn_codes", &learn<std::uint8_t>, "codes"_a, "y"_a, "weight"_a, "said"_a, "seen"_a)
        .def("after_row", &after_row, "X"_a, "y"_a, "said"_a, "seen"_a)
        .def("scores", &score, "X"_a, "said"_a)
        .def("inputs", &inputs, "X"_a, "said"_a)
        .def("set_trees", &set_trees<true>, "trees"_a)
        .def("restore_trees", &set_trees<false>, "trees"_a)
        .def("drop_trees", &GrowthModel::drop_trees)
        .def("set_network", &set_network<true>, "network"_a, "begin"_a, "rows"_a, "at_once"_a)
        .def("restore_network", &set_network<false>, "network"_a, "begin"_a, "rows"_a, "at_once"_a)
        .def("drop_network", &GrowthModel::drop_network)
        .def("add_class", &add_class, "log_odds"_a, "trees"_a.none())
        .def("grow", &grow, "rows"_a, "outputs"_a, "task"_a, "settings"_a, "seed"_a)
        .def(
            "keep_at_most", [](GrowthModel& model, std::size_t rows) { model.sample().keep_at_most(rows); }, "rows"_a)
        .def(
            "take_rows_of",
            [](GrowthModel& model, const GrowthModel& other) {
                require(model.columns() == other.columns(), "the samples do not fit together");
                model.sample().take_rows_of(other.sample());
            },
            "other"_a)
        .def(
            "open_window", [](GrowthModel& model, int input) { model.open_window(checked_input(input)); }, "input"_a)
        .def(
            "gains", [](const GrowthModel& model, int input) { return model.gains(checked_input(input)); }, "input"_a)
        .def_prop_ro("network",
                     [](const GrowthModel& model) -> nb::object {
                         return model.the_network() ? nb::cast(*model.the_network()) : nb::none();
                     })
        .def_prop_ro("rehearsal", &GrowthModel::rehearsal)
        .def_prop_ro("columns", &GrowthModel::columns)
        .def_prop_ro("awake", &GrowthModel::awake)
        .def_prop_ro("weights", [](const GrowthModel& model) { return model.stack().w; })
        .def_prop_ro("share", &GrowthModel::share)
        .def_prop_ro("rows", [](const GrowthModel& model) { return model.sample().size(); })
        .def_prop_ro("open", &GrowthModel::open)
        .def_prop_rw(
            "limit", [](const GrowthModel& model) { return model.sample().limit(); },
            [](GrowthModel& model, std::uint32_t limit) { model.sample().restore(limit); })
        .def_prop_ro("nbytes", &GrowthModel::bytes)
        .def("fork", [](const GrowthModel& model) { return model; })
        .def(
            "__deepcopy__", [](const GrowthModel& model, nb::object) { return model.apart(); }, "memo"_a);
}

}  // namespace bomkl
