// A list in one piece of memory that grows at its end and loses entries anywhere, the first ones at no cost.
#pragma once

#include <algorithm>
#include <vector>

namespace bomkl {

template <class T>
class List {
public:
    int size() const { return int(entries_.size() - start_); }
    std::size_t capacity() const { return entries_.capacity(); }
    T* data() { return entries_.data() + start_; }
    const T* data() const { return entries_.data() + start_; }
    T* begin() { return data(); }
    const T* begin() const { return data(); }
    T* end() { return data() + size(); }
    const T* end() const { return data() + size(); }
    T& operator[](int i) { return data()[i]; }
    const T& operator[](int i) const { return data()[i]; }

    // Room for one entry more: `push_back` then cannot fail.
    void make_room() {
        if (entries_.size() < entries_.capacity()) return;
        if (4 * start_ <= entries_.size()) entries_.reserve(entries_.size() + entries_.size() / 2 + 8);
        entries_.erase(entries_.begin(), entries_.begin() + std::ptrdiff_t(start_));
        start_ = 0;
    }
    void push_back(T entry) {
        make_room();
        entries_.push_back(entry);
    }
    void pop_back() { entries_.pop_back(); }
    // 0 to n - 1, with room for more: then `push_back` cannot fail.
    void count_to(int n, int room) {
        start_ = 0;
        entries_.reserve(std::size_t(n) + room);
        entries_.resize(n);
        for (int i = 0; i < n; ++i) entries_[i] = T(i);
    }
    void assign(std::size_t n, T entry) {
        entries_.assign(n, entry);
        start_ = 0;
    }
    // The shorter side moves.
    void erase(int i) {
        if (i < size() / 2) {
            std::move_backward(begin(), begin() + i, begin() + i + 1);
            ++start_;
        } else {
            std::move(begin() + i + 1, end(), begin() + i);
            entries_.pop_back();
        }
    }
    // Undo an `erase`: the room it left is still there.
    void insert(int i, T entry) {
        if (start_ > 0) {
            --start_;
            std::move(begin() + 1, begin() + i + 1, begin());
            (*this)[i] = entry;
        } else {
            entries_.insert(entries_.begin() + i, entry);
        }
    }

private:
    std::vector<T> entries_;
    std::size_t start_ = 0;  // entries before it are no longer in the list
};

}  // namespace bomkl
