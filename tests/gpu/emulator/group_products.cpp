// The products of a group of four warps on the emulated machine (simt.hpp): each warp's 16 rows are
// computed by its own lanes, when they wait for them (EM-3).
#include <array>
#include <cstring>

#include "gpu/cuda/simt.hpp"
#include "tests/gpu/emulator/machine.hpp"

namespace troupe::gpu::cuda {
namespace {

using emulator::warp_exchange;
using emulator::warp_operation;

constexpr int terms = 16;  ///< of a sum that one product adds

/// The element behind `bytes` of a matrix, where the swizzle has put it: bits 4 to 6 of an address
/// are swapped by its bits 7 to 9.
float element_at(const shared_operand& m, int bytes) {
  const auto address = reinterpret_cast<uintptr_t>(m.from) + static_cast<uintptr_t>(bytes);
  const auto swapped = address ^ (address >> 7 & 7) << 4;
  uint16_t bits;
  std::memcpy(&bits, reinterpret_cast<const void*>(swapped), sizeof bits);
  return bits_to_float(static_cast<uint32_t>(bits) << 16);
}

/// Of a matrix with the summed index along its rows.
float along_rows(const shared_operand& m, int row, int k) {
  return element_at(m, row / 8 * m.stride_bytes + row % 8 * 128 + 2 * k);
}

/// Of a matrix whose rows are the summed index.
float along_columns(const shared_operand& m, int column, int k) {
  return element_at(
      m, column / 64 * m.leading_bytes + k / 8 * m.stride_bytes + k % 8 * 128 + column % 64 * 2);
}

using row_terms = std::array<float, terms>;

/// Adds a lane's elements: rows g and g + 8 of its warp's, of which it has `rows`.
template <class Right>
void add_rows(float (*d)[4], int columns, const std::array<row_terms, 2>& rows, bool fresh,
              const Right& right) {
  const int t = thread_index() & 3;
  for (int i = 0; i < columns / 8 * 4; ++i) {
    float total = 0;
    for (int k = 0; k < terms; ++k)
      total += rows[static_cast<size_t>(i % 4 / 2)][static_cast<size_t>(k)] *
               right(i / 4 * 8 + 2 * t + i % 2, k);
    float& sum = d[i / 4][i % 4];
    sum = fresh ? total : sum + total;
  }
}

}  // namespace

shared_operand operand_of(const void* tile, int leading_bytes, int stride_bytes) {
  if (reinterpret_cast<uintptr_t>(tile) % 1024 != 0)
    emulator::stop("a panel is not on 1,024 bytes");
  return {static_cast<const unsigned char*>(tile), leading_bytes, stride_bytes};
}

void group_multiply(float (*d)[4], int columns, const shared_operand& a, const shared_operand& b,
                    bool fresh) {
  warp_exchange(warp_operation::group_multiply, nullptr, 0);
  emulator::multiply_later([=] {
    std::array<row_terms, 2> rows;
    const int row = thread_index() / 32 % 4 * 16 + (thread_index() & 31) / 4;
    for (int half = 0; half < 2; ++half)
      for (int k = 0; k < terms; ++k)
        rows[static_cast<size_t>(half)][static_cast<size_t>(k)] = along_rows(a, row + 8 * half, k);
    add_rows(d, columns, rows, fresh, [&](int column, int k) { return along_rows(b, column, k); });
  });
}

void group_multiply_add(float (*d)[4], int columns, const uint32_t (&a)[4],
                        const shared_operand& b) {
  const auto* all = warp_exchange(warp_operation::group_multiply, a, sizeof a);
  std::array<row_terms, 2> rows;
  const int g = (thread_index() & 31) / 4;
  for (int half = 0; half < 2; ++half) {
    for (int k = 0; k < terms; ++k) {
      uint32_t pair;
      std::memcpy(&pair, all + 64 * (g * 4 + k % 8 / 2) + 4 * (k / 8 * 2 + half), sizeof pair);
      rows[static_cast<size_t>(half)][static_cast<size_t>(k)] =
          bits_to_float((k % 2 ? pair >> 16 : pair & 0xffff) << 16);
    }
  }
  emulator::multiply_later([=] {
    add_rows(d, columns, rows, false,
             [&](int column, int k) { return along_columns(b, column, k); });
  });
}

}  // namespace troupe::gpu::cuda
