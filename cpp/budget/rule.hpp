// What an update rule declares, and what it sees of the row that is learned.
//
// A learner is one header in learners/, named after it, with a struct `Learner : Rule` in a namespace of the file's name. It
// has
//     static constexpr const char* name                          as the Python class of bomkl.learners is called
//     explicit Learner(const Parameters&)                        takes all parameters of that class by their names
//     template <class Support> void learn(Support&, const Example&) const
// and may declare anew what `Rule` declares. A rule with `fourier` gets FeatureWeights in place of Support. Support is one
// kernel's expansion, with size, full, add, insert, drop, scale, and the kernel values between the row and every support row
// (see expansion.hpp). The build collects all headers of the folder (see CMakeLists.txt); nothing else needs to know of a
// learner.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>

#include "primitives/philox.hpp"

namespace bomkl {

// The numbers a learner is configured with. Each must be taken, and none may be missing.
class Parameters {
public:
    explicit Parameters(std::map<std::string, double> values) : values_(std::move(values)) {}
    double number(const std::string& name) const {
        const auto found = values_.find(name);
        if (found == values_.end()) throw std::invalid_argument("the learner has no parameter " + name);
        taken_[name] = true;
        return found->second;
    }
    bool flag(const std::string& name) const { return number(name) != 0; }
    void require_all_taken() const {
        for (const auto& [name, value] : values_)
            if (!taken_.count(name)) throw std::invalid_argument("the compiled learner does not know the parameter " + name);
    }

private:
    std::map<std::string, double> values_;
    mutable std::map<std::string, bool> taken_;
};

// What a rule looks at of the score of a class: all of it, its sign, or its sign and on which side of one its size is.
enum class Looks { at_score, at_sign, at_margin };

struct Rule {
    static constexpr bool only_adds = false;    // calls nothing but insert: without a budget, coefficients never change
    static constexpr bool reads_values = true;  // looks at kernel values: calls insert, project or add_features
    static constexpr Looks looks = Looks::at_score;
    static constexpr bool fourier = false;  // learns weights of Fourier features in place of support rows
    bool unit_norm = false;                 // k(x, x) counts as 1 when a row replaces another
    int n_frequencies = 0;                  // of the Fourier features

    // Numbers of the matrix it keeps beside n support rows (see Expansion).
    std::int64_t matrix_size(std::int64_t /* n */, std::int64_t /* budget */) const { return 0; }
};

struct Example {
    double direction;  // y for classification, sign(y - f) for regression
    double agreement;  // y f; a mistake is agreement <= 0
    double loss;       // hinge, or epsilon-insensitive
    double residual;   // y - f
    bool regression;
    double weight;
    double step_norm;  // what a step divides by: k(x, x), or 1
    int kernel;
    Draws* draws;

    // In [0, 1), a function of the seed, the row, the kernel, the output and the purpose.
    double draw(Purpose purpose) const { return draws->uniform(kernel, purpose); }
};

// min(largest, loss / step_norm), where a division by zero counts as infinity
inline double aggressive_step(double largest, const Example& x) {
    return x.step_norm > 0 ? std::min(largest, x.loss / x.step_norm) : largest;
}

}  // namespace bomkl
