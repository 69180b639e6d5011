// A job while its layers are laid over each other; internal to io/config.
//
// Why apart: the reader of files and the reader of variables and flags feed the same object, and
// the checks need to know which keys are at fault already and where each value stands.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/config/load.hpp"
#include "io/config/properties.hpp"

namespace troupe::config::detail {

/// One [[cluster.node]] as read, with the places of its keys.
struct node_entry {
  node_spec spec;
  origin at;
};

/// One [[data.source]] as read.
struct source_entry {
  source_spec spec;
  origin at;
};

/// One [[recovery.rule]] as read.
struct rule_entry {
  recovery_rule spec;
  origin at;
};

/// One [[health.log_rule]] as read, with the place of its match.
struct log_rule_entry {
  log_rule_spec spec;
  origin at;
  origin match_at = {};
};

/// One [[inject]] as read, with the places of what its check may find wrong.
struct drill_entry {
  drill_spec spec;
  origin at;
  origin who_at = {}, factor_at = {};
};

class builder {
 public:
  explicit builder(std::string file);

  /// Starts the next, stronger layer.
  void next_layer() { layer_++; }
  /// Stores a value of a key, or notes why it cannot be.
  void assign(const property& p, const value& v, const origin& key_at, const origin& value_at);
  /// Replaces the list of nodes.
  void assign_nodes(std::vector<node_entry> nodes, const origin& at);
  /// Replaces the sources.
  void assign_sources(std::vector<source_entry> sources, const origin& at);
  /// Replaces the rules; findings without one have their default rule.
  void assign_rules(std::vector<rule_entry> rules);
  /// Replaces the rules for lines of logs; default ones of other names stay.
  void assign_log_rules(std::vector<log_rule_entry> rules);
  /// Replaces the drills.
  void assign_drills(std::vector<drill_entry> drills, const origin& at);
  /// Notes a problem; a key in it is left out of later rules.
  void complain(const origin& at, std::string_view key, std::string what, std::string hint = {},
                errc code = errc::bad_config);
  /// Notes a problem with a combination of keys unless it holds or one of them is at fault already.
  /// The place is that of the first key that somebody set.
  void rule(bool holds, std::initializer_list<std::string_view> keys, std::string what,
            std::string hint = {});
  /// Notes a key that does not exist; the key it was meant to be counts as at fault (L-1).
  void unknown_key(const origin& at, std::string_view key);
  /// Marks a key as computed from others.
  void derived(std::string_view key);
  /// Where a key's value came from.
  const origin& origin_of(std::string_view key) const;
  /// Notes that a key was fitted to another, whose origin is its own from then on (L-5).
  void fitted(std::string_view key, std::string_view to, std::string warning);

  job& target() { return config_.value; }
  const std::vector<node_entry>& nodes() const { return nodes_; }
  const std::vector<source_entry>& sources() const { return sources_; }
  const std::vector<rule_entry>& rules() const { return rules_; }
  const std::vector<log_rule_entry>& log_rules() const { return log_rules_; }
  const std::vector<drill_entry>& drills() const { return drills_; }
  bool at_fault(std::string_view key) const { return faulty_.contains(key); }
  void add_file(std::string path) { config_.files.push_back(std::move(path)); }
  /// The result, the problems of a file in the order of its lines.
  read_result take();

 private:
  void set_sources(std::vector<source_entry> sources);

  loaded config_;
  std::vector<problem> problems_;
  std::set<std::string, std::less<>> faulty_;
  std::string file_;
  std::vector<node_entry> nodes_;
  std::vector<source_entry> sources_;
  std::vector<rule_entry> rules_;
  std::vector<log_rule_entry> log_rules_;
  std::vector<drill_entry> drills_;
  int layer_ = 0;
  int nodes_layer_ = -1;      // layer that last set cluster.nodes
  int node_list_layer_ = -1;  // layer that last set [[cluster.node]]
  int path_layer_ = -1;       // layer that last set data.path
  int source_layer_ = -1;     // layer that last set [[data.source]]
};

/// Lays a file's text over the builder; includes are followed from `directory` when allowed.
void read_text(builder& into, std::string_view text, const std::string& name);
/// Reads a file and its includes.
void read_file(builder& into, const std::string& path);
/// Lays "NAME=value" variables over the builder.
void read_environment(builder& into, const std::vector<std::string>& variables);
/// Lays one "key=value" flag over the builder.
void read_flag(builder& into, std::string_view flag);

/// `text` with every placeholder replaced.
std::string expanded(std::string text, std::string_view placeholder, std::string_view with);
/// What a job, a node and a rule may be called, and how that is said.
bool is_name(std::string_view text);
inline constexpr std::string_view name_rule =
    "expected letters, digits, '.', '_', '-', not starting with '.' or '-'";
/// What is wrong with a name that is none.
std::string name_fault(std::string_view text);
/// Checks the rules for lines of logs (J-7).
void check_log_rules(builder& b);
/// Checks the drills (J-8).
void check_drills(builder& b);
/// Which power budgets the job's machines hang on, where nodes name them (J-10).
void derive_racks(builder& b);
/// Checks them.
void check_racks(builder& b);
/// Checks that cluster.tls is whole or absent.
void check_tls(builder& b);
/// Fills what is derived from other keys.
void derive(builder& b);
/// Shortens a warmup that the steps of a stronger layer leave no room for (L-5).
void fit_warmup(builder& b);
/// Checks the combination.
void check(builder& b);

}  // namespace troupe::config::detail
