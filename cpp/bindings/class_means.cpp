// The part of bomkl._core that learns the means of classes.
#include "auto/class_means.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>

#include <cmath>
#include <optional>
#include <string>

#include "bindings/to_numpy.hpp"
#include "bindings/tree_arrays.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace bomkl {
namespace {

using namespace automatic;

// Scores (n, kCloudShapes, classes) of rows; with labels each just before it is learned.
auto scores(ClassMeans& model, In<double, 2> X, const double* y, const double* weight) {
    const std::size_t n = X.shape(0), stride = kCloudShapes * model.classes();
    std::vector<double> out(n * stride);
    {
        std::optional<nb::gil_scoped_release> release;
        if (n > 1) release.emplace();
        for (std::size_t t = 0; t < n; ++t) {
            const double* x = X.data() + t * model.columns();
            model.score(x, out.data() + t * stride);
            if (y) model.learn(x, std::size_t(y[t]), weight[t]);
        }
    }
    return to_numpy(std::move(out), {n, std::size_t(kCloudShapes), model.classes()});
}

auto score(ClassMeans& model, In<double, 2> X) {
    require(X.shape(1) == model.columns(), "the rows do not fit the class means");
    return scores(model, X, nullptr, nullptr);
}

auto learn(ClassMeans& model, In<double, 2> X, In<double, 1> y, In<double, 1> weight) {
    const std::size_t n = X.shape(0);
    require(X.shape(1) == model.columns() && y.size() == n && weight.size() == n, "the rows do not fit the class means");
    for (std::size_t t = 0; t < n; ++t)
        require(y.data()[t] >= 0 && y.data()[t] < double(model.classes()) && weight.data()[t] > 0, "there is no such class");
    return scores(model, X, y.data(), weight.data());
}

nb::dict arrays_of(const ClassMeans& model) {
    nb::dict found;
    const CloudShape& shape = *model.shape;
    const auto add = [&](const char* name, const std::vector<double>& values) { found[name] = to_numpy(values); };
    add("counts", model.counts);
    found["means"] = to_numpy(model.means, {model.classes(), model.columns()});
    add("mean", model.mean);
    add("total", model.total);
    add("within", model.within);
    add("origin", shape.origin);
    add("per_unit", shape.per_unit);
    add("axes", shape.axes);
    add("factor", shape.factor);
    add("between", {shape.between.begin(), shape.between.end()});
    add("weights", {model.freedom, model.weights});
    found["rows"] = model.rows;
    found["look_at"] = model.look_at;
    return found;
}

std::shared_ptr<ClassMeans> of_arrays(In<double, 1> counts, In<double, 2> means, In<double, 1> mean, In<double, 1> total,
                                      In<double, 1> within, In<double, 1> origin, In<double, 1> per_unit, In<double, 1> axes,
                                      In<double, 1> factor, In<double, 1> between, In<double, 1> weights, std::int64_t rows,
                                      std::int64_t look_at) {
    const std::size_t d = mean.size(), classes = counts.size();
    require(means.shape(0) == classes && means.shape(1) == d && total.size() == d && within.size() == packed_size(d) &&
                origin.size() == d && per_unit.size() == d && axes.size() == d && factor.size() == packed_size(d) &&
                between.size() == kCloudShapes && weights.size() == 2,
            "the arrays of class means do not fit together");
    auto model = std::make_shared<ClassMeans>(d, 0);
    const auto vector = [](const auto& array) { return std::vector<double>(array.data(), array.data() + array.size()); };
    auto shape = std::make_shared<CloudShape>();
    shape->origin = vector(origin), shape->per_unit = vector(per_unit), shape->axes = vector(axes);
    shape->factor = vector(factor);
    std::copy_n(between.data(), kCloudShapes, shape->between.begin());
    model->counts = vector(counts), model->means = vector(means), model->mean = vector(mean), model->total = vector(total);
    model->within = vector(within), model->freedom = weights.data()[0], model->weights = weights.data()[1];
    model->rows = rows, model->look_at = look_at;
    model->shape = std::move(shape);
    model->derive();
    return model;
}

}  // namespace

void bind_class_means(nb::module_& m) {
    nb::class_<ClassMeans>(m, "ClassMeans")
        .def(nb::init<std::size_t, std::size_t>(), "columns"_a, "classes"_a)
        .def_static("of", &of_arrays, "counts"_a, "means"_a, "mean"_a, "total"_a, "within"_a, "origin"_a, "per_unit"_a,
                    "axes"_a, "factor"_a, "between"_a, "weights"_a, "rows"_a, "look_at"_a)
        .def("fork", [](const ClassMeans& model) { return std::make_shared<ClassMeans>(model); })
        .def_prop_ro("arrays", &arrays_of)
        .def_prop_ro("columns", &ClassMeans::columns)
        .def_prop_ro("classes", &ClassMeans::classes)
        .def_prop_ro("rows", [](const ClassMeans& model) { return model.rows; })
        .def_prop_ro("nbytes", &ClassMeans::bytes)
        .def("score_and_learn", &learn, "X"_a, "y"_a, "weight"_a)
        .def("scores", &score, "X"_a)
        .def("add_class", &ClassMeans::add_class);
}

}  // namespace bomkl
