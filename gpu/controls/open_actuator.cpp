// Which of them; see open_actuator.hpp.
#include "gpu/controls/open_actuator.hpp"

#include <utility>

#include <fmt/format.h>

#include "gpu/controls/agent_actuator.hpp"
#include "gpu/controls/setting_governor.hpp"
#include "gpu/controls/setting_policy.hpp"
#include "gpu/controls/setting_port.hpp"
#include "gpu/controls/thread_quota.hpp"

namespace troupe::gpu::controls {

namespace {

result<std::unique_ptr<actuator>> open_one(const std::string& name, const control_place& at,
                                           const control_owner& owner, std::span<const int> threads,
                                           const std::string& gpu) {
  const auto kind = setting_kind_named(name);
  if (!kind && name != "cgroup") return error{errc::bug, "no such actuator: " + name};
  const bool of_gpu = kind && is_of_gpu(*kind);
  if (of_gpu && gpu.empty()) return no_such_setting(name, "this rank computes on no GPU");
  if (!of_gpu && threads.empty()) return no_computing_threads(name);
  if (!kind) {
    TROUPE_TRY(made, thread_quota::make(at, owner, threads));
    return std::unique_ptr<actuator>(std::move(made));
  }
  const setting_target target{*kind, of_gpu ? gpu : ""};
  auto made = setting_governor::make(at, target, owner);
  if (made) return std::unique_ptr<actuator>(std::move(*made));
  const bool may_ask = made.error().is(setting_refused) || made.error().is(setting_governed);
  if (at.agent_socket.empty() || !may_ask) return made.error();
  auto asked = agent_actuator::make(at, target, owner);  // OPA-3
  if (asked) return std::unique_ptr<actuator>(std::move(*asked));
  const auto& why = asked.error();
  auto both = why.is(setting_governed) || why.is(agent_not_trusted) ? why : made.error();
  both.message = fmt::format("{}; {}", made.error().message, asked.error().message);
  return both;
}

}  // namespace

bool is_not_offered(const error& e) {
  return e.is(no_such_setting) || e.is(shared_device) || e.is(setting_held_lower) ||
         e.is(setting_refused) || e.is(setting_governed) || e.is(no_computing_threads) ||
         e.is(no_cpu_controller) || e.is(quota_refused) || e.is(quota_over_limit) ||
         e.is(agent_not_trusted);
}

void add_refusal(std::optional<error>& all, const error& next) {
  if (all)
    all->message += "; " + next.message;
  else
    all = next;
}

result<chosen_actuator> open_actuator(std::span<const std::string> words, const control_place& at,
                                      const control_owner& owner, std::span<const int> threads,
                                      const std::string& gpu) {
  chosen_actuator out;
  std::optional<error> refused;
  bool is_gpu_governed = false, are_processors_governed = false;
  for (const auto& word : words) {
    if (word == "pace") return out;
    const auto kind = setting_kind_named(word);
    bool nobodys = false;  // a quota is of this rank's own threads
    bool& is_taken = !kind ? nobodys : is_of_gpu(*kind) ? is_gpu_governed : are_processors_governed;
    if (is_taken) continue;  // OPA-2
    auto made = open_one(word, at, owner, threads, gpu);
    if (made) {
      out.control = std::move(*made);
      return out;
    }
    if (!is_not_offered(made.error())) return made.error();  // OPA-1
    is_taken = made.error().is(setting_governed);
    out.passed.push_back(made.error().message);
    add_refusal(refused, made.error());
  }
  if (!refused) return error{errc::bug, "no actuator is named"};
  return *std::move(refused);
}

}  // namespace troupe::gpu::controls
