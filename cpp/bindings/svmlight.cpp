// bomkl._core.parse_svmlight
#include "bindings/svmlight.hpp"
#include "bindings/arrays.hpp"

using namespace nanobind::literals;

namespace bomkl {
namespace {

nb::tuple parse_svmlight(nb::bytes data, std::size_t start, std::size_t max_rows, std::int64_t base, bool labels_required,
                         bool skip_bad_lines) {
    if (start > data.size()) throw nb::value_error("start lies beyond the data");
    svmlight::Rows rows;
    {
        nb::gil_scoped_release release;
        rows = svmlight::parse(data.c_str() + start, data.size() - start, max_rows, base, labels_required, skip_bad_lines);
    }
    return nb::make_tuple(to_numpy(std::move(rows.labels)), to_numpy(std::move(rows.row_starts)),
                          to_numpy(std::move(rows.indices)), to_numpy(std::move(rows.values)), to_numpy(std::move(rows.lines)),
                          to_numpy(std::move(rows.errors)), to_numpy(std::move(rows.error_offsets)),
                          to_numpy(std::move(rows.error_lines)), rows.consumed, rows.lines_read);
}

}  // namespace

void bind_svmlight(nb::module_& m) {
    m.def("parse_svmlight", &parse_svmlight, "data"_a, "start"_a, "max_rows"_a, "base"_a, "labels_required"_a,
          "skip_bad_lines"_a,
          "Read rows of svmlight text from bytes: labels, row starts, indices, values, lines; errors, where and in which "
          "lines; bytes and lines read.");
}

}  // namespace bomkl
