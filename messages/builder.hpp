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
/// The allocator of all message builders: malloc, so that free_block can give the memory back.
flatbuffers::Allocator* message_allocator() noexcept;
}  // namespace detail

/// Builds the FlatBuffer of one message, then of the next.
class message_builder : public flatbuffers::FlatBufferBuilder {
 public:
  /// `initial_bytes`: the memory it starts with; it grows by doubling.
  explicit message_builder(size_t initial_bytes = 1024)
      : FlatBufferBuilder(initial_bytes, detail::message_allocator(), false, 16) {
    TrackMinAlign(16);
  }

  /// Ready for the next message; keeps its memory.
  void restart() {
    Clear();
    TrackMinAlign(16);
  }
};

/// The calling thread's builder, lent for the time of one message. A nested loan gets a builder of
/// its own.
class builder_loan {
 public:
  builder_loan();
  ~builder_loan();
  builder_loan(const builder_loan&) = delete;
  builder_loan& operator=(const builder_loan&) = delete;

  message_builder& operator*() noexcept { return *builder_; }

 private:
  message_builder* builder_;
  bool owned_;
};

}  // namespace troupe
