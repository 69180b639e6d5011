// The property tables of what stands in lists, as table.cpp is for all other keys:
// [[cluster.node]], [[data.source]], [[recovery.rule]], [[health.log_rule]] and [[inject]].
#include "io/config/table.hpp"

namespace troupe::config::detail {

namespace {

constinit const property node_rows[] = {
    row<node_spec, &node_spec::name>("cluster.node.name",
                                     "Name of the node, unique in the cluster"),
    row<node_spec, &node_spec::host>("cluster.node.host",
                                     "Host it runs on; empty = localhost (launch \"local\")"),
    row<node_spec, &node_spec::workers>("cluster.node.workers",
                                        "Its workers; 0 = cluster.workers_per_node", within(0, 64)),
    row<node_spec, &node_spec::spare>("cluster.node.spare",
                                      "It runs no ranks until it stands in for a lost node"),
    row<node_spec, &node_spec::power_parent>(
        "cluster.node.power_parent",
        "The power budget that its machine hangs on, as power.parent names one, where the job's "
        "machines hang on several; empty = power.parent"),
};

constinit const property source_rows[] = {
    row<source_spec, &source_spec::path>(
        "data.source.path", "Files, patterns or folders of this source, as data.path takes them"),
    row<source_spec, &source_spec::weight>(
        "data.source.weight",
        "Its share of the training windows, relative to the weights of the others",
        {.min = 0, .max = 1e9, .above_min = true}),
    row<source_spec, &source_spec::name>("data.source.name",
                                         "What it is called where it is spoken of; empty = its "
                                         "paths"),
    row<source_spec, &source_spec::text_field>(
        "data.source.text_field",
        "Of its JSON records, the field that holds the text; empty = data.text_field"),
};

constinit const property rule_rows[] = {
    row<recovery_rule, &recovery_rule::finding>("recovery.rule.finding",
                                                "What it is about, by the names of docs/health.md"),
    row<recovery_rule, &recovery_rule::action>(
        "recovery.rule.do",
        "restart = go back to the newest checkpoint in a new epoch, with a new process for a lost "
        "one; hold = the same, then pause until a person resumes it; end = the run ends"),
    row<recovery_rule, &recovery_rule::within_s>(
        "recovery.rule.within_s", "Seconds that times counts within", within(1, week_s)),
    row<recovery_rule, &recovery_rule::times>(
        "recovery.rule.times",
        "How often it is applied within within_s; then the next rule of the finding is, or the run "
        "ends; 0 = any number, as recovery.most_per_hour allows",
        within(0, 1'000)),
};

constinit const property log_rule_rows[] = {
    row<log_rule_spec, &log_rule_spec::name>(
        "health.log_rule.name",
        "Name of the rule, by which findings call it: at most 24 letters, digits, '.', '_', '-'; "
        "a default rule's takes that one's place"),
    row<log_rule_spec, &log_rule_spec::match>(
        "health.log_rule.match",
        "Regular expression of RE2, at most 512 bytes: a line in which something matches it fits; "
        "empty = none does, as to switch a default rule off"),
    row<log_rule_spec, &log_rule_spec::finding>(
        "health.log_rule.finding",
        "What a line that fits is a finding of, by the names of docs/health.md"),
};

constinit const property drill_rows[] = {
    row<drill_spec, &drill_spec::who>(
        "inject.who", "Whom it befalls: \"rank 2\", or a node's name for all ranks it has then"),
    row<drill_spec, &drill_spec::what>(
        "inject.what",
        "slow = it computes factor times as long in that step; hang = its device does not end an "
        "operation; wrong_bit = a bit of its weights turns before they are compared next; "
        "wrong_product = a bit of what it computes to be compared next turns; fail = "
        "its process is killed; disk_slow = its writes of the next checkpoint take factor times as "
        "long; drop = nothing that its process says to others arrives any more"),
    row<drill_spec, &drill_spec::from_step>("inject.from_step", "First step that it acts in",
                                            within(1, last_drill_step)),
    row<drill_spec, &drill_spec::every>(
        "inject.every", "Steps from one that it acts in to the next; 0 = it acts once",
        within(0, last_drill_step)),
    row<drill_spec, &drill_spec::factor>(
        "inject.factor", "How many times as long it takes (slow, disk_slow); 0 for the others",
        within(0, 1'000)),
};

}  // namespace

std::span<const property> node_table() {
  return node_rows;
}
std::span<const property> source_table() {
  return source_rows;
}
std::span<const property> rule_table() {
  return rule_rows;
}
std::span<const property> log_rule_table() {
  return log_rule_rows;
}
std::span<const property> drill_table() {
  return drill_rows;
}

}  // namespace troupe::config::detail
