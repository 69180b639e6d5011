// Times, and who has which folder.
#include "actors/sim/drives.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "io/base/counted.hpp"

namespace troupe::sim {

std::string swap_counts::text() const {
  return fmt::format(
      "{} of drives; {} by links, {} without room; {} moved, {} of gradients, {} of activations, "
      "{} "
      "behind a wait for room; {} failed; activations written {} times; {} made again; {} with "
      "rows "
      "first; {} replanned; {} left behind",
      counted(operations, "operation"), counted(kept, "checkpoint"), unkept,
      counted(moved + gradients_moved + activations_moved, "file"), gradients_moved,
      activations_moved, waited, counted(unread, "read"), spilled, counted(redone, "step"),
      counted(rows_first, "token table"), counted(replanned, "time"), counted(leftovers, "folder"));
}

swap_counts& swap_counts::operator+=(const swap_counts& o) {
  operations += o.operations;
  kept += o.kept;
  unkept += o.unkept;
  moved += o.moved;
  waited += o.waited;
  unread += o.unread;
  spilled += o.spilled;
  gradients_moved += o.gradients_moved;
  activations_moved += o.activations_moved;
  redone += o.redone;
  rows_first += o.rows_first;
  replanned += o.replanned;
  leftovers += o.leftovers;
  return *this;
}

/// Removes the folder when its swapper's time is over.
class drives::home final : public train::swap_home {
 public:
  home(drives& of, int node, int rank, uint64_t number, std::string dir)
      : of_(of), node_(node), rank_(rank), number_(number), dir_(std::move(dir)) {}
  ~home() override { of_.close(node_, rank_, number_); }

  train::opened_swap opened() const override {
    constexpr uint64_t free_bytes = uint64_t{1} << 40;
    train::opened_swap out;
    for (int i = 0; i < of_.shape_.drives; ++i)
      out.places.push_back({fmt::format("{}.{}", dir_, i), of_.shape_.links && i == 0, free_bytes});
    return out;
  }

 private:
  drives& of_;
  int node_, rank_;
  uint64_t number_;
  std::string dir_;
};

int64_t drives::busy_for(int64_t& until_ns, const drive_fault& fault, double seconds) {
  constexpr double call_ns = 100'000;
  const auto now_ns = where_.now_ns();
  ++counted_.operations;
  const double slow = fault.slows > 0 ? slow_times : 1;
  until_ns = std::max(until_ns, now_ns) + static_cast<int64_t>(slow * (call_ns + seconds * 1e9));
  return until_ns - now_ns;
}

int64_t drives::reads_for(int node, uint64_t bytes) {
  auto& d = drives_[node];
  return busy_for(d.reads_until_ns, d.fault, static_cast<double>(bytes) / shape_.read_bytes_per_s);
}

int64_t drives::writes_for(int node, uint64_t bytes) {
  auto& d = drives_[node];
  return busy_for(d.writes_until_ns, d.fault,
                  static_cast<double>(bytes) / shape_.write_bytes_per_s);
}

result<std::unique_ptr<train::swap_home>> drives::open(int node,
                                                       const train::swap_request& request) {
  auto& f = folders_[{node, request.rank}];
  if (f.number != 0)  // SIM-25
    where_.violation(fmt::format("the swap folder of rank {} on node{} is opened twice",
                                 request.rank, node - 1));
  if (fault_of(node).full > 0)
    return error::system(fmt::format("reserve {} bytes of swap files", request.file_bytes), ENOSPC);
  if (f.leftover) ++counted_.leftovers;
  f = {++opened_, 0, false, false};
  return std::unique_ptr<train::swap_home>(std::make_unique<home>(
      *this, node, request.rank, f.number,
      fmt::format("{}/rank-{:05}", request.dirs.front().string(), request.rank)));
}

std::shared_ptr<const void> drives::use(int node, int rank) {
  auto& f = folders_[{node, rank}];
  if (f.number == 0)
    where_.violation(fmt::format("rank {} on node{} has files in a folder that nobody has opened",
                                 rank, node - 1));
  if (f.engines++ > 0)
    where_.violation(
        fmt::format("two engines of rank {} on node{} have files in one folder", rank, node - 1));
  return {nullptr, [this, node, rank, number = f.number](const void*) {
            auto& now = folders_[{node, rank}];
            if (now.number == number) --now.engines;
          }};
}

void drives::close(int node, int rank, uint64_t number) {
  auto& f = folders_[{node, rank}];
  if (f.number != number) return;  // its process has ended before it
  if (f.engines > 0 && !f.forsaken)
    where_.violation(fmt::format(
        "the swap folder of rank {} on node{} is removed before its engine", rank, node - 1));
  f = {};
}

void drives::begin_launch() {
  for (auto& [node, d] : drives_) d.fault.fails_read = d.fault.fails_write = false;
}

void drives::end_process(int node) {
  for (auto& [place, f] : folders_)
    if (place.first == node && f.number != 0) f = {0, 0, true, false};
}

}  // namespace troupe::sim
