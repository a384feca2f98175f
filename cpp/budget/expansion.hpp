// One kernel's classifier: an ordered list of support rows with coefficients, and the operations update rules use.
#pragma once

#include <utility>
#include <vector>

#include "budget/list.hpp"
#include "budget/pool.hpp"
#include "budget/rule.hpp"
#include "budget/symmetric_eigen.hpp"
#include "primitives/not_finite.hpp"

namespace bomkl {

struct ForgetronProgress {
    double mistakes = 0;
    double damage = 0;  // Q in the source
};

template <class T>
struct Expansion {
    List<int> slots;        // in order of insertion
    List<T> coefs;          // the true coefficients are scale * coefs; without support rows, weights of Fourier features
    List<double> diagonal;  // what k(x, x) of each counts as; empty where no rule asks, or it is always 1
    double scale = 1;
    ForgetronProgress forgetron;
    // Projectron: the inverse of the kernel matrix of the support. NOGD: its features of the kernel values. Row-major.
    std::vector<double> inverse_gram;

    int size() const { return slots.size(); }
};

inline void require_finite_coefficient(bool finite) {
    if (!finite)
        throw NotFiniteError(
            "A coefficient of the model overflows: the steps diverge. Scale the columns, take a smaller "
            "step, or set normalize_step=True.");
}

// An expansion as the update rules see it while one row is learned. Host supplies slot_of_row(), score_of_oldest(number),
// values_at(number, slot), values_vanish(number), keeps_diagonal() and primitives(); it is told of every row that is added or
// dropped and of coefficients that change, and undo() before every change. Only rules that declare `reads_values` have kernel
// values.
template <class T, class Host, bool reads_values>
class Support {
public:
    Support(Host& host, Pool<T>& pool, Expansion<T>& e, int number, int budget, const T* values, double self)
        : host_(host), pool_(pool), e_(e), number_(number), budget_(budget), values_(values), self_(self) {}

    int size() const { return e_.size(); }
    bool full() const { return budget_ > 0 && e_.size() >= budget_; }
    double coef(int j) const { return e_.scale * double(e_.coefs[j]); }
    double self_value() const { return self_; }
    ForgetronProgress& forgetron_progress() { return e_.forgetron; }
    double score_of_oldest() { return host_.score_of_oldest(number_); }

    // Add where there is room; else replace the row that costs least if its projection on the new one is kept.
    void insert(double coef) {
        static_assert(reads_values);
        if (!full()) return add(coef);
        const double* const diagonal = host_.keeps_diagonal() ? e_.diagonal.data() : nullptr;
        const T* const values = host_.values_vanish(number_) ? nullptr : values_;
        const int victim = host_.primitives().cheapest(e_.coefs.data(), diagonal, values, size(), self_);
        const double kept = self_ > 0 ? this->coef(victim) * double(values_[victim]) / self_ : 0;
        drop(victim);
        add(coef + kept);
    }
    void add(double coef) {
        const T stored = T(coef / e_.scale);
        require_finite(double(stored));
        const int slot = host_.slot_of_row();
        e_.slots.make_room();
        e_.coefs.make_room();
        if (host_.keeps_diagonal()) e_.diagonal.make_room();
        host_.undo().make_room();  // from here on nothing can fail
        host_.undo().adds(number_, slot);
        pool_.retain(slot);
        e_.slots.push_back(slot);
        e_.coefs.push_back(stored);
        if (host_.keeps_diagonal()) e_.diagonal.push_back(self_);
        host_.support_added(number_, slot, stored);
    }
    void drop(int j) {
        host_.undo().make_room();
        const int slot = e_.slots[j];
        const T coef = e_.coefs[j];
        pool_.release(slot);
        host_.undo().drops(number_, j);
        e_.slots.erase(j);
        e_.coefs.erase(j);
        if (host_.keeps_diagonal()) e_.diagonal.erase(j);
        host_.support_dropped(number_, j, slot, coef);
    }
    void scale(double factor) {
        e_.scale *= factor;
        if (e_.scale >= 0x1p-20 && e_.scale <= 0x1p20) return;
        change_coefs();
        for (T& c : e_.coefs) c = T(double(c) * e_.scale);
        e_.scale = 1;
    }

    // Projection of the row on the span of the support: (squared distance to it, squared length of it).
    std::pair<double, double> project() {
        static_assert(reads_values);
        const int n = size();
        projection_.assign(n, 0.0);
        double length = 0;
        for (int i = 0; i < n; ++i) {
            const double* row = e_.inverse_gram.data() + std::size_t(i) * n;
            for (int j = 0; j < n; ++j) projection_[i] += row[j] * double(values_[j]);
            length += projection_[i] * double(values_[i]);
        }
        distance_ = std::max(0.0, self_ - length);
        return {distance_, length};
    }
    void add_projection(double factor) {
        change_coefs();
        for (int i = 0; i < size(); ++i) {
            e_.coefs[i] = T(double(e_.coefs[i]) + factor * projection_[i]);
            require_finite(double(e_.coefs[i]));
        }
    }
    // Add a row outside the span and extend the inverse of the Gram matrix by a row and a column.
    void add_independent(double coef) {
        const int n = size();
        const double distance = n == 0 ? self_ : distance_;
        require_finite(1 / distance);
        std::vector<double> grown(std::size_t(n + 1) * (n + 1));
        for (int i = 0; i < n; ++i) {
            for (int j = 0; j < n; ++j)
                grown[std::size_t(i) * (n + 1) + j] =
                    e_.inverse_gram[std::size_t(i) * n + j] + quotient(projection_[i], projection_[j], distance);
            grown[std::size_t(i) * (n + 1) + n] = grown[std::size_t(n) * (n + 1) + i] = -projection_[i] / distance;
        }
        grown.back() = 1 / distance;
        for (const double number : grown) require_finite(number);
        host_.undo().replaces_gram(number_, e_.inverse_gram);
        e_.inverse_gram = std::move(grown);
        add(coef);
    }

    // NOGD: keep the part of the function in the span of the largest eigenvectors of the support's kernel matrix, and features
    // that are orthonormal there. Eigenvalues that are mere rounding have none.
    void take_features(int rank) {
        constexpr double kRounding = sizeof(T) == 4 ? 1e-5 : 1e-10;
        const int n = size();
        std::vector<double> matrix = support_matrix();
        double largest = std::numeric_limits<double>::min();
        for (const double number : matrix) largest = std::max(largest, std::fabs(number));
        for (double& number : matrix) number /= largest;  // so that no product of two overflows
        const SymmetricEigen eigen(n, std::move(matrix));
        std::vector<int> order(n);
        for (int i = 0; i < n; ++i) order[i] = i;
        std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return eigen.value(i) > eigen.value(j); });
        std::vector<double> features(std::size_t(rank) * n, 0.0), kept(n, 0.0);
        for (int r = 0; r < rank && eigen.value(order[r]) > kRounding * eigen.value(order[0]); ++r) {
            const double* const vector = eigen.vector(order[r]);
            const double factor = 1 / std::sqrt(eigen.value(order[r]) * largest);
            double along = 0;
            for (int j = 0; j < n; ++j) along += vector[j] * double(e_.coefs[j]);
            for (int j = 0; j < n; ++j) {
                features[std::size_t(r) * n + j] = factor * vector[j];
                kept[j] += along * vector[j];
            }
        }
        for (const double number : features) require_finite(number);
        change_coefs();
        host_.undo().replaces_gram(number_, e_.inverse_gram);
        e_.inverse_gram = std::move(features);
        for (int j = 0; j < n; ++j) e_.coefs[j] = T(kept[j]);
    }
    // Add a multiple of the features of the row to the weights that the coefficients stand for.
    void add_features(double factor) {
        static_assert(reads_values);
        const int n = size(), rank = int(e_.inverse_gram.size() / n);
        projection_.assign(n, 0.0);
        for (int r = 0; r < rank; ++r) {
            const double* const row = e_.inverse_gram.data() + std::size_t(r) * n;
            double feature = 0;
            for (int j = 0; j < n; ++j) feature += row[j] * double(values_[j]);
            for (int j = 0; j < n; ++j) projection_[j] += feature * row[j];
        }
        add_projection(factor);
    }

private:
    // a b / divisor, also where a b alone overflows: a tiny support row and a huge one have an inverse of ordinary numbers.
    static double quotient(double a, double b, double divisor) {
        const double product = a * b;
        return std::isfinite(product) ? product / divisor : a / divisor * b;
    }
    void change_coefs() {
        host_.undo().changes_coefs(number_);
        host_.coefs_changed(number_);
    }
    // Kernel values between the support rows.
    std::vector<double> support_matrix() {
        const int n = size();
        std::vector<double> matrix(std::size_t(n) * n);
        for (int i = 0; i < n; ++i) {
            const T* const values = host_.values_at(number_, e_.slots[i]);
            for (int j = 0; j <= i; ++j) matrix[std::size_t(i) * n + j] = matrix[std::size_t(j) * n + i] = double(values[j]);
        }
        return matrix;
    }
    static void require_finite(double number) { require_finite_coefficient(std::isfinite(number)); }

    Host& host_;
    Pool<T>& pool_;
    Expansion<T>& e_;
    int number_, budget_;
    const T* values_;
    double self_;
    double distance_ = 0;
    std::vector<double> projection_;
};

// The weights of one kernel's Fourier features, while one row is learned.
template <class T, class Host>
class FeatureWeights {
public:
    FeatureWeights(Host& host, const Primitives<T>& primitives, Expansion<T>& e, int number, const T* features)
        : host_(host), primitives_(primitives), e_(e), number_(number), features_(features) {}

    // Add a multiple of the features of the row.
    void add_features(double factor) {
        host_.undo().changes_coefs(number_);
        const T stored = T(factor);
        require_finite_coefficient(primitives_.add_multiple(stored, features_, int(e_.coefs.size()), e_.coefs.data()));
    }

private:
    Host& host_;
    const Primitives<T>& primitives_;
    Expansion<T>& e_;
    int number_;
    const T* features_;
};

// An expansion that only ever grows: its coefficients live in the pool's tiles and are never looked at by the rule.
template <class Host>
class GrowingSupport {
public:
    GrowingSupport(Host& host, int expansion) : host_(host), expansion_(expansion) {}
    void insert(double coef) { host_.append_term(expansion_, coef); }

private:
    Host& host_;
    int expansion_;
};

}  // namespace bomkl
