// What must hold between keys, and what follows from them: one rule per impossible combination,
// each naming the keys it is about so that a person sees which line to change.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/base/text.hpp"
#include "io/config/budget_place.hpp"
#include "io/config/builder.hpp"
#include "io/config/heads.hpp"
#include "io/config/power_control.hpp"
#include "io/folder/plain.hpp"

namespace troupe::config {

std::vector<source_spec> data_section::sources() const {
  if (source.empty()) return {{path, 1.0, "", text_field}};
  auto all = source;
  for (auto& s : all) {
    if (s.name.empty()) s.name = fmt::format("{}", fmt::join(s.path, ", "));
    if (s.text_field.empty()) s.text_field = text_field;
  }
  return all;
}

bool job::order_nodes() {
  if (parallel.nodes.empty()) return true;
  const auto listed = cluster.node.begin(), spares = listed + cluster.places();
  std::map<std::string_view, int64_t> rank;
  for (const auto name : comma_parts(parallel.nodes))
    if (!rank.emplace(name, std::ssize(rank)).second) return false;
  const auto named =
      std::count_if(listed, spares, [&](const node_spec& n) { return rank.contains(n.name); });
  if (named != std::ssize(rank)) return false;
  std::stable_sort(listed, spares, [&](const node_spec& a, const node_spec& b) {
    const auto of = [&](const node_spec& n) {
      const auto it = rank.find(n.name);
      return it == rank.end() ? std::ssize(rank) : it->second;
    };
    return of(a) < of(b);
  });
  return true;
}

std::optional<std::vector<int64_t>> parallel_section::stage_layers() const {
  std::vector<int64_t> out;
  for (const auto part : comma_parts(layers)) {
    const char* const end = part.data() + part.size();
    int64_t count = 0;
    const auto [rest, failed] = std::from_chars(part.data(), end, count);
    if (failed != std::errc() || rest != end || count < 1 || count > 1'000'000) return std::nullopt;
    out.push_back(count);
  }
  return out;
}

model_config model_section::over(model_config m, int64_t seq_len) const {
  const auto set = [](auto& to, auto said) {
    if (said > 0) to = said;
  };
  set(m.layers, layers);
  set(m.hidden, hidden);
  set(m.heads, heads);
  set(m.kv_heads, kv_heads);
  set(m.ffn, ffn);
  set(m.vocab, vocab);
  set(m.max_positions, max_seq_len);
  set(m.norm_eps, norm_eps);
  set(m.rope_theta, rope_theta);
  m.tied = tied.value_or(m.tied);
  m.block = parallel_block.value_or(m.block);
  if (sliding_window >= 0) m.sliding_window = sliding_window;
  m.init_std = init_std;
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  if (m.head_width == 0 && m.heads > 0) m.head_width = m.hidden / m.heads;
  if (m.max_positions == 0) m.max_positions = seq_len;
  if (m.ffn == 0)
    m.ffn = m.family == model_family::gpt2 ? 4 * m.hidden : (m.hidden * 8 / 3 + 63) / 64 * 64;
  return m;
}

}  // namespace troupe::config

namespace troupe::config::detail {

namespace {

/// Fills a zero, and says that it was derived.
template <class T>
void fill(builder& b, std::string_view key, T& member, std::type_identity_t<T> open,
          std::type_identity_t<T> with) {
  if (member != open) return;
  member = with;
  b.derived(key);
}

void derive_paths(builder& b) {
  auto& j = b.target();
  j.job.output = expanded(j.job.output, "{name}", j.job.name);
  j.checkpoint.dir = expanded(j.checkpoint.dir, "{output}", j.job.output);
  j.checkpoint.second.dir = expanded(j.checkpoint.second.dir, "{output}", j.job.output);
  for (auto& dir : j.swap.dir) dir = expanded(dir, "{output}", j.job.output);
  j.data.cache = expanded(j.data.cache, "{output}", j.job.output);
}

void derive_nodes(builder& b) {
  auto& c = b.target().cluster;
  c.node.clear();
  for (const auto& entry : b.nodes()) c.node.push_back(entry.spec);
  if (c.node.empty())
    for (int64_t i = 0; i < c.nodes + c.spares; i++)
      c.node.push_back({fmt::format("node{}", i), "", 0, i >= c.nodes});
  std::stable_partition(c.node.begin(), c.node.end(), [](const node_spec& n) { return !n.spare; });
  for (auto& n : c.node) {
    if (n.host.empty() && c.launch != launch_mode::ssh) n.host = "localhost";
    if (n.workers == 0) n.workers = c.workers_per_node;
  }
  b.target().order_nodes();  // check_places says where it is none
}

void derive_model(builder& b) {
  auto& j = b.target();
  auto& m = j.model;
  fill(b, "model.init", m.init, weight_init::automatic,
       m.path.empty() ? weight_init::random : weight_init::pretrained);
  if (!m.path.empty()) return;  // the folder's config.json comes first; settle() is called after it
  const auto model =
      m.over(model_config::of(m.family.value_or(model_family::gpt2)), j.train.seq_len);
  fill(b, "model.family", m.family, {}, model.family);
  fill(b, "model.kv_heads", m.kv_heads, 0, model.kv_heads);
  fill(b, "model.ffn", m.ffn, 0, model.ffn);
  fill(b, "model.max_seq_len", m.max_seq_len, 0, model.max_positions);
  fill(b, "model.norm_eps", m.norm_eps, 0, model.norm_eps);
  fill(b, "model.rope_theta", m.rope_theta, 0, model.rope_theta);
  fill(b, "model.tied", m.tied, {}, model.tied);
  fill(b, "model.parallel_block", m.parallel_block, {}, model.block);
  fill(b, "model.sliding_window", m.sliding_window, -1, model.sliding_window);
}

void derive_work(builder& b) {
  auto& j = b.target();
  fill(b, "parallel.data", j.parallel.data, int64_t{0},
       std::max<int64_t>(1, j.workers() / j.parallel.pipeline));
  fill(b, "train.micro_batch", j.train.micro_batch, int64_t{0},
       std::max<int64_t>(1, j.train.batch / j.parallel.data));
  if (j.train.schedule == lr_schedule::wsd)
    fill(b, "train.decay_steps", j.train.decay_steps, int64_t{0},
         std::max<int64_t>(1, j.train.steps / 10));
}

void check_job(builder& b) {
  const auto& j = b.target();
  b.rule(is_name(j.job.name), {"job.name"}, name_fault(j.job.name));
  b.rule(!j.job.output.empty(), {"job.output"}, "expected a folder, got nothing");
  b.rule(j.job.output.find_first_of("{}") == std::string::npos, {"job.output"},
         "only {name} can stand in braces");
  b.rule(!j.checkpoint.dir.empty(), {"checkpoint.dir"}, "expected a folder, got nothing");
  b.rule(j.checkpoint.dir.find_first_of("{}") == std::string::npos, {"checkpoint.dir"},
         "only {output} can stand in braces");
  b.rule(!j.data.cache.empty(), {"data.cache"}, "expected a folder, got nothing");
  b.rule(j.data.cache.find_first_of("{}") == std::string::npos, {"data.cache"},
         "only {output} can stand in braces");
  b.rule(j.checkpoint.slot_bytes % 4096 == 0, {"checkpoint.slot_bytes"},
         fmt::format("expected a multiple of 4096, got {}", j.checkpoint.slot_bytes));
  b.rule(j.checkpoint.memory.every == 0 || j.recovery.enabled,
         {"checkpoint.memory.every", "recovery.enabled"},
         "copies in memory are for recoveries alone, and those are switched off",
         "set recovery.enabled = true, or checkpoint.memory.every = 0");
  b.rule(!j.checkpoint.resume.empty(), {"checkpoint.resume"},
         "expected \"auto\", \"never\" or the path of a checkpoint, got nothing");
}

/// Whether two paths are one by their text: "a/../b/" is "b".
bool same_folder(const std::string& one, const std::string& other) {
  return io::plain(one) == io::plain(other);
}

void check_swap(builder& b) {
  const auto& j = b.target();
  if (j.swap.dir.empty()) {
    b.rule(j.swap.host_bytes == 0 && j.swap.device_bytes == 0 && j.swap.rated_tbw == 0 &&
               !j.swap.consume && j.swap.clip == clip_way::automatic &&
               j.swap.weights == weights_choice::automatic && j.swap.keep_layers < 0 &&
               j.swap.spill_layers < 0 && j.swap.half_layers < 0 &&
               j.swap.rates == swap_rates_section{},
           {"swap.dir"}, "is required where [swap] is described");
    return;
  }
  b.rule((j.swap.keep_layers < 0) == (j.swap.half_layers < 0),
         {"swap.keep_layers", "swap.half_layers"}, "are chosen together, or given together",
         "set both, or neither");
  b.rule(j.swap.spill_layers < 0 || j.swap.keep_layers >= 0,
         {"swap.spill_layers", "swap.keep_layers"}, "are chosen together, or given together",
         "set swap.keep_layers and swap.half_layers, too");
  for (size_t i = 0; i < j.swap.dir.size(); ++i) {
    const auto& dir = j.swap.dir[i];
    b.rule(expanded(dir, "{rank}", "").find_first_of("{}") == std::string::npos, {"swap.dir"},
           "only {output} and {rank} can stand in braces");
    b.rule(!dir.empty(), {"swap.dir"}, "one of the folders has no name");
    for (size_t other = 0; other < i; ++other)
      b.rule(!same_folder(dir, j.swap.dir[other]), {"swap.dir"},
             fmt::format("{} is named twice", dir), "name folders on different drives");
  }
  b.rule(!j.swap.consume || j.swap.dir.size() <= 1, {"swap.consume", "swap.dir"},
         "a checkpoint has links to the files of one drive alone, and is not given up for several",
         "set swap.consume = false, or name one folder");
  const bool holds = j.swap.clip == clip_way::automatic || j.swap.clip == clip_way::hold;
  const bool keep = j.grid().pipeline > 1;
  b.rule(holds || !keep, {"swap.clip", "parallel.pipeline"},
         "several stages have one norm, for which each keeps its gradients",
         "use \"auto\" or \"hold\"");
  b.rule(!j.swap.consume || j.swap.verify, {"swap.consume", "swap.verify"},
         "the files of a checkpoint are not taken unseen", "set swap.verify = true");
  b.rule(j.checkpoint.memory.every == 0, {"swap.dir", "checkpoint.memory.every"},
         "copies in memory are unsupported with swapping: what does not fit there once does not "
         "fit twice",
         "set checkpoint.memory.every = 0");
}

void check_second_tier(builder& b) {
  const auto& c = b.target().checkpoint;
  const auto& second = c.second;
  b.rule(second.dir.find_first_of("{}") == std::string::npos, {"checkpoint.second.dir"},
         "only {output} can stand in braces");
  b.rule(second.dir.empty() || c.dir.empty() || !same_folder(c.dir, second.dir),
         {"checkpoint.second.dir", "checkpoint.dir"}, "the second tier is the first",
         "name another folder, or leave it empty for a single tier");
  const bool unused =
      second.dir.empty() && (second.every != 0 || second.bytes_per_second != 0 ||
                             second.keep != 0 || second.keep_every != 0 || second.keep_best != 0);
  b.rule(!unused, {"checkpoint.second.dir"}, "is required where the second tier is described");
}

void check_nodes(builder& b) {
  const auto& c = b.target().cluster;
  std::set<std::string> names;
  for (const auto& entry : b.nodes()) {
    const auto& n = entry.spec;
    if (n.name.empty())
      b.complain(entry.at, "cluster.node.name", "every [[cluster.node]] needs a name");
    else if (!is_name(n.name))
      b.complain(entry.at, "cluster.node.name", name_fault(n.name));
    else if (!names.insert(n.name).second)
      b.complain(entry.at, "cluster.node.name",
                 fmt::format("duplicate node name {}", troupe::quoted(n.name)));
    if (c.launch == launch_mode::local && !n.host.empty() && !is_loopback(n.host))
      b.complain(entry.at, "cluster.node.host",
                 fmt::format("cluster.launch is \"local\", but {} is another host",
                             troupe::quoted(n.host)),
                 "set cluster.launch = \"ssh\", or \"external\"");
    if (c.launch == launch_mode::ssh && n.host.empty())
      b.complain(entry.at, "cluster.node.host",
                 "cluster.launch = \"ssh\" needs the host of every node");
    if (!n.host.empty() && n.host[0] == '-')  // it stands on ssh's command line
      b.complain(entry.at, "cluster.node.host", "a host does not start with '-'");
  }
  b.rule(c.launch != launch_mode::ssh || !b.nodes().empty(), {"cluster.launch", "cluster.nodes"},
         "\"ssh\" needs the hosts", "list them as [[cluster.node]] with name and host");
}

/// Who stands in for whom.
void check_spares(builder& b) {
  const auto& c = b.target().cluster;
  if (c.places() == 0) {
    if (!b.nodes().empty())
      b.complain(b.nodes().front().at, "cluster.node.spare", "every node is a spare",
                 "ranks need nodes: leave spare out of some of them");
    return;
  }
  const auto listed = static_cast<int64_t>(c.node.size()) - c.places();
  b.rule(c.spares == listed, {"cluster.spares"},
         fmt::format("says {}, but [[cluster.node]] marks {} as spares", c.spares, listed),
         "mark each by spare = true, and leave cluster.spares out");
  b.rule(
      c.spares <= c.places(), {"cluster.spares", "cluster.nodes"},
      fmt::format("{} spares for {} nodes: expected at most one for each", c.spares, c.places()));
  const auto fewest = std::min_element(c.node.begin(), c.node.begin() + c.places(),
                                       [](const node_spec& x, const node_spec& y) {
                                         return x.workers < y.workers;
                                       });
  for (const auto& entry : b.nodes())
    if (const auto workers = entry.spec.workers == 0 ? c.workers_per_node : entry.spec.workers;
        entry.spec.spare && workers < fewest->workers)
      b.complain(entry.at, "cluster.node.workers",
                 fmt::format("spare {} has {} workers and can stand in for no node: the smallest, "
                             "{}, has {}",
                             troupe::quoted(entry.spec.name), workers, fewest->name,
                             fewest->workers),
                 "give it as many workers as the nodes have that it stands in for");
}

/// J-6.
void check_rules(builder& b) {
  for (const auto& [spec, at] : b.rules()) {
    if (std::find(acted_on.begin(), acted_on.end(), spec.finding) != acted_on.end()) continue;
    std::vector<std::string_view> names;
    for (const auto finding : acted_on) names.push_back(health::facts_of(finding).name);
    b.complain(at, "recovery.rule.finding",
               fmt::format("{} is told to persons, and no rule can act on it",
                           health::facts_of(spec.finding).name),
               fmt::format("rules are for {}", fmt::join(names, ", ")));
  }
}

/// Whether ranks on different hosts exchange tensors. Of nodes that a scheduler starts nothing is
/// known but where they join.
bool tensors_cross_hosts(const cluster_section& c) {
  if (c.launch == launch_mode::local || c.node.size() < 2) return false;
  if (c.launch == launch_mode::external) return !is_loopback(c.listen);
  return std::any_of(c.node.begin(), c.node.end(),
                     [&](const node_spec& n) { return n.host != c.node.front().host; });
}

/// Each may act, so all must be reachable for the others, and known to be ours.
void check_heads(builder& b) {
  const auto& c = b.target().cluster;
  if (c.heads.empty()) return;
  b.rule(c.heads.size() > 1 && c.heads.size() <= most_heads, {"cluster.heads"},
         fmt::format("{} heads: expected 2 to {}", c.heads.size(), most_heads),
         "leave it out where there is one; 3 can lose one of them");
  std::set<std::string> seen;
  for (const auto& text : c.heads) {
    const auto at = head_place_of(text);
    b.rule(at.has_value(), {"cluster.heads"},
           fmt::format("{} is not HOST:PORT", troupe::quoted(text)), "e.g. \"10.0.0.1:29400\"");
    b.rule(seen.insert(text).second, {"cluster.heads"},
           fmt::format("{} is a duplicate", troupe::quoted(text)));
    b.rule(!at || is_loopback(at->host) || c.tls.enabled(), {"cluster.heads"},
           fmt::format("{} is not loopback, and TLS is off", troupe::quoted(text)),
           "set cluster.tls (`troupe certs` makes the files)");
  }
  b.rule(c.port == 0 && c.advertise.empty(), {"cluster.heads", "cluster.port", "cluster.advertise"},
         "cluster.heads says where each head listens", "leave cluster.port and advertise out");
  b.rule(b.target().recovery.enabled, {"cluster.heads", "recovery.enabled"},
         "several heads need recovery.enabled = true", "leave one of the two out");
  b.rule(b.target().checkpoint.resume == "auto", {"cluster.heads", "checkpoint.resume"},
         "each of several heads goes on from the newest checkpoint: expected checkpoint.resume = "
         "\"auto\"",
         "name another job.output to begin anew");
}

void check_network(builder& b) {
  const auto& c = b.target().cluster;
  bool loopback = is_loopback(c.listen);
  bool elsewhere = std::any_of(c.node.begin(), c.node.end(), [](const node_spec& n) {
    return !n.host.empty() && !is_loopback(n.host);
  });
  b.rule(!c.listen.empty(), {"cluster.listen"}, "expected an address, got nothing");
  b.rule(!(c.launch == launch_mode::ssh && elsewhere && loopback), {"cluster.listen"},
         fmt::format("nodes on other hosts cannot reach {}", c.listen),
         "listen on an address of this machine that they can reach");
  b.rule(loopback || c.tls.enabled() || c.insecure, {"cluster.listen"},
         fmt::format("{} is not loopback, and TLS is off", troupe::quoted(c.listen)),
         "set cluster.tls (`troupe certs` makes the files), or cluster.insecure = true");
  b.rule(c.insecure || c.clear_text_tensors || !tensors_cross_hosts(c),
         {"cluster.clear_text_tensors", "cluster.listen", "cluster.launch"},
         "tensors would travel between hosts in the clear: TLS protects the messages, but the data "
         "plane (Gloo) has none",
         "set cluster.clear_text_tensors = true where the network between the hosts is trusted "
         "(a private one, WireGuard, IPsec)");
  b.rule(c.launch != launch_mode::external || c.port != 0 || !c.heads.empty(),
         {"cluster.port", "cluster.launch"},
         "launch \"external\" needs a fixed port that the nodes can be told", "e.g. 29400");
  check_heads(b);
  check_tls(b);
  b.rule(c.launch != launch_mode::ssh || !c.ssh_command.empty(), {"cluster.ssh_command"},
         "expected a command, got nothing");
  b.rule(c.launch != launch_mode::ssh || !c.remote_binary.empty(), {"cluster.remote_binary"},
         "expected a path, got nothing");
}

void check_heartbeats(builder& b) {
  const auto& c = b.target().cluster;
  b.rule(c.suspect_after_ms > c.heartbeat_interval_ms,
         {"cluster.suspect_after_ms", "cluster.heartbeat_interval_ms"},
         fmt::format("suspect_after_ms = {} must be more than heartbeat_interval_ms = {}",
                     c.suspect_after_ms, c.heartbeat_interval_ms));
  b.rule(c.dead_after_ms > c.heartbeat_interval_ms,
         {"cluster.dead_after_ms", "cluster.heartbeat_interval_ms"},
         fmt::format("dead_after_ms = {} must be more than heartbeat_interval_ms = {}",
                     c.dead_after_ms, c.heartbeat_interval_ms));
  b.rule(c.dead_after_ms >= c.suspect_after_ms,
         {"cluster.dead_after_ms", "cluster.suspect_after_ms"},
         fmt::format("dead_after_ms = {} must not be less than suspect_after_ms = {}",
                     c.dead_after_ms, c.suspect_after_ms));
}

/// A power budget judges a job by what it drew in the last seconds, and says little to its link.
void check_leased(builder& b) {
  constexpr int64_t a_report_ms = 1000;
  const auto& c = b.target().cluster;
  const auto& p = b.target().power;
  b.rule(p.meter_interval_ms <= a_report_ms && c.heartbeat_interval_ms <= a_report_ms,
         {"power.parent", "power.meter_interval_ms", "cluster.heartbeat_interval_ms"},
         fmt::format("a power budget above the job hears each {} ms what it draws, got a meter's "
                     "interval of {} ms and heartbeats each {} ms",
                     a_report_ms, p.meter_interval_ms, c.heartbeat_interval_ms),
         "leave power.meter_interval_ms and cluster.heartbeat_interval_ms at 1000 or less");
  b.rule(c.dead_after_ms >= a_report_ms, {"power.parent", "cluster.dead_after_ms"},
         fmt::format("a power budget above the job answers each {} ms at most, which "
                     "cluster.dead_after_ms = {} takes for a dead link",
                     a_report_ms, c.dead_after_ms),
         "set cluster.dead_after_ms to 1000 or more");
}

/// What a plan is made of, and what can follow it.
void check_slack(builder& b) {
  const auto& p = b.target().power;
  const auto names = [&](std::string_view word) {
    return std::ranges::find(p.control, word) != p.control.end();
  };
  b.rule(names("nvml_clocks") || names("cpufreq"), {"power.slack", "power.control"},
         "slack is taken by lower clocks, and nothing that power.control names sets one: pauses "
         "and quotas make the same joules later",
         "set power.control = [\"nvml_clocks\"], or power.slack = \"off\"");
  b.rule(p.blocking_w > 0, {"power.slack", "power.blocking_w"},
         "a plan is made of what operations take and draw by clock, which power.profile says or "
         "the job measures, and of what a device draws that waits",
         "say that in watts as power.blocking_w");
  b.rule(b.target().parallel.pipeline > 1, {"power.slack", "parallel.pipeline"},
         "a job of one stage has no slack: none of its operations waits for another stage",
         "set power.slack = \"off\"");
  b.rule(!p.dry_run, {"power.slack", "power.dry_run"},
         "a dry run sets no device, so it takes no slack",
         "set power.slack = \"off\", or leave power.dry_run out");
}

void check_power(builder& b) {
  const auto& p = b.target().power;
  if (p.takes_slack()) check_slack(b);
  if (const auto wrong = fault_of_control(p.control, job_control_words))
    b.rule(false, {"power.control"}, wrong->what, wrong->hint);
  constexpr size_t socket_name_bytes = 107;  // of the kernel
  b.rule(p.agent_socket.empty() ||
             (p.agent_socket.front() == '/' && p.agent_socket.size() <= socket_name_bytes),
         {"power.agent_socket"},
         fmt::format("expected a whole path of at most {} bytes, got {}", socket_name_bytes,
                     troupe::quoted(p.agent_socket)),
         "write the one that `troupe power agent --socket` has, as /run/troupe/agent.sock");
  b.rule(p.budget_w == 0 || p.meter_interval_ms > 0, {"power.budget_w", "power.meter_interval_ms"},
         "a budget cannot be kept where no meter is read (meter_interval_ms = 0)",
         "leave power.meter_interval_ms out, or set power.budget_w = 0");
  b.rule(p.ramp_w_s == 0 || p.meter_interval_ms > 0, {"power.ramp_w_s", "power.meter_interval_ms"},
         "a ramp cannot be kept where no meter is read (meter_interval_ms = 0)",
         "leave power.meter_interval_ms out, or set power.ramp_w_s = 0");
  b.rule(!p.dry_run || p.is_budgeted(), {"power.dry_run"},
         "nothing is decided without a budget or a ramp, so there is nothing to run dry",
         "name power.budget_w, power.parent or power.ramp_w_s as well");
  const auto fault = fault_of_parent({"power.parent", "power.parent_key", "cluster.tls"}, p.parent,
                                     p.parent_key, b.target().cluster.tls.enabled());
  if (fault && fault->of_key)
    b.rule(false, {"power.parent_key", "power.parent"}, fault->what, fault->hint);
  else if (fault)
    b.rule(false, {"power.parent"}, fault->what, fault->hint);
  b.rule(!p.has_parent() || p.meter_interval_ms > 0, {"power.parent", "power.meter_interval_ms"},
         "a granted budget cannot be kept where no meter is read (meter_interval_ms = 0)",
         "leave power.meter_interval_ms out");
  if (p.has_parent()) check_leased(b);
}

void check_model(builder& b) {
  const auto& j = b.target();
  const auto& m = j.model;
  bool llama = m.family == model_family::llama;
  auto needed = [&](std::string_view key, int64_t member) {
    // Of "pretrained" it is the folder that is missing, and nothing else.
    b.rule(member > 0 || !m.path.empty() || m.init == weight_init::pretrained, {key},
           "is required without model.path");
  };
  needed("model.layers", m.layers);
  needed("model.heads", m.heads);
  needed("model.hidden", m.hidden);
  b.rule(m.init != weight_init::pretrained || !m.path.empty(), {"model.init"},
         "\"pretrained\" needs model.path", "name the folder: --set model.path=FOLDER");
  b.rule(m.dropout == 0 || m.dropout == -1, {"model.dropout"},
         fmt::format("{:g} is not supported, expected 0 or -1: there is no dropout", m.dropout));
  bool heads = m.heads > 0 && m.hidden > 0;
  b.rule(!heads || m.hidden % m.heads == 0, {"model.heads", "model.hidden"},
         fmt::format("hidden = {} is not divisible by heads = {}", m.hidden, m.heads));
  b.rule(!heads || m.hidden % m.heads != 0 || !llama || m.hidden / m.heads % 2 == 0,
         {"model.heads", "model.hidden", "model.family"},
         fmt::format("rotary positions need an even head width, and {} / {} is odd", m.hidden,
                     m.heads));
  b.rule(m.heads == 0 || m.kv_heads == 0 || m.heads % m.kv_heads == 0,
         {"model.kv_heads", "model.heads"},
         fmt::format("heads = {} is not divisible by kv_heads = {}", m.heads, m.kv_heads));
  b.rule(m.family != model_family::gpt2 || m.kv_heads == 0 || m.kv_heads == m.heads,
         {"model.kv_heads", "model.heads", "model.family"},
         "gpt2 has as many key and value heads as heads", "leave it out, or use family \"llama\"");
  b.rule(m.max_seq_len == 0 || j.train.seq_len <= m.max_seq_len,
         {"train.seq_len", "model.max_seq_len"},
         fmt::format("train.seq_len = {} is more than model.max_seq_len = {}", j.train.seq_len,
                     m.max_seq_len));
  b.rule(m.layers == 0 || j.parallel.pipeline <= m.layers, {"parallel.pipeline", "model.layers"},
         fmt::format("{} stages cannot share {} layers", j.parallel.pipeline, m.layers));
}

/// That parallel.nodes is an order of the nodes.
void check_places(builder& b) {
  if (b.target().parallel.nodes.empty()) return;
  auto ordered = b.target();
  const auto& c = ordered.cluster;
  std::vector<std::string_view> names;
  for (int64_t place = 0; place < c.places(); ++place)
    names.emplace_back(c.node[static_cast<size_t>(place)].name);
  const auto as_listed = fmt::format("{}", fmt::join(names, ","));
  b.rule(ordered.order_nodes(), {"parallel.nodes", "cluster.nodes"},
         fmt::format("expected nodes that are no spares, each once, as in {}, got {}",
                     troupe::quoted(as_listed), troupe::quoted(ordered.parallel.nodes)),
         "leave it out: nodes are in the order of [[cluster.node]] then");
}

/// That the layers of the stages are the model's, as far as the configuration alone knows it.
void check_stages(builder& b) {
  const auto& j = b.target();
  const auto& p = j.parallel;
  const bool measured = p.placement == stage_placement::measured;
  b.rule(!measured || p.layers.empty(), {"parallel.placement", "parallel.layers"},
         "layers are measured, or given by hand, not both", "leave one of them out");
  b.rule(!measured || j.swap.dir.empty(), {"parallel.placement", "swap.dir"},
         "layers of a job that swaps are not measured", "set parallel.layers");
  if (p.layers.empty()) return;
  const auto layers = p.stage_layers();
  b.rule(
      layers.has_value(), {"parallel.layers"},
      fmt::format("expected the number of layers of each stage, at least 1, e.g. \"8,4\", got {}",
                  troupe::quoted(p.layers)));
  if (!layers) return;
  b.rule(std::ssize(*layers) == p.pipeline, {"parallel.layers", "parallel.pipeline"},
         fmt::format("expected as many numbers as stages, {}, got {}: {}", p.pipeline,
                     layers->size(), troupe::quoted(p.layers)));
  const auto sum = std::accumulate(layers->begin(), layers->end(), int64_t{0});
  b.rule(j.model.layers == 0 || sum == j.model.layers, {"parallel.layers", "model.layers"},
         fmt::format("expected the model's {} layers in all, got {}: {}", j.model.layers, sum,
                     troupe::quoted(p.layers)));
}

void check_data(builder& b) {
  const auto& j = b.target();
  const auto& d = j.data;
  auto filled = [](const std::vector<std::string>& paths) {
    return std::none_of(paths.begin(), paths.end(), [](auto& p) { return p.empty(); });
  };
  b.rule(!d.path.empty() || !d.source.empty(), {"data.path", "data.source"},
         "is required: a file or folder to train on");
  b.rule(filled(d.path), {"data.path"}, "holds an empty path");
  b.rule(d.path.empty() || d.source.empty(), {"data.source", "data.path"},
         "[[data.source]] and data.path are both set, expected one of them",
         "make data.path one more [[data.source]], or leave it out");
  b.rule(d.source.size() <= most_sources, {"data.source"},
         fmt::format("{} sources, at most {} are mixed", d.source.size(), most_sources));
  for (const auto& [spec, at] : b.sources())
    if (!b.at_fault("data.source.path") && (spec.path.empty() || !filled(spec.path)))
      b.complain(at, "data.source.path",
                 spec.path.empty() ? "every [[data.source]] needs a path" : "holds an empty path");
  b.rule(filled(d.validation_path), {"data.validation_path"}, "holds an empty path");
  b.rule(!d.tokenizer.empty(), {"data.tokenizer"}, "expected \"bytes\" or a path, got nothing");
  b.rule(j.train.validate_every == 0 || !d.validation_path.empty() || d.validation_fraction > 0,
         {"train.validate_every", "data.validation_path", "data.validation_fraction"},
         "there is nothing to validate on", "set data.validation_path or data.validation_fraction");
}

void check_work(builder& b) {
  const auto& j = b.target();
  const auto& t = j.train;
  b.rule(
      j.parallel.schedule != pipeline_schedule::by_layer || j.parallel.pipeline == 1,
      {"parallel.schedule", "parallel.pipeline"},
      "\"by_layer\" needs a pipeline of one stage: with several, a stage has one micro-batch at a "
      "time; use \"1f1b\"");
  auto data = j.parallel.data, pipeline = j.parallel.pipeline;
  b.rule(data * pipeline == j.workers(),
         {"parallel.data", "parallel.pipeline", "cluster.nodes", "cluster.workers_per_node"},
         fmt::format(
             "parallel.data * parallel.pipeline = {} * {} must be the number of workers, {} ({} "
             "nodes)",
             data, pipeline, j.workers(), j.cluster.places()));
  b.rule(t.batch % data == 0, {"train.batch", "parallel.data", "cluster.nodes"},
         fmt::format("train.batch = {} is not divisible by parallel.data = {}", t.batch, data));
  b.rule(t.batch % data != 0 || t.batch / data % t.micro_batch == 0,
         {"train.micro_batch", "train.batch", "parallel.data"},
         fmt::format(
             "train.batch = {} is not divisible by parallel.data * train.micro_batch = {} * {}",
             t.batch, data, t.micro_batch));
  b.rule(t.warmup_steps <= t.steps, {"train.warmup_steps", "train.steps"},
         fmt::format("warmup_steps = {} is more than steps = {}", t.warmup_steps, t.steps),
         "set both, e.g. --set train.warmup_steps=0");
  bool wsd = t.schedule == lr_schedule::wsd;
  b.rule(!wsd || t.warmup_steps + t.decay_steps <= t.steps,
         {"train.decay_steps", "train.warmup_steps", "train.steps"},
         fmt::format("warmup_steps + decay_steps = {} + {} is more than steps = {}", t.warmup_steps,
                     t.decay_steps, t.steps));
  b.rule(!t.stochastic_rounding || b.target().model.dtype == compute_dtype::bf16,
         {"train.stochastic_rounding", "model.dtype"},
         "there is nothing to round: weights in f32 are the masters themselves",
         "set model.dtype = \"bf16\", or leave it false");
}

}  // namespace

constexpr size_t name_length = 128;

std::string name_fault(std::string_view text) {
  if (text.size() > name_length)
    return fmt::format("expected at most {} letters, got {}", name_length, text.size());
  return fmt::format("{}, got {}", name_rule, troupe::quoted(text));
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= name_length && text[0] != '.' && text[0] != '-' &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

std::string expanded(std::string text, std::string_view placeholder, std::string_view with) {
  for (size_t at = 0; (at = text.find(placeholder, at)) != text.npos; at += with.size())
    text.replace(at, placeholder.size(), with);
  return text;
}

void check_tls(builder& b) {
  b.rule(b.target().cluster.tls.is_whole(),
         {"cluster.tls.ca", "cluster.tls.certificate", "cluster.tls.key"},
         "cluster.tls needs ca, certificate and key, all three");
}

void fit_warmup(builder& b) {
  const auto is_stronger = [](const origin& at) {
    return at.kind == source_kind::flag || at.kind == source_kind::environment;
  };
  auto& t = b.target().train;
  const auto room = t.schedule == lr_schedule::wsd ? t.steps - t.decay_steps : t.steps;
  if (t.warmup_steps <= room || room < 0 || b.at_fault("train.steps") ||
      b.at_fault("train.warmup_steps") || !is_stronger(b.origin_of("train.steps")) ||
      is_stronger(b.origin_of("train.warmup_steps")))
    return;
  b.fitted("train.warmup_steps", "train.steps",
           fmt::format("train.warmup_steps = {} of {} is shortened to {}: train.steps = {} of {}",
                       t.warmup_steps, to_string(b.origin_of("train.warmup_steps")), room, t.steps,
                       to_string(b.origin_of("train.steps"))));
  t.warmup_steps = room;
}

void derive(builder& b) {
  derive_paths(b);
  derive_nodes(b);
  derive_racks(b);
  derive_model(b);
  derive_work(b);
}

void check(builder& b) {
  check_job(b);
  check_second_tier(b);
  check_nodes(b);
  check_spares(b);
  check_rules(b);
  check_log_rules(b);
  check_drills(b);
  check_network(b);
  check_heartbeats(b);
  check_power(b);
  check_racks(b);
  check_model(b);
  check_stages(b);
  check_places(b);
  check_data(b);
  check_swap(b);
  check_work(b);
}

}  // namespace troupe::config::detail
