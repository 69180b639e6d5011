// Raw transfers by io/disk, and by fio.
#include "apps/bench/checkpoint_ceiling.hpp"

#include <chrono>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/checkpoint_process.hpp"
#include "apps/bench/stopwatch.hpp"

namespace troupe::apps::ckpt_bench {

namespace fs = std::filesystem;

namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::seconds patience{60};  ///< for one chunk

/// Bytes that no disk can squeeze, in every slot.
void fill(io::slots& ring) {
  std::mt19937_64 lot(1);
  auto arena = ring.arena();
  std::vector<io::slot> all;
  while (auto lease = ring.try_take()) all.push_back(std::move(*lease));
  auto* words = reinterpret_cast<uint64_t*>(arena.data());
  std::generate(words, words + arena.size() / sizeof(uint64_t), [&] { return lot(); });
}

}  // namespace

result<std::unique_ptr<raw_disk>> raw_disk::open(const io::disk_rate& how,
                                                 const std::atomic<bool>& stop) {
  TROUPE_TRY(ring, io::slots::make({how.chunk_bytes, static_cast<int>(how.depth)}));
  fill(*ring);
  io::disk_options options;
  options.depth = how.depth;
  options.ring = ring;
  TROUPE_TRY(disk, io::open_disk(options));
  return std::unique_ptr<raw_disk>(new raw_disk(std::move(ring), std::move(disk), stop));
}

status raw_disk::move(io::file_id file, io::disk_op op, uint64_t bytes) {
  uint64_t asked = 0;
  while (asked < bytes || disk_->under_way() > 0) {
    if (stop_) return error{errc::cancelled, "interrupted"};
    std::optional<io::slot> lease;
    while (asked < bytes && (lease = ring_->try_take())) {
      const auto n = std::min<uint64_t>(ring_->slot_bytes(), bytes - asked);
      io::io_buffer buffer(std::move(*lease), n);
      TROUPE_CHECK(op == io::disk_op::write ? disk_->write(file, asked, std::move(buffer), asked)
                                            : disk_->read(file, asked, std::move(buffer), asked));
      asked += n;
    }
    auto done = disk_->wait(1, patience);
    if (done.empty()) return error{errc::timeout, "the disk does not answer"};
    for (auto& c : done) TROUPE_CHECK(c.outcome);
  }
  return {};
}

status raw_disk::sync(io::file_id file) {
  TROUPE_CHECK(disk_->fdatasync(file, 0));
  auto done = disk_->wait(1, patience);
  if (done.empty()) return error{errc::timeout, "the disk does not answer"};
  return done.front().outcome;
}

result<double> raw_disk::write(const fs::path& name, uint64_t bytes) {
  TROUPE_TRY(file, disk_->open(name, {io::open_mode::create, true, bytes}));
  const auto began = clock::now();
  auto outcome = move(file, io::disk_op::write, bytes);
  if (outcome) outcome = sync(file);
  const double took = seconds_since(began);
  disk_->close(file);
  TROUPE_CHECK(outcome);
  return took;
}

result<double> raw_disk::read(const fs::path& name) {
  std::error_code code;
  const auto bytes = fs::file_size(name, code);
  if (code) return error::system(fmt::format("look at {}", name.string()), code.value());
  TROUPE_TRY(file, disk_->open(name, {io::open_mode::read, true, 0}));
  const auto began = clock::now();
  const auto outcome = move(file, io::disk_op::read, bytes);
  const double took = seconds_since(began);
  disk_->close(file);
  TROUPE_CHECK(outcome);
  return took;
}

std::optional<double> fio_write_s(const fs::path& name, uint64_t bytes, const io::disk_rate& how) {
  auto fio = child_process::start(
      {"fio", "--name=ceiling", "--filename=" + name.string(), "--rw=write", "--direct=1",
       "--ioengine=io_uring", "--end_fsync=1", "--fallocate=posix",
       fmt::format("--bs={}", how.chunk_bytes), fmt::format("--iodepth={}", how.depth),
       fmt::format("--size={}", bytes), "--output-format=json"});
  if (!fio) return std::nullopt;
  const auto text = (*fio)->read_all();
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.contains("jobs") || json["jobs"].empty()) return std::nullopt;
  const auto& job = json["jobs"][0];
  if (job.value("error", 1) != 0) return std::nullopt;
  const double ms = job.value("job_runtime", 0.0);  // its clock's unit; the final fsync included
  return ms > 0 ? std::optional(ms / 1e3) : std::nullopt;
}

}  // namespace troupe::apps::ckpt_bench
