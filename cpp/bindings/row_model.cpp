// The part of bomkl._core that owns what an Auto model has learned.
#include "auto/rows/row_model.hpp"
#include "bindings/auto_arrays.hpp"

#include <nanobind/stl/pair.h>

using namespace nanobind::literals;

namespace bomkl {

namespace {

using namespace automatic;

Part make_part(nb::handle given) {
    if (nb::isinstance<NewtonPart>(given)) return nb::cast<NewtonPart>(given);
    if (nb::isinstance<OnlineForest>(given)) return nb::cast<std::shared_ptr<OnlineForest>>(given);
    return std::shared_ptr<const Boosted>(nb::cast<std::shared_ptr<Boosted>>(given));
}

NewtonPart make_newton(std::shared_ptr<FeatureMap> features, std::shared_ptr<Regression> regression, nb::object curve,
                       double forget) {
    require(features->rank == regression->rank() && features->width() == regression->width(),
            "the features do not fit the regression");
    std::optional<Curve> bends;
    if (!curve.is_none()) bends = curve_of(nb::cast<In<double, 1>>(curve));
    require(!bends || regression->outputs() == 1, "curved targets are numbers");
    return {std::move(features), std::move(regression), bends, forget};
}

void require_part(const Part& part, const Geometry& geometry, int outputs, Task task) {
    const std::size_t d = std::size_t(geometry.columns.columns);
    if (const auto* newton = std::get_if<NewtonPart>(&part)) {
        const FeatureMap& f = *newton->features;
        require(newton->regression->outputs() == outputs, "a regression does not fit its learner");
        if (f.view < 0)
            require(std::size_t(f.rank) == (1 + f.both + f.squares) * d + 1, "the columns do not fit their component");
        else
            require(f.map.features == view_width(geometry.columns, f.view), "a kernel does not fit its view");
        return;
    }
    require(geometry.cuts, "trees need codes of the columns");
    if (const auto* forest = std::get_if<std::shared_ptr<OnlineForest>>(&part)) {
        const OnlineForest& f = **forest;
        require(f.outputs() == outputs && f.task() == task && fit_columns(f.trees(), f.table().size() / f.prior().size(), d),
                "a forest does not fit its learner");
        return;
    }
    const Boosted& b = *std::get<std::shared_ptr<const Boosted>>(part);
    const auto fits = [&](std::int32_t k) { return k < outputs; };
    require(fit_columns(b.trees, std::size_t(1) << 31, d) && std::all_of(b.outputs, b.outputs + b.trees.trees, fits),
            "boosted trees do not fit their learner");
}

RowModel model_of(std::shared_ptr<Geometry> geometry, nb::list given, nb::object combination, nb::object sample,
                  nb::object drift, Task task, int outputs, nb::tuple scale) {
    require(outputs > 0 && scale.size() == 2, "a model has outputs and a scale");
    std::vector<Part> parts;
    for (nb::handle each : given) {
        parts.push_back(make_part(each));
        require_part(parts.back(), *geometry, outputs, task);
    }
    std::shared_ptr<CombinationState> combine;
    if (!combination.is_none()) {
        combine = nb::cast<std::shared_ptr<CombinationState>>(combination);
        require(std::size_t(combine->components) == parts.size(), "the combination does not fit the components");
    }
    std::shared_ptr<StreamSample> rows;
    if (!sample.is_none()) {
        rows = nb::cast<std::shared_ptr<StreamSample>>(sample);
        require(rows->columns() == std::size_t(geometry->columns.columns) && geometry->cuts,
                "the sample does not fit the rows");
    }
    std::shared_ptr<DriftExperts> experts;
    if (!drift.is_none()) {
        experts = nb::cast<std::shared_ptr<DriftExperts>>(drift);
        require(combine && experts->columns() == std::size_t(geometry->columns.columns) && experts->outputs() == outputs &&
                    experts->task() == task,
                "the experts of drift do not fit the model");
    }
    RowModel made(std::move(geometry), std::move(parts), std::move(combine), std::move(rows), std::move(experts), task, outputs,
                  nb::cast<double>(scale[0]), nb::cast<double>(scale[1]));
    require(made.fits_drift(), "the groups of drift do not fit the model");
    return made;
}

void require_rows(const RowModel& model, const In<double, 2>& X, const In<double, 1>& y, std::size_t n, std::int64_t seen) {
    require(model.combination() && X.shape(0) == n && X.shape(1) == model.columns() && y.size() == n &&
                model.fits_after(seen) && (!model.drift() || model.drift()->seen() == seen),
            "the rows do not fit the model");
}

std::size_t learn(RowModel& model, In<double, 2> X, In<double, 1> y, In<double, 1> weight, std::int64_t seen, int threads,
                  InOut<double, 2> out) {
    const std::size_t n = X.shape(0);
    require_rows(model, X, y, n, seen);
    require(weight.size() == n && out.shape(0) == n && out.shape(1) == std::size_t(model.outputs()),
            "the rows do not fit the model");
    const auto& with = primitives();
    const ReleaseForMany release(n);
    return model.learn(with, X.data(), y.data(), weight.data(), n, seen, threads, out.data());
}

// A copy that has learned from one row of weight 1, and the scores of the row before that.
auto after_row(const RowModel& model, In<double, 2> x, In<double, 1> y, std::int64_t seen) {
    RowModel after = model.fork();
    const double weight = 1;
    std::vector<double> scores(std::size_t(model.outputs()));
    require_rows(after, x, y, 1, seen);
    after.learn(primitives(), x.data(), y.data(), &weight, 1, seen, 1, scores.data());
    const std::size_t outputs = scores.size();
    return std::make_pair(std::move(after), to_numpy(std::move(scores), {1, outputs}));
}

auto learn_parts(RowModel& model, In<double, 2> X, In<double, 1> y, In<double, 1> weight, std::int64_t seen, int threads) {
    const std::size_t n = X.shape(0), outputs = std::size_t(model.outputs()), m = model.parts().size();
    require(X.shape(1) == model.columns() && y.size() == n && weight.size() == n && model.fits_after(seen),
            "the rows do not fit the model");
    std::vector<double> out;
    out.reserve(n * m * outputs);
    {
        const auto& with = primitives();
        nb::gil_scoped_release release;
        BlockViews views(model.geometry(), model.parts());
        for (std::size_t begin = 0; begin < n;) {
            const std::size_t count = std::min(kChunk - (std::size_t(seen) + begin) % kChunk, n - begin);
            const std::vector<double>& S = model.learn_parts(with, views, X.data() + begin * X.shape(1), y.data() + begin,
                                                             weight.data() + begin, count, seen + std::int64_t(begin), threads);
            out.insert(out.end(), S.begin(), S.end());
            begin += count;
        }
    }
    return to_numpy(std::move(out), {n, m, outputs});
}

void score(const RowModel& model, In<double, 2> X, int threads, InOut<double, 2> out) {
    require(model.combination() && X.shape(1) == model.columns() && out.shape(0) == X.shape(0) &&
                out.shape(1) == std::size_t(model.outputs()),
            "the rows do not fit the model");
    const auto& with = primitives();
    model.prepare();
    nb::gil_scoped_release release;
    model.score(with, X.data(), X.shape(0), threads, out.data());
}

auto score_parts(const RowModel& model, In<double, 2> X) {
    require(X.shape(1) == model.columns(), "the rows do not fit the model");
    const std::size_t n = X.shape(0), outputs = std::size_t(model.outputs()), m = model.size();
    std::vector<double> out(n * m * outputs);
    model.prepare();
    model.score_parts(primitives(), X.data(), n, out.data());
    return to_numpy(std::move(out), {n, m, outputs});
}

// Scores of one row as it would be learned: a number, or an array of several.
nb::object score_next(const RowModel& model, In<double, 1> x) {
    require(model.combination() && x.size() == model.columns(), "the row does not fit the model");
    std::vector<double> out(std::size_t(model.outputs()));
    model.score_next(primitives(), x.data(), out.data());
    return out.size() == 1 ? nb::object(nb::float_(out[0])) : nb::cast(to_numpy(std::move(out)));
}

void restart_drift(RowModel& model, In<double, 2> X, In<double, 1> y, bool full) {
    require(model.drift() && X.shape(1) == model.columns() && y.size() == X.shape(0), "the rows do not fit the model");
    model.restart_drift(primitives(), X.data(), y.data(), X.shape(0), full);
}

nb::list parts_of(RowModel& model) {
    nb::list out;
    for (Part& part : model.parts())
        if (const auto* newton = std::get_if<NewtonPart>(&part))
            out.append(nb::cast(newton->regression));
        else if (const auto* forest = std::get_if<std::shared_ptr<OnlineForest>>(&part))
            out.append(nb::cast(*forest));
        else
            out.append(nb::cast(std::const_pointer_cast<Boosted>(std::get<std::shared_ptr<const Boosted>>(part))));
    return out;
}

}  // namespace

void bind_row_model(nb::module_& m) {
    nb::class_<NewtonPart>(m, "NewtonPart")
        .def_static("of", &make_newton, "features"_a, "regression"_a, "curve"_a.none(), "forget"_a);
    nb::class_<RowModel>(m, "RowModel")
        .def_static("of", &model_of, "views"_a, "parts"_a, "combination"_a.none(), "sample"_a.none(), "drift"_a.none(),
                    "task"_a, "outputs"_a, "scale"_a)
        .def("fork", &RowModel::fork)
        .def_prop_ro("parts", &parts_of)
        .def_prop_ro("combination", [](const RowModel& model) { return model.combination(); })
        .def_prop_ro("sample", [](const RowModel& model) { return model.sample(); })
        .def_prop_ro("drift", [](const RowModel& model) { return model.drift(); })
        .def("restart_drift", &restart_drift, "X"_a, "y"_a, "full"_a)
        .def_prop_ro("has_unchecked", &RowModel::has_unchecked)
        .def("after_row", &after_row, "X"_a, "y"_a, "seen"_a)
        .def("learn", &learn, "X"_a, "y"_a, "weight"_a, "seen"_a, "threads"_a, "out"_a)
        .def("learn_parts", &learn_parts, "X"_a, "y"_a, "weight"_a, "seen"_a, "threads"_a)
        .def("score", &score, "X"_a, "threads"_a, "out"_a)
        .def("score_parts", &score_parts, "X"_a)
        .def("score_next", &score_next, "x"_a);
}

}  // namespace bomkl
