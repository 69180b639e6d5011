// message_builder: a FlatBufferBuilder whose memory can become a message without a copy.
//
// B-1  Its memory is 16-byte aligned and its buffers end at a multiple of 16, so a payload starts
//      at one (AM-3).
// B-2  Room for the block's control and header is pushed in front of the finished buffer; nothing
//      moves.
#pragma once

#include <cstddef>

#include <flatbuffers/flatbuffers.h>

namespace troupe {

namespace detail {
/// The allocator of all message builders: the pool that blocks go back to.
flatbuffers::Allocator* message_allocator() noexcept;
}  // namespace detail

/// Builds the FlatBuffer of one message, then of the next.
class message_builder : public flatbuffers::FlatBufferBuilder {
 public:
  /// `initial_bytes`: the memory it starts with; it grows by half of what it has.
  explicit message_builder(size_t initial_bytes = 1024)
      : flatbuffers::FlatBufferBuilder(initial_bytes, detail::message_allocator(), false, 16),
        initial_bytes_(initial_bytes) {
    TrackMinAlign(16);
  }

  /// Ready for the next message; keeps its memory.
  void restart() {
    Clear();
    TrackMinAlign(16);
  }

  /// Gives the memory of a finished buffer away: `capacity` bytes in which at `offset` begin `room`
  /// free bytes and then the buffer (B-2). The next message starts with about as much memory as
  /// this one took, so that a run of large ones never grows.
  uint8_t* release(size_t room, size_t& capacity, size_t& offset);

 private:
  size_t initial_bytes_;
};

/// The calling thread's builder, lent for the time of one message; whoever finishes the message
/// leaves it restarted. A nested loan gets a builder of its own.
class builder_loan {
 public:
  builder_loan() : builder_(spare_) {
    if (builder_ == nullptr) builder_ = make();
    spare_ = nullptr;
  }
  ~builder_loan() {
    if (spare_ == nullptr)
      spare_ = builder_;
    else
      delete builder_;
  }
  builder_loan(const builder_loan&) = delete;
  builder_loan& operator=(const builder_loan&) = delete;

  message_builder& operator*() noexcept { return *builder_; }

 private:
  /// A new builder; sees to it that the thread's last one is deleted when the thread ends.
  static message_builder* make();

  static thread_local constinit message_builder* spare_;
  message_builder* builder_;
};

}  // namespace troupe
