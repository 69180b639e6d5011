// Lines, and the thread that writes them.
#include "apps/power/budget_audit.hpp"

#include <atomic>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "apps/talk.hpp"

namespace troupe::apps::power_verb {

struct budget_audit::disk {
  std::string file, budget;
  std::shared_ptr<trace::audit_log> log;
  size_t room;
  /// Begun, without a result.
  struct open_line {
    trace::audit_line line;
    trace::audit_place place;
  };
  std::map<uint64_t, open_line> open = {};  ///< of the writer's thread
  uint64_t failures = 0;                    ///< that were known, of the same
  std::atomic<uint64_t> missing{0};         ///< words without room, since that was told last
  std::atomic<bool> is_told{false};         ///< PAU-3: that lines are missing

  void tell(const std::string& why) {
    if (!is_told.exchange(true))
      say(fmt::format("warning: {} is not written: {}; {} does what it is told all the same", file,
                      why, budget));
  }
  /// In the writer's thread, after each task. `has_written`: a line. A result that took its place
  /// in one, or a refusal that was left out, says nothing of the disk.
  void look(bool has_written) {
    const auto all = log->failures();
    const bool has_failed = std::exchange(failures, all) != all;
    if (has_failed) return tell(log->trouble());
    if (has_written && missing.exchange(0) == 0 && is_told.exchange(false))
      say(fmt::format("{} is written again", file));
  }
};

budget_audit::budget_audit(const std::filesystem::path& file, std::string budget,
                           std::function<std::string()> wall_time, size_t room)
    : to_(new disk{file.string(), std::move(budget),
                   std::make_shared<trace::audit_log>(file.string(), std::move(wall_time)), room}),
      writer_(room) {}

budget_audit::~budget_audit() {
  settle(defaults::orderly_end);
}

/// PAU-1
void budget_audit::put(std::function<bool(disk&)> task) {
  if (writer_.put([to = to_, task = std::move(task)] { to->look(task(*to)); })) return;
  ++to_->missing;
  to_->tell("its disk does not answer");
}

void budget_audit::begins(uint64_t number, power::order_said said) {
  put([number, said = std::move(said)](disk& d) {
    trace::audit_line line{
        {said.who, said.role, "", said.from}, said.command, d.budget, said.message, ""};
    const auto place = d.log->begin(line, true);
    d.open[number] = {std::move(line), place ? *place : trace::audit_place{}};
    if (d.open.size() > d.room) d.open.erase(d.open.begin());  // PAU-4
    return static_cast<bool>(place);
  });
}

void budget_audit::ends(uint64_t number, const std::string& result) {
  put([number, result](disk& d) {
    auto begun = d.open.extract(number);
    if (!begun) return false;  // it had no room, or waited for too long
    begun.mapped().line.result = result;
    d.log->finish(begun.mapped().place, std::move(begun.mapped().line));
    return false;
  });
}

void budget_audit::refused(const refusal& r) {
  put([r](disk& d) {
    return d.log->note_refusal(
        r, std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  });
}

std::shared_ptr<trace::audit_log> budget_audit::log() const {
  return to_->log;
}

}  // namespace troupe::apps::power_verb
