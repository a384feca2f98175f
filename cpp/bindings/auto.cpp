// The part of bomkl._core that the zero-tuning learner uses: functions on arrays, which they change in place.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>

#include "auto/combination.hpp"
#include "auto/rounds.hpp"
#include "bindings/python_one_row.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace bomkl {
namespace {

const InstructionSet& (*chosen)() = nullptr;

}  // namespace

const Primitives<float>& automatic::primitives() { return *chosen().single_precision; }

namespace {

using namespace automatic;

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
    require(sorted.shape(0) == d && table.size() == 2 * sorted.shape(1) + 1 && mean.size() == d && deviation.size() == d &&
                out.shape(0) == x.shape(0) && out.shape(1) == d,
            "the shapes of the columns do not fit together");
    nb::gil_scoped_release release;
    normal_scores(x.data(), x.shape(0), d, sorted.data(), sorted.shape(1), table.data(), mean.data(), deviation.data(),
                  out.data());
}

void bind_views(In<double, 2> x, In<double, 1> mean, In<double, 1> deviation, In<double, 1> middle, double scale,
                In<double, 2> sorted, In<double, 1> table, In<double, 1> normal_mean, In<double, 1> normal_deviation,
                In<float, 3> axes, In<float, 1> relevance_standard, In<float, 1> relevance_normal, double clip, double far,
                int width, nb::list out) {
    const std::size_t n = x.shape(0);
    require(mean.size() == x.shape(1) && out.size() == n_views, "the shapes of the columns do not fit together");
    const Columns columns = columns_of(mean, deviation, middle, scale, sorted, table, normal_mean, normal_deviation, axes,
                                       relevance_standard, relevance_normal, clip, far, width);
    std::array<float*, n_views> views{};
    for (int view = 0; view < n_views; ++view)
        if (const nb::handle place = out[view]; !place.is_none()) {
            const auto array = nb::cast<InOut<float, 2>>(place);
            require(array.shape(0) == n && array.shape(1) == std::size_t(view_width(columns, view)),
                    "the shapes of the views do not fit the rows");
            views[view] = array.data();
        }
    require((!views[leading] || views[common]) && (!views[relevant_standard] || views[standard]) &&
                (!views[relevant_normal] || views[normal]),
            "a view needs those it derives from");
    const auto& with = primitives();
    nb::gil_scoped_release release;
    block_views(with, columns, x.data(), n, views);
}

void bind_kernel_features(In<float, 2> x, int kernel, double scale, In<float, 3> landmarks, In<float, 1> norms,
                          In<float, 3> whiten, int rank, InOut<float, 2> out) {
    const KernelMap map = kernel_map(int(x.shape(1)), kernel, scale, landmarks, norms, whiten, rank);
    require(out.shape(0) == x.shape(0) && out.shape(1) == whiten.shape(0) * kTile,
            "the shapes of a kernel map do not fit together");
    const auto& with = primitives();
    nb::gil_scoped_release release;
    kernel_features(with, map, x.data(), x.shape(0), out.data());
}

int bind_newton_rows(InOut<double, 2> w, InOut<float, 3> P, InOut<float, 2> rows, InOut<float, 2> U, InOut<double, 2> M,
                     InOut<double, 1> c, InOut<double, 2> a, InOut<float, 3> V, InOut<double, 1> trace, In<float, 2> features,
                     In<double, 2> y, In<double, 1> weight, int task, double loosen, int open, int to_boundary,
                     InOut<double, 2> scores) {
    Component m = component(w, P, rows, U, M, c, a, V, trace);
    const std::size_t n = features.shape(0), outputs = w.shape(0);
    require(features.shape(1) == m.width() && y.shape(0) == n && y.shape(1) == outputs && weight.size() == n &&
                scores.shape(0) == n && scores.shape(1) == outputs && task >= 0 && task <= int(Task::huber),
            "the rows do not fit the component");
    require(open >= 0 && to_boundary >= 1 && open + to_boundary <= kBlock, "a block has at most 64 rows");
    const auto& with = primitives();
    nb::gil_scoped_release release;
    return newton_rows(with, m, features.data(), y.data(), weight.data(), n, Task(task), loosen, open, to_boundary,
                       scores.data());
}

void bind_close_block(InOut<double, 2> w, InOut<float, 3> P, InOut<float, 2> rows, InOut<float, 2> U, InOut<double, 2> M,
                      InOut<double, 1> c, InOut<double, 2> a, InOut<float, 3> V, InOut<double, 1> trace, int open) {
    Component m = component(w, P, rows, U, M, c, a, V, trace);
    require(open >= 0 && open <= kBlock, "a block has at most 64 rows");
    close_block(primitives(), m, open);
}

void bind_current_means(InOut<double, 2> w, InOut<float, 3> P, InOut<float, 2> rows, InOut<float, 2> U, InOut<double, 2> M,
                        InOut<double, 1> c, InOut<double, 2> a, InOut<float, 3> V, InOut<double, 1> trace, int open,
                        InOut<double, 2> out) {
    const Component m = component(w, P, rows, U, M, c, a, V, trace);
    require(open >= 0 && open <= kBlock && out.shape(0) == w.shape(0) && out.shape(1) == w.shape(1),
            "the means do not fit the component");
    current_means(m, open, out.data());
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

Combiner combiner(InOut<double, 2>& w, InOut<double, 3>& P, InOut<double, 1>& weights, InOut<double, 1>& log_final,
                  double share, const In<double, 3>& S, int task) {
    const std::size_t m = weights.size(), stacks = w.shape(0);
    require(w.shape(1) == m && P.shape(0) == stacks && P.shape(1) == m && P.shape(2) == m && log_final.size() == stacks + 1 &&
                S.shape(1) == m && m > 0 && S.shape(2) > 0 && task >= 0 && task <= int(Task::huber),
            "the arrays of a combination do not fit together");
    return Combiner({int(m), int(stacks), w.data(), P.data(), weights.data(), log_final.data(), share}, int(S.shape(2)),
                    Task(task));
}

void bind_combine_scores(InOut<double, 2> w, InOut<double, 3> P, InOut<double, 1> weights, InOut<double, 1> log_final,
                         In<double, 3> S, int task, InOut<double, 2> out) {
    Combiner combine = combiner(w, P, weights, log_final, 0.0, S, task);
    require(out.shape(0) == S.shape(0) && out.shape(1) == S.shape(2), "there must be one score a row and output");
    nb::gil_scoped_release release;
    for (std::size_t t = 0; t < S.shape(0); ++t)
        combine.score(S.data() + t * S.shape(1) * S.shape(2), out.data() + t * S.shape(2));
}

void bind_combine_rows(InOut<double, 2> w, InOut<double, 3> P, InOut<double, 1> weights, InOut<double, 1> log_final,
                       double share, In<double, 3> S, In<double, 2> y, In<double, 1> weight, int task,
                       InOut<double, 1> loss_sum, InOut<double, 1> error_sum, InOut<double, 2> out) {
    Combiner combine = combiner(w, P, weights, log_final, share, S, task);
    const std::size_t n = S.shape(0), m = S.shape(1), outputs = S.shape(2);
    require(y.shape(0) == n && y.shape(1) == outputs && weight.size() == n && loss_sum.size() == m && error_sum.size() == m &&
                out.shape(0) == n && out.shape(1) == outputs,
            "the rows do not fit the combination");
    nb::gil_scoped_release release;
    for (std::size_t t = 0; t < n; ++t) {
        combine.score(S.data() + t * m * outputs, out.data() + t * outputs);
        combine.learn(S.data() + t * m * outputs, y.data() + t * outputs, weight.data()[t], loss_sum.data(), error_sum.data());
    }
}

Units units_of(int log_rows) {
    require(log_rows >= 0 && log_rows <= kMostLogRows, "a round has at most 2^38 rows");
    return Units(log_rows);
}

struct BlockOfRows {  // what the rows of a block add to one component
    int rank;
    In<double, 2> w, y;
    In<double, 1> weight;
    int task;
    Units units;
    InOut<double, 2> scores;
    InOut<std::int64_t, 1> information;
    InOut<std::int64_t, 2> coarse, fine;

    void check(std::size_t n, std::size_t width) const {
        const std::size_t outputs = w.shape(0);
        require(n <= kMostBlockRows && width % kTile == 0 && w.shape(1) == width && rank > 0 && std::size_t(rank) <= width &&
                    y.shape(0) == n && y.shape(1) == outputs && weight.size() == n && scores.shape(0) == n &&
                    scores.shape(1) == outputs && information.size() == triangle_size(rank) && coarse.shape(0) == outputs &&
                    coarse.shape(1) == std::size_t(rank) && fine.shape(0) == outputs && fine.shape(1) == std::size_t(rank) &&
                    task >= 0 && task <= int(Task::huber),
                "the arrays of a block do not fit together");
    }

    void add(const Primitives<float>& with, const float* features, std::size_t n, std::size_t width) const {
        component_sums(with, features, int(n), width, rank, w.data(), int(w.shape(0)), y.data(), weight.data(), Task(task),
                       units, scores.data(), {information.data(), coarse.data(), fine.data()});
    }
};

void bind_component_sums(In<float, 2> features, int rank, In<double, 2> w, In<double, 2> y, In<double, 1> weight, int task,
                         int log_rows, InOut<double, 2> scores, InOut<std::int64_t, 1> information,
                         InOut<std::int64_t, 2> coarse, InOut<std::int64_t, 2> fine) {
    const BlockOfRows block{rank, w, y, weight, task, units_of(log_rows), scores, information, coarse, fine};
    block.check(features.shape(0), features.shape(1));
    const auto& with = primitives();
    nb::gil_scoped_release release;
    block.add(with, features.data(), features.shape(0), features.shape(1));
}

// Features and their sums in one call: threads that share rows out wait for each other between calls.
void bind_kernel_sums(In<float, 2> x, int kernel, double scale, In<float, 3> landmarks, In<float, 1> norms, In<float, 3> whiten,
                      int map_rank, int rank, In<double, 2> w, In<double, 2> y, In<double, 1> weight, int task, int log_rows,
                      InOut<double, 2> scores, InOut<std::int64_t, 1> information, InOut<std::int64_t, 2> coarse,
                      InOut<std::int64_t, 2> fine) {
    const KernelMap map = kernel_map(int(x.shape(1)), kernel, scale, landmarks, norms, whiten, map_rank);
    const BlockOfRows block{rank, w, y, weight, task, units_of(log_rows), scores, information, coarse, fine};
    const std::size_t n = x.shape(0), width = whiten.shape(0) * kTile;
    block.check(n, width);
    const auto& with = primitives();
    nb::gil_scoped_release release;
    std::vector<float> features(n * width);
    kernel_features(with, map, x.data(), n, features.data());
    block.add(with, features.data(), n, width);
}

void bind_combination_sums(InOut<double, 2> w, InOut<double, 3> P, InOut<double, 1> weights, InOut<double, 1> log_final,
                           In<double, 3> S, In<double, 2> y, In<double, 1> weight, int task, int log_rows, InOut<double, 2> out,
                           InOut<std::int64_t, 1> coarse, InOut<std::int64_t, 1> fine) {
    Combiner combine = combiner(w, P, weights, log_final, 0.0, S, task);
    const std::size_t n = S.shape(0), m = S.shape(1), outputs = S.shape(2), stacks = w.shape(0);
    const std::size_t size = combination_size(int(m), int(stacks));
    require(y.shape(0) == n && y.shape(1) == outputs && weight.size() == n && out.shape(0) == n && out.shape(1) == outputs &&
                coarse.size() == size && fine.size() == size,
            "the rows do not fit the combination");
    const Units units = units_of(log_rows);
    nb::gil_scoped_release release;
    combination_sums(combine, int(m), int(stacks), int(outputs), Task(task), S.data(), n, y.data(), weight.data(), units,
                     out.data(), coarse.data(), fine.data());
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

// Calls functions of the core, each with a tuple of arguments, and then updates a dict, all in one step for other threads and
// for interrupts: the interpreter runs no code of its own meanwhile. False, with nothing done, where somebody may be reading
// what is changed. The functions must not fail, and must keep the GIL.
bool in_one_step(nb::object changed, nb::list calls, nb::dict holder, nb::dict updates) {
    if (nb::cast<bool>(changed.attr("shared"))) return false;
    for (nb::handle call : calls) {
        const nb::object function = call[0], arguments = call[1];
        if (PyObject* result = PyObject_CallObject(function.ptr(), arguments.ptr()))
            Py_DECREF(result);
        else
            throw nb::python_error();
    }
    if (PyDict_Update(holder.ptr(), updates.ptr()) != 0) throw nb::python_error();
    return true;
}

}  // namespace

void bind_auto(nb::module_& m, const InstructionSet& (*chosen_set)()) {
    chosen = chosen_set;
    m.attr("BLOCK") = kBlock;
    m.def("matmul", &bind_matmul, "a"_a, "packed"_a, "out"_a,
          "Product of rows with a matrix packed in tiles of 64 columns; a row's result does not depend on the others.");
    m.def("normal_scores", &bind_normal_scores, "x"_a, "sorted_columns"_a, "table"_a, "mean"_a, "deviation"_a, "out"_a);
    m.def("views", &bind_views, "x"_a, "mean"_a, "deviation"_a, "middle"_a, "common"_a, "sorted"_a, "table"_a, "normal_mean"_a,
          "normal_deviation"_a, "axes"_a, "relevance_standard"_a, "relevance_normal"_a, "clip"_a, "far"_a, "leading"_a, "out"_a,
          "Rows in the views of their columns that have a place in `out`.");
    m.def("kernel_features", &bind_kernel_features, "x"_a, "kernel"_a, "scale"_a, "landmarks"_a, "norms"_a, "whiten"_a,
          "rank"_a, "out"_a);
    m.def("newton_rows", &bind_newton_rows, "w"_a, "P"_a, "rows"_a, "U"_a, "M"_a, "c"_a, "a"_a, "V"_a, "trace"_a, "features"_a,
          "y"_a, "weight"_a, "task"_a, "loosen"_a, "open"_a, "to_boundary"_a, "scores"_a);
    m.def("close_block", &bind_close_block, "w"_a, "P"_a, "rows"_a, "U"_a, "M"_a, "c"_a, "a"_a, "V"_a, "trace"_a, "open"_a);
    m.def("current_means", &bind_current_means, "w"_a, "P"_a, "rows"_a, "U"_a, "M"_a, "c"_a, "a"_a, "V"_a, "trace"_a, "open"_a,
          "out"_a);
    nb::class_<OneRowOfLearner>(m, "OneRow")
        .def(nb::init<nb::object, nb::object, nb::object, nb::list, double, double, double, int, double, int, int, double,
                      InOut<double, 1>, In<std::int64_t, 1>>(),
             "learner"_a, "relevance_standard"_a, "relevance_normal"_a, "views"_a, "clip"_a, "far"_a, "largest"_a, "leading"_a,
             "share"_a, "outputs"_a, "task"_a, "forget"_a, "error_rows"_a, "places"_a)
        .def("score", &OneRowOfLearner::score, "x"_a)
        .def("learn_scored", &OneRowOfLearner::learn_scored, "learner"_a, "y"_a, "target"_a, "weight"_a)
        .def("learn", &OneRowOfLearner::learn, "learner"_a, "x"_a, "y"_a, "target"_a, "weight"_a, "counts"_a);
    m.def("in_one_step", &in_one_step, "changed"_a, "calls"_a, "holder"_a, "updates"_a);
    m.def("linear_scores", &bind_linear_scores, "features"_a, "w"_a, "rank"_a, "out"_a);
    m.def("bend_targets", &bind_bend, "curve"_a, "targets"_a, "out"_a, "Scaled targets on a curved scale.");
    m.def("straighten_scores", &bind_straighten, "curve"_a, "scores"_a, "Undo `bend_targets`, in place.");
    m.def("combine_scores", &bind_combine_scores, "w"_a, "P"_a, "weights"_a, "log_final"_a, "scores"_a, "task"_a, "out"_a);
    m.def("combine_rows", &bind_combine_rows, "w"_a, "P"_a, "weights"_a, "log_final"_a, "share"_a, "scores"_a, "y"_a,
          "weight"_a, "task"_a, "loss_sum"_a, "error_sum"_a, "out"_a);
    m.attr("ROUND_BLOCK") = kMostBlockRows;
    m.def("component_sums", &bind_component_sums, "features"_a, "rank"_a, "w"_a, "y"_a, "weight"_a, "task"_a, "log_rows"_a,
          "scores"_a, "information"_a, "coarse"_a, "fine"_a);
    m.def("kernel_sums", &bind_kernel_sums, "x"_a, "kernel"_a, "scale"_a, "landmarks"_a, "norms"_a, "whiten"_a, "map_rank"_a,
          "rank"_a, "w"_a, "y"_a, "weight"_a, "task"_a, "log_rows"_a, "scores"_a, "information"_a, "coarse"_a, "fine"_a);
    m.def("combination_sums", &bind_combination_sums, "w"_a, "P"_a, "weights"_a, "log_final"_a, "scores"_a, "y"_a, "weight"_a,
          "task"_a, "log_rows"_a, "out"_a, "coarse"_a, "fine"_a);
    m.def("solve_symmetric", &bind_solve_symmetric, "A"_a, "b"_a,
          "Solve A x = b in place by Cholesky's method; False where A is not positive definite.");
    m.def("add_triangle", &bind_add_triangle, "matrix"_a, "triangle"_a, "log_rows"_a, "out"_a,
          "Add the information of a round, a triangle of whole units, to a symmetric matrix.");
    m.def("round_units", &bind_round_units, "log_rows"_a, "Units to one of the sums of a round: information, coarse, fine.");
}

}  // namespace bomkl
