// Moments in the launch of a saving run at which a test strikes: something that is seen (a line, a
// folder, a write to a shard), so many times, and a short spin after it. Drawn by seed; nothing
// sleeps.
#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "io/file.hpp"
#include "tests/cluster/program.hpp"

namespace troupe::cluster_test {

/// What can be seen of a run from outside.
enum class sight : uint8_t {
  launched,  ///< the process is there: it reads, removes leftovers, verifies
  open,      ///< the coordinator said where it listens: nodes start
  step,      ///< a step's line
  partial,   ///< the folder of a save appeared
  shard,     ///< a shard appeared in it
  write,     ///< a shard was written to
  manifest,  ///< MANIFEST appeared
  commit,    ///< a folder got its final name
  removal,   ///< a folder was given up: renamed to be removed
  deletion,  ///< a file of a folder was removed
  copy,      ///< a copy's folder appeared in the second tier, or a file of it was written to
  copied,    ///< a copy got its final name
  aside,     ///< a checkpoint was set aside, in either tier
  publish,   ///< the export's folder appeared, or a file in it, or it got its final name
};
inline constexpr size_t sights = 14;
std::string_view to_string(sight what);

struct moment {
  sight what = sight::step;
  int count = 1;                       ///< the how manieth, of this run
  std::chrono::microseconds after{0};  ///< spun away after it
};
/// "after write 7 and 310 us".
std::string render(const moment& m);

/// From none to the most, small ones as often as large ones.
std::chrono::microseconds draw_spin(std::mt19937_64& random, double most_us);
/// The moment of a kill, not when something is there: nobody is waited for.
void spin(std::chrono::microseconds time);
/// How often a part stands in a text.
int times(const std::string& text, std::string_view part);

/// A moment of a save by chance; one of removals only where there are some.
moment draw_moment(std::mt19937_64& random, bool removals);
/// One of a copy, of setting aside, or of the export.
moment draw_moment_of(std::mt19937_64& random, sight what);

/// Sees what happens in a job's folders.
class lookout {
 public:
  /// Before the run starts; makes the folders that are missing. The second tier and the output may
  /// be none: empty.
  explicit lookout(const std::filesystem::path& first, const std::filesystem::path& second = {},
                   const std::filesystem::path& output = {});
  /// Waits and spins; false when the program ended before.
  bool await(program& p, const moment& m);
  /// Waits for the next such sight from now on.
  bool await_next(program& p, moment m);

 private:
  int seen(const program& p, sight what);
  void look();
  void take(int watch, uint32_t mask, const std::string& name);
  void take_of_first(uint32_t mask, const std::string& name);
  void take_of_second(uint32_t mask, const std::string& name);
  void take_of_output(uint32_t mask, const std::string& name);
  void take_inside(uint32_t mask, const std::string& name);
  int watch_folder(const std::filesystem::path& folder);
  int enter(const std::filesystem::path& inner, std::set<int>& into);
  void enter_and_count(const std::filesystem::path& inner, std::set<int>& into);
  void count(sight what) { ++counts_[static_cast<size_t>(what)]; }

  std::filesystem::path first_, second_, output_;
  io::unique_fd events_;
  int on_first_ = -1, on_second_ = -1, on_output_ = -1;
  std::set<int> inside_, in_copy_, in_export_;
  std::array<int, sights> counts_{};
};

}  // namespace troupe::cluster_test
