// Logs of a faulty_disk: its faults and times strike them as they do its other files; but a call
// whose completion would be lost is answered EIO, since nobody waits for it beside others.
#include <cerrno>

#include "io/disk/faulty_disk.hpp"

namespace troupe::io {

class faulty_disk::stored_log final : public log_file {
 public:
  stored_log(faulty_disk& of, int handle, path name)
      : disk_(of), handle_(handle), name_(std::move(name)) {}
  ~stored_log() override { disk_.raw_close(handle_); }

  status write_at(uint64_t offset, std::span<const std::byte> bytes) override {
    int stalls = 0;
    while (!bytes.empty()) {
      // A request's memory is a buffer's, which a read would fill: a write leaves it as it is.
      const std::span moved{const_cast<std::byte*>(bytes.data()), bytes.size()};
      const auto n = carry_out({0, disk_op::write, handle_, offset, moved});
      if ((n == -EINTR || n == 0) && ++stalls <= most_stalls) continue;  // DK-2
      if (n <= 0) return disk_error("write", name_, n < 0 ? static_cast<int>(-n) : ENOSPC);
      offset += static_cast<uint64_t>(n);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  status cut(uint64_t bytes) override {
    int failure = disk_.refused(fault_site::cut);
    const auto by = disk_.after(disk_.options_.name_latency);
    if (failure == 0) failure = disk_.store_->cut(node(), bytes, by);
    return answered(failure, "cut");
  }

  status sync() override {
    return answered(static_cast<int>(-carry_out({0, disk_op::fdatasync, handle_, 0, {}})),
                    "fdatasync of");
  }

  status keep_room(uint64_t offset, uint64_t bytes) override {
    int failure = disk_.refused(fault_site::keep_room);
    if (failure == 0) failure = disk_.store_->keep_room(node(), offset + bytes);
    return answered(failure, "set room aside for");
  }

  bool is_named(const path& name) const override {
    const auto there = disk_.store_->version_of(name);
    return there && there->first == node();
  }

 private:
  crash_store::node_id node() const { return disk_.handles_.at(handle_).node; }
  int64_t carry_out(const raw_request& request) {
    bool lost = false;
    const auto value = disk_.carry_out(request, disk_.after(disk_.options_.latency), lost);
    return lost ? -EIO : value;
  }
  status answered(int failure, std::string_view doing) const {
    return failure == 0 ? status{} : status{disk_error(doing, name_, failure)};
  }

  faulty_disk& disk_;
  const int handle_;
  const path name_;
};

result<std::unique_ptr<log_file>> faulty_disk::open_log(const path& name, log_open how) {
  const auto mode = how == log_open::existing ? open_mode::read
                    : how == log_open::create ? open_mode::create
                                              : open_mode::replace;
  TROUPE_TRY(file, raw_open(name, {.mode = mode}));
  return std::unique_ptr<log_file>(std::make_unique<stored_log>(*this, file.handle, name));
}

}  // namespace troupe::io
