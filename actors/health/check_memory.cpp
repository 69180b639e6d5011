// Words that are written, read back and turned around; a triad.
#include <algorithm>
#include <memory>
#include <new>
#include <optional>

#include <fmt/format.h>

#include "actors/health/checks.hpp"

namespace troupe::health {

namespace {

constexpr size_t mib = size_t{1} << 20;
constexpr size_t block = mib / sizeof(uint64_t);  // words between two looks at the clock

/// Of the memory that is left, what one check may have (EXM-4).
class share {
 public:
  explicit share(const checkup_under_way& c) : of_(c), left_(c.memory_left()) {}

  /// Of what is wanted, in whole MiB; 0: there is not even one.
  size_t bytes(size_t wanted) const {
    if (!left_) return std::min(wanted, 8 * mib);
    return std::min<uint64_t>(*left_ / 8, wanted) / mib * mib;
  }
  /// Whether it may go on to take what it was promised.
  bool stands() const {
    const auto now = left_ ? of_.memory_left() : std::nullopt;
    return !now || *now >= *left_ / 2;
  }

 private:
  const checkup_under_way& of_;
  std::optional<uint64_t> left_;
};

template <class T>
std::unique_ptr<T[]> without_zeroing(size_t count) {
  return std::unique_ptr<T[]>(new (std::nothrow) T[count]);
}

/// No two words alike, and no bit that all of them have.
uint64_t word_of(size_t place) {
  uint64_t x = (place + 1) * 0x9e3779b97f4a7c15u;
  x ^= x >> 31;
  return x * 0xbf58476d1ce4e5b9u;
}

/// So that what was written is read.
void forget() {
  asm volatile("" ::: "memory");
}

/// Writes a first time to what was allocated, which is when the machine gives it. How many blocks
/// it could have.
template <class Fill>
size_t take(const share& of, size_t blocks, Fill fill) {
  constexpr size_t between_looks = 16;
  size_t taken = 0;
  for (; taken < blocks && (taken % between_looks != 0 || of.stands()); ++taken) fill(taken);
  return taken;
}

/// Wrong words of a pass; `turned`: each bit the other way.
uint64_t pass(uint64_t* words, size_t count, bool turned, const checkup_under_way& c,
              const deadline& until) {
  const uint64_t flip = turned ? ~uint64_t{0} : 0;
  size_t written = 0;
  for (; written < count && (written == 0 || !until.over()); written += block)
    for (size_t i = written; i < written + block; ++i) words[i] = word_of(i) ^ flip;
  forget();
  if (c.options.spoil_memory) c.options.spoil_memory({words, written});
  uint64_t wrong = 0;
  for (size_t i = 0; i < written; ++i) wrong += words[i] != (word_of(i) ^ flip) ? 1 : 0;
  return wrong;
}

/// The best of some rounds of a[i] = b[i] + by * d[i], in bytes a second.
double triad(checkup_under_way& c, double* a, const double* b, const double* d, size_t count) {
  const deadline until(c, "memory_bandwidth");
  double best = 0;
  for (int round = 0; round < 3 || (c.deep && !until.over()); ++round) {
    if (round > 0 && until.over()) break;
    const double begin = gpu::seconds_now(gpu::time_kind::wall);
    const double by = 1 + round;
    for (size_t i = 0; i < count; ++i) a[i] = b[i] + by * d[i];
    forget();
    const double took = gpu::seconds_now(gpu::time_kind::wall) - begin;
    if (took > 0) best = std::max(best, static_cast<double>(3 * count * sizeof(double)) / took);
  }
  return best;
}

}  // namespace

void check_memory_pattern(checkup_under_way& c) {
  const share ours(c);
  const size_t bytes = ours.bytes(c.deep ? 1024 * mib : 16 * mib);
  auto& result = c.add("memory_pattern");
  const auto words = without_zeroing<uint64_t>(bytes / sizeof(uint64_t));
  const size_t had = !words ? 0 : take(ours, bytes / mib, [&](size_t at) {
    std::fill_n(words.get() + at * block, block, uint64_t{0});
  });
  if (had == 0) {
    result.text = "there is too little memory left to take some";
    return;
  }
  result.part = fmt::format("{} MiB", had);
  const busy_time measured(c);
  const deadline until(c, "memory_pattern");
  uint64_t wrong = 0;
  do {
    wrong += pass(words.get(), had * block, false, c, until);
    wrong += pass(words.get(), had * block, true, c, until);
  } while (c.deep && !until.over());
  result.seen = static_cast<double>(wrong);
}

/// Arrays that a cache could hold would measure that: less than a quick check takes says nothing.
void check_memory_bandwidth(checkup_under_way& c) {
  constexpr size_t least = 32 * mib;
  const share ours(c);
  const size_t blocks = ours.bytes(3 * (c.deep ? 256 * mib : least)) / 3 / mib;
  auto& result = c.add("memory_bandwidth");
  const size_t count = blocks * block;
  const auto a = without_zeroing<double>(count), b = without_zeroing<double>(count),
             d = without_zeroing<double>(count);
  const size_t had = !a || !b || !d ? 0 : take(ours, blocks, [&](size_t at) {
    std::fill_n(a.get() + at * block, block, 0.0);
    std::fill_n(b.get() + at * block, block, 1.0);
    std::fill_n(d.get() + at * block, block, 2.0);
  });
  if (had * mib < least) {
    result.text = "there is too little memory left for arrays that no cache holds";
    return;
  }
  const busy_time measured(c);
  result.seen = triad(c, a.get(), b.get(), d.get(), had * block);
}

}  // namespace troupe::health
