// A file for node_exporter's textfile collector, replaced as a whole behind its giver's back.
//
// Invariants
//   BDK-3  A file for monitoring is replaced as a whole. What finds no room beside those that
//     wait is passed over: the next one says what holds then. That it cannot be written is told
//     once.
//   BDK-4  What stands there and does not begin as our metrics do is not replaced: a name that was
//     mistyped costs nobody a file.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "apps/power/background.hpp"

namespace troupe::apps::power_verb {

class textfile {
 public:
  explicit textfile(std::filesystem::path file);
  ~textfile();  ///< waits for a write that is under way, at most `defaults::orderly_end`
  textfile(const textfile&) = delete;
  textfile& operator=(const textfile&) = delete;

  /// Waits for nothing; `text` is asked for in another thread. BDK-3
  void take(std::function<std::string()> text);

  /// Waits until what was taken is written, or has failed to be; whether it is.
  bool settle(std::chrono::milliseconds patience) const { return writer_.settle(patience); }

 private:
  std::filesystem::path file_;
  std::shared_ptr<bool> failed_;  ///< the writer's thread's; the last write
  background writer_;
};

}  // namespace troupe::apps::power_verb
