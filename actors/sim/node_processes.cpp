// Starting nodes, and what must be gone when they are.
#include "actors/sim/node_processes.hpp"

#include <utility>

#include <fmt/format.h>

#include "actors/cluster/node.hpp"
#include "actors/sim/host.hpp"
#include "actors/sim/simulation.hpp"

namespace troupe::sim {

namespace {

constexpr int64_t exit_takes_ns = 10'000'000;
constexpr int64_t frozen_pause_ns = 1'000'000'000;

}  // namespace

node_processes::node_processes(world& where, environment& room, const simulation_options& options,
                               const train::job_plan& plan, int count)
    : where_(where),
      room_(room),
      options_(options),
      plan_(plan),
      all_(static_cast<size_t>(count)) {}

std::shared_ptr<cluster::host> node_processes::host_of(int n) {
  std::vector<uint32_t> ranks;
  for (const auto& r : plan_.ranks)
    if (r.node + 1 == n) ranks.push_back(static_cast<uint32_t>(r.at.rank));
  return make_host(&room_, n, std::move(ranks), fmt::format("{}-{}", n, started_));
}

void node_processes::start(int n, const std::vector<std::string>& heads) {
  const int process = ++started_;
  of(n) = {};
  of(n).process = process;
  cluster::node_options o;
  o.name = name_of(n);
  o.coordinator_host = head_name;
  o.coordinator_port = head_port;
  o.heads = heads;
  o.advertise = name_of(n);
  o.join_timeout_ms = options_.join_timeout_ms;
  o.ended = [this, n, process](const error& why) {
    if (!is_present(n, process)) return;
    of(n).told = true;
    log(fmt::format("{} ends: {}", name_of(n), why.message.empty() ? "in order" : why.message));
    leave_soon(n, process, exit_takes_ns);
  };
  o.host = host_of(n);
  o.connector = where_.spawn(n, sim::connector, &room_, n);
  const auto node = where_.spawn(n, cluster::node, std::move(o));
  of(n).actor = caf::actor_cast<caf::strong_actor_ptr>(node);
  of(n).lives = true;
  of(n).actor->get()->attach_functor([this, n, process] {
    if (!is_present(n, process)) return;
    of(n).lives = false;
    leave_soon(n, process, exit_takes_ns);
  });
}

void node_processes::leave_soon(int n, int process, int64_t delay_ns) {
  where_.clock().call_at(where_.now_ns() + delay_ns, [this, n, process] { leave(n, process); });
}

/// The node's actor has ended, and so its process does (NPS-1).
void node_processes::leave(int n, int process) {
  if (!is_present(n, process) || !where_.alive(n)) return;
  if (where_.frozen(n)) return leave_soon(n, process, frozen_pause_ns);
  if (of(n).lives || !of(n).told) {
    if (!of(n).told)
      where_.violation(fmt::format("{} died and its process was not told", name_of(n)));
    return;
  }
  if (const auto until_ns = where_.blocked_until(n); until_ns >= where_.now_ns())
    return leave_soon(n, process, until_ns + 1'000'000 - where_.now_ns());  // for its threads
  for (const auto& stats : where_.actors_of(n))
    if (!stats->path().starts_with("connector/"))
      where_.violation(fmt::format("{} outlives its node", stats->path()));
  end_process(n);
}

void tell_down(const caf::strong_actor_ptr& who, const caf::strong_actor_ptr& gone) {
  who->enqueue(caf::make_mailbox_element(
                   nullptr, caf::make_message_id(caf::message_priority::high), {},
                   caf::down_msg{gone->address(), caf::exit_reason::remote_link_unreachable}),
               nullptr);
}

}  // namespace troupe::sim
