// Measuring a disk and keeping the result: see calibrate.hpp.
#include "io/disk/calibrate.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds chunk_patience{30};  ///< for one chunk
constexpr double most_rate = 1e13;                  ///< bytes a second; more is no measurement

std::vector<std::pair<size_t, size_t>> usual_tries() {
  constexpr size_t mib = size_t{1} << 20;
  return {{4 * mib, 8}, {8 * mib, 8}, {4 * mib, 4}, {8 * mib, 4}};
}

bool possible(size_t chunk, size_t depth) {
  return chunk > 0 && chunk <= size_t{1} << 30 && chunk % disk_block == 0 && depth >= 1 &&
         depth <= 1024;
}

result<std::string> device_of(const fs::path& folder) {
  struct stat facts {};
  struct statfs system {};
  if (::stat(folder.c_str(), &facts) != 0) return disk_error("stat", folder, errno);
  if (::statfs(folder.c_str(), &system) != 0) return disk_error("statfs", folder, errno);
  return fmt::format(
      "{}:{} {:x} {}", major(facts.st_dev), minor(facts.st_dev),
      static_cast<uint64_t>(system.f_type),
      static_cast<uint64_t>(system.f_blocks) * static_cast<uint64_t>(system.f_bsize));
}

/// The name of the fact: the device's number says which of them.
std::string fact_of(const std::string& device) {
  auto number = device.substr(0, device.find(' '));
  std::replace(number.begin(), number.end(), ':', '-');
  return "disk-" + number;
}

// -- measuring -----------------------------------------------------------------------------------

/// Moves `chunks` chunks, `depth` at a time, and syncs writes. `op`: each way; none: even ones are
/// read and odd ones written.
status move_all(disk& on, file_id file, std::optional<disk_op> op, slots& ring, size_t chunk,
                uint64_t chunks) {
  uint64_t asked = 0;
  while (asked < chunks || on.under_way() > 0) {
    std::optional<slot> lease;
    while (asked < chunks && (lease = ring.try_take())) {
      io_buffer buffer(std::move(*lease), chunk);
      const auto way = op.value_or(asked % 2 == 0 ? disk_op::read : disk_op::write);
      TROUPE_CHECK(way == disk_op::write ? on.write(file, asked * chunk, std::move(buffer), asked)
                                         : on.read(file, asked * chunk, std::move(buffer), asked));
      ++asked;
    }
    auto done = on.wait(1, chunk_patience);
    if (done.empty()) return error{errc::timeout, "the disk does not answer"};
    for (auto& c : done) TROUPE_CHECK(c.outcome);
  }
  if (op == disk_op::read) return {};
  TROUPE_CHECK(on.fdatasync(file, 0));
  auto done = on.wait(1, chunk_patience);
  if (done.empty()) return error{errc::timeout, "the disk does not answer"};
  return done.front().outcome;
}

double rate_of(uint64_t bytes, disk::nanoseconds took) {
  return static_cast<double>(bytes) * 1e9 / static_cast<double>(std::max<int64_t>(took.count(), 1));
}

/// From how long as many bytes took each way alone, and both ways at once.
double duplex_of(disk::nanoseconds write, disk::nanoseconds read, disk::nanoseconds both) {
  const auto shorter = static_cast<double>(std::min(write, read).count());
  const auto longer = static_cast<double>(std::max(write, read).count());
  if (shorter <= 0) return 0;
  return std::clamp(1 - (static_cast<double>(both.count()) - longer) / shorter, 0.0, 1.0);
}

/// Bytes that no disk can squeeze.
void fill(const std::shared_ptr<slots>& ring) {
  std::mt19937_64 random(1);
  std::vector<slot> all;
  while (auto lease = ring->try_take()) {
    auto bytes = lease->bytes();
    auto* words = reinterpret_cast<uint64_t*>(bytes.data());
    std::generate(words, words + bytes.size() / sizeof(uint64_t), [&] { return random(); });
    all.push_back(std::move(*lease));
  }
}

result<disk_rate> try_one(const fs::path& folder, const calibrate_options& options, size_t chunk,
                          size_t depth, uint64_t budget, std::string& backend) {
  slots_options memory;
  memory.slot_bytes = chunk;
  memory.count = static_cast<int>(depth);
  TROUPE_TRY(ring, slots::make(memory));
  fill(ring);
  disk_options how;
  how.backend = options.backend;
  how.depth = depth;
  how.ring = ring;
  TROUPE_TRY(scratch, scratch_folder::make(folder, ".troupe-calibrate-"));  // CA-2
  TROUPE_TRY(on, open_disk(how));
  backend = on->facts().backend;
  const uint64_t chunks = std::max<uint64_t>(2 * (budget / chunk) / 3, 1);
  open_options opened;
  opened.mode = open_mode::create;
  opened.direct = opened.drop_pages = true;  // else it is memory that is measured
  opened.preallocate = chunks * chunk;
  TROUPE_TRY(file, on->open(scratch.path() / "measured", opened));
  // Its name goes at once: a process that is ended while it measures leaves no bytes.
  static_cast<void>(remove_from_scratch(scratch.path(), "measured"));
  disk_rate rate{chunk, depth};
  auto start = on->now();
  TROUPE_CHECK(move_all(*on, file, disk_op::write, *ring, chunk, chunks));
  auto written = on->now();
  TROUPE_CHECK(move_all(*on, file, disk_op::read, *ring, chunk, chunks));
  auto read = on->now();
  // Half as many each way as before: twice the time is that of as many.
  TROUPE_CHECK(move_all(*on, file, std::nullopt, *ring, chunk, chunks));
  const auto both = 2 * (on->now() - read);
  rate.write_bytes_s = rate_of(chunks * chunk, written - start);
  rate.read_bytes_s = rate_of(chunks * chunk, read - written);
  rate.duplex = duplex_of(written - start, read - written, both);
  return rate;
}

// -- keeping -------------------------------------------------------------------------------------

nlohmann::json value_of(const calibration& found) {
  return {
      {"device", found.device},
      {"backend", found.backend},
      {"chunk_bytes", found.best.chunk_bytes},
      {"depth", found.best.depth},
      {"write_bytes_s", found.best.write_bytes_s},
      {"read_bytes_s", found.best.read_bytes_s},
      {"duplex", found.best.duplex},
  };
}

std::optional<calibration> parsed(const nlohmann::json& json) try {
  calibration found;
  found.device = json.at("device").get<std::string>();
  found.backend = json.at("backend").get<std::string>();
  const auto& chunk = json.at("chunk_bytes");
  const auto& depth = json.at("depth");
  if (!chunk.is_number_unsigned() || !depth.is_number_unsigned()) return std::nullopt;
  found.best.chunk_bytes = chunk.get<size_t>();
  found.best.depth = depth.get<size_t>();
  found.best.write_bytes_s = json.at("write_bytes_s").get<double>();
  found.best.read_bytes_s = json.at("read_bytes_s").get<double>();
  found.best.duplex = json.at("duplex").get<double>();
  return found;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

bool believable(double rate) {
  return std::isfinite(rate) && rate > 0 && rate < most_rate;
}

}  // namespace

result<calibration> measure_disk(const fs::path& folder, const calibrate_options& options) {
  TROUPE_TRY(device, device_of(folder));
  auto tries = options.chunk_and_depth.empty() ? usual_tries() : options.chunk_and_depth;
  calibration found;
  found.device = device;
  auto start = std::chrono::steady_clock::now();
  for (auto [chunk, depth] : tries) {
    if (!possible(chunk, depth))
      return error{errc::bad_config, fmt::format("chunks of {} bytes, {} at once", chunk, depth)};
    auto share = options.budget_bytes / tries.size();
    if (chunk > share) continue;
    if (!found.tried.empty() && std::chrono::steady_clock::now() - start >= options.budget) break;
    TROUPE_TRY(rate, try_one(folder, options, chunk, depth, share, found.backend));
    found.tried.push_back(rate);
  }
  if (found.tried.empty())
    return error{errc::bad_config,
                 fmt::format("{} bytes are too few to measure a disk with", options.budget_bytes)};
  double fastest = 0;
  for (const auto& r : found.tried) fastest = std::max(fastest, r.write_bytes_s);
  size_t least = std::numeric_limits<size_t>::max();
  for (const auto& r : found.tried) {
    size_t memory = r.chunk_bytes * r.depth;
    if (r.write_bytes_s < 0.95 * fastest || memory >= least) continue;
    least = memory;
    found.best = r;
  }
  return found;
}

std::optional<calibration> kept_calibration(const fs::path& folder,
                                            const calibrate_options& options) {
  auto device = device_of(folder);
  if (!device) return std::nullopt;
  auto kept = options.store.find(fact_of(*device), options.max_age);
  if (!kept) return std::nullopt;
  auto found = parsed(*kept);
  if (!found || found->device != *device) return std::nullopt;  // CA-1
  if (!possible(found->best.chunk_bytes, found->best.depth)) return std::nullopt;
  if (!believable(found->best.write_bytes_s) || !believable(found->best.read_bytes_s))
    return std::nullopt;
  if (!(found->best.duplex >= 0 && found->best.duplex <= 1)) return std::nullopt;
  return found;
}

result<calibration> calibrate(const fs::path& folder, const calibrate_options& options) {
  if (auto kept = kept_calibration(folder, options)) return *kept;
  TROUPE_TRY(found, measure_disk(folder, options));
  options.store.keep(fact_of(found.device), value_of(found));
  return found;
}

}  // namespace troupe::io
