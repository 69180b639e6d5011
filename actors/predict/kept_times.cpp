// A file, and what stands for one: see kept_times.hpp.
#include "actors/predict/kept_times.hpp"

#include <utility>
#include <vector>

namespace troupe::predict {

namespace {

using io::perf::part_time;
using io::perf::part_times;

class file_times final : public kept_times {
 public:
  explicit file_times(std::filesystem::path file) : file_(std::move(file)) {}

  std::string name() const override { return file_.string(); }
  result<part_times> read() override { return io::perf::read_part_times(file_); }
  status add(std::span<const part_time> times) override {
    return io::perf::add_part_times(file_, times);
  }
  result<size_t> forget(std::string_view node) override {
    return io::perf::forget_part_times(file_, node);
  }
  result<std::filesystem::path> put_aside() override {
    return io::perf::put_part_times_aside(file_);
  }

 private:
  std::filesystem::path file_;
};

/// KTM-1.
class memory_times final : public kept_times {
 public:
  explicit memory_times(part_times times) : times_(std::move(times)) {}

  std::string name() const override { return "memory"; }
  result<part_times> read() override { return times_; }
  status add(std::span<const part_time> times) override {
    times_.times.insert(times_.times.end(), times.begin(), times.end());
    return {};
  }
  result<size_t> forget(std::string_view node) override {
    return std::erase_if(times_.times, [&](const part_time& t) { return t.node == node; });
  }
  result<std::filesystem::path> put_aside() override {
    return error{errc::not_found, "what memory alone keeps has no name"};
  }

 private:
  part_times times_;
};

}  // namespace

std::unique_ptr<kept_times> times_in_file(std::filesystem::path file) {
  return std::make_unique<file_times>(std::move(file));
}

std::unique_ptr<kept_times> times_in_memory(part_times times) {
  return std::make_unique<memory_times>(std::move(times));
}

}  // namespace troupe::predict
