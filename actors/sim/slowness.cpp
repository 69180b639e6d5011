// Who looks, and what is slow.
#include "actors/sim/slowness.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/base/context.hpp"
#include "actors/control/gateway.hpp"
#include "actors/health/monitor.hpp"
#include "actors/predict/predictor.hpp"
#include "actors/sim/simulation.hpp"
#include "messages/text.hpp"

namespace troupe::sim {

namespace {

/// Longer than any launch.
constexpr int64_t ever_ns = int64_t{1000} * 3600 * 1'000'000'000;

/// A person who asks what is expected, after each step.
struct onlooker_state {
  static inline const char* name = "onlooker";
  monitor_actor monitor;
  std::function<void(const fbs::FindingsT&)> shown;
};
using onlooker_pointer = caf::stateful_actor<onlooker_state, traced<caf::event_based_actor>>*;

caf::behavior onlooker(onlooker_pointer self, const monitor_actor& monitor,
                       std::function<void(const fbs::FindingsT&)> shown) {
  guard_mailbox(self);
  introduce(self, "onlooker");
  self->state.monitor = monitor;
  self->state.shown = std::move(shown);
  return {[self](caf::tick_atom) {
    constexpr std::chrono::seconds patience(2);
    self->request(self->state.monitor, patience,
                  make_msg<fbs::FindingsRequest>({}, [](auto& q) { q.parts = true; }))
        .then([self](const msg<fbs::Findings>& m) { self->state.shown(m.unpack()); },
              [](const caf::error&) {});  // it was killed
  }};
}

/// What only asks for something, or is refused: it makes no machine slow.
bool is_of_person(fault_kind kind) {
  using enum fault_kind;
  return kind == save_now || kind == pause_run || kind == set_value || kind == old_message ||
         kind == second_launcher || kind == foreign_folder;
}

/// The real one, whom the monitor asks who waits where nothing moves: it knows no process, since
/// simulated nodes have no observers, so nobody is named.
trace::gateway_options gateway_of(const train::spawn_record& head) {
  trace::gateway_options out;
  out.job = head.plan.job.job.name;
  out.epoch = head.epoch;
  return out;
}

train::pipeline_op section_in(const std::string& whom) {
  const auto slash = whom.find('/');
  const auto* facts =
      slash == std::string::npos ? nullptr : train::operation_named(whom.substr(slash + 1));
  return facts == nullptr ? train::pipeline_op::count : facts->kind;
}

}  // namespace

slowness::slowness(world& where, environment& room, const simulation_options& options)
    : where_(where), room_(room), options_(options), watch_(static_cast<size_t>(options.nodes)) {
  const auto& times = options.times.slowness;
  if (times.empty()) return;
  constexpr double alike = 1.05;
  const double least = *std::min_element(times.begin(), times.end());
  for (size_t n = 0; n < times.size(); ++n)
    if (times[n] > alike * least) watch_.is_slower(fmt::format("node{}", n));
}

void slowness::begin(train::spawn_record& head) {
  watch_.begin_head();
  steps_ = 0;
  onlooker_ = {};
  if (options_.monitored) {
    health::monitor_options o;
    o.job = head.plan.job;
    o.epoch = head.epoch;
    o.gateway = where_.spawn(0, trace::gateway, gateway_of(head));
    o.reporter = head.reporter;
    head.monitor = where_.spawn(0, health::monitor, std::move(o));
    onlooker_ = where_.spawn(0, onlooker, head.monitor, [this](const fbs::FindingsT& shown) {
      if (auto wrong = watch_.hear(shown, where_.now_ns()); wrong && !violated_)
        violated_ = std::move(wrong);
    });
  }
  if (options_.predictor == predictor_is::absent) return;
  predict::predictor_options o;
  o.job = head.plan.job;
  o.epoch = head.epoch;
  o.monitor = head.monitor;
  head.predictor = where_.spawn(0, predict::predictor, std::move(o));
  if (options_.predictor == predictor_is::killed)
    caf::anon_send_exit(head.predictor, caf::exit_reason::kill);
}

int64_t slowness::hangs_ns(const any_msg& m) const {
  const bool hangs = options_.predictor == predictor_is::hung;
  return hangs && m.type() == message_traits<fbs::StepTimes>::id ? ever_ns : 0;
}

std::optional<std::string> slowness::befall(const fault& f, int node, const std::string& name,
                                            blame_watch& blame) {
  const bool of_all = f.kind == fault_kind::slow_all;
  if (!of_all && !where_.alive(node)) return std::nullopt;
  const auto now_ns = where_.now_ns();
  const auto s = slowdown_of(f, node, section_in(f.whom), now_ns);
  room_.paces.add(s);
  told_slowness told{f.kind, of_all ? "" : name, {}, now_ns, s.until_ns};
  if (s.section != train::pipeline_op::count) told.section = train::facts_of(s.section).name;
  if (f.kind == fault_kind::decay)
    told.due_ns += static_cast<int64_t>(static_cast<double>(f.lasts_ns) *
                                        (slowness_watch::least_times - 1) / (s.times - 1));
  if (!of_all && f.kind != fault_kind::spikes) blame.touched(name);
  watch_.becomes(told);
  return fmt::format("{}{}{}, {:.2f} times, for {} ms", of_all ? "all" : name,
                     told.section.empty() ? "" : ", ", told.section, s.times,
                     f.lasts_ns / 1'000'000);
}

void slowness::device_slows(const fault& f, const std::string& node) {
  if (node.empty()) return watch_.ails();
  watch_.becomes({f.kind, node, {}, where_.now_ns(), where_.now_ns() + f.lasts_ns});
}

void slowness::befalls_else(fault_kind kind) {
  if (is_of_pace(kind) || kind == fault_kind::slow_device) return;
  watch_.disturbs();
  if (!is_of_person(kind)) watch_.ails();
}

std::optional<std::string> slowness::look(size_t steps) {
  if (onlooker_ && std::exchange(steps_, steps) != steps)
    caf::anon_send(onlooker_, caf::tick_atom_v);
  return violated_;
}

std::optional<std::string> slowness::see(const any_msg& m) {
  if (!options_.monitored || m.type() != message_traits<fbs::Suspect>::id) return std::nullopt;
  const auto& said = cast<fbs::Suspect>(m);
  return said->gone() ? std::nullopt : watch_.doubted(text_of(said->node()));
}

}  // namespace troupe::sim
