// Makes one allocation of the core fail: the one that comes `after` others once it is armed, among those of operator new
// and aligned_alloc; others, such as those of BLAS, succeed. Loaded before everything else (LD_PRELOAD); the test arms
// it through ctypes.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

static std::atomic<long> countdown = -1, seen = 0;

extern "C" void fail_allocation(long after) {
    seen = 0;
    countdown = after;
}
extern "C" long disarm() {
    countdown = -1;
    return seen;
}

static bool fails(void* caller) {
    Dl_info where;
    if (countdown < 0 || !dladdr(caller, &where) || !std::strstr(where.dli_fname, "_core")) return false;
    ++seen;
    return countdown.fetch_sub(1) == 0;
}

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
    static const auto real = reinterpret_cast<void* (*)(std::size_t, std::size_t)>(dlsym(RTLD_NEXT, "aligned_alloc"));
    return fails(__builtin_return_address(0)) ? nullptr : real(alignment, size);
}

void* operator new(std::size_t size) {
    void* const memory = fails(__builtin_return_address(0)) ? nullptr : std::malloc(size);
    if (!memory) throw std::bad_alloc();
    return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
