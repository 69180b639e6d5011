// Steps that are left, and steps that are not.
#include "apps/control/loss_policy.hpp"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include "io/base/text.hpp"
#include "messages/contract.hpp"

namespace troupe::apps {

namespace {

/// The node that a command takes out; empty: none.
std::string node_of(const console_command& c) {
  if (const auto* evict = std::get_if<commands::evict>(&c)) return evict->node;
  if (const auto* replace = std::get_if<commands::replace>(&c)) return replace->node;
  return {};
}

bool is_end_of_run(const fbs::ActorInfoT& actor) {
  const auto* service = find_service(actor.kind);
  return service != nullptr && service->on_death == death::run_ended;
}

std::string steps_after(uint64_t kept, uint64_t last) {
  return kept + 1 == last ? fmt::format("step {}", last)
                          : fmt::format("steps {} to {}", kept + 1, last);
}

std::string newest(uint64_t kept) {
  return kept == 0 ? std::string("nothing is saved yet")
                   : fmt::format("the newest that is left is of step {}", kept);
}

struct judge {
  const loss_facts& f;
  using loss = std::optional<std::string>;

  /// A node goes at once.
  loss without_node(std::string_view order, const std::string& node, uint64_t kept) const {
    if (!f.node_has_ranks || f.step <= kept) return {};
    return fmt::format("{0} {1} loses the state of {2}, which is in the memory of nodes alone "
                       "({3}): they are made again; `drain {1}` saves first",
                       order, node, steps_after(kept, f.step), newest(kept));
  }

  loss operator()(const commands::evict& c) const {
    // With fewer replicas ranks are others, and copies in memory are of no use to them.
    return without_node("evict", c.node, f.spare_is_ready ? std::max(f.saved, f.copied) : f.saved);
  }
  loss operator()(const commands::replace& c) const {
    return without_node("replace", c.node, std::max(f.saved, f.copied));
  }
  loss operator()(const commands::rewind& c) const {
    const auto kept = std::min(c.step, f.saved);
    if (f.step <= kept) return {};
    const auto unsaved = f.step <= f.saved ? std::string()
                                           : fmt::format(", and {} {} in none",
                                                         steps_after(f.saved, f.step),
                                                         f.step == f.saved + 1 ? "is" : "are");
    return fmt::format("rewind {} gives up {}: checkpoints of them are set aside{}", c.step,
                       steps_after(kept, f.step), unsaved);
  }
  loss operator()(const commands::kill& c) const {
    if (!f.ends_run || f.step <= f.saved) return {};
    return fmt::format("kill {} ends the run without a save: {} {} lost ({}); `stop` saves first",
                       c.actor, steps_after(f.saved, f.step),
                       f.step == f.saved + 1 ? "is" : "are", newest(f.saved));
  }
  template <class Other>
  loss operator()(const Other&) const {
    return {};
  }
};

}  // namespace

named_facts facts_in(const fbs::ClusterViewT& view, const console_command& c) {
  named_facts out;
  const auto node = node_of(c);
  const auto* kill = std::get_if<commands::kill>(&c);
  for (const auto& n : view.nodes) {
    if (!node.empty() && n->node == node && !n->ranks.empty()) out.node_has_ranks = true;
    for (const auto& actor : n->actors)
      if (kill != nullptr && glob_match(kill->actor, actor->path) && is_end_of_run(*actor))
        out.ends_run = true;
  }
  return out;
}

bool may_lose(const console_command& c) {
  return std::visit(
      [](const auto& one) {
        using word_type = std::decay_t<decltype(one)>;
        return std::is_same_v<word_type, commands::evict> ||
               std::is_same_v<word_type, commands::replace> ||
               std::is_same_v<word_type, commands::rewind> ||
               std::is_same_v<word_type, commands::kill>;
      },
      c);
}

std::optional<std::string> loss_by(const console_command& c, const loss_facts& facts) {
  return std::visit(judge{facts}, c);
}

}  // namespace troupe::apps
