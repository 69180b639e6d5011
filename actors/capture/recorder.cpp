// Rings and their readers.
#include "actors/capture/recorder.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>

#include "actors/capture/flight_memory.hpp"
#include "actors/capture/identities.hpp"

namespace troupe {

// -- ring -----------------------------------------------------------------------------------------

record_ring::record_ring(uint64_t* memory)
    : own_(memory == nullptr ? static_cast<uint64_t*>(std::calloc(words, sizeof(uint64_t)))
                             : nullptr),
      words_(memory == nullptr ? own_.get() : memory) {
  if (words_ == nullptr) throw std::bad_alloc();
}

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

// -- rings of all threads -------------------------------------------------------------------------

struct recorder::book {
  mutable std::mutex mutex;
  std::vector<std::unique_ptr<record_ring>> all;
  std::vector<record_ring*> free;

  record_ring* adopt() {
    std::lock_guard lock(mutex);
    if (!free.empty()) {  // the one that has been free for longest
      auto* ring = free.front();
      free.erase(free.begin());
      return ring;
    }
    all.push_back(std::make_unique<record_ring>(detail::take_flight_ring()));
    return all.back().get();
  }
};

/// The rings that one thread has adopted; it gives them back when it ends (REC-3).
struct recorder::adopted {
  std::vector<std::pair<std::weak_ptr<book>, record_ring*>> all;

  record_ring* of(const std::shared_ptr<book>& wanted) {
    std::erase_if(all, [](const auto& a) { return a.first.expired(); });
    for (const auto& [owner, ring] : all)
      if (owner.lock() == wanted) return ring;
    all.emplace_back(wanted, wanted->adopt());
    return all.back().second;
  }
  ~adopted() {
    for (const auto& [owner, ring] : all)
      if (const auto living = owner.lock()) {
        std::lock_guard lock(living->mutex);
        living->free.push_back(ring);
      }
  }
};

thread_local constinit recorder::used_last recorder::last_;

recorder::recorder() : book_(std::make_shared<book>()) {
  static std::atomic<uint64_t> recorders{0};
  number_ = ++recorders;
}

recorder::~recorder() = default;

void recorder::look_up() {
  thread_local adopted mine;
  last_ = {number_, mine.of(book_)};
}

std::vector<const record_ring*> recorder::rings() const {
  std::lock_guard lock(book_->mutex);
  std::vector<const record_ring*> out;
  for (const auto& r : book_->all) out.push_back(r.get());
  return out;
}

std::vector<trace_record> record_reader::read(size_t limit) {
  const auto rings = of_.rings();
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

void recorder::note(const work_note& work) noexcept {
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
  here().push(r);
}

void recorder::note(const counter_note& counter) noexcept {
  trace_record r;
  r.begin_ns = counter.at_ns;
  r.sender = std::bit_cast<uint64_t>(counter.value);
  r.actor = counter.actor;
  r.type = counter.name;
  r.kind = record_kind::counter;
  here().push(r);
}

}  // namespace troupe
