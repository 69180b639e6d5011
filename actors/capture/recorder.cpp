// Rings, their readers, and the identities in records.
#include "actors/capture/recorder.hpp"

#include <algorithm>
#include <bit>
#include <random>

#include "actors/capture/flight_memory.hpp"

namespace troupe {

// -- ring -----------------------------------------------------------------------------------------

record_ring::record_ring(uint64_t* memory)
    : own_(memory == nullptr ? std::make_unique<uint64_t[]>(words) : nullptr),
      words_(memory == nullptr ? own_.get() : memory) {}

namespace {

trace_record copy_of(uint64_t* from) noexcept {
  uint64_t words[record_ring::words_each];
  for (size_t i = 0; i < record_ring::words_each; ++i)
    words[i] = std::atomic_ref(from[i]).load(std::memory_order_acquire);
  trace_record r;
  std::memcpy(&r, words, sizeof(r));
  return r;
}

}  // namespace

std::optional<trace_record> record_ring::under_hands() const {
  const auto r = copy_of(words_ + words_each);
  if (r.begin_ns == 0) return std::nullopt;
  return r;
}

void record_ring::read(uint64_t& from, std::vector<trace_record>& out, size_t limit,
                       uint64_t& lost) const {
  const auto end = head();
  if (from + capacity <= end) {  // one less than capacity: the next slot may be under the pen
    lost += end - capacity + 1 - from;
    from = end - capacity + 1;
  }
  const auto begin = from;
  const auto first = out.size();
  for (; from < end && out.size() - first < limit; ++from) {
    out.push_back(copy_of(slot(from)));
  }
  const auto now = head();
  if (begin + capacity > now) return;
  // The writer came round meanwhile: the oldest of what was copied may be torn (REC-2).
  const auto torn = std::min<uint64_t>(now - capacity + 1 - begin, from - begin);
  out.erase(out.begin() + static_cast<ptrdiff_t>(first),
            out.begin() + static_cast<ptrdiff_t>(first + torn));
  lost += torn;
}

// -- rings of the process -------------------------------------------------------------------------

thread_local recorder::holder recorder::mine_;

recorder& recorder::instance() {
  static auto* one = new recorder;  // never destroyed: threads may outlive main's statics
  return *one;
}

recorder::holder::~holder() {
  if (!ring) return;
  auto& r = recorder::instance();
  std::lock_guard lock(r.mutex_);
  r.free_.push_back(ring);
}

record_ring* recorder::adopt() {
  std::lock_guard lock(mutex_);
  if (!free_.empty()) {  // the one that has been free for longest
    auto* ring = free_.front();
    free_.erase(free_.begin());
    return ring;
  }
  all_.push_back(std::make_unique<record_ring>(detail::take_flight_ring()));
  return all_.back().get();
}

std::vector<const record_ring*> recorder::rings() const {
  std::lock_guard lock(mutex_);
  std::vector<const record_ring*> out;
  for (const auto& r : all_) out.push_back(r.get());
  return out;
}

std::vector<trace_record> record_reader::read(size_t limit) {
  const auto rings = recorder::instance().rings();
  for (size_t i = at_.size(); i < rings.size(); ++i)
    at_.emplace_back(rings[i], from_now_ ? rings[i]->head() : 0);
  from_now_ = false;  // rings that come later are new altogether
  std::vector<trace_record> out;
  const auto each = std::max<size_t>(1, limit / std::max<size_t>(1, at_.size()));
  for (auto& [ring, from] : at_) ring->read(from, out, each, lost_);
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return out;
}

// -- identities -----------------------------------------------------------------------------------

namespace {

uint32_t draw_tag() {
  std::random_device entropy;
  uint32_t tag = 0;
  while (tag == 0) tag = entropy();
  return tag;
}

std::atomic<uint32_t> tag{0};

/// Threads take spans by the block, so that they do not fight over one counter.
constexpr uint32_t span_block = 1024;
std::atomic<uint32_t> blocks{0};
thread_local uint32_t span_at = 0;

}  // namespace

uint32_t process_tag() noexcept {
  auto now = tag.load(std::memory_order_relaxed);
  if (now != 0) return now;
  const auto drawn = draw_tag();
  return tag.compare_exchange_strong(now, drawn) ? drawn : now;
}

void fix_identities(uint32_t fixed) noexcept {
  tag = fixed;
  blocks = 0;
  span_at = 0;
}

uint64_t next_span() noexcept {
  if (span_at % span_block == 0)
    span_at = blocks.fetch_add(1, std::memory_order_relaxed) * span_block;
  return uint64_t{process_tag()} << 32 | ++span_at;  // never 0 below: the block's first is 1
}

namespace {

std::atomic<int64_t> clock_offset_ns{0};
std::atomic<int64_t> clock_bound_ns{-1};

}  // namespace

void set_clock_relation(clock_relation now) noexcept {
  clock_offset_ns = now.offset_ns;
  clock_bound_ns = now.bound_ns;
  detail::note_clock(now);
}

clock_relation clock_now() noexcept {
  return {clock_offset_ns, clock_bound_ns};
}

// -- work -----------------------------------------------------------------------------------------

namespace {

struct name_table {
  std::mutex mutex;
  std::vector<std::string> names;
};

name_table& table() {
  static auto* one = new name_table;
  return *one;
}

constexpr size_t most_names = 4096;

}  // namespace

uint16_t work_name(std::string_view name) {
  auto& t = table();
  std::lock_guard lock(t.mutex);
  const auto it = std::find(t.names.begin(), t.names.end(), name);
  if (it != t.names.end()) return static_cast<uint16_t>(it - t.names.begin() + 1);
  if (t.names.size() >= most_names) return 0;
  t.names.emplace_back(name);
  const auto number = static_cast<uint16_t>(t.names.size());
  detail::note_work_name(number, name);
  return number;
}

std::vector<std::string> work_names() {
  auto& t = table();
  std::lock_guard lock(t.mutex);
  return t.names;
}

void record_work(const work_note& work) noexcept {
  trace_record r;
  r.begin_ns = work.begin_ns;
  r.span = work.span != 0 ? work.span : next_span();
  r.parent = work.parent;
  r.trace = work.trace;
  r.sender = work.number;
  r.handling_s = static_cast<float>(static_cast<double>(work.end_ns - work.begin_ns) * 1e-9);
  r.actor = work.actor;
  r.bytes = static_cast<uint32_t>(std::min<uint64_t>(work.bytes, UINT32_MAX));
  r.type = work.name;
  r.kind = record_kind::work;
  r.flags = work.failed ? record_flag::failed : 0;
  recorder::instance().here().push(r);
}

void record_counter(const counter_note& counter) noexcept {
  trace_record r;
  r.begin_ns = counter.at_ns;
  r.sender = std::bit_cast<uint64_t>(counter.value);
  r.actor = counter.actor;
  r.type = counter.name;
  r.kind = record_kind::counter;
  recorder::instance().here().push(r);
}

}  // namespace troupe
