// Rounding to bfloat16 up or down by chance, so that the result's mean is the value itself.
//
// Why: the compute copy of a weight has 8 bits of mantissa, an update moves the weight by less than
// that. With f32 masters nothing is lost by rounding to the nearest: updates add up in the master,
// and the copy follows when half a step of it has come together. Until then all the updates so far
// are invisible to the model, though, and to a direction in which many weights drift together; by
// chance the copies show the drift on average from the first step. It costs noise of up to one unit
// in the last place instead of half of one, so it is an option and off by default. (Without masters
// it would be no option but a need: updates below half a unit would be lost for ever. There are
// always masters here, and masters, m and v are never rounded by chance.)
//
// The chance is a hash of (seed, step, element of the chunk): no state, no order, the same on every
// back end and for every division of the work. Whoever makes the copies anew from the masters, as
// restoring a checkpoint does, gets the same ones only by rounding with the same seed and step.
//
// Internal linkage throughout: files compiled for several instruction sets include this (VEC-1).
#pragma once

#include <stdint.h>

#if defined(__CUDACC__)
#define TROUPE_EVERYWHERE __host__ __device__
#else
#define TROUPE_EVERYWHERE
#endif

namespace troupe::gpu {

/// What the elements of a chunk share in one step.
struct rounding_key {
  uint32_t first, second;
};

/// Mixes by SplitMix64's finalizer (Steele et al. 2014), the seed first: no step of one seed is a
/// step of its neighbour.
TROUPE_EVERYWHERE static inline rounding_key make_rounding_key(uint64_t seed, int64_t step) {
  uint64_t z = seed;
  for (int round = 0; round < 2; ++round) {
    z += 0x9E3779B97F4A7C15u + (round == 1 ? static_cast<uint64_t>(step) : 0u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
  }
  return {static_cast<uint32_t>(z), static_cast<uint32_t>(z >> 32)};
}

/// A bijection of 32 bits without visible structure (Wellons 2018, "lowbias32"). U is uint32_t or a
/// vector of them.
template <class U>
TROUPE_EVERYWHERE static inline U mix_bits(U x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

/// 32 random bits for element `index` (its lower 32 bits).
template <class U>
TROUPE_EVERYWHERE static inline U random_bits(rounding_key key, U index) {
  return mix_bits(mix_bits(index ^ key.first) ^ key.second);
}

/// The bits of a float, given its own: a bfloat16 (the lower half is 0), the farther from zero of
/// the two neighbours with probability (lower half) / 2^16. Values that bfloat16 holds, infinities
/// and NaNs stay what they are.
TROUPE_EVERYWHERE static inline uint32_t round_by_chance(uint32_t bits, uint32_t random) {
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return nan ? bits | 0x00400000u : (bits + (random >> 16)) & 0xffff0000u;
}

}  // namespace troupe::gpu
