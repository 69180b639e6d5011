// An actor system with an elector in it, and what that decides.
#include "apps/up/standby.hpp"

#include <utility>

#include <fmt/format.h>
#include <caf/actor_system.hpp>
#include <caf/send.hpp>

#include "actors/cluster/network.hpp"
#include "actors/cluster/tls_links.hpp"
#include "actors/train/succession.hpp"
#include "apps/control/job_secret.hpp"
#include "apps/talk.hpp"
#include "io/disk/storage.hpp"
#include "io/folder/lock.hpp"
#include "io/config/heads.hpp"

namespace troupe::apps {

namespace {

/// From the elector's thread to the main one.
struct verdict {
  std::mutex mutex;
  stood_by what;
  bool by_votes = false;  ///< the job is over, and no head has told so
};

/// By what this head is known.
struct standing {
  cluster::network_options network;
  std::optional<job_secret> secret;  ///< without certificates
};

class standby_system : public standby {
 public:
  standby_system(const standing& as, const heads::elector_options& options,
                 std::shared_ptr<verdict> told)
      : secret_(as.secret),
        config_(as.network),
        system_(config_),
        last_{system_},
        before_it_{system_},
        elector_(system_.spawn<caf::detached>(heads::elector, options)),
        told_(std::move(told)) {}
  ~standby_system() override {
    caf::anon_send_exit(elector_, caf::exit_reason::user_shutdown);
  }

  result<uint16_t> listen(const config::cluster_section& at) {
    return cluster::publish(elector_, at.listen, static_cast<uint16_t>(at.port));
  }

  stood_by wait(stop_signals& signals) override {
    for (;;) {
      if (const int asked = signals.asked(); asked != 0) return {.code = 128 + asked};
      {
        std::lock_guard lock(told_->mutex);
        const auto& what = told_->what;
        if (told_->by_votes && secret_ && secret_->is_made_here()) secret_->job_is_done();  // STB-3
        if (what.won || what.code || what.refused) return what;
      }
      signals.wait(std::chrono::hours(1));
    }
  }

 private:
  std::optional<job_secret> secret_;
  cluster::system_config config_;
  caf::actor_system system_;
  const orderly_end last_;
  const cluster::renewals_end before_it_;
  elector_actor elector_;
  std::shared_ptr<verdict> told_;
};

result<standing> standing_of(const config::job& job) {
  standing out{cluster::network_of(job.cluster, "coordinator"), std::nullopt};
  if (!out.network.by_certificate()) {
    TROUPE_TRY(secret, job_secret::open(job.job.name, job.job.output));
    out.network.proof = tls::proof{secret.key(), {tls::role::node, "coordinator"}};
    out.secret = std::move(secret);
  }
  TROUPE_CHECK(cluster::prove(out.network));
  return out;
}

/// How the job has ended, by the votes that lie here; none: it has not, or its folder is held by a
/// head that begins it again.
std::optional<std::string> end_by_votes(const config::job& job) {
  const auto end = heads::end_of_job(io::local_files(), job.job.output);
  const auto folder = std::filesystem::absolute(job.job.output).lexically_normal();
  if (!end || !io::check_free(folder)) return std::nullopt;
  return end->reason.empty() ? "it ended before this head was here" : end->reason;
}

/// What the elector decides, for the main thread.
void hear(heads::elector_options& options, const std::shared_ptr<verdict>& told,
          stop_signals& bell) {
  const auto decide = [told, &bell](stood_by what) {
    std::lock_guard lock(told->mutex);
    told->what = std::move(what);
    bell.wake();
  };
  options.decided = [decide](const heads::won_epoch& won) { decide({.won = won}); };
  options.over = [decide](const std::string& reason) {
    say("the job is over" + (reason.empty() ? "" : ": " + reason));
    decide({.code = 0});
  };
  options.refused = [decide](const error& why) { decide({.refused = why}); };
}

}  // namespace

result<std::unique_ptr<standby>> standby::begin(const config::job& job, const std::string& address,
                                                heads::takeover_policy::rules how,
                                                stop_signals& signals) {
  TROUPE_TRY(as, standing_of(job));
  const auto told = std::make_shared<verdict>();
  heads::elector_options options;
  options.name = address;
  options.cluster = job.cluster;
  options.output = job.job.output;
  options.takeover = train::takeover_rules(how, job, address);
  options.connector = cluster::connector;
  options.expect = cluster::expect_head;
  options.tell = [](const std::string& text) { say(text); };
  options.settings = heads::shared_settings(job);
  options.has_ended = [job, told] {
    const auto end = end_by_votes(job);
    std::lock_guard lock(told->mutex);
    told->by_votes = end.has_value();
    return end;
  };
  hear(options, told, signals);
  auto out = std::make_unique<standby_system>(as, options, told);
  TROUPE_TRY(port, out->listen(config::at_head(job.cluster, address)));
  say(fmt::format("standing by for {} at {} (port {}; {} heads, {} voters)", job.job.name, address,
                  port, job.cluster.heads.size(), config::voters_of(job.cluster).size()));
  return std::unique_ptr<standby>(std::move(out));
}

}  // namespace troupe::apps
