// The admission: where connections that were made to this process wait until they have begun as a
// peer does. CAF and OpenSSL see none before.
//
// Why: CAF 0.17.6 makes a TLS session of every connection at once, which costs its one network
// thread a millisecond; ten thousand that say nothing keep tools and heartbeats out for as many
// milliseconds. Here each costs an accept() and a place in an epoll set: some microseconds.
//
// How: the function that takes connections off the kernel's queue (accepting.hpp) leaves them here.
// The set of those that wait is a descriptor of its own in CAF's loop; when one has said a whole
// ClientHello (client_hello.hpp), the admission has CAF's doorman accept once more, and hands this
// one out. Everything happens in the loop's thread: there is no lock.
//
// Invariants
//   ADM-1  Nobody is handed out before a whole ClientHello has come from him; what begins otherwise
//     is closed (not_tls), and who goes before, too (hung_up). Nothing of it is read: OpenSSL finds
//     what was sent. Where a process does not speak TLS (tests) all are handed out at once.
//   ADM-2  All who have not said who they are, handed out or not, wait within one set of bounds
//     (strangers_policy.hpp). Who is not handed out is closed here, the others by the broker.
//   ADM-3  A connection is known by a number that is never used again; descriptors are.
//   ADM-4  At most `round_size` connections are taken in a round of the loop: links that are
//     made already have their turn between.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <caf/io/network/event_handler.hpp>

#include "actors/cluster/ingress.hpp"
#include "actors/cluster/strangers_policy.hpp"

namespace troupe::cluster {

/// Whom connections are admitted to: the broker. Called in the loop's thread.
class admitted_to {
 public:
  virtual ~admitted_to() = default;

  virtual int64_t now_ns() = 0;

  /// Whether this listening socket is one of its acceptors.
  virtual bool has_acceptor(int listening) = 0;

  /// A connection is ready there: has its acceptor ask admission::next() for it.
  virtual void take_from(int listening) = 0;

  /// A connection that was handed out has waited too long, or gives way.
  virtual void give_up(int fd, int64_t number, turned_away why) = 0;

  /// Somebody waits: look() is to be called within a second.
  virtual void look_soon() = 0;
};

class admission final : public caf::io::network::event_handler {
 public:
  static constexpr int round_size = 64;

  admission(caf::io::network::default_multiplexer& loop, stranger_bounds bounds);
  ~admission() override;

  /// From here on connections are admitted to `whom`, by TLS or without.
  void open(admitted_to& whom, bool tls);

  /// Nobody is admitted any more; who waits is closed.
  void close();

  /// A connection for the doorman of `listening`; -1 where there is none.
  int next(int listening);

  /// The broker has a link for what was handed out: its number (ADM-3).
  int64_t arrived(int fd);

  /// It has said who it is, or is gone.
  void settled(int64_t number);

  /// Who has waited too long goes; true while somebody waits.
  bool look();

  void handle_event(caf::io::network::operation op) override;
  void removed_from_loop(caf::io::network::operation) override {}
  void graceful_shutdown() override {}

 private:
  struct stranger {
    int64_t number = 0;
    int listening = -1;
    bool inside = false;   ///< here, and not handed out yet
    bool arrived = false;  ///< the broker has it
    std::string address;
  };
  using strangers = std::map<int, stranger>;

  int64_t enter(int fd, int listening, bool inside);
  void judge(int fd, bool ended);
  void hand_out(strangers::iterator who);
  void turn_away(int64_t number, turned_away why);
  void drop(strangers::iterator who, turned_away why);
  void forget(strangers::iterator who);
  void close_all();

  admitted_to* whom_ = nullptr;
  bool tls_ = false, in_loop_ = false;
  int next_ = -1;  ///< what is handed out next
  int64_t last_number_ = 0;
  strangers strangers_;
  std::map<int64_t, int> by_number_;
  strangers_policy policy_;
};

/// The admission of this thread's loop; none where the thread runs none.
admission*& admission_here();

}  // namespace troupe::cluster
