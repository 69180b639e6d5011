// The layout of flight memory. Everything is words of 64 bits or texts of fixed room in zeroed
// pages; the writer's order of stores is the only synchronisation (FLT-3).
#include "actors/capture/flight_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "actors/capture/identities.hpp"

namespace troupe {

namespace {

constexpr size_t most_rings = 64;
constexpr size_t most_actors = 4096;
constexpr size_t most_works = 1024;

/// A text of fixed room: its length, then its bytes; what does not fit is cut.
template <size_t Room>
struct text_room {
  uint64_t length;
  char bytes[Room];

  void set(std::string_view text) noexcept {
    const auto n = std::min(text.size(), Room);
    std::memcpy(bytes, text.data(), n);
    std::atomic_ref(length).store(n, std::memory_order_release);
  }
  std::string get() const {
    const auto n = std::min<uint64_t>(length, Room);
    return {bytes, static_cast<size_t>(n)};
  }
};

struct actor_room {
  uint64_t number_and_one;  ///< 0: nobody yet
  uint64_t parent;
  text_room<104> path;
  text_room<32> kind;
};

struct flight_memory {
  uint64_t process;
  uint64_t clock_offset_ns, clock_bound_ns_and_one;
  uint64_t rings_taken;
  text_room<64> node, host;
  text_room<4096> folder;
  text_room<48> works[most_works];
  actor_room actors[most_actors];  ///< an actor's place is its number, the newest wins
  alignas(4096) uint64_t rings[most_rings][record_ring::words];
};

/// Set before the first thread, then read only.
flight_memory* memory = nullptr;

}  // namespace

status reserve_flight_memory() {
  if (memory != nullptr) return {};
  void* at = mmap(nullptr, sizeof(flight_memory), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return error::system("reserve memory for the flight recorder", errno);
  memory = static_cast<flight_memory*>(at);
  uint16_t number = 0;  // names given before main
  for (const auto& name : work_names()) detail::note_work_name(++number, name);
  return {};
}

namespace detail {

uint64_t* take_flight_ring() noexcept {
  if (memory == nullptr) return nullptr;
  const auto n = std::atomic_ref(memory->rings_taken).fetch_add(1);
  return n < most_rings ? memory->rings[n] : nullptr;
}

void note_actor(uint32_t number, uint64_t parent, std::string_view path,
                std::string_view kind) noexcept {
  if (memory == nullptr) return;
  auto& room = memory->actors[number % most_actors];
  std::atomic_ref(room.number_and_one).store(0, std::memory_order_release);
  room.parent = parent;
  room.path.set(path);
  room.kind.set(kind);
  std::atomic_ref(room.number_and_one).store(uint64_t{number} + 1, std::memory_order_release);
}

void note_work_name(uint16_t number, std::string_view name) noexcept {
  if (memory != nullptr && number > 0 && number <= most_works) memory->works[number - 1].set(name);
}

void note_clock(clock_relation now) noexcept {
  if (memory == nullptr) return;
  std::atomic_ref(memory->clock_offset_ns).store(std::bit_cast<uint64_t>(now.offset_ns));
  std::atomic_ref(memory->clock_bound_ns_and_one).store(std::bit_cast<uint64_t>(now.bound_ns + 1));
}

void note_process(uint32_t tag) noexcept {
  if (memory != nullptr) std::atomic_ref(memory->process).store(tag);
}

}  // namespace detail

void sign_flight_memory(std::string_view node, std::string_view host, std::string_view folder) {
  if (memory == nullptr) return;
  memory->node.set(node);
  memory->host.set(host);
  memory->folder.set(folder);
  detail::note_process(process_tag());
}

flight_remains read_flight_memory() {
  flight_remains out;
  if (memory == nullptr) return out;
  out.node = memory->node.get();
  out.host = memory->host.get();
  out.folder = memory->folder.get();
  out.process = static_cast<uint32_t>(memory->process);
  out.clock = {std::bit_cast<int64_t>(memory->clock_offset_ns),
               std::bit_cast<int64_t>(memory->clock_bound_ns_and_one) - 1};
  for (const auto& room : memory->actors)
    if (room.number_and_one != 0)
      out.actors.push_back({static_cast<uint32_t>(room.number_and_one - 1), room.parent,
                            room.path.get(), room.kind.get()});
  for (const auto& room : memory->works) out.works.push_back(room.get());
  while (!out.works.empty() && out.works.back().empty()) out.works.pop_back();
  const auto rings = std::min<uint64_t>(memory->rings_taken, most_rings);
  for (size_t i = 0; i < rings; ++i) {
    const record_ring ring(memory->rings[i]);
    uint64_t from = 0;
    ring.read(from, out.records, SIZE_MAX, out.lost);
    if (const auto open = ring.under_hands()) out.unfinished.push_back(*open);
  }
  std::stable_sort(out.records.begin(), out.records.end(),
                   [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return out;
}

}  // namespace troupe
