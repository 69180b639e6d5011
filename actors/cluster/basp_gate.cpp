// Reading frames for the policy, and doing what it says.
#include "actors/cluster/basp_gate.hpp"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>

#include <caf/binary_deserializer.hpp>
#include <caf/detail/sync_request_bouncer.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/doorman_impl.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/base/defaults.hpp"
#include "actors/base/trust.hpp"
#include "actors/cluster/accepting.hpp"
#include "actors/cluster/admission.hpp"
#include "actors/cluster/foreign_error.hpp"
#include "actors/cluster/frame_policy.hpp"
#include "actors/cluster/ingress.hpp"
#include "actors/cluster/tls_certificates.hpp"
#include "actors/cluster/tls_links.hpp"
#include "messages/actors.hpp"
#include "messages/rejection.hpp"

namespace troupe::cluster {

/// CAF's loop, with an admission in its thread.
class admitting_multiplexer final : public caf::io::network::default_multiplexer {
 public:
  explicit admitting_multiplexer(caf::actor_system* system)
      : default_multiplexer(system), admitted(*this, descriptors().strangers) {}

  void run() override {
    admission_here() = &admitted;
    default_multiplexer::run();
    admission_here() = nullptr;
  }

  admission admitted;
};

namespace {

using caf::io::accept_handle;
using caf::io::connection_handle;
namespace basp = caf::io::basp;

/// The gate's own: time to look who has waited too long (GAT-5).
using look_atom = caf::atom_constant<caf::atom("look")>;

/// The gate's own: a connection that was handed out has to go.
using give_up_atom = caf::atom_constant<caf::atom("giveup")>;

/// CAF's doorman keeps what accepts to itself and those that derive from it.
struct doorman_access : caf::io::network::doorman_impl {
  static caf::io::network::event_handler& acceptor_of(doorman_impl& acceptor) {
    return acceptor.*(&doorman_access::acceptor_);
  }
};

/// One connection.
struct link {
  frame_policy policy;
  int64_t number = 0;          ///< the admission's; 0: a connection that this process made
  std::optional<peer> holder;  ///< by its certificate or key
  std::string address;
  frame_header header;    ///< of the frame whose payload is awaited
  bool skipping = false;  ///< that payload is not wanted
  caf::node_id process;   ///< who it said it is
  bool bound = false;
  bool is_own = false;  ///< it is this process
};

class gated_broker : public caf::io::basp_broker, public admitted_to {
 public:
  explicit gated_broker(caf::actor_config& config)
      : basp_broker(config),
        tls_(system().has_openssl_manager()),
        admission_(static_cast<gated_middleman&>(system().middleman()).admitted()) {
    admission_.open(*this, tls_);
#define TROUPE_NAME(domain, table, number) \
  names_.insert(system().types().portable_name(0, &typeid(msg<fbs::table>)));
    TROUPE_MESSAGES(TROUPE_NAME)
#undef TROUPE_NAME
  }

  ~gated_broker() override {
    for (auto& [handle, l] : links_) release(l);
  }

  caf::invoke_message_result consume(caf::mailbox_element& element) override {
    const auto& content = element.content();
    if (content.match_elements<look_atom>()) {
      look();
      return caf::invoke_message_result::consumed;
    }
    if (content.match_elements<give_up_atom, int, int64_t, int>()) {
      give_up_now(content.get_as<int>(1), content.get_as<int64_t>(2), content.get_as<int>(3));
      return caf::invoke_message_result::consumed;
    }
    if (content.size() > 0 && content.match_element<caf::tick_atom>(0)) begin_to_listen();
    if (content.match_elements<caf::io::new_connection_msg>())
      came(content.get_as<caf::io::new_connection_msg>(0).handle);
    if (content.match_elements<caf::io::connection_closed_msg>())
      closed(content.get_as<caf::io::connection_closed_msg>(0).handle);
    if (!content.match_elements<caf::io::new_data_msg>()) {
      note_question(content);
      return basp_broker::consume(element);
    }
    const auto& data = content.get_as<caf::io::new_data_msg>(0);
    if (!passes(data)) return caf::invoke_message_result::consumed;  // GAT-1
    const auto outcome = basp_broker::consume(element);
    if (ctx.count(data.handle) == 0) closed(data.handle);  // CAF would not have it, either
    return outcome;
  }

  /// GAT-4. CAF 0.17.6 does this for every actor but brokers.
  bool cleanup(caf::error&& reason, caf::execution_unit* host) override {
    if (!mailbox().closed()) {
      mailbox().close();
      get_normal_queue().flush_cache();
      get_urgent_queue().flush_cache();
      const caf::detail::sync_request_bouncer bounce{reason};
      while (mailbox().queue().new_round(1000, bounce).consumed_items > 0) {
      }
      admission_.close();
    }
    return basp_broker::cleanup(std::move(reason), host);
  }

 private:
  link& add(connection_handle handle, bool accepted) {
    const auto fd = static_cast<int>(handle.id());
    std::optional<peer> holder;
    if (const auto who = holder_of_socket(fd)) holder = peer{who->name, who->as};
    const bool guest = holder && holder->guest();
    const bool power = guest && holder->as == tls::role::power;
    link fresh{frame_policy(accepted, guest, power),
               0,
               std::move(holder),
               address_of_socket(fd),
               {},
               false,
               {},
               false,
               false};
    asks_guests_ = asks_guests_ || fresh.policy.answers();
    return links_.insert_or_assign(handle, std::move(fresh)).first->second;
  }

  /// What an actor of this process asks a guest that answers is noted with its link (FRM-4). All
  /// that proxies have sent comes by here.
  void note_question(const caf::type_erased_tuple& content) {
    if (!asks_guests_ ||
        !content.match_elements<caf::forward_atom, caf::strong_actor_ptr,
                                std::vector<caf::strong_actor_ptr>, caf::strong_actor_ptr,
                                caf::message_id, caf::message>())
      return;
    const auto& asker = content.get_as<caf::strong_actor_ptr>(1);
    const auto& asked = content.get_as<caf::strong_actor_ptr>(3);
    const auto mid = content.get_as<caf::message_id>(4);
    if (!mid.is_request() || !asker || !asked || asker->node() != system().node()) return;
    const auto handle = instance.tbl().lookup_direct(asked->node());
    const auto it = handle ? links_.find(*handle) : links_.end();
    if (it != links_.end()) it->second.policy.asked(asker->id(), mid.request_id().integer_value());
  }

  /// Another process has made a connection (GAT-5).
  void came(connection_handle handle) {
    add(handle, true).number = admission_.arrived(static_cast<int>(handle.id()));
  }

  /// Those who have not said in time who they are go.
  void look() {
    looks_ = false;
    if (admission_.look()) look_soon();
  }

  // -- what the admission asks for, in the loop's thread, perhaps beside the broker's turn --------

  int64_t now_ns() override { return now(); }

  bool has_acceptor(int listening) override {
    return by_id(accept_handle::from_int(listening)) != caf::none;
  }

  void take_from(int listening) override {
    auto acceptor = by_id(accept_handle::from_int(listening));
    if (!acceptor) return;
    if (auto* const known = dynamic_cast<caf::io::network::doorman_impl*>(&*acceptor))
      doorman_access::acceptor_of(*known).handle_event(caf::io::network::operation::read);
  }

  void give_up(int fd, int64_t number, turned_away why) override {
    caf::anon_send(this, give_up_atom::value, fd, number, static_cast<int>(why));
  }

  void look_soon() override {
    if (!std::exchange(looks_, true)) delayed_send(this, defaults::gate_period, look_atom::value);
  }

  // -----------------------------------------------------------------------------------------------

  void give_up_now(int fd, int64_t number, int why) {
    const auto handle = connection_handle::from_int(fd);
    const auto it = links_.find(handle);
    if (it != links_.end() && it->second.number == number && !it->second.process)
      hang_up(handle, static_cast<turned_away>(why));
  }

  /// GAT-6.
  void begin_to_listen() {
    for (auto& [handle, c] : ctx)
      if (c.last_seen == caf::actor_clock::time_point{}) c.last_seen = clock().now();
  }

  /// The link of a connection that says something; under TLS its holder is known by now.
  link& link_of(connection_handle handle) {
    const auto it = links_.find(handle);
    if (it == links_.end()) return add(handle, false);
    if (!tls_ || it->second.holder) return it->second;
    const auto number = it->second.number;
    auto& l = add(handle, it->second.policy.accepted());
    l.number = number;
    return l;
  }

  /// False: the frame is not for CAF.
  bool passes(const caf::io::new_data_msg& data) {
    auto& l = link_of(data.handle);
    if (tls_ && !l.holder) return hang_up(data.handle, turned_away::impostor);  // GAT-2
    const auto it = ctx.find(data.handle);
    const bool payload = it != ctx.end() && it->second.cstate == basp::await_payload;
    const auto verdict = payload ? judge_payload(l, data) : judge_header(l, data);
    switch (verdict) {
      case frame_verdict::pass:
        return true;
      case frame_verdict::garbage:
        return hang_up(data.handle, turned_away::not_ours);
      case frame_verdict::impostor:
        return hang_up(data.handle, turned_away::impostor);
      default:
        if (verdict == frame_verdict::refuse)
          note_rejection(reject::forbidden, 0, "unsupported message, from " + l.holder->name);
        if (!payload && l.header.payload_bytes > 0) {
          l.skipping = true;
          return true;  // CAF waits for the payload, which is then left out
        }
        return skip(data.handle, l);
    }
  }

  frame_verdict judge_header(link& l, const caf::io::new_data_msg& data) {
    basp::header h;
    caf::binary_deserializer source{context(), data.buf};
    if (source(h) || !basp::valid(h)) return frame_verdict::garbage;
    const auto mid = caf::make_message_id(h.operation_data);
    const bool message = h.operation == basp::message_type::direct_message ||
                         h.operation == basp::message_type::routed_message;
    l.header = {static_cast<uint8_t>(h.operation),
                h.has(basp::header::named_receiver_flag),
                h.payload_len,
                message && mid.is_response(),
                h.source_actor,
                h.dest_actor,
                mid.request_id().integer_value()};
    return l.policy.judge(l.header);
  }

  frame_verdict judge_payload(link& l, const caf::io::new_data_msg& data) {
    if (std::exchange(l.skipping, false)) return frame_verdict::drop;
    const bool handshake = l.header.operation == frame_header::client_handshake ||
                           l.header.operation == frame_header::server_handshake;
    // What nodes say is CAF's to read; a copy of every message would be judged in vain.
    if (!handshake && !l.policy.guest()) return frame_verdict::pass;
    caf::binary_deserializer source{context(), data.buf};
    frame_payload p;
    switch (l.header.operation) {
      case frame_header::client_handshake:
      case frame_header::server_handshake: {
        caf::node_id process;
        p.readable = !source(process) && process;
        p.name_is_free = p.readable && takes_name(l, data.handle, process);
        break;
      }
      case frame_header::monitor_message:
      case frame_header::down_message: {
        caf::node_id from, to;
        p.readable = !source(from, to);
        p.source_is_peer = from == l.process;
        p.for_us = to == system().node();
        const bool ends = l.header.operation == frame_header::down_message;
        p.of_error = ends && p.readable && is_error_of_words(source);
        break;
      }
      default:
        read_content(source, p);
    }
    return l.policy.judge(l.header, p);
  }

  /// Whether a message's content is one of our messages, perhaps with handles beside it, and there
  /// is nobody it is to be passed to.
  void read_content(caf::binary_deserializer& source, frame_payload& p) const {
    size_t stages = 0;
    uint16_t number = 0;
    std::string types;
    if (source.begin_sequence(stages) || stages != 0 || source.begin_object(number, types)) return;
    p.readable = number == 0;
    constexpr std::string_view mark = "@<>+", handle = "+@strong_actor_ptr";
    p.of_services = types == "@<>+@atom+@str+@strong_actor_ptr+@str";
    if (types == "@<>+@error") p.of_error = is_error_of_words(source);
    if (!types.starts_with(mark)) return;
    types.erase(0, mark.size());
    for (; types.ends_with(handle); p.has_handles = true) types.erase(types.size() - handle.size());
    p.of_ours = names_.contains(types);
  }

  /// A process bears one name, and no guest bears that of a process we know by another way.
  bool takes_name(link& l, connection_handle handle, const caf::node_id& process) {
    if (l.process) return l.process == process;
    if (l.policy.guest()) {
      if (process == system().node()) {
        l.is_own = true;
        return false;
      }
      const auto route = instance.tbl().lookup(process);
      if (route && route->hdl != handle) {
        const auto who = runtime_of(system()).peers.find(process);
        if (!who || *who != *l.holder) return false;
      }
    }
    if (l.holder && process != system().node()) {
      l.bound = runtime_of(system()).peers.bind(process, *l.holder, now(), l.address);
      if (!l.bound) return false;
    }
    l.process = process;
    admission_.settled(l.number);
    return true;
  }

  /// Leaves a payload out as if it had been handled.
  bool skip(connection_handle handle, link& l) {
    set_context(handle);
    if (l.header.payload_bytes > 0) {
      ctx.at(handle).cstate = basp::await_header;
      configure_read(handle, caf::io::receive_policy::exactly(basp::header_size));
    }
    return false;
  }

  /// Who wanted a connection that has led to this process itself is told so as CAF says it.
  bool hang_up(connection_handle handle, turned_away reason) {
    auto& l = links_.at(handle);
    const auto why = l.is_own ? caf::sec::redundant_connection : caf::sec::malformed_basp_message;
    if (l.policy.accepted()) note_turned_away(reason, l.address, l.holder ? l.holder->name : "");
    forget(handle);
    give_up_socket(static_cast<int>(handle.id()));
    connection_cleanup(handle, why);
    close(handle);
    return false;
  }

  /// GAT-3: a failed handshake of TLS has been counted already.
  void closed(connection_handle handle) {
    const auto it = links_.find(handle);
    if (it == links_.end()) return;
    const auto& l = it->second;
    const bool known = !tls_ || l.holder || holder_of_socket(static_cast<int>(handle.id()));
    if (l.policy.accepted() && !l.policy.greeted() && known)
      note_turned_away(turned_away::hung_up, l.address, "");
    forget(handle);
  }

  void forget(connection_handle handle) {
    const auto it = links_.find(handle);
    if (it == links_.end()) return;
    release(it->second);
    admission_.settled(it->second.number);
    links_.erase(it);
    forget_socket(static_cast<int>(handle.id()));
  }

  void release(link& l) {
    if (std::exchange(l.bound, false)) runtime_of(system()).peers.release(l.process, now());
  }

  int64_t now() {
    return clock().now().time_since_epoch() / std::chrono::nanoseconds(1);
  }

  bool tls_;
  admission& admission_;
  std::unordered_set<std::string> names_;
  std::unordered_map<connection_handle, link> links_;
  bool looks_ = false;        ///< a look is on its way
  bool asks_guests_ = false;  ///< there has been a guest that answers
};

std::atomic<bool> may_be_silent{false}, is_silent{false};

/// Of a process that makes drills. Frames are flushed whole: none is cut off.
class drilled_broker final : public gated_broker {
 public:
  using gated_broker::gated_broker;

  void flush(connection_handle handle) override {
    if (is_silent)
      wr_buf(handle).clear();
    else
      gated_broker::flush(handle);
  }
};

}  // namespace

void may_fall_silent() noexcept {
  may_be_silent = true;
}

void fall_silent() noexcept {
  is_silent = true;
}

gated_middleman::gated_middleman(caf::actor_system& system)
    : middleman(system),
      backend_(std::make_unique<admitting_multiplexer>(&system)) {}

gated_middleman::~gated_middleman() = default;

caf::io::network::multiplexer& gated_middleman::backend() {
  return *backend_;
}

admission& gated_middleman::admitted() {
  return backend_->admitted;
}

void gated_middleman::start() {
  if (may_be_silent)
    named_broker<drilled_broker>(caf::atom("BASP"));
  else
    named_broker<gated_broker>(caf::atom("BASP"));
  middleman::start();
  if (certificate_context())
    certificates_ = system().spawn<caf::detached + caf::hidden>(certificate_store);
}

void gated_middleman::end_renewals() {
  if (!certificates_) return;
  const auto ending = std::exchange(certificates_, nullptr);
  caf::scoped_actor self(system(), true);
  self->send_exit(ending, caf::exit_reason::user_shutdown);
  self->wait_for(ending);
}

void gated_middleman::stop() {
  end_renewals();
  middleman::stop();
}

caf::actor_system::module* gated_middleman::make(caf::actor_system& system,
                                                 caf::detail::type_list<>) {
  return new gated_middleman(system);
}

}  // namespace troupe::cluster
