// The part of bomkl._core that learns the means of classes.
#include "auto/components/class_means.hpp"
#include "bindings/archive.hpp"
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

}  // namespace

void bind_class_means(nb::module_& m) {
    auto bound = nb::class_<ClassMeans>(m, "ClassMeans");
    with_state<ClassMeans>(bound)
        .def(nb::init<std::size_t, std::size_t>(), "columns"_a, "classes"_a)
        .def("fork", &forked<ClassMeans>)
        .def_prop_ro("columns", &ClassMeans::columns)
        .def_prop_ro("classes", &ClassMeans::classes)
        .def_prop_ro("rows", [](const ClassMeans& model) { return model.rows; })
        .def_prop_ro("nbytes", &ClassMeans::bytes)
        .def("score_and_learn", &learn, "X"_a, "y"_a, "weight"_a)
        .def("scores", &score, "X"_a)
        .def("add_class", &ClassMeans::add_class);
}

}  // namespace bomkl
