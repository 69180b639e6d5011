// Connecting, asking, viewing.
#include "apps/control/session.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <caf/actor_system.hpp>

#include "actors/base/ask.hpp"
#include "actors/base/defaults.hpp"
#include "actors/base/hardware.hpp"
#include "actors/capture/recorder.hpp"
#include "apps/commands.hpp"
#include "apps/control/reach.hpp"
#include "apps/power/budget_sign.hpp"
#include "io/config/heads.hpp"
#include "messages/errors.hpp"

namespace troupe::apps {

namespace {

/// How long to wait for the answer: as the contract says, unless a person says it.
template <class Handle, class T>
std::chrono::milliseconds patience(int64_t given_ms) {
  if (given_ms > 0) return std::chrono::milliseconds(given_ms) + defaults::tool_slack;
  return std::chrono::milliseconds(contract_of<Handle, T>().timeout_ms);
}

/// Whom the job's owner is to the cluster: one with its certificate, or with its secret.
status take_means_of(const meeting_point& here, cluster::network_options& network) {
  network = here.network;
  if (here.secret.empty()) return {};
  TROUPE_TRY(secret, tls::job_key::read(here.secret));
  TROUPE_TRY(proof, person_by(secret));
  network.proof = std::move(proof);
  return {};
}

/// The same of a power budget. Where it has certificates one must be given.
status take_means_of(const served_budget& here, cluster::network_options& network) {
  if (here.secret.empty()) return certificate_wanted(here.name);
  TROUPE_TRY(secret, tls::job_key::read(here.secret));
  TROUPE_TRY(proof, person_by(secret));
  network.proof = std::move(proof);
  return {};
}

/// Of what this user has running at an address.
status take_means_at(const std::string& address, cluster::network_options& network) {
  TROUPE_TRY(target, host_and_port(address));
  if (const auto here = meeting_point_at(target.first, target.second))
    return take_means_of(*here, network);
  for (const auto& b : served_budgets())
    if (is_at(b.address, target.first, target.second)) return take_means_of(b, network);
  return error{errc::unavailable,
               fmt::format("no cluster of yours is known here at {}, and neither a key nor a "
                           "certificate was given",
                           address),
               "its owner makes keys with: troupe key --role operator --name NAME --out FILE"};
}

/// Where to connect to, and as whom, from the options or from the signs of this machine. A power
/// budget is meant by its name, too.
result<connect_options> resolve(connect_options o) {
  TROUPE_CHECK(take_key(o.network));
  if (!o.address.empty()) {
    if (!o.network.proved()) TROUPE_CHECK(take_means_at(o.address, o.network));
    return o;
  }
  auto here = the_meeting_point(o.job);
  if (!here && here.error().code == errc::not_found && (o.or_budget || !o.job.empty())) {
    const auto budget = the_served_budget(o.job);
    if (!budget) return budget.error().code == errc::usage ? budget.error() : here.error();
    o.address = budget->address;
    if (!o.network.proved()) TROUPE_CHECK(take_means_of(*budget, o.network));
    return o;
  }
  if (!here) return here.error();
  o.address = here->address;
  if (!o.network.proved()) TROUPE_CHECK(take_means_of(*here, o.network));
  return o;
}

viewer_actor::behavior_type viewer(viewer_actor::pointer, std::function<void(any_msg)> came) {
  return {[came](const msg<fbs::TraceBatch>& m) { came(m); }};
}

}  // namespace

void add_identity_options(command* verb, cluster::network_options& o) {
  verb->add_option("--ca", o.ca, "PEM file of the authority")->takes(offered::file);
  verb->add_option("--certificate", o.certificate, "PEM file of your certificate")
      ->takes(offered::file);
  verb->add_option("--key", o.key,
                   "PEM file of its key; without a certificate a key that `troupe key` made")
      ->takes(offered::file);
}

status take_key(cluster::network_options& network) {
  if (network.by_certificate() || network.key.empty()) return {};
  TROUPE_TRY(key, tls::job_key::read(network.key));
  TROUPE_TRY(proof, person_by(key));
  network.proof = std::move(proof);
  return {};
}

void add_connect_options(command* verb, connect_options& o) {
  verb->add_option("--connect", o.address, "The cluster; default: the one that runs here")
      ->type_name("HOST:PORT")
      ->takes(offered::address);
  verb->add_option("--job", o.job, "Its name, where several run here")->takes(offered::job);
  add_identity_options(verb, o.network);
  verb->add_option("--timeout-ms", o.timeout_ms,
                   "How long to wait for an answer; default: as its contract says (help MESSAGE)")
      ->within(int64_t{100}, int64_t{3'600'000});
}

result<std::pair<std::string, uint16_t>> host_and_port(const std::string& text) {
  if (const auto at = config::head_place_of(text)) return std::pair(at->host, at->port);
  return error{errc::usage, fmt::format("{} is not HOST:PORT", text),
               "the coordinator prints its address when it starts"};
}

result<std::unique_ptr<session>> session::open(const connect_options& options) {
  spdlog::set_level(spdlog::level::err);  // a tool answers; its own log is nobody's business
  TROUPE_TRY(o, resolve(options));
  o.network.budgets_as = tls::role::node;  // LNK-6
  TROUPE_CHECK(cluster::prove(o.network));
  std::unique_ptr<session> s(new session);
  TROUPE_CHECK(s->connect(o));
  return s;
}

status session::connect(const connect_options& o) {
  TROUPE_TRY(target, host_and_port(o.address));
  timeout_ms_ = o.timeout_ms;
  address_ = o.address;
  config_ = std::make_unique<cluster::system_config>(o.network);
  system_ = std::make_unique<caf::actor_system>(*config_);
  self_ = std::make_unique<caf::scoped_actor>(*system_);
  const auto wait = patience<coordinator_actor, fbs::FindGateway>(timeout_ms_);
  TROUPE_TRY(peer, reach(*self_, target.first, target.second, wait, a_cluster));
  const auto coordinator = caf::actor_cast<coordinator_actor>(peer);
  error failed;
  auto find = make_msg<fbs::FindGateway>({}, [](auto& f) {
    f.schema_hash = cluster::own_schema_hash();
    f.user = user_name();
  });
  (*self_)
      ->request(coordinator, wait, find)
      .receive(
          [&](const msg<fbs::GatewayFound>& found, const caf::strong_actor_ptr& gateway) {
            gateway_ = caf::actor_cast<gateway_actor>(gateway);
            job_ = found->job() ? found->job()->str() : "";
            who_ = found->who() ? found->who()->str() : "";
            may_change_ = found->may_change();
            power_budget_ = found->power_budget();
          },
          [&](const caf::error& e) { failed = from_caf(e); });
  if (!gateway_) return failed;
  if (power_budget_) budget_ = caf::actor_cast<budget_actor>(peer);
  return {};
}

session::~session() {
  stop_trace();
  if (viewer_) caf::anon_send_exit(viewer_, caf::exit_reason::user_shutdown);
  viewer_ = viewer_actor();
  gateway_ = gateway_actor();
  budget_ = budget_actor();
  self_.reset();
}

template <class R, class T, class Handle>
result<msg<R>> session::ask_at(const Handle& whom, const msg<T>& m, int64_t timeout_ms) {
  result<msg<R>> out = error{errc::timeout, "the cluster does not answer"};
  if (is_interrupted()) return interrupted();  // an order is not given that nobody waits for
  auto asked = (*self_)->request(whom, patience<Handle, T>(timeout_ms), m);
  begin_question(asked.id());
  asked.receive([&](const msg<R>& r) { out = r; }, [&](const caf::error& e) { out = from_caf(e); });
  std::lock_guard lock(question_.mutex);
  question_.asked.reset();
  return out;
}

void session::begin_question(caf::message_id answered_as) {
  std::lock_guard lock(question_.mutex);
  question_.asked = answered_as;
  if (question_.interrupted) answer_interrupted();
}

/// As CAF answers a request whose time is over: by an error in the asker's mailbox.
void session::answer_interrupted() {
  const auto me = caf::actor_cast<caf::strong_actor_ptr>(self_->ptr());
  me->get()->enqueue(nullptr, *question_.asked, caf::make_message(to_caf(interrupted())), nullptr);
  question_.asked.reset();
}

void session::interrupt() {
  std::lock_guard lock(question_.mutex);
  question_.interrupted = true;
  if (question_.asked) answer_interrupted();
}

bool session::is_interrupted() {
  std::lock_guard lock(question_.mutex);
  return question_.interrupted;
}

void session::listen_again() {
  std::lock_guard lock(question_.mutex);
  question_.interrupted = false;
}

result<fbs::ClusterViewT> session::view(const std::string& node, const std::string& actor,
                                        bool dead) {
  auto m = make_msg<fbs::ListActors>({}, [&](auto& l) {
    l.node = node;
    l.actor = actor;
    l.dead = dead;
  });
  TROUPE_TRY(answer, ask<fbs::ClusterView>(m, timeout_ms_));
  return answer.unpack();
}

result<fbs::CallAnswersT> session::call(const std::string& node, const std::string& actor,
                                        const any_msg& message, int64_t timeout_ms) {
  auto m = try_make_msg<fbs::CallActor>({}, [&] {
    fbs::CallActorT c;
    c.node = node;
    c.actor = actor;
    c.message = encode(message);
    c.timeout_ms = static_cast<uint32_t>(timeout_ms);
    c.who = who_;
    return c;
  }());
  if (!m) return m.error();
  TROUPE_TRY(answer, ask<fbs::CallAnswers>(*m, timeout_ms));
  return answer.unpack();
}

result<fbs::CallAnswersT> session::kill(const std::string& node, const std::string& actor) {
  auto m = make_msg<fbs::KillActor>({}, [&](auto& k) {
    k.node = node;
    k.actor = actor;
    k.who = who_;
  });
  TROUPE_TRY(answer, ask<fbs::CallAnswers>(m, timeout_ms_));
  return answer.unpack();
}

result<fbs::CallAnswersT> session::log_level(const std::string& node, const std::string& level) {
  auto m = make_msg<fbs::SetLogLevel>({}, [&](auto& l) {
    l.node = node;
    l.level = level;
    l.who = who_;
  });
  TROUPE_TRY(answer, ask<fbs::CallAnswers>(m, timeout_ms_));
  return answer.unpack();
}

result<fbs::CallAnswersT> session::black_box(const std::string& node, const std::string& reason) {
  auto m = make_msg<fbs::DumpBlackBox>({}, [&](auto& d) {
    d.node = node;
    d.reason = reason;
    d.who = who_;
  });
  TROUPE_TRY(answer, ask<fbs::CallAnswers>(m, timeout_ms_));
  return answer.unpack();
}

result<std::string> session::drain(const std::string& node) {
  auto m = make_msg<fbs::DrainNode>({}, [&](auto& d) {
    d.node = node;
    d.who = who_;
  });
  TROUPE_TRY(answer, ask<fbs::Ack>(m, timeout_ms_));
  return answer->text() ? answer->text()->str() : std::string();
}

// -- a power budget -------------------------------------------------------------------------------

result<fbs::PowerTreeT> session::power_tree(const std::string& child) {
  const auto m = make_msg<fbs::ReadPowerTree>({}, [&](auto& r) { r.child = child; });
  TROUPE_TRY(answer, ask_at<fbs::PowerTree>(budget_, m, timeout_ms_));
  return answer.unpack();
}

result<std::string> session::set_power_budget(const fbs::SetPowerBudgetT& order) {
  TROUPE_TRY(ack, ask_at<fbs::Ack>(budget_, make_msg<fbs::SetPowerBudget>({}, order), timeout_ms_));
  return ack.unpack().text;
}

result<std::string> session::set_power_brake(const fbs::SetPowerBrakeT& order) {
  TROUPE_TRY(ack, ask_at<fbs::Ack>(budget_, make_msg<fbs::SetPowerBrake>({}, order), timeout_ms_));
  return ack.unpack().text;
}

// -- views ----------------------------------------------------------------------------------------

result<std::vector<std::string>> session::start_trace(fbs::TraceStartT start) {
  if (!viewer_) {
    auto came = [q = queue_](any_msg m) {
      std::lock_guard lock(q->mutex);
      q->batches.push_back(msg<fbs::TraceBatch>(std::move(m)));
      q->came.notify_one();
    };
    viewer_ = system_->spawn(viewer, std::function<void(any_msg)>(came));
    (*self_)->monitor(gateway_);
  }
  subscription_ = start.subscription =
      uint64_t{process_tag()} << 32 | static_cast<uint32_t>(++views_);
  result<std::vector<std::string>> out = error{errc::timeout, "the cluster does not answer"};
  (*self_)
      ->request(gateway_, patience<gateway_actor, fbs::TraceStart>(timeout_ms_),
                make_msg<fbs::TraceStart>({}, start),
                caf::actor_cast<caf::strong_actor_ptr>(viewer_))
      .receive([&](const msg<fbs::TraceStarted>& s) { out = s.unpack().nodes; },
               [&](const caf::error& e) { out = from_caf(e); });
  if (!out) subscription_ = 0;
  return out;
}

std::optional<msg<fbs::TraceBatch>> session::next_batch(int timeout_ms) {
  msg<fbs::TraceBatch> batch;
  {
    std::unique_lock lock(queue_->mutex);
    queue_->came.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                          [&] { return !queue_->batches.empty() || queue_->woken; });
    queue_->woken = false;
    if (queue_->batches.empty()) return std::nullopt;
    batch = std::move(queue_->batches.front());
    queue_->batches.pop_front();
  }
  (*self_)->send(gateway_, make_msg<fbs::TraceMore>({}, [&](auto& m) {
                   m.subscription = batch->subscription();
                   m.process = batch->process();
                   m.credits = 1;
                 }));
  return batch;
}

void session::stop_trace() {
  if (subscription_ == 0 || !gateway_) return;
  (*self_)->send(gateway_,
                 make_msg<fbs::TraceStop>({}, [&](auto& s) { s.subscription = subscription_; }));
  subscription_ = 0;
}

void session::wake() {
  std::lock_guard lock(queue_->mutex);
  queue_->woken = true;
  queue_->came.notify_one();
}

bool session::lost() const {
  bool gone = false;
  (*self_)->receive([&](const caf::down_msg&) { gone = true; },
                    caf::after(std::chrono::milliseconds(0)) >> [] {});
  return gone;
}

}  // namespace troupe::apps
