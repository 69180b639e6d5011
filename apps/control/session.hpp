// A person's tool connected to a running cluster: everything console, send, ps, status and trace
// share. For main threads: its calls wait, each with a timeout.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <caf/scoped_actor.hpp>

#include "actors/cluster/network.hpp"
#include "apps/control/meeting_point.hpp"
#include "io/base/error_kind.hpp"
#include "messages/actors.hpp"

namespace troupe::apps {

class command;

/// Which cluster, and how to speak to it.
struct connect_options {
  std::string address;  ///< HOST:PORT; empty: the one of this user on this machine
  std::string job;      ///< picks one of several on this machine
  cluster::network_options network;
  int64_t timeout_ms = 0;  ///< 0: as the contract of what is asked says
  bool or_budget = false;  ///< where no job runs here the power budget that is served is meant
};

/// --ca, --certificate, --key.
void add_identity_options(command* verb, cluster::network_options& o);
/// Who gives a key without a certificate proves himself by it. Errors: as tls::job_key::read;
/// permission.
status take_key(cluster::network_options& network);

/// These, --connect, --job, --timeout-ms.
void add_connect_options(command* verb, connect_options& o);

/// HOST:PORT in its parts. Errors: usage.
result<std::pair<std::string, uint16_t>> host_and_port(const std::string& text);

/// A person did not want to wait for the answer.
inline constexpr error_kind<> interrupted{"interrupted", errc::cancelled, "interrupted",
                                          "what was asked for may be done all the same"};

class session {
 public:
  /// Of a job, or of a served power budget. Errors: not_found where none is known here, unavailable
  /// where it does not answer, version_mismatch.
  static result<std::unique_ptr<session>> open(const connect_options& options);
  ~session();

  const std::string& job() const noexcept { return job_; }
  const std::string& address() const noexcept { return address_; }
  /// As whom the cluster knows us.
  const std::string& who() const noexcept { return who_; }
  /// False: we may only look.
  bool may_change() const noexcept { return may_change_; }
  /// It is no job but a served power budget, whose name job() is.
  bool is_power_budget() const noexcept { return power_budget_; }

  /// The actors that fit; silent processes are in it with what they said last.
  result<fbs::ClusterViewT> view(const std::string& node, const std::string& actor, bool dead);

  /// Gives a message to all actors that fit.
  result<fbs::CallAnswersT> call(const std::string& node, const std::string& actor,
                                 const any_msg& message, int64_t timeout_ms);
  result<fbs::CallAnswersT> kill(const std::string& node, const std::string& actor);
  result<fbs::CallAnswersT> log_level(const std::string& node, const std::string& level);
  result<fbs::CallAnswersT> black_box(const std::string& node, const std::string& reason);
  /// What is going to happen, in words.
  result<std::string> drain(const std::string& node);

  // -- what a served power budget itself is asked, where it is one --------------------------------

  /// `child`: only that one; empty: all.
  result<fbs::PowerTreeT> power_tree(const std::string& child);
  /// What it has come to, in words. An empty name is this budget's.
  result<std::string> set_power_budget(const fbs::SetPowerBudgetT& order);
  result<std::string> set_power_brake(const fbs::SetPowerBrakeT& order);

  /// From any thread: what waits for an answer, and what will until listen_again(), fails with
  /// `interrupted`.
  void interrupt();
  void listen_again();

  // -- views --------------------------------------------------------------------------------------

  /// Begins one; the names of the nodes that send.
  result<std::vector<std::string>> start_trace(fbs::TraceStartT start);
  /// The next batch; none when nothing came within `timeout_ms`. Gives the sender credit for
  /// another.
  std::optional<msg<fbs::TraceBatch>> next_batch(int timeout_ms);
  void stop_trace();
  /// Wakes next_batch(); from any thread.
  void wake();
  /// The cluster has gone while we looked.
  bool lost() const;

 private:
  /// Batches on their way from the viewer actor to the main thread.
  struct queue {
    std::mutex mutex;
    std::condition_variable came;
    std::deque<msg<fbs::TraceBatch>> batches;
    bool lost = false, woken = false;
  };

  /// The question that a person may interrupt.
  struct question {
    std::mutex mutex;
    std::optional<caf::message_id> asked;  ///< the answer's id, while it is waited for
    bool interrupted = false;
  };

  session() = default;
  status connect(const connect_options& options);
  template <class R, class T, class Handle>
  result<msg<R>> ask_at(const Handle& whom, const msg<T>& m, int64_t timeout_ms);
  template <class R, class T>
  result<msg<R>> ask(const msg<T>& m, int64_t timeout_ms) {
    return ask_at<R>(gateway_, m, timeout_ms);
  }
  bool is_interrupted();
  void begin_question(caf::message_id answered_as);
  /// With the lock.
  void answer_interrupted();

  std::unique_ptr<cluster::system_config> config_;
  std::unique_ptr<caf::actor_system> system_;
  std::unique_ptr<caf::scoped_actor> self_;
  gateway_actor gateway_;
  budget_actor budget_;  ///< where it is one
  viewer_actor viewer_;
  std::shared_ptr<queue> queue_ = std::make_shared<queue>();
  question question_;
  uint64_t subscription_ = 0;
  uint32_t views_ = 0;
  std::string job_, address_, who_;
  bool may_change_ = false, power_budget_ = false;
  int64_t timeout_ms_ = 0;  ///< 0: as the contract says
};

}  // namespace troupe::apps
