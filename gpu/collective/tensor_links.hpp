// Gloo's transport over connections that are there already: the algorithms are Gloo's, the sockets
// are proven (pair_links.hpp).
//
// Why not Gloo's own TCP transport: it listens for as long as a group lives, and takes whoever says
// an 8-byte number for a rank.
//
// A send waits until the other side has said that it receives (as Gloo's transport does): so no
// message stands in front of another that somebody waits for, whatever the order of slots.
//
//   frame: kind (ready, data), slot, bytes; after `data` the bytes themselves
//
// One thread of a group serves all its connections; what can be written at once is written by the
// caller. Tensors go from and to the caller's memory.
//
// Invariants
//   TSL-1  Bytes are read only into what was asked for, of that size; else the group fails.
//   TSL-2  The first failure ends every operation, pending and later, of the whole group; nothing
//     touches a buffer after it.
//   TSL-3  A buffer that ends while it sends or receives fails the group.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include "io/file.hpp"

namespace troupe::gpu {

class tensor_links;

/// Memory that is sent or received; one operation of each kind at a time.
class tensor_buffer final : public gloo::transport::UnboundBuffer {
 public:
  tensor_buffer(tensor_links& links, void* data, size_t bytes);
  ~tensor_buffer() override;

  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override;
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override;
  void abortWaitRecv() override;
  void abortWaitSend() override;
  void send(int to, uint64_t slot, size_t offset, size_t bytes) override;
  void recv(int from, uint64_t slot, size_t offset, size_t bytes) override;
  void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) override;

 private:
  friend class tensor_links;
  /// Operations that were begun, and those of them that are over; guarded by the links' mutex.
  struct progress {
    int begun = 0, over = 0, waited = 0, last_rank = -1;
  };
  bool wait(progress& p, int* rank, std::chrono::milliseconds timeout);
  size_t size_from(size_t offset, size_t bytes) const;

  tensor_links& links_;
  progress sends_, receives_;
};

class tensor_links final : public gloo::transport::Context {
 public:
  /// `sockets`: by rank, connected; none for the own.
  tensor_links(int own, std::vector<io::unique_fd> sockets);
  ~tensor_links() override;

  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override;
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                      size_t bytes) override;

  /// Fails the group (TSL-2). Thread-safe.
  void fail(const std::string& why) noexcept;

 private:
  friend class tensor_buffer;

  struct operation {
    tensor_buffer* buffer = nullptr;
    char* data = nullptr;
    uint64_t bytes = 0;
  };
  struct frame {
    uint64_t kind = 0, slot = 0, bytes = 0;
  };
  struct outgoing {
    frame head;
    operation what;  ///< of data
    uint64_t sent = 0;
  };
  struct link {
    io::unique_fd socket;
    std::deque<outgoing> out;
    bool watched_for_room = false;
    std::map<uint64_t, std::deque<operation>> sends, receives;  ///< by slot
    std::map<uint64_t, std::deque<uint64_t>> ready;             ///< bytes that the peer receives
    size_t ready_count = 0;
    frame head;
    uint64_t read = 0;  ///< of the frame that comes in, its data included
    operation into;
  };
  using lock = std::unique_lock<std::mutex>;

  void serve();
  void fail_locked(const std::string& why) noexcept;
  link& link_to(int peer);
  void begin_send(int peer, uint64_t slot, operation o);
  void begin_receive(int peer, uint64_t slot, operation o);
  void write_out(int peer);
  void read_in(int peer);
  bool read_part(link& l, char* into, uint64_t until);
  void frame_has_come(int peer);
  void data_has_come(int peer);

  std::mutex guard_;
  std::condition_variable moved_;
  std::vector<link> links_;
  std::string failure_;
  io::unique_fd epoll_;
  std::thread server_;
};

}  // namespace troupe::gpu
