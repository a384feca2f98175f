// Philox4x64-10 (Salmon et al., 2011): a random number is a function of (seed, row, kernel, purpose, output), so that
// neither block size, nor thread count, nor a save and load can change a single draw. Equal to NumPy's Philox.
#pragma once

#include <array>
#include <cstdint>

namespace bomkl {

enum class Purpose : std::uint64_t {
    selection = 0,
    sparsity = 1,
    victim = 2,
    frequency = 3,
    taxicab_frequency = 4,
    frequency_factor = 5
};

inline std::array<std::uint64_t, 4> philox(std::array<std::uint64_t, 4> counter, std::array<std::uint64_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const auto first = static_cast<unsigned __int128>(0xD2E7470EE14C6C93ULL) * counter[0];
        const auto second = static_cast<unsigned __int128>(0xCA5A826395121157ULL) * counter[2];
        counter = {std::uint64_t(second >> 64) ^ counter[1] ^ key[0], std::uint64_t(second),
                   std::uint64_t(first >> 64) ^ counter[3] ^ key[1], std::uint64_t(first)};
        key[0] += 0x9E3779B97F4A7C15ULL;
        key[1] += 0xBB67AE8584CAA73BULL;
    }
    return counter;
}

// The draws of one row, in groups of four kernels. NumPy advances the counter before its first draw, hence row + 1.
class Draws {
public:
    Draws(std::uint64_t seed, std::uint64_t row, std::uint64_t output) : seed_(seed), row_(row), output_(output) {}

    double uniform(int kernel, Purpose purpose) {
        const std::uint64_t group = std::uint64_t(kernel) / 4;
        if (group != group_ || purpose != purpose_) {
            words_ = philox({row_ + 1, group, std::uint64_t(purpose), output_}, {seed_, 0});
            group_ = group;
            purpose_ = purpose;
        }
        return double(words_[kernel % 4] >> 11) * 0x1p-53;
    }

private:
    std::uint64_t seed_, row_, output_;
    std::uint64_t group_ = ~std::uint64_t(0);
    Purpose purpose_ = Purpose::selection;
    std::array<std::uint64_t, 4> words_{};
};

}  // namespace bomkl
