// Copies of names and manifests.
#include "actors/sim/second_tier.hpp"

#include <vector>

#include "io/checkpoint/catalog.hpp"

namespace troupe::sim {

namespace fs = std::filesystem;

namespace {

class modelled_files final : public checkpoint::carrier_files {
 public:
  explicit modelled_files(machine_room* room) : room_(room) {}

  status begin(const fs::path& from) override {
    source_ = from;
    moved_ = 0;
    finished_ = false;
    TROUPE_CHECK(is_there());
    if (from.parent_path() == second_dir)
      return error{errc::bad_config, "the second tier is the folder of the first"};
    head_ = *head_of_source();
    files_.clear();
    for (size_t r = 0; r < room_->ranks->size; ++r)
      files_.push_back(part_name(static_cast<uint32_t>(r)));
    files_.emplace_back(io::checkpoint::manifest_file);
    partial_ = io::checkpoint::partial_name(head_.step, head_.epoch);
    if (auto closed = to().closed()) return *closed;
    disk().make_folder(partial_, 0);
    return {};
  }

  result<uint64_t> advance() override {
    TROUPE_CHECK(is_there());
    if (auto closed = to().closed()) return error{errc::io, closed->message};
    const size_t file = moved_ / 2, named = moved_ - std::min(moved_, 2 * files_.size());
    if (file < files_.size() && moved_ % 2 == 0)
      disk().write(partial_, files_[file], 0);
    else if (file < files_.size())
      disk().sync(partial_, files_[file]);
    else if (named == 0)
      disk().describe(partial_, head_);
    else if (named == 1)
      publish_folder(disk(), partial_, head_.step, 0);
    else
      settle();
    ++moved_;
    return copy_slot_bytes;
  }

  bool finished() const override { return finished_; }

  io::checkpoint::copy_progress progress() const override {
    return {(2 * files_.size() + 3) * copy_slot_bytes, moved_ * copy_slot_bytes, 0};
  }

  void leave() override {
    if (!finished_) disk().remove(partial_);
    files_.clear();
    moved_ = 0;
  }

  bool holds(const fs::path& from) const override {
    const auto [where, name] = room_->place_of(from);
    const auto there = disk().head_of(io::checkpoint::complete_name(step_of(name)));
    const auto meant = where->disk.head_of(name);
    return !to().gone() && !where->gone() && there && meant && *there == *meant;
  }

  status retain() override {
    sim::retain(to(), room_->launch);
    return {};
  }

 private:
  static uint64_t step_of(const std::string& name) {
    const auto parsed = io::checkpoint::parse_folder_name(name);
    return parsed ? parsed->step : 0;
  }

  tier& to() const { return room_->tiers[1]; }
  disk_policy& disk() const { return to().disk; }

  std::optional<io::checkpoint::manifest_head> head_of_source() const {
    const auto [where, name] = room_->place_of(source_);
    return where->gone() ? std::nullopt : where->disk.head_of(name);
  }

  /// As copier's CY-4: whatever became of the source, it is gone.
  status is_there() const {
    const auto now = head_of_source();
    if (now && (moved_ == 0 || *now == head_)) return {};
    return error{errc::not_found, "the checkpoint was removed or replaced while it was copied"};
  }

  void settle() {
    disk().settle();
    finished_ = true;
    ++room_->counted.copies;
  }

  machine_room* room_;
  fs::path source_;
  std::string partial_;
  io::checkpoint::manifest_head head_;
  std::vector<std::string> files_;
  size_t moved_ = 0;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<checkpoint::carrier_files> make_carrier_files(machine_room* room) {
  return std::make_unique<modelled_files>(room);
}

}  // namespace troupe::sim
