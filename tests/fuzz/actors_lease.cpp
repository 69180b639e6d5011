// Any bytes as what happens between a power budget and its children: reports, grants, losses,
// doubles, other orders, deaths of either side, a person's budgets, and numbers that nobody would
// say. And any bytes as the messages that carry a report and a grant, for children and budgets that
// go by them.
//
// The first byte chooses: what happens, a PowerReport, or a PowerGrant. Then each event is a byte,
// and what it wants to know follows it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "actors/power/budget_policy.hpp"
#include "actors/power/job_lease_policy.hpp"
#include "messages/any_msg.hpp"
#include "messages/msg.hpp"
#include "messages/schemas/troupe_generated.h"
#include "tests/fuzz/must.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr int64_t second_ns = 1'000'000'000;
constexpr int64_t begin_ns = 1000 * second_ns;
constexpr int64_t static_share_mw = 10'000;
constexpr int64_t watts_a_byte_mw = 500;

/// What is left of the bytes; behind their end all is 0.
class byte_source {
 public:
  explicit byte_source(std::span<const uint8_t> bytes) : rest_(bytes) {}

  bool more() const { return !rest_.empty(); }
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto out = rest_.front();
    rest_ = rest_.subspan(1);
    return out;
  }
  uint64_t word() {
    uint64_t out = 0;
    for (int i = 0; i < 8; ++i) out |= uint64_t{byte()} << (8 * i);
    return out;
  }
  int64_t number() { return static_cast<int64_t>(word()); }
  int64_t some_mw() { return byte() * watts_a_byte_mw; }
  size_t below(size_t end) { return end == 0 ? 0 : byte() % end; }

 private:
  std::span<const uint8_t> rest_;
};

budget_rules rules_of_the_budget() {
  budget_rules out;
  out.ttl_ns = 12 * second_ns;
  out.actuation_ns = second_ns;
  out.noise_mw = 200;
  out.row = rules_of(row_rule::none, {}, out.tick_ns, out.tick_ns);
  return out;
}

budget_child terms_of_a_child(power_class priority) {
  budget_child out;
  out.priority = priority;
  out.static_share_mw = static_share_mw;
  out.ceiling_mw = 4 * static_share_mw;
  out.floor_mw = static_share_mw / 2;
  out.paused_mw = static_share_mw / 10;
  return out;
}

/// A child that does as it should: a job, or what has an actuator of its own.
struct honest_child {
  bool is_job = false;
  uint64_t incarnation = 1;
  std::optional<job_lease_policy> job = {};
  std::optional<lease_policy> lease = {};
  int64_t granted_mw = 0;  ///< the most that was taken since its last tick

  void start() {
    granted_mw = 0;
    if (is_job) {
      job.emplace(++incarnation);
      return;
    }
    const int64_t found_mw = lease ? lease->in_force_mw() : static_share_mw;
    lease.emplace(static_share_mw, ++incarnation, found_mw, second_ns);
  }
  int64_t cap_mw() const { return is_job ? job->cap_mw() : lease->cap_mw(); }
  power_report report(int64_t now_ns, std::optional<int64_t> drawn_mw, int64_t wish_mw) const {
    return is_job ? job->report(now_ns, drawn_mw, wish_mw)
                  : lease->report(now_ns, drawn_mw, wish_mw);
  }
  int64_t in_force_mw(int64_t now_ns) const { return report(now_ns, {}, 0).in_force_mw; }

  void hear(const power_grant& g, int64_t now_ns) {
    const auto before_mw = in_force_mw(now_ns);
    const auto verdict = is_job ? job->hear({g, static_share_mw}, now_ns) : lease->hear(g, now_ns);
    const bool taken = verdict == grant_verdict::taken && g.order.epoch > 0;
    if (taken) granted_mw = std::max(granted_mw, g.cap_mw);
    must(in_force_mw(now_ns) <= std::max(before_mw, taken ? g.cap_mw : 0),
         "PWR-2: what is not granted raises nothing");
  }
  void tick(int64_t now_ns) {
    const auto before_mw = cap_mw();
    const auto cap_now_mw = is_job ? job->tick(now_ns) : lease->tick(now_ns);
    must(cap_now_mw <= std::max(before_mw, granted_mw), "PWR-2: time raises nothing");
    const bool leased = is_job ? job->is_leased(now_ns) : lease->is_leased(now_ns);
    must(leased || cap_now_mw <= static_share_mw, "PWR-2: a lease that has lapsed has fallen");
    must(!is_job || job->was_leased() || cap_now_mw == 0, "JLP-1: no watts before a lease");
    granted_mw = 0;
    if (!is_job) lease->read_back(cap_now_mw);
  }
};

/// A budget, three honest children and one that says anything, and what is on its way.
class world {
 public:
  explicit world(byte_source& in) : in_(in) {
    for (size_t i = 0; i < honest; ++i) {
      children_[i].is_job = i != 1;
      children_[i].start();
      terms_.push_back(terms_of_a_child(i == 0 ? power_class::high : power_class::low));
    }
    terms_.push_back(terms_of_a_child(power_class::low));
    policy_.emplace(rules_, terms_, epoch_, now_ns_);
  }

  void happens() {
    switch (in_.byte() % 12) {
      case 0:
        now_ns_ += (1 + in_.byte() % 64) * (second_ns / 4);
        break;
      case 1:
        report(in_.below(honest));
        break;
      case 2:
        tick();
        break;
      case 3:
        deliver_report();
        break;
      case 4:
        deliver_grant();
        break;
      case 5:
        lose();
        break;
      case 6:
        children_[in_.below(honest)].start();
        break;
      case 7:
        start_budget();
        break;
      case 8:
        set_own();
        break;
      case 9:
        hear_anything();
        break;
      case 10:
        if (auto& c = children_[in_.below(honest)]; c.job) c.job->decided({in_.byte() * 4});
        break;
      default:
        round();
    }
    judge();
  }

 private:
  static constexpr size_t honest = 3;
  static constexpr size_t under_way_at_most = 64;

  struct sent_report {
    size_t child;
    power_report what;
  };

  /// It draws no more than it says is in force.
  void report(size_t child) {
    auto& c = children_[child];
    c.tick(now_ns_);
    const auto wish_mw = in_.some_mw();
    const auto share = in_.byte();
    auto r = c.report(now_ns_, {}, wish_mw);
    if (share > 0) r.drawn_mw = r.in_force_mw / 255 * share;
    r.works = share % 3 != 0;
    if (reports_.size() < under_way_at_most) reports_.push_back({child, r});
  }

  void tick() {
    const auto before_mw = policy_->counted_mw();
    budget_sample seen;
    if (const auto drawn_mw = in_.some_mw(); drawn_mw > 0) seen.drawn_mw = drawn_mw;
    for (const auto& g : policy_->tick(own_, seen, now_ns_).grants) {
      must(g.child <= honest && g.grant.cap_mw >= 0 && g.grant.ttl_ns > 0 &&
               g.grant.ttl_ns <= std::min(rules_.ttl_ns, own_.left_ns),
           "a grant is one, and outlasts no lease of its own");
      if (g.child < honest && grants_.size() < under_way_at_most) grants_.push_back(g);
    }
    must(policy_->counted_mw() <= std::max(before_mw, own_.cap_mw),
         "PWR-1: nothing is granted beyond the own cap");
  }

  /// Any of them; it may come again.
  template <class T>
  std::optional<T> taken_from(std::vector<T>& post) {
    if (post.empty()) return std::nullopt;
    const auto at = post.begin() + static_cast<ptrdiff_t>(in_.below(post.size()));
    auto out = *at;
    if (in_.byte() % 4 != 0) post.erase(at);
    return out;
  }

  /// What a report says of an honest child is no more than was counted.
  void deliver_report() {
    if (const auto r = taken_from(reports_)) deliver(*r);
  }
  void deliver(const sent_report& r) {
    const auto before_mw = policy_->counted_mw(r.child);
    policy_->hear(r.child, r.what, now_ns_);
    must(policy_->counted_mw(r.child) <= before_mw, "PWR-1: who obeys is counted already");
  }

  void deliver_grant() {
    if (const auto g = taken_from(grants_)) children_[g->child].hear(g->grant, now_ns_);
  }

  void lose() {
    static_cast<void>(taken_from(reports_));
    static_cast<void>(taken_from(grants_));
  }

  /// Its journal says what was counted. Reports to the process before come nowhere, its grants do.
  void start_budget() {
    for (size_t i = 0; i < terms_.size(); ++i) terms_[i].remembered_mw = policy_->counted_mw(i);
    reports_.clear();
    policy_.emplace(rules_, terms_, ++epoch_, now_ns_);
  }

  void set_own() {
    const auto how = in_.byte();
    own_ = {};
    own_.cap_mw = how % 8 == 0 ? beyond_mw : in_.some_mw();
    own_.leased = how % 4 != 1;
    if (how % 4 == 2) own_.left_ns = in_.number();
  }

  void hear_anything() {
    power_report r{{in_.word(), in_.number()}, {in_.word(), in_.word()}, in_.number(), {}, 0};
    if (const auto drawn_mw = in_.number(); drawn_mw != -1) r.drawn_mw = drawn_mw;
    r.wish_mw = in_.number();
    r.works = in_.byte() % 2 == 0;
    const auto before_mw = policy_->counted_mw(honest);
    if (policy_->hear(honest, r, now_ns_) == report_verdict::impossible)
      must(policy_->counted_mw(honest) == before_mw, "what is impossible changes nothing");
  }

  /// A second as it should be.
  void round() {
    for (size_t i = 0; i < honest; ++i) report(i);
    for (const auto& r : std::exchange(reports_, {})) deliver(r);
    tick();
    for (const auto& g : std::exchange(grants_, {})) children_[g.child].hear(g.grant, now_ns_);
    now_ns_ += second_ns;
  }

  /// PWR-1: what is in force is counted.
  void judge() const {
    int64_t sum_mw = 0;
    for (size_t i = 0; i <= honest; ++i) {
      const auto counted_mw = policy_->counted_mw(i);
      must(counted_mw >= 0 && counted_mw <= beyond_mw, "what is counted is watts");
      must(i == honest || children_[i].in_force_mw(now_ns_) <= counted_mw,
           "PWR-1: what is in force is counted");
      sum_mw += counted_mw;
    }
    must(policy_->counted_mw() == sum_mw, "all together are the sum of each");
  }

  byte_source& in_;
  budget_rules rules_ = rules_of_the_budget();
  std::vector<budget_child> terms_;
  std::optional<budget_policy> policy_;
  std::array<honest_child, honest> children_;
  uint64_t epoch_ = 1;
  int64_t now_ns_ = begin_ns;
  own_cap own_{6 * static_share_mw};
  std::vector<sent_report> reports_;
  std::vector<budget_decision::addressed> grants_;
};

/// A message of these bytes, where they are one.
template <class T>
std::optional<msg<T>> message_of(std::span<const uint8_t> bytes) {
  if (bytes.size() > max_message_bytes) return std::nullopt;
  message_header header;
  header.type = message_traits<T>::id;
  header.length = static_cast<uint32_t>(bytes.size());
  const auto made = decode(detail::wire_image(detail::sealed(header), bytes), header.type);
  if (!made) return std::nullopt;
  return cast<T>(*made);
}

/// A budget hears it as its only child's.
void report_of_bytes(std::span<const uint8_t> bytes) {
  const auto m = message_of<fbs::PowerReport>(bytes);
  if (!m) return;
  const fbs::PowerReport& said = **m;
  power_report r{{said.incarnation(), said.sent_ns()},
                 {said.lease_epoch(), said.lease_sequence()},
                 said.in_force_mw(),
                 {},
                 said.wish_mw()};
  if (said.drawn_mw() != -1) r.drawn_mw = said.drawn_mw();
  budget_policy policy(rules_of_the_budget(), {terms_of_a_child(power_class::low)}, 1, begin_ns);
  for (int i = 0; i < 4; ++i) {
    const auto now_ns = begin_ns + i * second_ns;
    const auto before_mw = policy.counted_mw();
    const bool impossible = policy.hear(0, r, now_ns) == report_verdict::impossible;
    must(!impossible || policy.counted_mw() == before_mw, "what is impossible changes nothing");
    policy.tick({2 * static_share_mw}, {}, now_ns);
    must(policy.counted_mw() >= 0 && policy.counted_mw() <= beyond_mw, "what is counted is watts");
    if (r.id.sent_ns < std::numeric_limits<int64_t>::max()) ++r.id.sent_ns;
  }
}

/// A child and a job hear it, both of incarnation 7.
void grant_of_bytes(std::span<const uint8_t> bytes) {
  const auto m = message_of<fbs::PowerGrant>(bytes);
  if (!m) return;
  const fbs::PowerGrant& said = **m;
  power_grant g{{said.lease_epoch(), said.lease_sequence()},
                {said.answers_incarnation(), said.answers_sent_ns()},
                said.cap_mw(),
                said.ttl_ms() * (second_ns / 1000),
                said.shed()};
  lease_policy lease(static_share_mw, 7, static_share_mw, second_ns);
  job_lease_policy job(7);
  for (int i = 0; i < 4; ++i) {
    const auto now_ns = begin_ns + i * second_ns;
    const auto before_mw = lease.cap_mw();
    const bool taken = lease.hear(g, now_ns) == grant_verdict::taken;
    must(taken || lease.cap_mw() == before_mw, "PWR-2: what is not taken changes nothing");
    job.hear({g, said.static_share_mw()}, now_ns);
    for (const auto cap_mw : {lease.tick(now_ns), job.tick(now_ns)})
      must(cap_mw >= 0 && cap_mw <= beyond_mw, "a cap is watts");
    for (const auto left_ns : {lease.left_ns(now_ns), job.left_ns(now_ns)})
      must(left_ns >= 0 && left_ns <= std::numeric_limits<int64_t>::max() - now_ns,
           "what is left of a lease is time");
    must(i > 0 || job.cap_mw() == 0, "LSE-2: the first lease of a job raises nothing");
    if (g.order.sequence < std::numeric_limits<uint64_t>::max()) ++g.order.sequence;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  if (data[0] % 3 == 1) {
    report_of_bytes(rest);
  } else if (data[0] % 3 == 2) {
    grant_of_bytes(rest);
  } else {
    byte_source in(rest);
    world all(in);
    while (in.more()) all.happens();
  }
  return 0;
}
