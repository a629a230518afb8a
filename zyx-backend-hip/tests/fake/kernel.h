// What stands before a kernel so that it compiles for the CPU; `kernel_end.h` stands behind it.
#define __global__
#define __device__
#define __shared__ static
#define __HIP_MEMORY_SCOPE_AGENT 0
#define amdgpu_flat_work_group_size(least, most) unused
extern "C" {
unsigned fake_group[3], fake_thread[3];
void (*fake_barrier)();
unsigned (*fake_lane)();
int (*fake_permute)(int, int);
}
#define __builtin_amdgcn_workgroup_id_x() fake_group[0]
#define __builtin_amdgcn_workgroup_id_y() fake_group[1]
#define __builtin_amdgcn_workgroup_id_z() fake_group[2]
#define __builtin_amdgcn_workitem_id_x() fake_thread[0]
#define __builtin_amdgcn_workitem_id_y() fake_thread[1]
#define __builtin_amdgcn_workitem_id_z() fake_thread[2]
#define __builtin_amdgcn_s_barrier() fake_barrier()
#define __builtin_amdgcn_mbcnt_lo(mask, before) 0u
#define __builtin_amdgcn_mbcnt_hi(mask, before) fake_lane()
#define __builtin_amdgcn_ds_bpermute(place, value) fake_permute((place) / 4, value)
#define __builtin_amdgcn_fence(order, scope) ((void)0)
// Processors without arithmetic on 16 bits have no such functions. A double holds the product; the sum is rounded to an
// odd last bit, so that it is as if it were rounded once.
static inline _Float16 fake_fmaf16(double x, double y, double z) {
    double product = x * y, sum = product + z, rest = sum - product;
    double error = (product - (sum - rest)) + (z - rest);
    unsigned long long bits;
    __builtin_memcpy(&bits, &sum, 8);
    if (sum - sum == 0 && error != 0 && !(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : -1;
    __builtin_memcpy(&sum, &bits, 8);
    return (_Float16)sum;
}
#define __builtin_sqrtf16(x) ((_Float16)__builtin_sqrtf((float)(x)))
#define __builtin_fmaf16(x, y, z) fake_fmaf16(x, y, z)
// Threads run one after the other, so plain operations are indivisible.
#define __hip_atomic_fetch_add(p, v, o, s) ((void)(*(p) = *(p) + (v)))
#define __hip_atomic_fetch_max(p, v, o, s) ((void)(*(p) = *(p) > (v) ? *(p) : (v)))
#define __hip_atomic_fetch_min(p, v, o, s) ((void)(*(p) = *(p) < (v) ? *(p) : (v)))
#define __hip_atomic_fetch_or(p, v, o, s) ((void)(*(p) = *(p) | (v)))
#define __hip_atomic_fetch_and(p, v, o, s) ((void)(*(p) = *(p) & (v)))
#define __hip_atomic_fetch_xor(p, v, o, s) ((void)(*(p) = *(p) ^ (v)))
#define __hip_atomic_compare_exchange_strong(p, e, v, o, f, s) ((void)(*(p) == *(e) ? *(p) = (v) : *(e) = *(p)))
