// Every operation of a training step at the shapes of known models, ready to be timed on a device.
//
// Why: `troupe bench ops` and `troupe bench gpu` time the same calls on the same memory, whichever
// device they run on; what is compared is then the device.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench/spread.hpp"
#include "gpu/ops.hpp"
#include "gpu/stopwatch.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// `count` numbers spread evenly in [offset - scale, offset + scale), the same in every run. Not
/// constants: what a GPU draws, and so its clock, depends on how many bits turn.
std::vector<float> noise(int64_t count, float scale, float offset);

/// The shapes of one model and micro-batch.
struct bench_shape {
  int64_t batch, seq, layers, heads, kv_heads, width, feed, vocab;
  bool llama;

  int64_t tokens() const { return batch * seq; }
  int64_t head_width() const { return width / heads; }
  int64_t qkv() const { return (heads + 2 * kv_heads) * head_width(); }
  int64_t feed_in() const { return llama ? 2 * feed : feed; }
  /// Matrix parameters of one layer: the chunk that is updated at once.
  int64_t layer() const { return width * (qkv() + width + feed_in() + feed); }
};

/// By name: "tiny", "gpt2-124m", "llama-1b" ...
const std::map<std::string, bench_shape>& bench_shapes();

/// One operation to time: what it does, and how often a step does it.
struct ops_case {
  std::string name;
  double flops, bytes;  ///< of one call: what the mathematics needs, each operand moved once
  int64_t per_step;     ///< calls; 0: not part of every step
  std::function<void()> enqueue;
};

/// What a device can do at most, measured: operations and bytes a second.
struct ceilings {
  double flops = 0, bytes_per_second = 0;

  /// Seconds that a call cannot be faster than.
  double floor_s(const ops_case& c) const;
};

/// The best of several rounds: a product of `side`^3 of that type, a copy of `copy_bytes` within
/// the device (bytes read and written both count). Errors: the device's.
result<ceilings> measure_ceilings(gpu::device& on, gpu::stream& s, gpu::dtype type, int64_t side,
                                  size_t copy_bytes);

/// How long and by which clock calls are timed.
struct ops_timing {
  gpu::time_kind clock = gpu::time_kind::wall;
  double seconds = 0.4;  ///< of rounds, at least three of them
  /// Called before each round, e.g. to sample the ceiling beside it.
  std::function<void()> between = [] {};
};

/// Seconds of one call of `enqueue`, over rounds. A round is long enough (10 ms) that the wait
/// at its end does not count. Fails with what poisoned the stream.
result<spread> time_calls(gpu::stream& s, const std::function<void()>& enqueue,
                          const ops_timing& timing);

/// A model's operations over tensors in the device's memory. The device and the stream outlive it.
class ops_cases {
 public:
  /// Errors: no_memory where the tensors do not fit; the device's.
  static result<std::unique_ptr<ops_cases>> make(gpu::device& on, gpu::stream& s,
                                                 const bench_shape& shape, gpu::dtype type);

  const std::vector<ops_case>& all() const noexcept { return cases_; }

 private:
  ops_cases(gpu::device& on, gpu::stream& s, const bench_shape& shape, gpu::dtype type)
      : s_(shape), type_(type), device_(on), stream_(s) {}

  enum class content : uint8_t { zeros, numbers, positive };
  template <class T = void>
  T* take(int64_t elements, gpu::dtype type, content what = content::numbers);
  template <class T>
  T* take_copy(const std::vector<T>& from);
  gpu::row_documents take_documents(int64_t of_row);
  void fill(void* to, int64_t elements, gpu::dtype type, content what);
  void keep(status outcome);
  void add(std::string name, double flops, double bytes, int64_t per_step,
           std::function<void()> enqueue);
  /// Where the GELU of a GPT-2 is: behind the product, or in front of it.
  enum class gelu_side : uint8_t { none, out, in };
  void add_linear(const std::string& name, int64_t in, int64_t out,
                  gelu_side gelu = gelu_side::none);
  void add_rows();
  void add_norms();
  void add_attention();
  void add_head();
  void add_optimizers();
  void add_small();

  const bench_shape s_;
  const gpu::dtype type_;
  gpu::device& device_;
  gpu::stream& stream_;
  std::vector<gpu::buffer> buffers_;
  gpu::buffer patterns_[2];  ///< numbers around 0, numbers above 0; float32
  gpu::parameter_span span_{};
  std::vector<ops_case> cases_;
  status outcome_;  ///< the first thing that went wrong while tensors were made
};

}  // namespace troupe::apps
