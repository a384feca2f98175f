// The part of bomkl._core that is a network: see auto/growth/network.hpp.
#include "auto/growth/network.hpp"

#include <cmath>

#include "auto/components/regression.hpp"
#include "bindings/archive.hpp"
#include "bindings/auto_arrays.hpp"

using namespace nanobind::literals;

namespace bomkl {

namespace {

using namespace automatic;

Network make_network(In<float, 2> values, int outputs, Task task, std::uint64_t seed) {
    require(values.shape(0) > 0 && values.shape(1) == 256, "a column has a value for each of 256 codes");
    require(outputs > 0 && (task == Task::multiclass || outputs == 1), "the settings of a network are out of range");
    for (std::size_t i = 0; i < values.size(); ++i) require(std::isfinite(values.data()[i]), "the values must be finite");
    return {vector_of(values), outputs, task, seed};
}

CodedView view_of(const Network& network, const In<std::uint8_t, 2>& codes, const In<double, 1>& y,
                  const In<double, 1>& weight) {
    const std::size_t n = codes.shape(0);
    require(codes.shape(1) == network.columns() && y.size() == n && weight.size() == n && n < (std::size_t(1) << 31),
            "the rows do not fit the network");
    return {codes.data(), y.data(), weight.data(), n, network.columns()};
}

// Rows that are learned: their numbers are looked at before anything changes.
CodedView checked_view(const Network& network, const In<std::uint8_t, 2>& codes, const In<double, 1>& y,
                       const In<double, 1>& weight) {
    const CodedView rows = view_of(network, codes, y, weight);
    for (std::size_t t = 0; t < rows.rows; ++t) {
        require(std::isfinite(rows.weight[t]) && rows.weight[t] >= 0, "weights must be finite and at least 0");
        require(is_regression(network.task()) ? std::isfinite(rows.y[t])
                                              : rows.y[t] >= 0 && rows.y[t] < std::max(network.outputs(), 2),
                "a class or target is out of range");
    }
    return rows;
}

auto learn(Network& network, In<std::uint8_t, 2> codes, In<double, 1> y, In<double, 1> weight, std::uint64_t seen,
           nb::object sample) {
    const CodedView rows = checked_view(network, codes, y, weight);
    CodedView from{};
    if (!sample.is_none())
        from = view_of(network, nb::cast<In<std::uint8_t, 2>>(sample[0]), nb::cast<In<double, 1>>(sample[1]),
                       nb::cast<In<double, 1>>(sample[2]));
    const std::size_t outputs = std::size_t(network.outputs());
    std::vector<double> scores(rows.rows * outputs);
    {
        const ReleaseForMany release(rows.rows);  // few rows may be learned in place, which no other thread should see half of
        network.learn(primitives(), rows, seen, from, scores.data());
    }
    return to_numpy(std::move(scores), {rows.rows, outputs});
}

void rehearse(Network& network, In<std::uint8_t, 2> codes, In<double, 1> y, In<double, 1> weight) {
    const CodedView rows = checked_view(network, codes, y, weight);
    nb::gil_scoped_release release;
    network.rehearse(primitives(), rows);
}

auto score(const Network& network, In<std::uint8_t, 2> codes) {
    const std::size_t n = codes.shape(0), outputs = std::size_t(network.outputs());
    require(codes.shape(1) == network.columns(), "the rows do not fit the network");
    std::vector<double> scores(n * outputs);
    const Network held = network;  // whoever learns meanwhile copies the weights first
    {
        nb::gil_scoped_release release;
        held.score(primitives(), codes.data(), n, scores.data());
    }
    return to_numpy(std::move(scores), {n, outputs});
}

}  // namespace

void bind_network(nb::module_& m) {
    auto bound = nb::class_<Network>(m, "Network");
    with_state<Network>(bound)
        .def_static("of", &make_network, "values"_a, "outputs"_a, "task"_a, "seed"_a)
        .def("score_and_learn", &learn, "codes"_a, "y"_a, "weight"_a, "seen"_a, "sample"_a.none())
        .def("rehearse", &rehearse, "codes"_a, "y"_a, "weight"_a)
        .def("scores", &score, "codes"_a)
        .def("add_class", &Network::add_class, "log_odds"_a)
        .def("fork", [](const Network& network) { return network; })
        .def(
            "__deepcopy__", [](const Network& network, nb::object) { return network; }, "memo"_a)
        .def_prop_ro(
            "values",
            [](const Network& network) {
                return to_numpy(network.values(), {network.columns(), std::size_t(256)});
            },
            nb::rv_policy::move)
        .def_prop_ro("outputs", &Network::outputs)
        .def_prop_ro("steps", &Network::steps)
        .def_prop_ro("open", [](const Network& network) { return network.open().y.size(); })
        .def_prop_ro("nbytes", &Network::bytes);
}

}  // namespace bomkl
