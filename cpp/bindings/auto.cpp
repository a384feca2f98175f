// The part of bomkl._core that Auto models use: functions on arrays, which they change in place.
#include <nanobind/stl/tuple.h>

#include "auto/rows/rounds.hpp"
#include "auto/rows/row_model.hpp"
#include "bindings/auto_arrays.hpp"

using namespace nanobind::literals;

namespace bomkl {
namespace {

const InstructionSet& (*chosen)() = nullptr;

}  // namespace

const Primitives<float>& automatic::primitives() { return *chosen().single_precision; }

namespace {

using namespace automatic;

bool bind_all_finite(In<double, 1> x) {
    return std::all_of(x.data(), x.data() + x.size(), [](double value) { return std::isfinite(value); });
}

void bind_matmul(In<float, 2> a, In<float, 3> packed, InOut<float, 2> out) {
    require(a.shape(1) == packed.shape(1) && packed.shape(2) == kTile && out.shape(0) == a.shape(0) &&
                out.shape(1) == packed.shape(0) * kTile,
            "the shapes of a product do not fit together");
    const auto& with = primitives();
    nb::gil_scoped_release release;
    for (std::size_t begin = 0; begin < a.shape(0); begin += kBlock)
        multiply(with, a.data() + begin * a.shape(1), a.shape(1), int(std::min<std::size_t>(kBlock, a.shape(0) - begin)),
                 int(a.shape(1)), packed.data(), int(packed.shape(0)), out.data() + begin * out.shape(1), out.shape(1));
}

void bind_normal_scores(In<double, 2> x, In<double, 2> sorted, In<double, 1> table, In<double, 1> mean, In<double, 1> deviation,
                        InOut<float, 2> out) {
    const std::size_t d = x.shape(1);
    require(sorted.shape(0) == d && sorted.shape(1) > 0 && table.size() == 2 * sorted.shape(1) + 1 && mean.size() == d &&
                deviation.size() == d && out.shape(0) == x.shape(0) && out.shape(1) == d,
            "the shapes of the columns do not fit together");
    nb::gil_scoped_release release;
    normal_scores(x.data(), x.shape(0), {sorted.data(), d, sorted.shape(1)}, table.data(), mean.data(), deviation.data(),
                  out.data());
}

void bind_linear_scores(In<float, 2> features, In<double, 2> w, int rank, InOut<double, 2> out) {
    const std::size_t n = features.shape(0), width = features.shape(1), outputs = w.shape(0);
    require(w.shape(1) == width && rank >= 0 && std::size_t(rank) <= width && out.shape(0) == n && out.shape(1) == outputs,
            "the features do not fit the weights");
    nb::gil_scoped_release release;
    for (std::size_t t = 0; t < n; ++t)
        for (std::size_t k = 0; k < outputs; ++k)
            out.data()[t * outputs + k] = primitives().dot(features.data() + t * width, w.data() + k * width, rank);
}

void bind_bend(In<double, 1> curve, In<double, 2> targets, InOut<double, 2> out) {
    require(targets.size() == out.size(), "as many numbers come out as go in");
    const Curve with = curve_of(curve);
    std::transform(targets.data(), targets.data() + targets.size(), out.data(), [&](double y) { return bent(with, y); });
}

void bind_straighten(In<double, 1> curve, InOut<double, 2> scores) {
    const Curve with = curve_of(curve);
    for (std::size_t i = 0; i < scores.size(); ++i) scores.data()[i] = straightened(with, scores.data()[i]);
}

Units units_of(int log_rows) {
    require(log_rows >= 0 && log_rows <= kMostLogRows, "a round has at most 2^38 rows");
    return Units(log_rows);
}

struct SumsOfComponent {  // as class Sums of Python has them
    Units units;
    InOut<std::int64_t, 1> information;
    InOut<std::int64_t, 2> coarse, fine;

    explicit SumsOfComponent(const nb::tuple& given)
        : units(units_of(nb::cast<int>(given[0]))), information(nb::cast<InOut<std::int64_t, 1>>(given[1])),
          coarse(nb::cast<InOut<std::int64_t, 2>>(given[2])), fine(nb::cast<InOut<std::int64_t, 2>>(given[3])) {}
};

struct BlockOfRows {  // what the rows of a block add to one component
    int rank;
    In<double, 2> w, y;
    In<double, 1> weight;
    Task task;
    SumsOfComponent sums;
    InOut<double, 2> scores;

    void check(std::size_t n, std::size_t width) const {
        const std::size_t outputs = w.shape(0);
        require(n <= kMostBlockRows && width % kTile == 0 && w.shape(1) == width && rank > 0 && std::size_t(rank) <= width &&
                    y.shape(0) == n && y.shape(1) == outputs && weight.size() == n && scores.shape(0) == n &&
                    scores.shape(1) == outputs && sums.information.size() == triangle_size(rank) &&
                    sums.coarse.shape(0) == outputs && sums.coarse.shape(1) == std::size_t(rank) &&
                    sums.fine.shape(0) == outputs && sums.fine.shape(1) == std::size_t(rank),
                "the arrays of a block do not fit together");
    }

    void add(const Primitives<float>& with, const float* features, std::size_t n, std::size_t width) const {
        component_sums(with, features, int(n), width, rank, w.data(), int(w.shape(0)), y.data(), weight.data(), task,
                       sums.units, scores.data(), {sums.information.data(), sums.coarse.data(), sums.fine.data()});
    }
};

void bind_component_sums(In<float, 2> features, int rank, In<double, 2> w, In<double, 2> y, In<double, 1> weight, Task task,
                         nb::tuple sums, InOut<double, 2> scores) {
    const BlockOfRows block{rank, w, y, weight, task, SumsOfComponent(sums), scores};
    block.check(features.shape(0), features.shape(1));
    const auto& with = primitives();
    nb::gil_scoped_release release;
    block.add(with, features.data(), features.shape(0), features.shape(1));
}

// Features and their sums in one call: threads that share rows out wait for each other between calls.
void bind_kernel_sums(const FeatureMap& features, In<float, 2> x, In<double, 2> w, In<double, 2> y, In<double, 1> weight,
                      Task task, nb::tuple sums, InOut<double, 2> scores) {
    const BlockOfRows block{features.rank, w, y, weight, task, SumsOfComponent(sums), scores};
    const std::size_t n = x.shape(0), width = features.width();
    block.check(n, width);
    require(features.view >= 0 && x.shape(1) == std::size_t(features.map.features), "the rows do not fit the kernel map");
    const auto& with = primitives();
    nb::gil_scoped_release release;
    Buffer<float> made(n * width);
    kernel_features(with, features.map, features.depths, x.data(), n, made.data());
    block.add(with, made.data(), n, width);
}

// S (n, components, outputs): for several classes with mean zero.
void bind_combination_sums(CombinationState& c, In<double, 3> S, In<double, 2> y, In<double, 1> weight, Task task,
                           nb::tuple sums, InOut<double, 2> out) {
    const auto coarse = nb::cast<InOut<std::int64_t, 1>>(sums[1]), fine = nb::cast<InOut<std::int64_t, 1>>(sums[2]);
    const std::size_t n = S.shape(0), m = S.shape(1), outputs = S.shape(2);
    const std::size_t size = combination_size(c.components, c.stacks);
    require(m == std::size_t(c.components) && outputs > 0 && y.shape(0) == n && y.shape(1) == outputs && weight.size() == n &&
                out.shape(0) == n && out.shape(1) == outputs && coarse.size() == size && fine.size() == size,
            "the rows do not fit the combination");
    const Units units = units_of(nb::cast<int>(sums[0]));
    Combiner combine(c.view(), int(outputs), task);
    nb::gil_scoped_release release;
    combination_sums(combine, int(m), c.stacks, int(outputs), task, S.data(), n, y.data(), weight.data(), units, out.data(),
                     coarse.data(), fine.data());
}

void bind_add_triangle(In<double, 2> matrix, In<std::int64_t, 1> triangle, int log_rows, InOut<double, 2> out) {
    const std::size_t rank = matrix.shape(0);
    require(
        matrix.shape(1) == rank && out.shape(0) == rank && out.shape(1) == rank && triangle.size() == triangle_size(int(rank)),
        "the information does not fit its sums");
    const double units = units_of(log_rows).information;
    nb::gil_scoped_release release;
    add_triangle(matrix.data(), triangle.data(), units, int(rank), out.data());
}

bool bind_solve_symmetric(In<double, 2> A, InOut<double, 2> b) {
    require(A.shape(0) == A.shape(1) && b.shape(0) == A.shape(0), "the shapes of an equation do not fit together");
    const Primitives<double>& with = *chosen().double_precision;
    nb::gil_scoped_release release;
    return solve_symmetric(with, A.data(), int(A.shape(0)), b.data(), int(b.shape(1)));
}

std::tuple<double, double, double> bind_round_units(int log_rows) {
    const Units units = units_of(log_rows);
    return {units.information, units.coarse, units.fine};
}

}  // namespace

void bind_auto(nb::module_& m, const InstructionSet& (*chosen_set)()) {
    chosen = chosen_set;
    m.attr("BLOCK") = kBlock;
    m.def("all_finite", &bind_all_finite, "x"_a, "Whether each of some numbers is finite.");
    m.def("matmul", &bind_matmul, "a"_a, "packed"_a, "out"_a,
          "Product of rows with a matrix packed in tiles of 64 columns; a row's result does not depend on the others.");
    m.def("normal_scores", &bind_normal_scores, "x"_a, "sorted_columns"_a, "table"_a, "mean"_a, "deviation"_a, "out"_a);
    m.def("linear_scores", &bind_linear_scores, "features"_a, "w"_a, "rank"_a, "out"_a);
    m.def("bend_targets", &bind_bend, "curve"_a, "targets"_a, "out"_a, "Scaled targets on a curved scale.");
    m.def("straighten_scores", &bind_straighten, "curve"_a, "scores"_a, "Undo `bend_targets`, in place.");
    m.attr("ROUND_BLOCK") = kMostBlockRows;
    m.def("component_sums", &bind_component_sums, "features"_a, "rank"_a, "w"_a, "y"_a, "weight"_a, "task"_a, "sums"_a,
          "scores"_a);
    m.def("kernel_sums", &bind_kernel_sums, "map"_a, "x"_a, "w"_a, "y"_a, "weight"_a, "task"_a, "sums"_a, "scores"_a);
    m.def("combination_sums", &bind_combination_sums, "combination"_a, "scores"_a, "y"_a, "weight"_a, "task"_a, "sums"_a,
          "out"_a);
    m.def("solve_symmetric", &bind_solve_symmetric, "A"_a, "b"_a,
          "Solve A x = b in place by Cholesky's method; False where A is not positive definite.");
    m.def("add_triangle", &bind_add_triangle, "matrix"_a, "triangle"_a, "log_rows"_a, "out"_a,
          "Add the information of a round, a triangle of whole units, to a symmetric matrix.");
    m.def("round_units", &bind_round_units, "log_rows"_a, "Units to one of the sums of a round: information, coarse, fine.");
}

}  // namespace bomkl
