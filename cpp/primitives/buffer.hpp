// Memory on a cache line boundary, zeroed unless asked otherwise.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace bomkl {

template <class T>
class Buffer {
public:
    struct Raw {};  // numbers that will all be written before they are read
    explicit Buffer(std::size_t n = 0) : Buffer(n, Raw()) {
        if (n_ > 0) std::memset(data_, 0, bytes(n_));
    }
    Buffer(std::size_t n, Raw) : n_(n), data_(allocate(n)) {}
    Buffer(const Buffer& other) : Buffer(other.n_, Raw()) {
        if (n_ > 0) std::memcpy(data_, other.data_, bytes(n_));
    }
    Buffer(Buffer&& other) noexcept : n_(other.n_), data_(other.data_) { other.n_ = 0, other.data_ = nullptr; }
    Buffer& operator=(Buffer other) noexcept {
        std::swap(n_, other.n_);
        std::swap(data_, other.data_);
        return *this;
    }
    ~Buffer() { std::free(data_); }
    T* data() { return data_; }
    const T* data() const { return data_; }
    std::size_t size() const { return n_; }
    void at_least(std::size_t n) {
        if (n > n_) *this = Buffer(n);
    }

private:
    static std::size_t bytes(std::size_t n) { return (n * sizeof(T) + 63) / 64 * 64; }
    static T* allocate(std::size_t n) {
        if (n == 0) return nullptr;
        void* memory = std::aligned_alloc(64, bytes(n));
        if (!memory) throw std::bad_alloc();
        return static_cast<T*>(memory);
    }
    std::size_t n_;
    T* data_;
};

}  // namespace bomkl
