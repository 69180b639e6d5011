// Tokens to rows and back.
#include "actors/job/skipped_data.hpp"

#include <algorithm>
#include <memory>

namespace troupe::train {

namespace {

uint64_t end_of(const checkpoint::skipped_tokens& part) {
  return part.count > UINT64_MAX - part.first ? UINT64_MAX : part.first + part.count;
}

}  // namespace

io::row_skips rows_of(std::span<const checkpoint::skipped_tokens> parts, int64_t seq_len) {
  const auto t = static_cast<uint64_t>(seq_len);
  std::vector<io::rows_between> rows;
  for (const auto& p : parts) {
    const auto end = end_of(p);
    rows.push_back({p.first / t, end / t + (end % t == 0 ? 0 : 1)});
  }
  return io::row_skips(std::move(rows));
}

uint64_t tokens_after(uint64_t tokens, uint64_t rows, int64_t seq_len,
                      std::span<const checkpoint::skipped_tokens> parts) {
  const auto t = static_cast<uint64_t>(seq_len);
  if (rows == 0) return tokens;
  if (parts.empty()) return tokens + rows * t;
  return (rows_of(parts, seq_len).nth(tokens / t, rows - 1) + 1) * t + tokens % t;
}

uint64_t skipped_before(uint64_t tokens, std::span<const checkpoint::skipped_tokens> parts) {
  uint64_t count = 0;
  for (const auto& p : parts)
    if (p.first < tokens) count += std::min(end_of(p), tokens) - p.first;
  return count;
}

skipped_parts with_part(skipped_parts parts, uint64_t first, uint64_t end) {
  std::vector<io::rows_between> all{{first, end}};
  for (const auto& p : parts) all.push_back({p.first, end_of(p)});
  parts.clear();
  const io::row_skips joined(std::move(all));
  for (const auto& r : joined.ranges()) parts.push_back({r.first, r.end - r.first});
  return parts;
}

std::vector<std::unique_ptr<fbs::SkippedTokensT>> to_message(
    std::span<const checkpoint::skipped_tokens> parts) {
  std::vector<std::unique_ptr<fbs::SkippedTokensT>> out;
  for (const auto& p : parts) {
    auto& to = *out.emplace_back(std::make_unique<fbs::SkippedTokensT>());
    to.first = p.first;
    to.count = p.count;
  }
  return out;
}

skipped_parts skipped_in(const std::vector<std::unique_ptr<fbs::SkippedTokensT>>& parts) {
  skipped_parts out;
  for (const auto& p : parts)
    if (out.size() < checkpoint::skipped_limit) out.push_back({p->first, p->count});
  return out;
}

}  // namespace troupe::train
