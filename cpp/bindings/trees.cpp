// The part of bomkl._core that grows and walks trees: functions on arrays, which they change in place.

#include "auto/trees/boosting.hpp"
#include "auto/trees/forest_growth.hpp"
#include "bindings/auto_arrays.hpp"

using namespace nanobind::literals;

namespace bomkl {
namespace {

using namespace automatic;

void bind_code_rows(In<double, 2> x, In<double, 1> cuts, In<std::int64_t, 1> starts, InOut<std::uint8_t, 2> out) {
    const std::size_t d = x.shape(1);
    require_coding(cuts, starts, d);
    require(out.shape(0) == x.shape(0) && out.shape(1) == d, "the shapes of codes do not fit together");
    nb::gil_scoped_release release;
    code_rows(x.data(), x.shape(0), d, cuts.data(), starts.data(), out.data());
}

Sample sample_of(const In<std::uint8_t, 2>& codes, const In<double, 2>& y, const In<double, 1>& weight, Task task) {
    require(y.shape(0) == codes.shape(0) && weight.size() == codes.shape(0) && y.shape(1) > 0,
            "the rows of a sample do not fit together");
    return Sample(codes.data(), y.data(), weight.data(), int(codes.shape(0)), int(codes.shape(1)), int(y.shape(1)), task);
}

// Trees that are grown a few at a time. It keeps the arrays of the sample, which nobody must change.
template <class Grower>
class Growing {
public:
    // Grows until there are `count` trees.
    void until(int count) {
        nb::gil_scoped_release release;
        for (const int least = std::min(count, trees); grown() < least;) grower->grow_one();
    }
    int grown() const { return int(of(*grower).roots.size()); }

    In<double, 2> y;
    In<double, 1> weight;
    int trees;
    std::unique_ptr<Grower> grower;

    static const BoostedTrees& of(const Booster& booster) { return booster.result(); }
    static const ForestGrower& of(const ForestGrower& grower) { return grower; }
};

using GrowingBoosted = Growing<Booster>;
using GrowingForest = Growing<ForestGrower>;

void make_boosting(Boosting* place, int rounds, int leaves, int least_rows, double rate, double ridge, double columns) {
    require(rounds >= 0 && leaves >= 2 && least_rows >= 1 && ridge > 0, "the settings of boosting are out of range");
    new (place) Boosting{rounds, leaves, least_rows, rate, ridge, columns};
}

GrowingBoosted bind_grow_boosted(In<std::uint8_t, 2> codes, In<double, 2> y, In<double, 1> weight, Task task,
                                 const Boosting& settings, std::uint64_t seed) {
    return {y, weight, settings.rounds * int(y.shape(1)),
            std::make_unique<Booster>(sample_of(codes, y, weight, task), settings, seed)};
}

auto boosted_result(const GrowingBoosted& growing) { return arrays_of(growing.grower->result()); }

GrowingForest bind_grow_forest(In<std::uint8_t, 2> codes, In<double, 2> y, In<double, 1> weight, Task task, int trees,
                               int tries, int least_rows, std::uint64_t seed) {
    require(codes.shape(0) > 0 && trees >= 1 && tries >= 1 && least_rows >= 1, "the settings of a forest are out of range");
    return {y, weight, trees, std::make_unique<ForestGrower>(sample_of(codes, y, weight, task), tries, least_rows, seed)};
}

auto forest_result(const GrowingForest& growing) {
    const ForestGrower& out = *growing.grower;
    const std::size_t width = std::size_t(out.width());
    return nb::make_tuple(nodes_to_numpy(out.nodes), to_numpy(out.roots),
                          to_numpy(out.table, {out.table.size() / width, width}));
}

bool bind_trees_are_sound(In<std::int32_t, 2> nodes, In<std::int32_t, 1> roots, std::size_t leaves, std::size_t columns) {
    return sound(as_nodes(nodes), nodes.shape(0), roots.data(), roots.size(), leaves, columns);
}

}  // namespace

void bind_trees(nb::module_& m) {
    m.def("code_rows", &bind_code_rows, "x"_a, "cuts"_a, "starts"_a, "out"_a);
    nb::class_<GrowingBoosted>(m, "GrowingBoosted")
        .def("until", &GrowingBoosted::until, "count"_a)
        .def_ro("trees", &GrowingBoosted::trees)
        .def("result", &boosted_result);
    nb::class_<GrowingForest>(m, "GrowingForest")
        .def("until", &GrowingForest::until, "count"_a)
        .def_ro("trees", &GrowingForest::trees)
        .def("result", &forest_result);
    nb::class_<Boosting>(m, "Boosting")
        .def("__init__", &make_boosting, "rounds"_a, "leaves"_a, "least_rows"_a, "rate"_a, "ridge"_a, "columns"_a);
    m.def("grow_boosted", &bind_grow_boosted, "codes"_a, "y"_a, "weight"_a, "task"_a, "settings"_a, "seed"_a);
    m.def("grow_forest", &bind_grow_forest, "codes"_a, "y"_a, "weight"_a, "task"_a, "trees"_a, "tries"_a, "least_rows"_a,
          "seed"_a);
    m.def("trees_are_sound", &bind_trees_are_sound, "nodes"_a, "roots"_a, "leaves"_a, "columns"_a);
}

}  // namespace bomkl
