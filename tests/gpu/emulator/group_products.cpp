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

using row_terms = std::array<float, terms>;

/// Where the swizzle has put what is `bytes` behind a matrix's first element: bits 4 to 6 of an
/// address are swapped by its bits 7 to 9. What lies in one unit of 16 bytes stays together.
const void* swizzled(const shared_operand& m, int bytes) {
  const auto address = reinterpret_cast<uintptr_t>(m.from) + static_cast<uintptr_t>(bytes);
  return reinterpret_cast<const void*>(address ^ (address >> 7 & 7) << 4);
}

float wide(uint32_t bits) {
  return bits_to_float(bits << 16);
}

/// The terms of a row of a matrix with the summed index along its rows: two units, since a matrix
/// begins on one (operand_of() and what kernels add to it).
row_terms along_row(const shared_operand& m, int row) {
  row_terms out;
  constexpr int unit = 8;
  for (int k = 0; k < terms; k += unit) {
    uint16_t bits[unit];
    std::memcpy(bits, swizzled(m, row / 8 * m.stride_bytes + row % 8 * 128 + 2 * k), sizeof bits);
    for (int i = 0; i < unit; ++i) out[static_cast<size_t>(k + i)] = wide(bits[i]);
  }
  return out;
}

/// Those of an even column and the next, of a matrix whose rows are the summed index.
std::array<row_terms, 2> along_columns(const shared_operand& m, int column) {
  std::array<row_terms, 2> out;
  const int before = column / 64 * m.leading_bytes + column % 64 * 2;
  for (int k = 0; k < terms; ++k) {
    uint16_t bits[2];
    std::memcpy(bits, swizzled(m, before + k / 8 * m.stride_bytes + k % 8 * 128), sizeof bits);
    for (size_t i = 0; i < 2; ++i) out[i][static_cast<size_t>(k)] = wide(bits[i]);
  }
  return out;
}

/// Adds a lane's elements: rows g and g + 8 of its warp's, of which it has `rows`, and of each
/// eight columns two, whose terms `right` has.
template <class Right>
void add_rows(float (*d)[4], int columns, const std::array<row_terms, 2>& rows, bool fresh,
              const Right& right) {
  const int t = thread_index() & 3;
  for (int eight = 0; eight < columns / 8; ++eight) {
    const std::array<row_terms, 2> two = right(eight * 8 + 2 * t);
    float totals[4] = {};
    for (size_t k = 0; k < terms; ++k)
      for (size_t i = 0; i < 4; ++i) totals[i] += rows[i / 2][k] * two[i % 2][k];
    for (size_t i = 0; i < 4; ++i) {
      float& sum = d[eight][i];
      sum = fresh ? totals[i] : sum + totals[i];
    }
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
    const int row = thread_index() / 32 % 4 * 16 + (thread_index() & 31) / 4;
    add_rows(d, columns, {along_row(a, row), along_row(a, row + 8)}, fresh, [&](int column) {
      return std::array<row_terms, 2>{along_row(b, column), along_row(b, column + 1)};
    });
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
          wide(k % 2 ? pair >> 16 : pair & 0xffff);
    }
  }
  emulator::multiply_later([=] {
    add_rows(d, columns, rows, false, [&](int column) { return along_columns(b, column); });
  });
}

}  // namespace troupe::gpu::cuda
