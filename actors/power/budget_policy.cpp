// What is counted, divided, cut, raised and sent.
#include "actors/power/budget_policy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace troupe::power {

namespace {

/// No time of a lease is longer.
constexpr int64_t a_day_ns = 86'400'000'000'000;
/// Of all children together, so that sums of what is counted stay numbers.
constexpr int64_t beyond_all_mw = 1'000 * beyond_mw;

bool is_power(int64_t mw) {
  return mw >= 0 && mw <= beyond_mw;
}

double share_of(int64_t mw, int64_t whole_mw) {
  return static_cast<double>(mw) / static_cast<double>(std::max<int64_t>(1, whole_mw));
}

}  // namespace

status check(const budget_rules& rules, std::span<const budget_child> children, int64_t budget_mw) {
  const auto wrong = [](std::string what, std::string hint) {
    return error{errc::bad_config, std::move(what), std::move(hint)};
  };
  if (rules.tick_ns <= 0 || rules.tick_ns > a_day_ns || rules.ttl_ns > a_day_ns ||
      rules.actuation_ns < 0 || rules.actuation_ns > a_day_ns)
    return wrong(
        fmt::format("tick {} ns, ttl {}, actuation {}", rules.tick_ns, rules.ttl_ns,
                    rules.actuation_ns),
        "a tick takes time, an actuation none or some, and none of the three more than a day");
  if (rules.ttl_ns < 3 * rules.tick_ns)
    return wrong(fmt::format("a lease of {} ms is less than three ticks of {} ms",
                             rules.ttl_ns / 1'000'000, rules.tick_ns / 1'000'000),
                 "it is renewed each third of it, and a lost message must not end it");
  if (!is_power(rules.noise_mw) || rules.unruly_ticks < 1 ||
      rules.unruly_ticks > budget_policy::unruly_ring)
    return wrong(fmt::format("noise is {} mW, and {} ticks make a child unruly", rules.noise_mw,
                             rules.unruly_ticks),
                 fmt::format("0 <= noise <= 1e15; 1 to {} ticks", budget_policy::unruly_ring));
  if (!is_power(budget_mw))
    return wrong(fmt::format("the budget is {} mW", budget_mw), "0 <= budget <= 1e15");
  int64_t shares_mw = 0, most_mw = 0;
  for (size_t i = 0; i < children.size(); ++i) {
    const auto& c = children[i];
    if (!is_power(c.ceiling_mw) || c.paused_mw < 0 || c.paused_mw > c.floor_mw ||
        c.floor_mw > c.static_share_mw || c.static_share_mw > c.ceiling_mw || c.idle_mw < 0 ||
        c.idle_mw > c.ceiling_mw || !is_power(c.remembered_mw))
      return wrong(
          fmt::format("child {}: paused {} mW, floor {}, static share {}, ceiling {}, idle {}, "
                      "remembered {}",
                      i, c.paused_mw, c.floor_mw, c.static_share_mw, c.ceiling_mw, c.idle_mw,
                      c.remembered_mw),
          "0 <= paused <= floor <= static share <= ceiling <= 1e15, 0 <= idle <= ceiling, "
          "0 <= remembered <= 1e15");
    shares_mw += c.static_share_mw;
    most_mw += std::max(c.ceiling_mw, c.remembered_mw);
    if (most_mw > beyond_all_mw)
      return wrong(fmt::format("child {}: ceilings are more than {} mW together", i, beyond_all_mw),
                   "are these watts, and no other unit?");
  }
  if (shares_mw > budget_mw)
    return wrong(
        fmt::format("static shares are {} mW together, the budget is {} mW", shares_mw, budget_mw),
        "children fall to them by themselves when nobody is heard: they must fit");
  return {};
}

budget_policy::budget_policy(const budget_rules& rules, std::vector<budget_child> children,
                             uint64_t epoch, int64_t now_ns, const row_state& row)
    : rules_(rules),
      row_policy_(rules.row),
      overload_(rules.row, rules.tick_ns, rules.fresh_ns),
      safe_(rules.tick_ns, rules.row.settle_up_ns),
      children_(std::move(children)),
      epoch_(epoch),
      began_ns_(now_ns),
      ledgers_(children_.size()),
      asks_(children_.size()),
      shares_(children_.size()),
      awaits_(children_.size()),
      order_(children_.size()),
      groups_(children_.size()),
      row_(row),
      own_before_(fall_ns() + 1) {
  out_.grants.reserve(children_.size());
  row_.level = std::min(row_.level, rules_.row.rung_count);
  row_.brake_ns = now_ns;
  if (row_.command_ns) row_.command_ns = now_ns;
  draw_groups();
}

report_verdict budget_policy::hear(size_t child, const power_report& r, int64_t now_ns) {
  auto& l = ledgers_[child];
  if (!is_power(r.in_force_mw) || !is_power(r.wish_mw) || !is_power(r.drawn_mw.value_or(0)) ||
      r.id.sent_ns < 0 ||
      (r.order.epoch == epoch_ && (r.order.sequence == 0 || r.order.sequence > l.sequence)))
    return report_verdict::impossible;
  if (r.order.epoch > epoch_) l.elsewhere = std::max(l.elsewhere.value_or(0), r.id.incarnation);
  if (l.elsewhere && r.id.incarnation <= *l.elsewhere) return report_verdict::newer_life;
  const bool is_older = l.heard && r.id.incarnation < l.last.id.incarnation;
  if (is_older && now_ns - l.heard_ns <= fall_ns(child)) return report_verdict::older_process;
  if (l.heard && !is_older && r.id <= l.last.id) return report_verdict::older;
  note_actuation(l, r.actuation_ns);
  // Without a lease yet it has just begun, and holds nothing that went on before it.
  const auto& c = children_[child];
  const bool may_go_on = (c.others_work || c.remembered_mw > 0) && r.order == lease_order{};
  if (l.heard ? r.id.incarnation != l.last.id.incarnation : may_go_on) {  // BGT-7
    l.before_mw = counted_mw(child);
    l.before_until_ns = is_older ? std::numeric_limits<int64_t>::max() : now_ns + fall_ns(child);
  }
  l.elsewhere.reset();
  power_report counts = r;
  counts.in_force_mw = std::min(r.in_force_mw, most_mw(child));
  judge_draw(l, counts);
  l.heard = true;
  l.heard_ns = now_ns;
  l.last = counts;
  if (r.order.epoch == epoch_) acked(l);
  return report_verdict::taken;
}

/// BGT-12
void budget_policy::note_actuation(ledger& l, int64_t takes_ns) {
  constexpr int64_t an_hour_ns = 3'600'000'000'000;
  if (takes_ns <= l.acts_ns) return;
  safe_.told(takes_ns);
  l.acts_ns = std::min(takes_ns, an_hour_ns);
  acts_ns_ = std::max(acts_ns_, std::min(l.acts_ns, rules_.ttl_ns));
  own_before_.widen(fall_ns() + 1);
}

/// What a child may count at, whatever it says. PWR-1
int64_t budget_policy::most_mw(size_t child) const {
  const auto& l = ledgers_[child];
  int64_t out = std::max(children_[child].ceiling_mw, children_[child].remembered_mw);
  for (size_t i = 0; i < l.open_count; ++i) out = std::max(out, l.open[i].cap_mw);
  return out;
}

/// Who was cut just now may have drawn what was in force before, or what it was granted and has
/// followed without our hearing of it. One reading is a moment, and a job keeps its cap by the mean
/// of more than that: it takes as many in a row to be above as to be cleared. What is not measured
/// does neither.
void budget_policy::judge_draw(ledger& l, const power_report& r) const {
  int64_t allowed_mw = r.in_force_mw;
  for (size_t i = 0; i < l.open_count; ++i) allowed_mw = std::max(allowed_mw, l.open[i].cap_mw);
  const auto kept = static_cast<size_t>(rules_.unruly_ticks);
  if (!l.fenced) l.reports = 0;  // it may have followed a parent before us
  l.allowed_mw[l.reports++ % kept] = allowed_mw;
  if (!r.drawn_mw) return;
  l.drawn_mw = *r.drawn_mw;
  l.idle_mw = std::min(l.idle_mw, l.drawn_mw);
  if (l.reports < kept) return;
  const auto first = l.allowed_mw.begin();
  const auto end = first + static_cast<ptrdiff_t>(kept);
  const int64_t allowed_most_mw = *std::max_element(first, end);
  if (l.drawn_mw - allowed_most_mw > std::max(rules_.noise_mw, allowed_most_mw / draw_parts)) {
    l.kept_reports = 0;
    l.above_reports = std::min(l.above_reports + 1, rules_.unruly_ticks);
    l.above |= l.above_reports == rules_.unruly_ticks;
    if (!l.above) return;
    l.worked = r.works;
    if (!r.works && !r.held) l.idle_mw = l.drawn_mw;  // BGT-5
  } else {
    l.above_reports = 0;
    if (l.above && ++l.kept_reports >= rules_.unruly_ticks) l.above = false;
  }
}

/// BGT-4
bool budget_policy::has_fallen(const ledger& l) const {
  return l.open_count > 0 && l.last.order == lease_order{epoch_, l.sequence} &&
         l.last.in_force_mw < l.granted_mw;
}

/// Leases before the acked one are over; it may still follow a renewal of that one itself.
void budget_policy::acked(ledger& l) const {
  l.fenced = true;
  const auto first = l.open.begin();
  const auto end = first + static_cast<ptrdiff_t>(l.open_count);
  const auto kept =
      std::find_if(first, end, [&](const auto& e) { return e.sequence >= l.last.order.sequence; });
  l.open_count = static_cast<size_t>(std::move(kept, end, first) - first);
  if (l.last.order.sequence == l.sequence) l.open[0].cap_mw = l.granted_mw;  // BGT-3
}

int64_t budget_policy::counted_mw(size_t child) const {
  const auto& l = ledgers_[child];
  const auto& c = children_[child];
  if (l.elsewhere) return std::max(c.remembered_mw, c.ceiling_mw);  // BGT-6
  if (!l.heard) return std::max(c.remembered_mw, c.others_work ? c.ceiling_mw : c.static_share_mw);
  int64_t out = l.last.in_force_mw;
  out = std::max(out, l.before_mw);  // BGT-7
  for (size_t i = 0; i < l.open_count; ++i) out = std::max(out, l.open[i].cap_mw);
  // What a parent before us still had under way may have raised it since, and it fell from there.
  if (!l.fenced) out = std::max({out, c.static_share_mw, c.remembered_mw});
  if (l.above) out = std::max(out, std::min(l.drawn_mw, most_mw(child)));
  return out;
}

int64_t budget_policy::counted_mw() const {
  int64_t out = 0;
  for (size_t i = 0; i < children_.size(); ++i) out += counted_mw(i);
  return out;
}

int64_t budget_policy::told_mw() const {
  int64_t out = 0;
  for (const auto& l : ledgers_) out += l.last.in_force_mw;
  return out;
}

/// BGT-7
void budget_policy::forget_processes(int64_t now_ns) {
  for (auto& l : ledgers_)
    if (now_ns >= l.before_until_ns) l.before_mw = 0;
}

bool budget_policy::is_silent(size_t child, int64_t now_ns) const {
  const auto& l = ledgers_[child];
  return !l.heard || l.elsewhere || now_ns - l.heard_ns > rules_.ttl_ns;
}

bool budget_policy::is_braked(size_t child) const {
  if (!holds_work()) return false;  // BGT-10
  return row_.brake != row_brake::releasing || groups_[child] >= row_.released_groups;
}

/// By chance, anew for each brake, and as many of one group as of another: of two children who
/// share one both would come back at once.
void budget_policy::draw_groups() {
  constexpr int places = 1 << 30;
  for (size_t i = 0; i < order_.size(); ++i)
    order_[i] = {release_group(epoch_, row_.brakes, i, places), i};
  std::sort(order_.begin(), order_.end());
  const auto groups = static_cast<size_t>(rules_.row.release_groups);
  for (size_t at = 0; at < order_.size(); ++at)
    groups_[order_[at].second] = static_cast<int>(at * groups / order_.size());
}

void budget_policy::let_go() {
  overload_.let_go();
  row_.brake = row_brake::off;
}

bool budget_policy::is_fresh(size_t child, int64_t now_ns) const {
  const auto& l = ledgers_[child];
  return l.heard && !l.elsewhere && now_ns - l.heard_ns <= rules_.fresh_ns;
}

/// Up to a lease's time: whoever takes longer keeps no others from what is theirs. BGT-12
bool budget_policy::knows(int64_t now_ns) const {
  if (knew_) return true;
  for (size_t i = 0; i < ledgers_.size(); ++i)
    if (!ledgers_[i].fenced && now_ns - began_ns_ < std::min(fall_ns(i), fall_ns())) return false;
  return true;
}

/// What may be drawn above what is counted, by children that have acked nothing of ours and may
/// not have fallen yet from what a parent before us had under way. BGT-12
int64_t budget_policy::unfallen_mw(int64_t now_ns) const {
  int64_t out = 0;
  for (size_t i = 0; i < ledgers_.size(); ++i)
    if (!ledgers_[i].fenced && now_ns - began_ns_ < fall_ns(i))
      out += std::max<int64_t>(0, most_mw(i) - counted_mw(i));
  return out;
}

/// In shares the breaker carries what is in force: a cap that falls, once or tick by tick, is
/// waited for, as long as a child may take. What is measured is a tick's mean: it is of what was
/// counted a tick ago, too.
int64_t budget_policy::carried_mw(const own_cap& own, int64_t now_ns) {
  const int64_t counts_mw = counted_mw();
  const int64_t counted = std::max(counts_mw, counted_before_mw_);
  counted_before_mw_ = counts_mw;
  if (own_mw_ && *own_mw_ != own.cap_mw) own_before_.ended(*own_mw_, now_ns);
  own_before_.forget(now_ns);
  own_mw_ = own.cap_mw;
  if (counted <= own.cap_mw)
    short_since_ns_.reset();
  else if (!short_since_ns_)
    short_since_ns_ = now_ns;
  if (rules_.mode != budget_mode::shares || !short_since_ns_) return own.cap_mw;
  if (now_ns - *short_since_ns_ <= fall_ns()) return counted;
  return std::min(counted, own_before_.most(own.cap_mw));
}

/// OVL-1. Nobody draws more by its word than its machines can (PWR-1).
overload_look budget_policy::look_at_draws(const own_cap& own, int64_t carries_mw,
                                           int64_t now_ns) const {
  overload_look out;
  int64_t read_mw = 0, rest_mw = 0;
  for (size_t i = 0; i < ledgers_.size(); ++i) {
    const auto& drawn_mw = ledgers_[i].last.drawn_mw;
    const bool read = drawn_mw && is_fresh(i, now_ns);
    out.read |= read;
    (read ? read_mw : rest_mw) += read ? std::min(*drawn_mw, most_mw(i)) : counted_mw(i);
  }
  out.at_least = share_of(read_mw, carries_mw);
  out.at_most = share_of(read_mw + rest_mw, carries_mw);
  out.of_budget = share_of(read_mw, own_before_.most(own.cap_mw));
  return out;
}

/// In thresholds: the clocks, and the brake unless nothing is read, for then static shares hold, or
/// a person has let work go on. BGT-10, BGT-11
void budget_policy::watch_row(const budget_sample& sample, const overload_look& look,
                              int64_t carries_mw, int64_t now_ns) {
  row_sample seen{{}, share_of(counted_mw(), carries_mw), false};
  for (const auto& l : ledgers_) seen.unruly |= l.is_unruly();
  if (sample.drawn_mw) seen.drawn = share_of(*sample.drawn_mw, carries_mw);
  measure_row(seen.drawn, now_ns);
  auto decided = row_policy_.decide(row_, seen, now_ns);
  const bool may_pull = sample.drawn_mw && !overload_.is_let_go();
  if (decided.commands.brake == true && !may_pull) {
    decided.state.brake = row_.brake;
    decided.state.brake_ns = row_.brake_ns;
    decided.state.brakes = row_.brakes;
    decided.state.released_groups = row_.released_groups;
    decided.commands.brake.reset();
  }
  release_unseen(decided, look, now_ns);
  if (decided.state.level > row_.level && !commanded_ns_) commanded_ns_ = now_ns;
  row_ = decided.state;
  out_.row = decided.commands;
}

/// While not all are read static shares hold, and the brake goes off as it does in shares. BGT-10
void budget_policy::release_unseen(row_decision& decided, const overload_look& look,
                                   int64_t now_ns) {
  const bool pulled = decided.state.brake != row_brake::off;
  if (decided.state.silent_ticks < rules_.row.stale_ticks || !(pulled || overload_.is_trying()))
    return overload_.watch(look, now_ns);
  const auto by_look = overload_.decide(decided.state, look, now_ns);
  decided.state = by_look.state;
  decided.commands.brake = by_look.commands.brake;
  decided.commands.release_group = by_look.commands.release_group;
  decided.commands.reason = by_look.commands.reason;
}

/// How the row rises, and how long a cut of a class takes until all who are heard have acked it.
void budget_policy::measure_row(const std::optional<double>& drawn, int64_t now_ns) {
  safe_.read(drawn, row_.brake != row_brake::off);
  if (!out_.thresholds_stand) commanded_ns_.reset();
  if (!commanded_ns_) return;
  for (size_t i = 0; i < children_.size(); ++i)
    if (!is_silent(i, now_ns) && counted_mw(i) > ceiling_mw(children_[i])) return;
  safe_.acted(now_ns - *commanded_ns_);
  commanded_ns_.reset();
}

/// The brake, and in thresholds the clocks.
void budget_policy::watch(const own_cap& own, const budget_sample& sample, int64_t now_ns) {
  const int64_t carries_mw = carried_mw(own, now_ns);
  const auto look = look_at_draws(own, carries_mw, now_ns);
  measured_ |= sample.drawn_mw.has_value();
  if (rules_.mode == budget_mode::thresholds) {
    watch_row(sample, look, carries_mw, now_ns);
  } else {
    const auto decided = overload_.decide(row_, look, now_ns);
    row_ = decided.state;
    out_.row = decided.commands;
  }
  if (out_.row.brake == true) draw_groups();
  out_.thresholds_stand = rules_.mode == budget_mode::thresholds && knows(now_ns) && measured_ &&
                          row_.silent_ticks < rules_.row.stale_ticks && own.leased &&
                          sample.brake_armed &&  // BGT-2
                          !overload_.is_let_go() &&
                          std::none_of(ledgers_.begin(), ledgers_.end(),
                                       [](const auto& l) { return l.elsewhere.has_value(); });
}

int64_t budget_policy::ceiling_mw(const budget_child& c) const {
  if (rules_.mode == budget_mode::shares) return c.ceiling_mw;
  if (!out_.thresholds_stand) return c.static_share_mw;
  return c.idle_mw +
         std::llround(speed_of(c.priority) * static_cast<double>(c.ceiling_mw - c.idle_mw));
}

double budget_policy::speed_of(power_class priority) const {
  const auto& r = rules_.row;
  const int mhz = priority == power_class::low ? r.lp_mhz(row_.level) : r.hp_mhz(row_.level);
  return std::pow(static_cast<double>(mhz) / r.max_mhz, rules_.clock_exponent);
}

/// What a child has without any change: the newest lease, or what it was found with. More than its
/// static share of that was promised by a parent before us, out of a lease that we may not have.
int64_t budget_policy::held_mw(size_t child, const own_cap& own) const {
  const auto& l = ledgers_[child];
  const auto& c = children_[child];
  if (l.open_count > 0) return l.granted_mw;
  const bool leased_before = l.last.order != lease_order{};
  return leased_before && own.leased && rules_.mode == budget_mode::shares
             ? l.last.in_force_mw
             : std::min(l.last.in_force_mw, c.static_share_mw);
}

void budget_policy::divide(const own_cap& own, int64_t now_ns) {
  // Where there is too little the sum must come down whomever a cut reaches, and who is not reached
  // falls to its static share, not to what we meant. If that would not do, or if our own lease has
  // lapsed, no more than static shares is granted. BGT-4
  const bool is_short = !out_.thresholds_stand && counted_mw() > own.cap_mw;
  share(own, is_short && !own.leased, now_ns);
  if (is_short && own.leased && unreached_mw() > own.cap_mw) share(own, true, now_ns);
  out_.short_of_floors =
      std::any_of(shares_.begin(), shares_.end(), [](const auto& s) { return s.shed; });
  // Who does not keep to its cap has no claim to more than without any message.
  for (size_t i = 0; i < asks_.size(); ++i)
    if (ledgers_[i].is_unruly())
      shares_[i] = {std::min(held_mw(i, own), children_[i].static_share_mw), false};
}

/// Of all children, once each has had what it is to have, or has fallen by itself.
int64_t budget_policy::unreached_mw() const {
  int64_t out = 0;
  for (size_t i = 0; i < children_.size(); ++i) {
    const int64_t counted = counted_mw(i);
    out += asks_[i].takes_part
               ? std::max(shares_[i].cap_mw, std::min(counted, children_[i].static_share_mw))
               : counted;
  }
  return out;
}

/// What work needs above pausing it needs above what the machine draws by itself. BGT-5
power_ask budget_policy::ask_of(size_t child, bool must_fall) const {
  const auto& l = ledgers_[child];
  const auto& c = children_[child];
  power_ask out{c.priority, c.floor_mw, ceiling_mw(c), c.paused_mw, l.last.wish_mw, true};
  if (must_fall) out.ceiling_mw = std::min(out.ceiling_mw, c.static_share_mw);
  out.paused_mw = std::max(c.paused_mw, std::min(l.idle_mw, out.ceiling_mw));
  const int64_t floor_mw = c.floor_mw + (out.paused_mw - c.paused_mw);
  out.floor_mw = std::max(c.floor_mw, std::min(floor_mw, out.ceiling_mw));
  return out;
}

void budget_policy::share(const own_cap& own, bool must_fall, int64_t now_ns) {
  int64_t available_mw = own.cap_mw;
  for (size_t i = 0; i < children_.size(); ++i) {
    auto& a = asks_[i];
    a = ask_of(i, must_fall);
    a.takes_part = !is_silent(i, now_ns) && !ledgers_[i].is_unruly();
    if (!a.takes_part) available_mw -= counted_mw(i);
  }
  if (out_.thresholds_stand) {
    for (size_t i = 0; i < asks_.size(); ++i) shares_[i] = {asks_[i].ceiling_mw, false};
  } else {
    division_policy::divide(available_mw, asks_, shares_);
  }
}

void budget_policy::change(ledger& l, const power_share& to) {
  ++l.sequence;
  if (l.open_count < ring)
    l.open[l.open_count++] = {l.sequence, to.cap_mw};
  else
    l.open.back() = {l.sequence, std::max(l.open.back().cap_mw, to.cap_mw)};  // BGT-3
  l.granted_mw = to.cap_mw;
  l.granted_shed = to.shed;
}

/// Whether it has less than there is for it, and not even its static share; or nothing. BGT-8
bool budget_policy::lacks(size_t child, int64_t has_mw) const {
  return asks_[child].takes_part && has_mw < shares_[child].cap_mw &&
         (has_mw == 0 || has_mw < children_[child].static_share_mw);
}

/// First what falls, and the first lease of each: what it has. Before we know what each has, what
/// we count may be more than that: only what was told is a reason to cut.
void budget_policy::cut(const own_cap& own, bool knows) {
  const bool is_short = (knows ? counted_mw() : told_mw()) > own.cap_mw;
  bool somebody_lacks = false;
  for (size_t i = 0; i < children_.size(); ++i) somebody_lacks |= lacks(i, held_mw(i, own));
  for (size_t i = 0; i < children_.size(); ++i) {
    auto& l = ledgers_[i];
    if (!asks_[i].takes_part && !l.is_unruly()) continue;
    const int64_t held = held_mw(i, own);
    power_share to{is_short || has_fallen(l) ? std::min(held, l.last.in_force_mw) : held,
                   l.granted_shed};
    if (knows || is_short) {
      const int64_t by_mw = to.cap_mw - shares_[i].cap_mw;
      if (by_mw > 0 && (is_short || somebody_lacks || by_mw >= rules_.noise_mw))
        to.cap_mw = shares_[i].cap_mw;
      to.shed = shares_[i].shed;
    }
    if (l.open_count == 0 || to.cap_mw != held || to.shed != l.granted_shed) change(l, to);
  }
}

/// Then what rises: high priority first, out of what is free. PWR-1
void budget_policy::raise(int64_t own_mw, std::span<const int64_t> covered_mw, int64_t now_ns) {
  int64_t free_mw = own_mw - counted_mw() - unfallen_mw(now_ns);
  if (free_mw < 0 && !out_.thresholds_stand) return;
  for (const auto priority : {power_class::high, power_class::low})
    for (size_t i = 0; i < children_.size(); ++i) {
      auto& l = ledgers_[i];
      if (!asks_[i].takes_part || children_[i].priority != priority) continue;
      const int64_t counted = counted_mw(i);
      int64_t to_mw = shares_[i].cap_mw;
      if (!out_.thresholds_stand) to_mw = std::min(to_mw, counted + free_mw);
      if (to_mw <= l.granted_mw) continue;
      if (to_mw - l.granted_mw < rules_.noise_mw && !lacks(i, l.granted_mw)) continue;
      const int64_t now_mw = covered_mw.empty() ? to_mw : std::min(to_mw, covered_mw[i]);  // BGT-9
      if (now_mw < to_mw) awaits_[i] = to_mw;
      if (now_mw > l.granted_mw) change(l, {now_mw, l.granted_shed});
      free_mw -= std::max<int64_t>(0, to_mw - counted);
    }
}

/// To who is heard: what it has not acked yet, and what is a third of its time old.
void budget_policy::send(const own_cap& own, int64_t now_ns) {
  const int64_t ttl_ns = std::min(rules_.ttl_ns, own.left_ns);
  if (ttl_ns <= 0) return;
  for (size_t i = 0; i < children_.size(); ++i) {
    auto& l = ledgers_[i];
    if (l.open_count == 0 || is_silent(i, now_ns) || l.last.id == l.answered) continue;
    const lease_order order{epoch_, l.sequence};
    const bool is_due = l.last.order != order || l.last.id.incarnation != l.answered.incarnation ||
                        l.last.id.sent_ns - l.answered.sent_ns >= l.given_ttl_ns / 3;
    if (!is_due) continue;
    l.answered = l.last.id;
    l.given_ttl_ns = ttl_ns;
    out_.grants.push_back({i, {order, l.last.id, l.granted_mw, ttl_ns, l.granted_shed}});
  }
}

const budget_decision& budget_policy::tick(const own_cap& own, const budget_sample& sample,
                                           int64_t now_ns) {
  out_.grants.clear();
  out_.row = {};
  std::fill(awaits_.begin(), awaits_.end(), 0);
  forget_processes(now_ns);
  watch(own, sample, now_ns);
  divide(own, now_ns);
  const bool may_raise = knows(now_ns);
  knew_ = may_raise;
  cut(own, may_raise);
  if (may_raise) raise(own.cap_mw, sample.covered_mw, now_ns);  // BGT-1
  send(own, now_ns);
  return out_;
}

}  // namespace troupe::power
