// A cuBLASLt for tests on the CPU: what the library's documentation says of its descriptors, in
// plain loops on the emulated stream.
//
// Why: the mapping of row-major products to a column-major library, its biases, strides, alignments
// and cached plans can then be tested for real where no GPU is.
//
// Faithful to (CUDA 13, cublasLt.h and the cuBLAS guide): layouts in columns, ld >= rows; op(A) is
// m x k, op(B) k x n, C and D m x n; D = alpha op(A) op(B) + beta C, then the bias, one element per
// row of D, in D's type; C is not read where beta is 0; attributes have fixed sizes; an algorithm
// serves the problem and the alignments it was chosen for; types go together as in the guide's
// table. Epilogues: GELU_AUX(_BIAS) stores what the GELU (tanh form) is taken of in aux, DGELU
// reads it there; aux is of D's type, its leading dimension divisible by 8 and no less than D's
// rows; BGRADA and BGRADB overwrite the vector behind the bias pointer, in D's type, with the sums
// of an operand over K: one element per row of D, or per column. Both pointers must be there when
// the heuristics are asked, and later be as aligned. Stricter than what is written: aux is on 16
// bytes.
#pragma once

#include <cstdint>
#include <string>

#include "gpu/cuda/cublas_lt.hpp"

namespace troupe::gpu::cuda::testing {

/// What it calls the failure that it was told to have.
inline constexpr const char* fake_words = "the fake failed";

/// What the fake saw, and how it is to misbehave. One for the process: reset before each test.
struct fake_cublas_lt_state {
  int live = 0;                   ///< handles and descriptors not yet given back
  int calls = 0;                  ///< of functions that can fail
  int heuristics = 0;             ///< questions to the heuristics
  int products = 0;               ///< enqueued
  uint32_t reductions = 0;        ///< the mask of the last question
  uint64_t workspace = 0;         ///< bytes allowed in the last question
  int fail_at = 0;                ///< the call with this number fails (from 1)
  bool no_algorithm = false;      ///< the heuristics find none
  bool unfit_first = false;       ///< the first of them cannot run
  bool no_epilogues = false;      ///< they find none but for plain products and biases
  bool refuse_epilogues = false;  ///< the same, told by a status
  uint32_t epilogue = 0;          ///< of the last product
  std::string failed;             ///< the function that was made to fail
  std::string refused;            ///< why a call was refused although not told to fail
};

fake_cublas_lt_state& fake_cublas_lt();

cublas_lt_table fake_cublas_lt_table();

}  // namespace troupe::gpu::cuda::testing
