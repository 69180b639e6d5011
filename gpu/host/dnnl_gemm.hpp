// Matrix products of one thread by oneDNN, behind the same arguments as our own (kernel_table.hpp).
//
// Why one thread: the team splits a product itself, so that oneDNN and our kernels never fight
// over threads, and a product's bits depend only on its shape and the split.
//
// Invariants
//   DNNL-1  After the first call with a shape a thread allocates nothing (OPS-1).
//   DNNL-2  oneDNN is held to the instruction set of the kernels (TROUPE_ISA).
#pragma once

#include <string>

#include "gpu/host/kernels/kernel_table.hpp"

namespace troupe::gpu::host {

/// Runs the product on the calling thread. Throws what oneDNN throws (the stream catches it).
void dnnl_gemm(const gemm_args& a);

/// What dnnl_gemm keeps for such a product on each thread that makes it, once it has. Throws what
/// oneDNN throws.
size_t dnnl_scratch_bytes(const gemm_args& a);

/// The version of the library that was loaded, e.g. "2.6.3".
std::string dnnl_version_text();

}  // namespace troupe::gpu::host
