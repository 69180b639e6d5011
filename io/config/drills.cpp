// What a drill is called, and what is wrong with it.
#include "io/config/drills.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "io/base/text.hpp"
#include "io/config/builder.hpp"

namespace troupe::config {

std::optional<int64_t> rank_of(const drill_spec& drill) {
  constexpr std::string_view word = "rank ";
  const std::string_view who = drill.who;
  if (!who.starts_with(word)) return std::nullopt;
  int64_t rank = -1;
  const auto* end = who.data() + who.size();
  const auto [rest, failed] = std::from_chars(who.data() + word.size(), end, rank);
  if (failed != std::errc() || rest != end || rank < 0) return std::nullopt;
  return rank;
}

std::string drill_text(const drill_spec& drill) {
  switch (drill.what) {
    case drill_kind::slow:
      return fmt::format("{} computes {:g} times as long", drill.who, drill.factor);
    case drill_kind::hang:
      return fmt::format("{} hangs", drill.who);
    case drill_kind::wrong_bit:
      return fmt::format("a bit of the weights of {} turns before they are compared next",
                         drill.who);
    case drill_kind::wrong_product:
      return fmt::format("a bit of what {} computes to be compared next turns", drill.who);
    case drill_kind::fail:
      return fmt::format("the process of {} is killed", drill.who);
    case drill_kind::disk_slow:
      return fmt::format("{} writes the next checkpoint {:g} times as long", drill.who,
                         drill.factor);
    case drill_kind::drop:
      break;
  }
  return fmt::format("nothing that the process of {} says arrives any more", drill.who);
}

std::string drill_steps_text(const drill_spec& drill) {
  if (drill.every == 1) return fmt::format("each step from {} on", drill.from_step);
  auto out = fmt::format("step {}", drill.from_step);
  if (drill.every > 0) out += fmt::format(", then every {} steps", drill.every);
  return out;
}

namespace detail {

namespace {

void check_who(builder& b, const drill_entry& entry) {
  const auto& j = b.target();
  const auto& who = entry.spec.who;
  std::vector<std::string_view> names;
  for (const auto& n : j.cluster.node) names.push_back(n.name);
  if (std::find(names.begin(), names.end(), who) != names.end()) return;
  const auto ranks = j.workers();
  if (const auto rank = rank_of(entry.spec)) {
    if (*rank >= ranks)
      b.complain(entry.who_at, "inject.who", fmt::format("{} does not exist", who),
                 fmt::format("the job has ranks 0 to {}", ranks - 1));
    return;
  }
  const auto near = nearest(who, names);
  b.complain(entry.who_at, "inject.who",
             fmt::format("expected \"rank N\" or a node's name, got {}", troupe::quoted(who)),
             near.empty() ? "" : fmt::format("did you mean \"{}\"?", near));
}

void check_factor(builder& b, const drill_entry& entry) {
  const auto& d = entry.spec;
  const auto word = drill_words[static_cast<size_t>(d.what)];
  const bool takes_longer = d.what == drill_kind::slow || d.what == drill_kind::disk_slow;
  if (takes_longer && d.factor <= 1)
    b.complain(entry.factor_at, "inject.factor",
               fmt::format("{} needs a factor above 1, got {:g}", word, d.factor),
               "factor = 3: it takes 3 times as long");
  if (!takes_longer && d.factor != 0)
    b.complain(entry.factor_at, "inject.factor", fmt::format("{} has no factor", word),
               "leave it out: it is of slow and disk_slow");
}

/// A wrong bit that nobody can find would stay in the weights for good.
void check_wrong_bit(builder& b, const drill_entry& entry) {
  const auto& j = b.target();
  if (entry.spec.what != drill_kind::wrong_bit) return;
  if (j.parallel.data < 2)
    b.complain(entry.at, "inject.what", "nobody would find a wrong bit: there is one replica",
               "replicas compare their weights: set parallel.data = 2 or more");
  else if (j.health.digest_every == 0)
    b.complain(entry.at, "inject.what",
               "nobody would find a wrong bit: replicas do not compare their weights",
               "set health.digest_every, e.g. 10");
}

/// What nobody computes again would be no drill.
void check_wrong_product(builder& b, const drill_entry& entry) {
  if (entry.spec.what == drill_kind::wrong_product && b.target().health.recheck_every == 0)
    b.complain(entry.at, "inject.what",
               "nobody would find a wrong product: no layer is computed to be compared",
               "set health.recheck_every, e.g. 100");
}

}  // namespace

void check_drills(builder& b) {
  const auto& drills = b.drills();
  if (drills.size() > most_drills)
    return b.complain(drills.front().at, "inject",
                      fmt::format("{} drills, at most {} are made", drills.size(), most_drills));
  for (const auto& entry : drills) {
    if (!b.at_fault("inject.who")) check_who(b, entry);
    if (b.at_fault("inject.what")) continue;
    if (!b.at_fault("inject.factor")) check_factor(b, entry);
    check_wrong_bit(b, entry);
    check_wrong_product(b, entry);
  }
}

}  // namespace detail

}  // namespace troupe::config
