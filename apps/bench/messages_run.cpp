// The actors and systems of the message benchmark.
#include "apps/bench/messages_run.hpp"

#include <sys/resource.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <caf/all.hpp>
#include <caf/io/middleman.hpp>
#include <caf/openssl/all.hpp>

#include "actors/base/runtime.hpp"
#include "io/folder/owned.hpp"
#include "io/tls/certs.hpp"
#include "messages/errors.hpp"
#include "messages/receive.hpp"
#include "messages/schemas/common_generated.h"
#include "messages/type_ids.hpp"

namespace troupe::bench {

/// What people send who use CAF as it comes.
struct bare_bytes {
  std::vector<uint8_t> data;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, bare_bytes& x) {
  return f(x.data);
}

}  // namespace troupe::bench

// Far from the block of the messages, so that no other block of this program can overlap.
CAF_BEGIN_TYPE_ID_BLOCK(troupe_bench, caf::id_block::troupe_messages::end + 10000)
CAF_ADD_TYPE_ID(troupe_bench, (troupe::bench::bare_bytes))
CAF_END_TYPE_ID_BLOCK(troupe_bench)

namespace troupe::bench {

namespace {

using clock = std::chrono::steady_clock;

struct of_msg {
  using type = msg<fbs::Bytes>;
  static type make(const std::vector<uint8_t>& source) {
    return build_msg<fbs::Bytes>({}, [&](message_builder& b) {
      return fbs::CreateBytes(b, b.CreateVector(source.data(), source.size()));
    });
  }
  static uint32_t touch(const type& x) { return x->data()->Get(0) + *(x->data()->end() - 1); }
};

struct of_bare {
  using type = bare_bytes;
  static type make(const std::vector<uint8_t>& source) { return {source}; }
  static uint32_t touch(const type& x) { return x.data.front() + x.data.back(); }
};

/// Answers everything with itself. An echo knows one variant only, or the second one in its list
/// would pay for a comparison with the first.
template <class Kind>
caf::behavior echo(caf::event_based_actor* self) {
  guard_mailbox(self);
  return {[](typename Kind::type& x) {
    Kind::touch(x);
    return std::move(x);
  }};
}

struct order {
  caf::actor target;
  caf::actor report_to;
  size_t payload_bytes = 0;
  size_t window = 1;
  double seconds = 0;
};

struct client_state {
  order todo;
  std::vector<uint8_t> source;
  clock::time_point begin;
  clock::time_point sent;
  clock::time_point end;
  size_t under_way = 0;
  std::shared_ptr<sample> out;
};

double cpu_seconds(const rusage& r) {
  return static_cast<double>(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

rusage usage() {
  rusage r{};
  getrusage(RUSAGE_SELF, &r);
  return r;
}

/// Keeps the window full until the time is over, then lets it drain and reports.
template <class Kind>
caf::behavior client(caf::stateful_actor<client_state>* self, order todo,
                     std::shared_ptr<sample> out) {
  auto& s = self->state;
  s.todo = std::move(todo);
  s.out = std::move(out);
  s.source.assign(s.todo.payload_bytes, 7);
  self->send(self, caf::ok_atom::value);
  return {
      [self](caf::ok_atom) {
        auto& st = self->state;
        st.begin = clock::now();
        st.end = st.begin + std::chrono::duration_cast<clock::duration>(
                                std::chrono::duration<double>(st.todo.seconds));
        st.sent = st.begin;
        for (; st.under_way < st.todo.window; ++st.under_way)
          self->send(st.todo.target, Kind::make(st.source));
      },
      [self](const typename Kind::type& x) {
        auto& st = self->state;
        Kind::touch(x);
        auto now = clock::now();
        ++st.out->round_trips;
        if (st.todo.window == 1) st.out->latency_ns.push_back((now - st.sent).count());
        if (now < st.end) {
          st.sent = now;
          self->send(st.todo.target, Kind::make(st.source));
          return;
        }
        if (--st.under_way > 0) return;
        st.out->seconds = std::chrono::duration<double>(now - st.begin).count();
        self->send(st.todo.report_to, caf::ok_atom::value);
        self->quit();
      },
  };
}

struct one_side {
  runtime_config config;
  std::unique_ptr<caf::actor_system> system;

  void prepare(transport way, const std::vector<std::string>& tls_files) {
    config.add_message_types<caf::id_block::troupe_bench>();
    config.set("scheduler.max-threads", size_t{2});
    config.set("middleman.workers", size_t{1});
    if (way == transport::local) return;
    config.load<caf::io::middleman>();
    if (way != transport::tls) return;
    config.load<caf::openssl::manager>();
    config.openssl_cafile = tls_files[0];
    config.openssl_certificate = tls_files[1];
    config.openssl_key = tls_files[2];
  }
  void start() { system = std::make_unique<caf::actor_system>(config); }
};

/// A folder of certificates that lives as long as the arena.
struct temporary_certificates {
  std::optional<io::scratch_folder> folder;
  std::vector<std::string> paths;  ///< CA, certificate, key

  status make() {
    TROUPE_TRY(made_folder, io::scratch_folder::make(std::filesystem::temp_directory_path(),
                                                     "troupe-messages-"));
    folder.emplace(std::move(made_folder));
    tls::request one;
    one.name = "bench";
    one.hosts = {"127.0.0.1"};
    TROUPE_TRY(made, tls::make((folder->path() / "certs").string(), {one}));
    paths = {made.ca.certificate, made.certificates[0].certificate, made.certificates[0].key};
    return {};
  }
};

class caf_arena final : public arena {
 public:
  ~caf_arena() override {
    for (auto* targets : {&remote_, &local_})
      for (auto& target : *targets) {
        if (targets == &local_ && target)
          caf::anon_send_exit(target, caf::exit_reason::user_shutdown);
        target = nullptr;
      }
  }

  status open(transport way) {
    if (way == transport::tls) TROUPE_CHECK(certificates_.make());
    near_.prepare(way, certificates_.paths);
    near_.start();
    auto& home = way == transport::local ? near_ : far_;
    if (way != transport::local) {
      far_.prepare(way, certificates_.paths);
      far_.start();
    }
    local_ = {home.system->spawn(echo<of_msg>), home.system->spawn(echo<of_bare>)};
    if (way == transport::local) {
      remote_ = local_;
      return {};
    }
    return join(way == transport::tls);
  }

  result<sample> run(variant what, size_t payload_bytes, size_t window, double seconds) override {
    auto out = std::make_shared<sample>();
    if (window == 1) out->latency_ns.reserve(1 << 20);
    caf::scoped_actor self(*near_.system);
    order todo{remote_[static_cast<size_t>(what)], self, payload_bytes, window, seconds};
    auto before = usage();
    auto asking = what == variant::msg ? near_.system->spawn(client<of_msg>, todo, out)
                                       : near_.system->spawn(client<of_bare>, todo, out);
    bool done = false;
    self->receive([&](caf::ok_atom) { done = true; },
                  caf::after(std::chrono::seconds(10)) >> [] {});
    auto after = usage();
    if (!done) {
      caf::anon_send_exit(asking, caf::exit_reason::kill);
      return error{errc::timeout,
                   fmt::format("{} of {} bytes stopped coming back after {} round trips",
                               bench::to_string(what), payload_bytes, out->round_trips)};
    }
    out->cpu_seconds = cpu_seconds(after) - cpu_seconds(before);
    out->page_faults = static_cast<uint64_t>(after.ru_minflt - before.ru_minflt);
    return std::move(*out);
  }

 private:
  /// Publishes one actor that hands out both echoes: a second connection between two systems, as a
  /// second published actor would ask for, is closed by CAF 0.17.6 and over TLS takes the first
  /// along.
  status join(bool tls) {
    auto host = far_.system->spawn([echoes = local_](caf::event_based_actor*) -> caf::behavior {
      return {[echoes](caf::get_atom, uint64_t i) { return echoes.at(i); }};
    });
    auto port = tls ? caf::openssl::publish(host, 0, "127.0.0.1")
                    : far_.system->middleman().publish(host, 0, "127.0.0.1");
    if (!port) return from_caf(port.error()).within("listen on 127.0.0.1");
    auto peer = tls ? caf::openssl::remote_actor(*near_.system, "127.0.0.1", *port)
                    : near_.system->middleman().remote_actor("127.0.0.1", *port);
    if (!peer) return from_caf(peer.error()).within(fmt::format("connect to port {}", *port));
    caf::scoped_actor self(*near_.system);
    status joined;
    for (uint64_t i = 0; i < remote_.size(); ++i)
      self->request(*peer, std::chrono::seconds(10), caf::get_atom::value, i)
          .receive([&](caf::actor& echo) { remote_[i] = std::move(echo); },
                   [&](const caf::error& e) { joined = from_caf(e).within("find the echo"); });
    caf::anon_send_exit(host, caf::exit_reason::user_shutdown);
    return joined;
  }

  temporary_certificates certificates_;
  one_side far_;
  one_side near_;
  std::array<caf::actor, 2> local_;   // by variant
  std::array<caf::actor, 2> remote_;  // the same as the client sees them
};

}  // namespace

const char* to_string(variant c) {
  return c == variant::msg ? "msg<T>" : "bare CAF";
}

const char* to_string(transport t) {
  switch (t) {
    case transport::local:
      return "one process";
    case transport::loopback:
      return "loopback";
    default:
      return "loopback TLS";
  }
}

result<std::unique_ptr<arena>> arena::make(transport way) {
  auto out = std::make_unique<caf_arena>();
  TROUPE_CHECK(out->open(way));
  return result<std::unique_ptr<arena>>(std::move(out));
}

}  // namespace troupe::bench
