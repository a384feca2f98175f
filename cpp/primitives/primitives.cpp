// Compiled once per instruction set with BOMKL_ISA and BOMKL_VECTOR_BYTES set, and all of primitives/ with it. None of it must
// instantiate templates of the standard library: the linker would be free to use this set's copy of them on a machine that
// lacks the set.
#include "primitives/primitives.hpp"

#include "primitives/arrays.hpp"
#include "primitives/cheapest.hpp"
#include "primitives/functions.hpp"
#include "primitives/line_maps.hpp"
#include "primitives/line_sums.hpp"
#include "primitives/tile_scores.hpp"

namespace bomkl::BOMKL_ISA {
namespace {

template <class T>
constexpr Primitives<T> table(const Primitives<float>* single) {
    return {tabulate<T>,       evaluate<T>,    evaluate_related<T>, append<T>,   sum_lanes<T>,    inner<T>,
            subtract_inner<T>, inner_lines<T>, inner_depths<T>,     scatter<T>,  gather_inner<T>, relate<T>,
            relate_line<T>,    relate_slot<T>, relate_listed<T>,    map_line<T>, map_column<T>,   map_lines<T>,
            sum_line<T>,       sum_lane<T>,    add_lanes<T>,        narrow<T>,   least_listed<T>, add_listed<T>,
            cheapest<T>,       expand<T>,      weighted_sum<T>,     exp_many<T>, tanh_many<T>,    gaussians<T>,
            city_block<T>,     waves<T>,       add_multiple<T>,     adam<T>,     add_fixed<T>,    dot<T>,
            eliminate<T>,      invert<T>,      next_direction<T>,   single};
}

constexpr Primitives<float> single_table = table<float>(&single_table);
constexpr Primitives<double> double_table = table<double>(&single_table);

}  // namespace

extern const Primitives<float>* const single_precision;
extern const Primitives<double>* const double_precision;
const Primitives<float>* const single_precision = &single_table;
const Primitives<double>* const double_precision = &double_table;

}  // namespace bomkl::BOMKL_ISA
