// The storage of a simulated cluster: one file system in memory that all its hosts share, whose
// calls take virtual time and which loses what was not synced (io/disk/crash_store.hpp).
//
// What an actor calls is carried out at once. Its changes bear the instants at which they would
// have been made: they never were if the host goes before. What the actor says then, it says once
// the calls' time is over (world::block_until).
//
// Invariants
//   STO-1  A name that a host has made is with the server of the files, which is the head's: it is
//     lost with the head alone. Bytes are lost with whoever wrote them and had not synced them.
#pragma once

#include <memory>
#include <vector>

#include "actors/sim/world.hpp"
#include "io/disk/faulty_disk.hpp"
#include "io/disk/storage.hpp"

namespace troupe::sim {

/// How long one call takes.
struct storage_times {
  int64_t name_ns = 5'000'000;  ///< that changes names, or a small file
  int64_t data_ns = 500'000;    ///< that reads, writes or syncs
};

class shared_files {
 public:
  /// `where` outlives it.
  shared_files(world& where, const storage_times& times);
  ~shared_files();

  io::crash_store& store() { return *store_; }
  /// Of a node's process; for its actors.
  io::storage& of(int node);
  /// A disk for what a host does beside its actors; its time begins now and is its own (now()).
  std::unique_ptr<io::disk> beside(int node, int64_t data_ns);
  /// For whoever has all the time in the world: a person, a launcher that starts.
  io::file_system& timeless();

  /// A node's process has ended: what it was about to do is not done, and nothing more, neither.
  void end_process(int node);
  /// The same, and the memory of its host is lost.
  void lose(int node);
  /// Nothing is under way.
  bool quiet() const;
  /// From time to time the operating system writes back what is old; history that nothing can
  /// change any more is forgotten.
  void write_back();

 private:
  class process;
  process& process_of(int node);
  void end(int node, bool memory_lost);

  world& where_;
  storage_times times_;
  std::shared_ptr<io::crash_store> store_;
  std::vector<std::unique_ptr<process>> running_;  ///< by node; none before it uses a file
  std::vector<std::unique_ptr<process>> ended_;    ///< their actors may still be there
  static constexpr size_t long_log = 256;          ///< to forget takes time, too
  size_t settle_at_ = long_log;
  int64_t last_ns_ = 0;  ///< when the last of all calls is over
  uint32_t last_writer_ = 0;
  std::unique_ptr<io::faulty_disk> timeless_;
  rng chance_;
};

}  // namespace troupe::sim
