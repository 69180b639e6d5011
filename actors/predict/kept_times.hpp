// Where the predictor keeps what it learned: a file (io/perf/part_times.hpp), or memory alone, as
// in a replay, which is to write no file.
//
// Invariants
//   KTM-1  What memory alone keeps is read, added to and forgotten as a file of these lines that
//     nobody else adds to would be.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/base/result.hpp"
#include "io/perf/part_times.hpp"

namespace troupe::predict {

/// Errors are those of io/perf/part_times.hpp.
class kept_times {
 public:
  virtual ~kept_times() = default;

  /// As people know it.
  virtual std::string name() const = 0;
  virtual result<io::perf::part_times> read() = 0;
  virtual status add(std::span<const io::perf::part_time> times) = 0;
  /// A node's; how many lines.
  virtual result<size_t> forget(std::string_view node) = 0;
  /// Gives what cannot be read another name; that.
  virtual result<std::filesystem::path> put_aside() = 0;
};

std::unique_ptr<kept_times> times_in_file(std::filesystem::path file);
/// Of these, as read from a file.
std::unique_ptr<kept_times> times_in_memory(io::perf::part_times times);

}  // namespace troupe::predict
