// Raised instead of returning a number that is none.
#pragma once

#include <stdexcept>

namespace bomkl {

struct NotFiniteError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace bomkl
