// Arrays of Python as trees, after making sure that they fit together.
#pragma once

#include <nanobind/ndarray.h>

#include <stdexcept>

#include "auto/trees.hpp"

namespace bomkl {

template <class T, int dimensions>
using In = nanobind::ndarray<const T, nanobind::ndim<dimensions>, nanobind::c_contig, nanobind::device::cpu>;
template <class T, int dimensions>
using InOut = nanobind::ndarray<T, nanobind::ndim<dimensions>, nanobind::c_contig, nanobind::device::cpu>;

inline void require(bool holds, const char* rule) {
    if (!holds) throw std::invalid_argument(rule);
}

inline void require_coding(const In<double, 1>& cuts, const In<std::int64_t, 1>& starts, std::size_t columns) {
    require(starts.size() == columns + 1, "the shapes of codes do not fit together");
    for (std::size_t j = 0; j < columns; ++j)
        require(
            starts.data()[j] >= 0 && starts.data()[j] <= starts.data()[j + 1] && starts.data()[j + 1] - starts.data()[j] <= 255,
            "a column has at most 255 cuts");
    require(starts.data()[columns] <= std::int64_t(cuts.size()), "a column has cuts that are not there");
}

inline void require_nodes(const In<std::int32_t, 2>& nodes) { require(nodes.shape(1) == 2, "a node is two numbers"); }

inline const automatic::Node* as_nodes(const In<std::int32_t, 2>& nodes) {
    return reinterpret_cast<const automatic::Node*>(nodes.data());
}

inline void require_trees(const In<std::int32_t, 2>& nodes, const In<std::int32_t, 1>& roots, std::size_t leaves,
                          std::size_t columns) {
    require_nodes(nodes);
    require(automatic::sound(as_nodes(nodes), nodes.shape(0), roots.data(), roots.size(), leaves, columns),
            "trees must lead from their roots to leaves");
}

}  // namespace bomkl
