// The part of bomkl._core that the zero-tuning learner uses: functions on arrays, which they change in place.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>

#include "auto_combination.hpp"
#include "auto_features.hpp"
#include "auto_newton.hpp"
#include "auto_one_row.hpp"
#include "auto_rounds.hpp"
#include "to_numpy.hpp"
#include "tree_arrays.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace bomkl {
namespace {

using namespace automatic;

const InstructionSet& (*chosen)() = nullptr;

const Primitives<float>& primitives() { return *chosen().single_precision; }

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

KernelMap kernel_map(int columns, int kernel, double scale, const In<float, 3>& landmarks, const In<float, 1>& norms,
                     const In<float, 3>& whiten, int rank) {
    require(kernel >= 0 && kernel <= int(PoolKernel::laplacian), "unknown kernel");
    require(landmarks.shape(1) == std::size_t(columns) && landmarks.shape(2) == kTile &&
                norms.size() == landmarks.shape(0) * kTile && whiten.shape(2) == kTile && whiten.shape(1) <= norms.size() &&
                rank >= 0 && std::size_t(rank) < whiten.shape(0) * kTile,
            "the shapes of a kernel map do not fit together");
    return {PoolKernel(kernel),      scale,   landmarks.data(), norms.data(), int(whiten.shape(1)),
            int(landmarks.shape(0)), columns, whiten.data(),    rank,         int(whiten.shape(0))};
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

Component component(InOut<double, 2>& w, InOut<float, 3>& P, InOut<float, 2>& rows, InOut<float, 2>& U, InOut<double, 2>& M,
                    InOut<double, 1>& c, InOut<double, 2>& a, InOut<float, 3>& V, InOut<double, 1>& trace) {
    const std::size_t width = P.shape(0) * kTile, outputs = w.shape(0);
    require(P.shape(2) == kTile && P.shape(1) <= width && w.shape(1) == width && rows.shape(0) == kBlock &&
                rows.shape(1) == width && U.shape(0) == kBlock && U.shape(1) == width && M.shape(0) == kBlock &&
                M.shape(1) == kBlock && c.size() == kBlock && a.shape(0) == kBlock && a.shape(1) == outputs &&
                V.shape(0) == P.shape(0) && V.shape(1) == kBlock && V.shape(2) == kTile && trace.size() == 2,
            "the arrays of a component do not fit together");
    return {int(P.shape(1)), int(P.shape(0)), int(outputs), w.data(), P.data(), rows.data(),
            U.data(),        M.data(),        c.data(),     a.data(), V.data(), trace.data()};
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
            out.data()[t * outputs + k] = dot(features.data() + t * width, w.data() + k * width, rank);
}

Curve curve_of(const In<double, 1>& numbers) {
    require(numbers.size() == 6, "a curve has six numbers");
    const double* c = numbers.data();
    return {c[0], c[1], c[2], c[3], c[4], c[5]};
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

void bind_component_sums(In<float, 2> features, int rank, In<double, 2> w, In<double, 2> y, In<double, 1> weight, int task,
                         int log_rows, InOut<double, 2> scores, InOut<std::int64_t, 1> information,
                         InOut<std::int64_t, 2> coarse, InOut<std::int64_t, 2> fine) {
    const std::size_t n = features.shape(0), width = features.shape(1), outputs = w.shape(0);
    require(n <= kMostBlockRows && width % kTile == 0 && w.shape(1) == width && rank > 0 && std::size_t(rank) <= width &&
                y.shape(0) == n && y.shape(1) == outputs && weight.size() == n && scores.shape(0) == n &&
                scores.shape(1) == outputs && information.size() == triangle_size(rank) && coarse.shape(0) == outputs &&
                coarse.shape(1) == std::size_t(rank) && fine.shape(0) == outputs && fine.shape(1) == std::size_t(rank) &&
                task >= 0 && task <= int(Task::huber),
            "the arrays of a block do not fit together");
    const Units units = units_of(log_rows);
    const auto& with = primitives();
    nb::gil_scoped_release release;
    component_sums(with, features.data(), int(n), width, rank, w.data(), int(outputs), y.data(), weight.data(), Task(task),
                   units, scores.data(), {information.data(), coarse.data(), fine.data()});
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

// ---------------------------------------------------------------- one row

template <class T, int dimensions>
In<T, dimensions> array_of(nb::handle owner, const char* name) {
    return nb::cast<In<T, dimensions>>(owner.attr(name));
}

template <class T, int dimensions>
InOut<T, dimensions> changing_array_of(nb::handle owner, const char* name) {
    return nb::cast<InOut<T, dimensions>>(owner.attr(name));
}

// A learner prepared for single rows. It works on the learner's own arrays, which must not be replaced meanwhile. Every call
// keeps the GIL, so each is one step for other threads and for interrupts. It does not refer to the learner, which keeps it.
class OneRowOfLearner {
public:
    OneRowOfLearner(nb::object learner, nb::object relevance_standard, nb::object relevance_normal, nb::list views, double clip,
                    double far, double largest, int leading, double share, int outputs, int task, double forget,
                    InOut<double, 1> error_rows, In<std::int64_t, 1> places)
        : keep_(nb::make_tuple(relevance_standard, relevance_normal, learner.attr("geometry"))), largest_(largest),
          outputs_(outputs), task_(Task(task)), target_(outputs), error_rows_(error_rows), places_(places) {
        const nb::object components = learner.attr("components");
        require(task >= 0 && task <= int(Task::huber) && outputs > 0, "unknown task");
        const nb::object geometry = learner.attr("geometry"), combination = learner.attr("combination");
        const auto mean = array_of<double, 1>(geometry, "mean"), deviation = array_of<double, 1>(geometry, "deviation"),
                   middle = array_of<double, 1>(geometry, "middle"), table = array_of<double, 1>(geometry, "score_table"),
                   normal_mean = array_of<double, 1>(geometry, "normal_mean"),
                   normal_deviation = array_of<double, 1>(geometry, "normal_deviation");
        const auto sorted = array_of<double, 2>(geometry, "sorted_columns");
        const auto axes = array_of<float, 3>(geometry, "axes");
        const auto first = nb::cast<In<float, 1>>(relevance_standard), second = nb::cast<In<float, 1>>(relevance_normal);
        const std::size_t d = mean.size();
        require(deviation.size() == d && middle.size() == d && normal_mean.size() == d && normal_deviation.size() == d &&
                    first.size() == d && second.size() == d && sorted.shape(0) == d &&
                    table.size() == 2 * sorted.shape(1) + 1 && axes.shape(0) == 1 && axes.shape(1) == d &&
                    axes.shape(2) == kTile && leading >= 0 && leading <= kTile,
                "the arrays of a geometry do not fit together");
        const Columns columns{int(d),
                              mean.data(),
                              deviation.data(),
                              middle.data(),
                              nb::cast<double>(geometry.attr("common")),
                              sorted.data(),
                              sorted.shape(1),
                              table.data(),
                              normal_mean.data(),
                              normal_deviation.data(),
                              axes.data(),
                              first.data(),
                              second.data(),
                              clip,
                              far,
                              leading};
        Codes coding;
        if (const nb::object known = geometry.attr("coding"); !known.is_none()) {
            const auto cuts = array_of<double, 1>(known, "cuts");
            const auto starts = array_of<std::int64_t, 1>(known, "starts");
            require_coding(cuts, starts, d);
            static const double none = 0;  // of columns that are all constant there are no cuts
            coding = {cuts.size() ? cuts.data() : &none, starts.data()};
        }
        std::vector<OneComponent> parts;
        std::vector<OneBoosted> boosted;
        std::vector<OneForest> forests;
        std::size_t place = 0;
        for (nb::handle component : components) {
            keep_ = nb::make_tuple(keep_, component);
            const std::string kind = nb::cast<std::string>(component.attr("kind"));
            const bool newton = kind == "newton" || kind == "curved";
            require(newton || coding.cuts, "trees need codes of the columns");
            if (newton) {
                parts.push_back(newton_of(component, place, nb::cast<int>(views[place]), d, leading, outputs, forget));
                regressions_.push_back(component.attr("regression"));
            } else if (kind == "boosted") {
                boosted.push_back(boosted_of(component, place, d, outputs));
            } else {
                forests.push_back(forest_of(component, place, d, outputs, task));
                forests_.push_back(nb::borrow(component));
            }
            ++place;
        }
        auto w = changing_array_of<double, 2>(combination, "stack_w");
        auto P = changing_array_of<double, 3>(combination, "stack_covariance");
        auto weights = changing_array_of<double, 1>(combination, "weights"),
             log_final = changing_array_of<double, 1>(combination, "log_final");
        loss_sum_ = changing_array_of<double, 1>(combination, "loss_sum");
        error_sum_ = changing_array_of<double, 1>(combination, "error_sum");
        keep_ = nb::make_tuple(keep_, combination);
        const std::size_t m = place;
        require(places_.size() == m &&
                    std::all_of(places_.data(), places_.data() + m,
                                [&](std::int64_t at) { return at >= 0 && std::size_t(at) < error_rows_.size(); }),
                "the errors do not fit their components");
        require(m > 0 && weights.size() == m && w.shape(1) == m && P.shape(0) == w.shape(0) && P.shape(1) == m &&
                    P.shape(2) == m && log_final.size() == w.shape(0) + 1 && loss_sum_.size() == m && error_sum_.size() == m,
                "the arrays of a combination do not fit together");
        row_.emplace(primitives(), columns, std::move(parts), coding, std::move(boosted), std::move(forests),
                     Combination{int(m), int(w.shape(0)), w.data(), P.data(), weights.data(), log_final.data(), share},
                     outputs_, task_);
    }

    // Scores of scaled targets: a number, or an array where there are several outputs. None where the row is not one of finite
    // numbers or a score is not finite.
    nb::object score(In<double, 1> x) {
        const std::vector<double>* out = scores_of(x);
        return out ? given(*out) : nb::none();
    }

    // Scores a row and learns it: y is a class number or target, `target` the same or scaled. None, with nothing changed,
    // where another thread may be reading this learner, the row closes a block, or `score` would refuse it. What a count of
    // mistakes is kept in, by the name of "_mistakes", is counted up in the same step.
    nb::object learn(nb::object learner, In<double, 1> x, double y, double target, double weight, nb::dict counts) {
        if (nb::cast<bool>(learner.attr("shared")) || !row_->has_room()) return nb::none();
        const std::vector<double>* out = scores_of(x);
        if (!out) return nb::none();
        nb::object found = given(*out);
        const bool mistake = point_error_of(*out, y, target) == 1;
        learn_scored(learner, y, target, weight);
        if (mistake && counts.contains("_mistakes")) counts["_mistakes"] = nb::cast<std::int64_t>(counts["_mistakes"]) + 1;
        return found;
    }

    // Learns the row that was scored last.
    void learn_scored(nb::object learner, double y, double target, double weight) {
        require(row_->scored() && row_->has_room(), "there is no row to learn from");
        set_target(y, target);
        const auto seen = nb::cast<std::int64_t>(learner.attr("seen"));
        add_to_sample(learner.attr("sample"), y, weight, seen);
        row_->learn(target_.data(), weight, loss_sum_.data(), error_sum_.data());
        for (std::size_t i = 0; i < places_.size(); ++i) error_rows_.data()[places_.data()[i]] += 1;
        for (std::size_t i = 0; i < regressions_.size(); ++i) {
            const nb::object& regression = regressions_[i];
            regression.attr("open") = row_->newton()[i].open;
            regression.attr("unchecked") = nb::cast<double>(regression.attr("unchecked")) + std::max(weight, 1.0);
        }
        for (std::size_t i = 0; i < forests_.size(); ++i) forests_[i].attr("open") = row_->forests()[i].open;
        learner.attr("seen") = seen + 1;
    }

private:
    static constexpr int leading_view = leading;

    static Component regression_of(nb::handle r) {
        auto w = changing_array_of<double, 2>(r, "w");
        auto P = changing_array_of<float, 3>(r, "P"), V = changing_array_of<float, 3>(r, "V");
        auto rows = changing_array_of<float, 2>(r, "rows"), U = changing_array_of<float, 2>(r, "U");
        auto M = changing_array_of<double, 2>(r, "M"), a = changing_array_of<double, 2>(r, "a");
        auto c = changing_array_of<double, 1>(r, "c"), trace = changing_array_of<double, 1>(r, "trace");
        return component(w, P, rows, U, M, c, a, V, trace);
    }

    static OneComponent newton_of(nb::handle component, std::size_t place, int view, std::size_t d, int n_leading, int outputs,
                                  double forget) {
        const nb::object features = component.attr("features"), regression = component.attr("regression");
        OneComponent part{};
        part.place = place;
        part.view = view;
        part.m = regression_of(regression);
        part.open = nb::cast<int>(regression.attr("open"));
        part.loosen = (1 - forget) * part.m.rank;
        if (nb::cast<std::string>(component.attr("kind")) == "curved") {
            require(outputs == 1, "curved targets are numbers");
            part.curve = curve_of(array_of<double, 1>(component, "curve"));
        }
        require(part.open >= 0 && part.open < kBlock && part.m.outputs == outputs && view >= -1 && view < n_views,
                "a component does not fit its learner");
        if (view < 0) {
            part.both = nb::cast<bool>(features.attr("both"));
            require(std::size_t(part.m.rank) == (part.both ? 2 * d : d) + 1, "the columns do not fit their component");
        } else {
            part.map = kernel_map(int(view == leading_view ? std::size_t(n_leading) : d),
                                  nb::cast<int>(features.attr("number")), nb::cast<double>(features.attr("scale")),
                                  array_of<float, 3>(features, "landmarks"), array_of<float, 1>(features, "norms"),
                                  array_of<float, 3>(features, "whiten"), nb::cast<int>(features.attr("rank")));
            require(part.map.rank + 1 == part.m.rank && part.map.rank_tiles == part.m.tiles,
                    "a kernel does not fit its component");
        }
        return part;
    }

    static OneBoosted boosted_of(nb::handle component, std::size_t place, std::size_t d, int outputs) {
        const auto nodes = array_of<std::int32_t, 2>(component, "nodes");
        const auto roots = array_of<std::int32_t, 1>(component, "roots"), of = array_of<std::int32_t, 1>(component, "outputs");
        const auto values = array_of<float, 1>(component, "values");
        const auto base = array_of<double, 1>(component, "base");
        require_trees(nodes, roots, values.size(), d);
        require(of.size() == roots.size() && base.size() == std::size_t(outputs) &&
                    std::all_of(of.data(), of.data() + of.size(), [&](std::int32_t k) { return k >= 0 && k < outputs; }),
                "boosted trees do not fit their learner");
        return {place, as_nodes(nodes), roots.data(), of.data(), roots.size(), values.data(), base.data()};
    }

    static OneForest forest_of(nb::handle component, std::size_t place, std::size_t d, int outputs, int task) {
        const auto nodes = array_of<std::int32_t, 2>(component, "nodes");
        const auto roots = array_of<std::int32_t, 1>(component, "roots");
        auto table = changing_array_of<float, 2>(component, "table");
        auto open_leaves = changing_array_of<std::int32_t, 2>(component, "open_leaves");
        auto open_y = changing_array_of<double, 2>(component, "open_y");
        auto open_weight = changing_array_of<double, 1>(component, "open_weight");
        const int open = nb::cast<int>(component.attr("open"));
        require_trees(nodes, roots, table.shape(0), d);
        require(open_y.shape(1) == std::size_t(outputs) && nb::cast<int>(component.attr("task")) == task,
                "a forest does not fit its learner");
        return {place,
                forest_rows(nodes, roots, table, array_of<double, 1>(component, "prior"), open_leaves, open_y, open_weight,
                            task, open),
                open};
    }

    // Puts the row that was scored last among those that wait, where the sample takes it.
    void add_to_sample(const nb::object& sample, double y, double weight, std::int64_t seen) {
        if (sample.is_none()) return;
        std::int64_t at = -1;
        sample_places(nb::cast<std::uint64_t>(sample.attr("seed")), std::uint64_t(seen), 1,
                      nb::cast<std::uint64_t>(sample.attr("size")), &at);
        if (at < 0) return;
        const std::vector<std::uint8_t>& codes = row_->codes();
        nb::cast<nb::list>(sample.attr("waiting"))
            .append(nb::make_tuple(to_numpy(std::vector<std::int64_t>{at}), to_numpy(codes, {std::size_t(1), codes.size()}),
                                   to_numpy(std::vector<double>{y}), to_numpy(std::vector<double>{weight})));
    }

    void set_target(double y, double target) {
        if (task_ != Task::multiclass) {
            target_[0] = target;
            return;
        }
        require(y >= 0 && y < outputs_, "there is no such class");
        std::fill(target_.begin(), target_.end(), 0.0);
        target_[std::size_t(y)] = 1;
    }

    double point_error_of(const std::vector<double>& scores, double y, double target) {
        set_target(y, target);
        return point_error(scores.data(), target_.data(), outputs_, task_);
    }

    nb::object given(const std::vector<double>& scores) const {
        return outputs_ == 1 ? nb::object(nb::float_(scores[0])) : nb::cast(to_numpy(scores));
    }

    // Null where there are none.
    const std::vector<double>* scores_of(const In<double, 1>& x) {
        const auto finite = [](double value) { return std::isfinite(value); };
        if (x.size() != std::size_t(row_->columns()) || !std::all_of(x.data(), x.data() + x.size(), finite)) return nullptr;
        clipped_.resize(x.size());
        for (std::size_t j = 0; j < x.size(); ++j) clipped_[j] = std::clamp(x.data()[j], -largest_, largest_);
        const std::vector<double>& out = row_->score(clipped_.data());
        return std::all_of(out.begin(), out.end(), finite) ? &out : nullptr;
    }

    nb::object keep_;
    std::vector<nb::object> regressions_, forests_;
    double largest_;
    int outputs_;
    Task task_;
    std::vector<double> target_, clipped_;
    InOut<double, 1> loss_sum_, error_sum_, error_rows_;
    In<std::int64_t, 1> places_;
    std::optional<OneRow> row_;
};

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
    m.def("combination_sums", &bind_combination_sums, "w"_a, "P"_a, "weights"_a, "log_final"_a, "scores"_a, "y"_a, "weight"_a,
          "task"_a, "log_rows"_a, "out"_a, "coarse"_a, "fine"_a);
    m.def("solve_symmetric", &bind_solve_symmetric, "A"_a, "b"_a,
          "Solve A x = b in place by Cholesky's method; False where A is not positive definite.");
    m.def("add_triangle", &bind_add_triangle, "matrix"_a, "triangle"_a, "log_rows"_a, "out"_a,
          "Add the information of a round, a triangle of whole units, to a symmetric matrix.");
    m.def("round_units", &bind_round_units, "log_rows"_a, "Units to one of the sums of a round: information, coarse, fine.");
}

}  // namespace bomkl
