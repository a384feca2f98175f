// Arrays of NumPy, in and out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <type_traits>
#include <vector>

namespace bomkl {

namespace nb = nanobind;

template <class T, int dimensions>
using In = nb::ndarray<const T, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;
template <class T, int dimensions>
using InOut = nb::ndarray<T, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;

inline void require(bool holds, const char* rule) {
    if (!holds) throw std::invalid_argument(rule);
}

template <class T, int dimensions>
In<T, dimensions> named(const nb::dict& arrays, const char* name) {
    return nb::cast<In<T, dimensions>>(arrays[name]);
}

template <class Array>
auto vector_of(const Array& array) {
    using T = std::remove_cvref_t<decltype(*array.data())>;
    return std::vector<T>(array.data(), array.data() + array.size());
}

// Hands a vector's memory to NumPy without copying it.
template <class T>
auto to_numpy(std::vector<T> values, const std::vector<std::size_t>& shape) {
    auto* owned = new std::vector<T>(std::move(values));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner);
}

template <class T>
auto to_numpy(std::vector<T> values) {
    const std::vector<std::size_t> shape{values.size()};
    return to_numpy(std::move(values), shape);
}

template <class T>
auto copied(const T* data, const std::vector<std::size_t>& shape) {
    std::size_t size = 1;
    for (std::size_t n : shape) size *= n;
    return to_numpy(std::vector<T>(data, data + size), shape);
}

}  // namespace bomkl
