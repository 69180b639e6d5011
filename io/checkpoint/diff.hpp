// How two checkpoints differ, tensor by tensor, whatever layouts wrote them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/result.hpp"
#include "io/checkpoint/parallel.hpp"
#include "io/checkpoint/reader.hpp"

namespace troupe::io::checkpoint {

/// How one part of a tensor compares.
enum class comparison : uint8_t {
  equal,        ///< the same bits
  differs,      ///< the same shape and type, other values
  other_shape,  ///< another shape or type: values are not compared
  only_a,       ///< the second checkpoint lacks it
  only_b,       ///< the first checkpoint lacks it
};

/// "equal", "differs", "other_shape", "only_a", "only_b".
std::string_view to_string(comparison how) noexcept;

/// One part of one tensor.
struct tensor_difference {
  std::string tensor;
  part which = part::master;
  comparison how = comparison::equal;
  uint64_t elements = 0;
  uint64_t differing = 0;  ///< elements whose bits differ
  /// Largest |a - b| of those; infinite where one of the two is not finite.
  double largest = 0;
};

/// Compares every part of every tensor: those of `a` in its order, then what only `b` has. Reads
/// both wholly, with checksums; progress counts the bytes of both. Errors: as reader::read.
result<std::vector<tensor_difference>> diff(const reader& a, const reader& b,
                                            const work_options& options = {});

}  // namespace troupe::io::checkpoint
