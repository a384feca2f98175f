// Zeroed memory on a cache line boundary.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace bomkl {

template <class T>
class Buffer {
public:
    explicit Buffer(std::size_t n = 0) : n_(n), data_(allocate(n, nullptr)) {}
    Buffer(const Buffer& other) : n_(other.n_), data_(allocate(n_, other.data_)) {}
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
    // Zeros where there is nothing to copy.
    static T* allocate(std::size_t n, const T* from) {
        if (n == 0) return nullptr;
        const std::size_t bytes = (n * sizeof(T) + 63) / 64 * 64;
        void* memory = std::aligned_alloc(64, bytes);
        if (!memory) throw std::bad_alloc();
        if (from)
            std::memcpy(memory, from, bytes);
        else
            std::memset(memory, 0, bytes);
        return static_cast<T*>(memory);
    }
    std::size_t n_;
    T* data_;
};

}  // namespace bomkl
