// The order of the layers, and the problems on their way to a person. What a layer says is read in
// read_toml.cpp and read_flags.cpp; what must hold between keys stands in check.cpp.
#include "io/config/load.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "io/config/builder.hpp"

namespace troupe::config {

namespace detail {

namespace {

int64_t count_of(const std::vector<node_entry>& nodes, bool spares) {
  return std::count_if(nodes.begin(), nodes.end(),
                       [&](const node_entry& n) { return n.spec.spare == spares; });
}

}  // namespace

builder::builder(std::string file) : file_(std::move(file)) {
  for (const auto& p : properties()) config_.origins[std::string(p.key)] = {};
}

void builder::assign(const property& p, const value& v, const origin& key_at,
                     const origin& value_at) {
  if (auto done = set(p, config_.value, v); !done) {
    complain(value_at, p.key, done.error().message, done.error().hint);
    return;
  }
  config_.origins[std::string(p.key)] = key_at;
  if (p.key == "data.path") {
    path_layer_ = layer_;
    if (source_layer_ < layer_) set_sources({});  // a stronger layer's path: the list is gone
  }
  if (p.key != "cluster.nodes") return;
  nodes_layer_ = layer_;
  if (node_list_layer_ < layer_) nodes_.clear();  // a stronger layer counts nodes: its list is gone
  const auto count = config_.value.cluster.nodes;
  if (!nodes_.empty() && count_of(nodes_, false) != count)
    complain(value_at, p.key,
             fmt::format("says {}, but [[cluster.node]] lists {}", count, count_of(nodes_, false)),
             "leave one of the two out");
}

void builder::assign_nodes(std::vector<node_entry> nodes, const origin& at) {
  auto& count = config_.value.cluster.nodes;
  const auto listed = count_of(nodes, false);
  if (nodes_layer_ == layer_ && count != listed)
    complain(at, "cluster.node", fmt::format("lists {}, but cluster.nodes says {}", listed, count),
             "leave one of the two out");
  node_list_layer_ = layer_;
  nodes_ = std::move(nodes);
  count = listed;
  config_.value.cluster.spares = count_of(nodes_, true);
  config_.origins["cluster.nodes"] = config_.origins["cluster.spares"] = at;
}

void builder::set_sources(std::vector<source_entry> sources) {
  sources_ = std::move(sources);
  auto& all = config_.value.data.source;
  all.clear();
  for (const auto& s : sources_) all.push_back(s.spec);
}

void builder::assign_sources(std::vector<source_entry> sources, const origin& at) {
  source_layer_ = layer_;
  if (path_layer_ < layer_ && !sources.empty()) config_.value.data.path.clear();
  config_.origins["data.source"] = sources.empty() ? at : sources.front().at;
  set_sources(std::move(sources));
}

/// J-6.
void builder::assign_rules(std::vector<rule_entry> rules) {
  rules_ = std::move(rules);
  auto& all = config_.value.recovery.rule;
  all.clear();
  for (const auto& r : rules_) all.push_back(r.spec);
  for (const auto& standard : default_rules())
    if (std::none_of(rules_.begin(), rules_.end(),
                     [&](const auto& r) { return r.spec.finding == standard.finding; }))
      all.push_back(standard);
}

/// J-7.
void builder::assign_log_rules(std::vector<log_rule_entry> rules) {
  log_rules_ = std::move(rules);
  auto& all = config_.value.health.log_rule;
  all.clear();
  for (const auto& r : log_rules_) all.push_back(r.spec);
  for (const auto& standard : default_log_rules())
    if (std::none_of(log_rules_.begin(), log_rules_.end(),
                     [&](const auto& r) { return r.spec.name == standard.name; }))
      all.push_back(standard);
}

void builder::assign_drills(std::vector<drill_entry> drills, const origin& at) {
  drills_ = std::move(drills);
  auto& all = config_.value.inject;
  all.clear();
  for (const auto& d : drills_) all.push_back(d.spec);
  config_.origins["inject"] = drills_.empty() ? at : drills_.front().at;
}

void builder::complain(const origin& at, std::string_view key, std::string what, std::string hint,
                       errc code) {
  faulty_.emplace(key);
  auto place = at;
  if (place.name.empty()) place = {source_kind::file, file_};
  problems_.push_back({place, std::string(key), std::move(what), std::move(hint), code});
}

void builder::unknown_key(const origin& at, std::string_view key) {
  auto near = nearest_key(key);
  complain(at, key, "unknown key", near.empty() ? "" : fmt::format("did you mean {}?", near));
  if (!near.empty()) faulty_.insert(near);
}

void builder::rule(bool holds, std::initializer_list<std::string_view> keys, std::string what,
                   std::string hint) {
  if (holds) return;
  std::string_view culprit = *keys.begin();
  bool found = false;
  for (auto key : keys) {
    if (at_fault(key)) return;
    auto kind = config_.origins[std::string(key)].kind;
    if (!found && kind != source_kind::standard && kind != source_kind::derived) {
      culprit = key;
      found = true;
    }
  }
  auto at = config_.origins[std::string(culprit)];
  complain(at, culprit, std::move(what), std::move(hint));
}

read_result builder::take() {
  // toml++ hands out keys sorted by name; a person reads a file from the top.
  auto begin = problems_.begin();
  while (begin != problems_.end()) {
    auto end = std::find_if(begin, problems_.end(),
                            [&](const problem& p) { return p.at.name != begin->at.name; });
    std::stable_sort(begin, end, [](const problem& a, const problem& b) {
      auto place = [](const origin& at) {  // line 0 - 1: what a file as a whole lacks comes last
        return std::pair(at.line - 1, at.column);
      };
      return place(a.at) < place(b.at);
    });
    begin = end;
  }
  return {std::move(config_), std::move(problems_)};
}

const origin& builder::origin_of(std::string_view key) const {
  return config_.origins.find(key)->second;
}

void builder::fitted(std::string_view key, std::string_view to, std::string warning) {
  config_.origins[std::string(key)] = origin_of(to);
  config_.warnings.push_back(std::move(warning));
}

void builder::derived(std::string_view key) {
  config_.origins[std::string(key)].kind = source_kind::derived;
}

}  // namespace detail

namespace {

/// Whether the layers of a launch are read; else the text of a job.
enum class reading : uint8_t { launch, text };

/// Derives and checks, unless a file could not be read at all: then everything would look missing.
void finish(detail::builder& b, reading what = reading::text) {
  if (b.at_fault("") || b.at_fault("include")) return;
  detail::derive(b);
  if (what == reading::launch) detail::fit_warmup(b);
  detail::check(b);
}

}  // namespace

std::string to_string(const origin& from) {
  switch (from.kind) {
    case source_kind::standard:
      return "default";
    case source_kind::derived:
      return "default, derived";
    case source_kind::environment:
      return "environment " + from.name;
    case source_kind::flag:
      return from.name;
    case source_kind::file:
      break;
  }
  return from.line == 0 ? from.name : fmt::format("{}:{}:{}", from.name, from.line, from.column);
}

namespace {

/// Place, key and sentence. A sentence that begins with its key says it once.
std::string without_hint(const problem& p) {
  auto text = to_string(p.at);
  if (!p.key.empty() && !p.what.starts_with(p.key + " ")) text += ": " + p.key;
  return text + ": " + p.what;
}

}  // namespace

std::string render(const problem& p) {
  const auto text = without_hint(p);
  return p.hint.empty() ? text : text + "; " + p.hint;
}

error as_error(const std::vector<problem>& problems) {
  if (problems.size() == 1) return {problems[0].code, without_hint(problems[0]), problems[0].hint};
  std::string text;
  for (const auto& p : problems) {
    text += (text.empty() ? "" : "\n") + without_hint(p);
    if (!p.hint.empty()) text += "\nhint: " + p.hint;
  }
  return {errc::bad_config, std::move(text)};
}

read_result read(const sources& from) {
  detail::builder b(from.file);
  detail::read_file(b, from.file);
  b.next_layer();
  detail::read_environment(b, from.environment);
  for (const auto& flag : from.sets) {
    b.next_layer();
    detail::read_flag(b, flag);
  }
  finish(b, reading::launch);
  return b.take();
}

result<cluster_section> cluster_without_file(const std::vector<std::string>& environment,
                                             const std::vector<std::string>& sets) {
  detail::builder b("");
  detail::read_environment(b, environment);
  for (const auto& flag : sets) {
    b.next_layer();
    detail::read_flag(b, flag);
  }
  detail::check_tls(b);
  auto all = b.take();
  if (!all.problems.empty()) return as_error(all.problems);
  return std::move(all.config.value.cluster);
}

tls_section tls_of(const tls_section& tls, std::string_view node) {
  return {detail::expanded(tls.ca, "{node}", node),
          detail::expanded(tls.certificate, "{node}", node),
          detail::expanded(tls.key, "{node}", node)};
}

result<loaded> load(const sources& from) {
  auto all = read(from);
  if (!all.problems.empty()) return as_error(all.problems);
  return std::move(all.config);
}

result<job> parse(std::string_view toml, std::string_view name) {
  detail::builder b{std::string(name)};
  detail::read_text(b, toml, std::string(name));
  finish(b);
  auto all = b.take();
  if (!all.problems.empty()) return as_error(all.problems);
  return std::move(all.config.value);
}

result<job> amend(const job& base, std::string_view assignment) {
  detail::builder b{"the running job"};
  detail::read_text(b, to_toml(base), "the running job");
  b.next_layer();
  detail::read_flag(b, std::string(assignment));
  finish(b);
  auto all = b.take();
  if (!all.problems.empty()) return as_error(all.problems);
  return std::move(all.config.value);
}

result<job> settle(const job& open) {
  return parse(to_toml(open), "job");
}

std::vector<std::string> process_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; entry && *entry; entry++) variables.emplace_back(*entry);
  return variables;
}

bool is_loopback(std::string_view host) {
  std::string text(host);
  if (text == "localhost") return true;
  in_addr four{};
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  return inet_pton(AF_INET6, text.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

}  // namespace troupe::config
