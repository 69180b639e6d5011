// Settings of devices that hold a number, as the highest clock of a processor or the watts of a
// package: which numbers a pace stands for, and which settings are this program's to change.
//
// A pace here is a share of what a device draws at work, by which the budget's judge goes on
// (job_pace_policy.hpp): it makes the next pace from the last one's joules as if they were
// proportional. Watts grow about with the square of a clock (between its first power, where the
// voltage stays, and its third), so a clock follows the root of the pace: with any power between 0
// and 4 the judge's steps come closer to the budget, where they would swing ever farther by a clock
// that is proportional to the pace. A limit in watts has a floor for what is drawn without work.
//
// Pure.
//
// Invariants
//   DVS-1  Nothing is set above what was found, nor below the least that the device takes.
//   DVS-2  A lower pace is never a higher setting, and the whole pace is what was found.
//   DVS-3  What reads back above what was set, by more than devices round, is not in force.
//   DVS-5  A clock that is asked for is never set lower than it is, but for DVS-1.
//   DVS-4  Only these settings are written: their names are known as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gpu/controls/actuator.hpp"

namespace troupe::gpu::controls {

enum class setting_kind : uint8_t {
  cpufreq,      ///< the highest clock of processors, kHz
  rapl,         ///< the long-term power limit of processor packages, microwatts
  nvml_clocks,  ///< the highest clock that a GPU is locked to, MHz; 0: it is free
  nvml_limit,   ///< the power limit of a GPU, milliwatts
};
/// As power.control names them.
std::string_view to_string(setting_kind kind);
bool is_of_gpu(setting_kind kind);
/// In watts, and no clock.
bool is_limit(setting_kind kind);
std::optional<setting_kind> setting_kind_named(std::string_view name);

/// What a setting may be (DVS-1).
struct setting_range {
  uint64_t least = 0;
  uint64_t most = 0;                ///< what was found, or as good as that
  uint64_t step = 1;                ///< it is a multiple of this
  uint64_t rounded = 0;             ///< what a device may add to it (DVS-3)
  std::vector<uint64_t> only = {};  ///< or one of these, where there are any
};

/// Kilohertz between two clocks where the kernel lists none, and what many processors round to.
inline constexpr uint64_t clock_step_khz = 1'000, clock_rounded_khz = 100'000;
/// Of a limit, microwatts: what most packages count in.
inline constexpr uint64_t limit_step_uw = 125'000;
/// Of GPUs.
inline constexpr uint64_t lock_step_mhz = 15, gpu_limit_step_mw = 1'000;

/// Of the highest clock of some processors; `listed`: scaling_available_frequencies.
setting_range clock_range(uint64_t least_khz, uint64_t found_khz, std::string_view listed);
/// Of a package's limit. The floor is a quarter of it: about what most draw idle; a floor above the
/// idle draw costs range, one far below it would make the judge's steps swing.
setting_range limit_range(uint64_t found_uw);

/// Of a GPU's clock, by those that it lists.
setting_range lock_range(std::vector<uint64_t> listed_mhz);
/// Of a GPU's limit, down to the least that it takes.
setting_range gpu_limit_range(uint64_t least_mw, uint64_t found_mw);

/// DVS-1, DVS-2
uint64_t setting_at(setting_kind kind, const setting_range& range, int pace_of_1024);
/// DVS-1, DVS-5: the lowest setting of a clock that lets devices run at `mhz`.
uint64_t setting_of_clock(setting_kind kind, const setting_range& range, int mhz);
/// Clocks of devices that have one together, in MHz, highest first: those that are listed of the
/// one that is fastest, or `even_clocks` evenly down to the least that it takes. Each of them set
/// is one that it has (setting_of_clock). None of a limit.
std::vector<int> clocks_of(setting_kind kind, std::span<const setting_range> ranges);
inline constexpr uint64_t even_clocks = 32;
/// DVS-3
bool is_in_force(const setting_range& range, uint64_t wanted, uint64_t read);

/// Of all settings of a kind together.
actuator_facts setting_facts(setting_kind kind, std::span<const setting_range> ranges);

/// DVS-4: whether it is the whole path of such a setting, without "." and "..", or a GPU's UUID.
bool names_setting(setting_kind kind, std::string_view where);

/// A number that a file of the kernel holds; none: it holds something else.
std::optional<uint64_t> number_in(std::string_view text);

}  // namespace troupe::gpu::controls
