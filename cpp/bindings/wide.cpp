// The part of bomkl._core that very wide rows use.

#include <algorithm>

#include "auto/components/wide.hpp"
#include "bindings/auto_arrays.hpp"

using namespace nanobind::literals;

namespace bomkl {
namespace {

using namespace automatic;

using Starts = In<std::int64_t, 1>;
using Places = In<std::int32_t, 1>;

// Rows whose places lie from `least` to `columns` - 1.
std::size_t checked_rows(const Starts& starts, const Places& places, const In<double, 1>& values, std::int64_t least,
                         std::size_t columns) {
    require(starts.size() >= 1 && starts.data()[0] == 0 && std::is_sorted(starts.data(), starts.data() + starts.size()) &&
                std::size_t(starts.data()[starts.size() - 1]) == places.size() && places.size() == values.size(),
            "the arrays of sparse rows do not fit together");
    for (std::size_t e = 0; e < places.size(); ++e)
        require(places.data()[e] >= least && std::int64_t(places.data()[e]) < std::int64_t(columns),
                "a column is out of range");
    return starts.size() - 1;
}

// A model of arrays w (rates, columns, outputs), S (rates, columns), bias (rates, outputs), bias_sum (rates), active (2).
WideLinear of_arrays(In<double, 1> rate, In<float, 3> w, In<double, 2> S, In<double, 2> bias, In<double, 1> bias_sum,
                     In<double, 1> active, double fade) {
    const std::size_t rates = rate.size(), columns = w.shape(1), outputs = w.shape(2);
    require(w.shape(0) == rates && S.shape(0) == rates && S.shape(1) == columns && bias.shape(0) == rates &&
                bias.shape(1) == outputs && bias_sum.size() == rates && active.size() == 2,
            "the arrays of a wide linear model do not fit together");
    WideLinear made({rate.data(), rate.data() + rates}, int(outputs));
    made.bias.assign(bias.data(), bias.data() + bias.size());
    made.bias_sum.assign(bias_sum.data(), bias_sum.data() + rates);
    made.active = {active.data()[0], active.data()[1]};
    made.fade = fade;
    made.columns.reserve(columns);
    for (std::size_t i = 0; i < columns; ++i)
        for (std::size_t r = 0; r < rates; ++r) {
            made.columns.S(int(i))[r] = S.data()[r * columns + i];
            std::copy_n(w.data() + (r * columns + i) * outputs, outputs, made.columns.w(int(i)) + r * outputs);
        }
    return made;
}

// The arrays that `of_arrays` takes, of the first columns.
nb::dict to_arrays(const WideLinear& m, std::size_t columns) {
    require(columns <= m.columns.room(), "there is room for fewer columns");
    const std::size_t rates = m.rates(), outputs = m.outputs();
    std::vector<float> w(rates * columns * outputs);
    std::vector<double> S(rates * columns);
    for (std::size_t i = 0; i < columns; ++i)
        for (std::size_t r = 0; r < rates; ++r) {
            S[r * columns + i] = m.columns.S(int(i))[r];
            std::copy_n(m.columns.w(int(i)) + r * outputs, outputs, w.data() + (r * columns + i) * outputs);
        }
    nb::dict out;
    out["w"] = to_numpy(std::move(w), {rates, columns, outputs});
    out["S"] = to_numpy(std::move(S), {rates, columns});
    out["bias"] = to_numpy(m.bias, {rates, outputs});
    out["bias_sum"] = to_numpy(m.bias_sum);
    out["active"] = to_numpy(std::vector<double>{m.active[0], m.active[1]});
    out["fade"] = m.fade;
    return out;
}

void learn(WideLinear& m, Starts starts, Places places, In<double, 1> values, In<double, 2> y, In<double, 1> weight, Task task,
           double forget, InOut<double, 3> scores) {
    const std::size_t n = checked_rows(starts, places, values, 0, m.columns.room()), outputs = m.outputs();
    require(y.shape(0) == n && y.shape(1) == outputs && weight.size() == n && scores.shape(0) == n &&
                scores.shape(1) == std::size_t(m.rates()) && scores.shape(2) == outputs,
            "the rows do not fit the wide linear model");
    nb::gil_scoped_release release;
    wide_rows(m, {starts.data(), places.data(), values.data()}, y.data(), weight.data(), n, task, forget, scores.data());
}

void score(const WideLinear& m, Starts starts, Places places, In<double, 1> values, InOut<double, 3> scores) {
    const std::size_t n = checked_rows(starts, places, values, -1, m.columns.room());
    require(scores.shape(0) == n && scores.shape(1) == std::size_t(m.rates()) && scores.shape(2) == std::size_t(m.outputs()),
            "the rows do not fit the wide linear model");
    nb::gil_scoped_release release;
    for (std::size_t t = 0; t < n; ++t)
        wide_score(m, {starts.data(), places.data(), values.data()}, t, scores.data() + t * m.rates() * m.outputs());
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
    nb::class_<WideLinear>(m, "WideModel")
        .def_static("of", &of_arrays, "rate"_a, "w"_a, "S"_a, "bias"_a, "bias_sum"_a, "active"_a, "fade"_a)
        .def("arrays", &to_arrays, "columns"_a)
        .def_prop_ro(
            "bias",
            [](const WideLinear& m) {
                return to_numpy(m.bias, {std::size_t(m.rates()), std::size_t(m.outputs())});
            },
            nb::rv_policy::move)
        .def_prop_ro("nbytes", [](const WideLinear& m) { return m.columns.bytes(); })
        .def(
            "reserve", [](WideLinear& m, std::size_t columns) { m.columns.reserve(columns); }, "columns"_a)
        .def("learn", &learn, "starts"_a, "places"_a, "values"_a, "y"_a, "weight"_a, "task"_a, "forget"_a, "scores"_a)
        .def("score", &score, "starts"_a, "places"_a, "values"_a, "scores"_a)
        .def("fork", [](const WideLinear& m) { return m; })
        .def(
            "__deepcopy__", [](const WideLinear& m, nb::object) { return m; }, "memo"_a);
    m.def("sketch_rows", &bind_sketch_rows, "starts"_a, "columns"_a, "values"_a, "seed"_a, "out"_a);
}

}  // namespace bomkl
