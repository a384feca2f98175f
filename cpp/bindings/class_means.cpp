// The part of bomkl._core that learns the means of classes.
#include "auto/components/class_means.hpp"
#include "bindings/auto_arrays.hpp"

#include <cmath>

using namespace nanobind::literals;

namespace bomkl {
namespace {

using namespace automatic;

// Scores (n, kCloudShapes, classes) of rows; with labels each just before it is learned.
auto scores(ClassMeans& model, In<double, 2> X, const double* y, const double* weight) {
    const std::size_t n = X.shape(0), stride = kCloudShapes * model.classes();
    std::vector<double> out(n * stride);
    {
        const ReleaseForMany release(n, 2);
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

nb::dict learned_arrays(const ClassMeans& model) {
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

// From what `learned_arrays` gives.
std::shared_ptr<ClassMeans> of_arrays(nb::dict arrays) {
    const std::size_t d = named<double, 1>(arrays, "mean").size();
    const auto means = named<double, 2>(arrays, "means");
    const auto numbers = [&](const char* name, std::size_t size) {
        const auto array = named<double, 1>(arrays, name);
        require(array.size() == size, "the arrays of class means do not fit together");
        return vector_of(array);
    };
    require(means.shape(1) == d, "the arrays of class means do not fit together");
    auto shape = std::make_shared<CloudShape>();
    shape->origin = numbers("origin", d), shape->per_unit = numbers("per_unit", d), shape->axes = numbers("axes", d);
    shape->factor = numbers("factor", packed_size(d));
    std::copy_n(numbers("between", kCloudShapes).begin(), kCloudShapes, shape->between.begin());
    auto model = std::make_shared<ClassMeans>(d, 0);
    model->counts = numbers("counts", means.shape(0)), model->means = vector_of(means);
    model->mean = numbers("mean", d), model->total = numbers("total", d), model->within = numbers("within", packed_size(d));
    const std::vector<double> weights = numbers("weights", 2);
    model->freedom = weights[0], model->weights = weights[1];
    model->rows = nb::cast<std::int64_t>(arrays["rows"]), model->look_at = nb::cast<std::int64_t>(arrays["look_at"]);
    model->shape = std::move(shape);
    model->derive();
    return model;
}

}  // namespace

void bind_class_means(nb::module_& m) {
    nb::class_<ClassMeans>(m, "ClassMeans")
        .def(nb::init<std::size_t, std::size_t>(), "columns"_a, "classes"_a)
        .def_static("of", &of_arrays, "arrays"_a)
        .def("fork", &forked<ClassMeans>)
        .def_prop_ro("arrays", &learned_arrays)
        .def_prop_ro("columns", &ClassMeans::columns)
        .def_prop_ro("classes", &ClassMeans::classes)
        .def_prop_ro("rows", [](const ClassMeans& model) { return model.rows; })
        .def_prop_ro("nbytes", &ClassMeans::bytes)
        .def("score_and_learn", &learn, "X"_a, "y"_a, "weight"_a)
        .def("scores", &score, "X"_a)
        .def("add_class", &ClassMeans::add_class);
}

}  // namespace bomkl
