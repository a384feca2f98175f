// The part of bomkl._core that very wide rows use: functions on arrays, which they change in place.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "auto/wide.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace bomkl {
namespace {

using namespace automatic;

template <class T, int dimensions>
using In = nb::ndarray<const T, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;
template <class T, int dimensions>
using InOut = nb::ndarray<T, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;

void require(bool holds, const char* rule) {
    if (!holds) throw std::invalid_argument(rule);
}

// Rows whose places lie from `least` to `columns` - 1.
std::size_t checked_rows(const In<std::int64_t, 1>& starts, const In<std::int32_t, 1>& places, const In<double, 1>& values,
                         std::int64_t least, std::size_t columns) {
    require(starts.size() >= 1 && starts.data()[0] == 0 && std::is_sorted(starts.data(), starts.data() + starts.size()) &&
                std::size_t(starts.data()[starts.size() - 1]) == places.size() && places.size() == values.size(),
            "the arrays of sparse rows do not fit together");
    for (std::size_t e = 0; e < places.size(); ++e)
        require(places.data()[e] >= least && std::int64_t(places.data()[e]) < std::int64_t(columns),
                "a column is out of range");
    return starts.size() - 1;
}

WideLinear wide_linear(const In<double, 1>& rate, InOut<float, 3>& w, InOut<double, 2>& S, InOut<double, 2>& bias,
                       InOut<double, 1>& bias_sum, InOut<double, 1>& active, InOut<double, 1>& fade) {
    const std::size_t rates = rate.size(), columns = w.shape(1), outputs = w.shape(2);
    require(w.shape(0) == rates && S.shape(0) == rates && S.shape(1) == columns && bias.shape(0) == rates &&
                bias.shape(1) == outputs && bias_sum.size() == rates && active.size() == 2 && fade.size() == 1,
            "the arrays of a wide linear model do not fit together");
    return {int(rates), int(outputs), columns,         rate.data(),   w.data(),
            S.data(),   bias.data(),  bias_sum.data(), active.data(), fade.data()};
}

void bind_wide_rows(In<double, 1> rate, InOut<float, 3> w, InOut<double, 2> S, InOut<double, 2> bias, InOut<double, 1> bias_sum,
                    InOut<double, 1> active, InOut<double, 1> fade, In<std::int64_t, 1> starts, In<std::int32_t, 1> places,
                    In<double, 1> values, In<double, 2> y, In<double, 1> weight, int task, double forget,
                    InOut<double, 3> scores) {
    WideLinear m = wide_linear(rate, w, S, bias, bias_sum, active, fade);
    const std::size_t n = checked_rows(starts, places, values, 0, m.columns), outputs = m.outputs;
    require(y.shape(0) == n && y.shape(1) == outputs && weight.size() == n && scores.shape(0) == n &&
                scores.shape(1) == std::size_t(m.rates) && scores.shape(2) == outputs && task >= 0 && task <= int(Task::huber),
            "the rows do not fit the wide linear model");
    std::optional<nb::gil_scoped_release> release;
    if (n > 1) release.emplace();  // a single row may be a part of a step that no other thread should see half of
    wide_rows(m, {starts.data(), places.data(), values.data()}, y.data(), weight.data(), n, Task(task), forget, scores.data());
}

void bind_wide_scores(In<double, 1> rate, InOut<float, 3> w, InOut<double, 2> S, InOut<double, 2> bias,
                      InOut<double, 1> bias_sum, InOut<double, 1> active, InOut<double, 1> fade, In<std::int64_t, 1> starts,
                      In<std::int32_t, 1> places, In<double, 1> values, InOut<double, 3> scores) {
    const WideLinear m = wide_linear(rate, w, S, bias, bias_sum, active, fade);
    const std::size_t n = checked_rows(starts, places, values, -1, m.columns);
    require(scores.shape(0) == n && scores.shape(1) == std::size_t(m.rates) && scores.shape(2) == std::size_t(m.outputs),
            "the rows do not fit the wide linear model");
    nb::gil_scoped_release release;
    for (std::size_t t = 0; t < n; ++t)
        for (int r = 0; r < m.rates; ++r)
            wide_score(m, {starts.data(), places.data(), values.data()}, t, r, scores.data() + (t * m.rates + r) * m.outputs);
}

void bind_sketch_rows(In<std::int64_t, 1> starts, In<std::int32_t, 1> columns, In<double, 1> values, std::uint64_t seed,
                      InOut<double, 2> out) {
    const std::size_t n = checked_rows(starts, columns, values, 0, std::size_t(1) << 31);
    require(out.shape(0) == n && out.shape(1) > 0, "the sketch does not fit the rows");
    nb::gil_scoped_release release;
    sketch_rows(starts.data(), columns.data(), values.data(), n, seed, out.shape(1), out.data());
}

}  // namespace

void bind_wide(nb::module_& m) {
    m.def("wide_rows", &bind_wide_rows, "rate"_a, "w"_a, "S"_a, "bias"_a, "bias_sum"_a, "active"_a, "fade"_a, "starts"_a,
          "places"_a, "values"_a, "y"_a, "weight"_a, "task"_a, "forget"_a, "scores"_a);
    m.def("wide_scores", &bind_wide_scores, "rate"_a, "w"_a, "S"_a, "bias"_a, "bias_sum"_a, "active"_a, "fade"_a, "starts"_a,
          "places"_a, "values"_a, "scores"_a);
    m.def("sketch_rows", &bind_sketch_rows, "starts"_a, "columns"_a, "values"_a, "seed"_a, "out"_a);
}

}  // namespace bomkl
