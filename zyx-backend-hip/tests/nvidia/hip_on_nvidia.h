// What stands before a kernel of the HIP backend so that NVRTC compiles it for NVIDIA's GPUs: the built-ins of AMD's compiler,
// by those of NVIDIA's. The kernel and the preamble that it comes with stay as they are.
#define amdgpu_flat_work_group_size(least, most) launch_bounds(most)
#define __builtin_amdgcn_workgroup_id_x() blockIdx.x
#define __builtin_amdgcn_workgroup_id_y() blockIdx.y
#define __builtin_amdgcn_workgroup_id_z() blockIdx.z
#define __builtin_amdgcn_workitem_id_x() threadIdx.x
#define __builtin_amdgcn_workitem_id_y() threadIdx.y
#define __builtin_amdgcn_workitem_id_z() threadIdx.z
#define __builtin_amdgcn_s_barrier() __syncthreads()
#define __builtin_amdgcn_fence(order, scope) __threadfence_block()
#define __builtin_amdgcn_mbcnt_lo(mask, before) ((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31)
#define __builtin_amdgcn_mbcnt_hi(mask, before) (before)
#define __builtin_amdgcn_ds_bpermute(place, value) __shfl_sync(0xffffffffu, value, (place) / 4)
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000LL)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000LL)

// float16: NVRTC has no such type without headers. Operators work on what it converts to, float32, and rounding their
// results again to float16 gives what one rounding would.
struct zyx_f16 {
    unsigned short bits;
    zyx_f16() = default;
    __device__ zyx_f16(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
    __device__ zyx_f16(double x) { asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x)); }
    template <class T> __device__ zyx_f16(T x) : zyx_f16((float)x) {}  // of an integer; large ones are infinite either way
    __device__ operator float() const {
        float x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
        return x;
    }
};
#define _Float16 zyx_f16
static inline __device__ zyx_f16 zyx_fma_f16(zyx_f16 x, zyx_f16 y, zyx_f16 z) {
    zyx_f16 result;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(result.bits) : "h"(x.bits), "h"(y.bits), "h"(z.bits));
    return result;
}
#define __builtin_fmaf16(x, y, z) zyx_fma_f16(x, y, z)
#define __builtin_fmaf(x, y, z) fmaf(x, y, z)
#define __builtin_fma(x, y, z) fma(x, y, z)
#define __builtin_sqrtf16(x) zyx_f16(sqrtf(x))
#define __builtin_fabsf16(x) zyx_f16(fabsf(x))
#define __builtin_floorf16(x) zyx_f16(floorf(x))
#define __builtin_truncf16(x) zyx_f16(truncf(x))
#define __builtin_sqrtf(x) sqrtf(x)
#define __builtin_fabsf(x) fabsf(x)
#define __builtin_floorf(x) floorf(x)
#define __builtin_truncf(x) truncf(x)
#define __builtin_sqrt(x) sqrt(x)
#define __builtin_fabs(x) fabs(x)
#define __builtin_floor(x) floor(x)
#define __builtin_trunc(x) trunc(x)

// Atomics: 64 bits with a sign are those without, but for the larger and the smaller of two.
template <class T> struct ZyxWord { typedef T type; };
template <> struct ZyxWord<long long> { typedef unsigned long long type; };
#define ZYX_ATOMIC(function)                                                                 \
    template <class T, class V> static inline __device__ void zyx_##function(T *p, V v) {    \
        typedef typename ZyxWord<T>::type Word;                                              \
        function((Word *)p, (Word)v);                                                        \
    }
ZYX_ATOMIC(atomicAdd)
ZYX_ATOMIC(atomicOr)
ZYX_ATOMIC(atomicAnd)
ZYX_ATOMIC(atomicXor)
#define __hip_atomic_fetch_add(p, v, order, scope) zyx_atomicAdd(p, v)
#define __hip_atomic_fetch_or(p, v, order, scope) zyx_atomicOr(p, v)
#define __hip_atomic_fetch_and(p, v, order, scope) zyx_atomicAnd(p, v)
#define __hip_atomic_fetch_xor(p, v, order, scope) zyx_atomicXor(p, v)
#define __hip_atomic_fetch_max(p, v, order, scope) atomicMax(p, v)
#define __hip_atomic_fetch_min(p, v, order, scope) atomicMin(p, v)
#define __hip_atomic_compare_exchange_strong(p, expected, v, order, other, scope) (*(expected) = atomicCAS(p, *(expected), v))
