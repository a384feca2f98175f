// The instruction sets that were compiled in, best first.
#include "primitives/primitives.hpp"

#define BOMKL_DECLARE(isa)                                   \
    namespace bomkl::isa {                                   \
    extern const Primitives<float>* const single_precision;  \
    extern const Primitives<double>* const double_precision; \
    }

#ifdef BOMKL_X86
BOMKL_DECLARE(avx512)
BOMKL_DECLARE(avx2)
#endif
BOMKL_DECLARE(portable)

namespace bomkl {

const InstructionSet* instruction_sets(int& count) {
    static const InstructionSet sets[] = {
#ifdef BOMKL_X86
        {"avx512",
         [] {
             return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
         },
         avx512::single_precision, avx512::double_precision},
        {"avx2", [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }, avx2::single_precision,
         avx2::double_precision},
#endif
        {"portable", [] { return true; }, portable::single_precision, portable::double_precision},
    };
    count = int(sizeof sets / sizeof sets[0]);
    return sets;
}

}  // namespace bomkl
