// Operations that go through rows, elements or heads, split over the team. See host_ops.hpp.
#include <algorithm>
#include <bit>

#include "gpu/host/bf16_bits.hpp"
#include "gpu/host/host_ops.hpp"
#include "gpu/stochastic_rounding.hpp"

namespace troupe::gpu::host {
namespace {

/// Elements a share of a simple pass is a multiple of: whole cache lines, worth waking somebody
/// for.
constexpr int64_t element_grain = 4096;

/// Rows worth a thread of their own.
int64_t rows_grain(int64_t width) {
  return std::max<int64_t>(1, element_grain / std::max<int64_t>(1, width));
}

/// The rows of an operation, or its elements, in shares.
template <class Args, class F>
void in_shares(thread_team& team, const Args& a, F&& f) {
  if constexpr (requires { a.count; }) {
    team.split(a.count, element_grain, f);
  } else if constexpr (requires { a.heads; }) {
    team.split(a.batch * a.seq, rows_grain((a.heads + 2 * a.kv_heads) * a.head_width), f);
  } else if constexpr (requires { a.seq; }) {
    team.split(a.batch * a.seq, rows_grain(a.width), f);
  } else {
    team.split(a.tokens, rows_grain(a.width), f);
  }
}

}  // namespace

#define TROUPE_ROW_OP(name)                                                                        \
  void host_ops::name(stream& s, const name##_args& a) {                                           \
    on_host(s).enqueue([a, &k = kernels_](compute_context& context) {                              \
      in_shares(context.team, a, [&](int64_t begin, int64_t end, int) { k.name(a, begin, end); }); \
    });                                                                                            \
  }
TROUPE_ROW_KERNELS(TROUPE_ROW_OP)
#undef TROUPE_ROW_OP

void host_ops::embedding_backward(stream& s, const embedding_backward_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    context.team.run([&](int member, int members) {
      k.embedding_backward_tokens(a, member, members);
      if (a.d_position_table == nullptr) return;
      k.embedding_backward_positions(a, a.seq * member / members, a.seq * (member + 1) / members);
    });
  });
}

namespace {

/// Two gradients of `width` that sum over `tokens`: `share(begin, end, sums, block)` of each
/// member, both of 2 * width floats, added in the members' order (OPS-2) to `first` and, unless
/// null, `second`.
template <class F>
void sum_over_tokens(compute_context& context, const kernel_table& k, int64_t tokens, int64_t width,
                     float* first, float* second, F&& share) {
  const int members = context.team.threads();
  const size_t piece =
      round_to_line(static_cast<size_t>(2 * width) * sizeof(float)) / sizeof(float);
  auto* sums = reinterpret_cast<float*>(
      context.scratch.get(static_cast<size_t>(members) * 2 * piece * sizeof(float)));
  const auto of = [&](int member) { return sums + static_cast<size_t>(member) * 2 * piece; };
  context.team.run([&](int member, int) {
    share(tokens * member / members, tokens * (member + 1) / members, of(member),
          of(member) + piece);
  });
  for (int member = 0; member < members; ++member) {
    k.add({first, of(member), dtype::f32, width}, 0, width);
    if (second != nullptr) k.add({second, of(member) + width, dtype::f32, width}, 0, width);
  }
}

}  // namespace

void host_ops::norm_backward(stream& s, const norm_backward_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    sum_over_tokens(context, k, a.tokens, a.width, a.dweight, a.dbias,
                    [&](int64_t begin, int64_t end, float* sums, float* block) {
                      k.norm_backward(a, begin, end, sums, block);
                    });
  });
}

void host_ops::head_norm_backward(stream& s, const head_norm_backward_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    sum_over_tokens(context, k, a.batch * a.seq, a.head_width, a.dq_weight, a.dk_weight,
                    [&](int64_t begin, int64_t end, float* sums, float* block) {
                      k.head_norm_backward(a, begin, end, sums, block);
                    });
  });
}

void host_ops::attention_forward(stream& s, const attention_forward_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    const size_t piece = round_to_line(k.attention_memory(a.seq, a.head_width).forward_bytes);
    std::byte* scratch = context.scratch.get(piece * static_cast<size_t>(context.team.threads()));
    context.team.for_each(a.batch * a.heads, [&](int64_t i, int member) {
      k.attention_forward(a, i / a.heads, i % a.heads,
                          scratch + piece * static_cast<size_t>(member));
    });
  });
}

void host_ops::attention_cached(stream& s, const attention_cached_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    const size_t piece = round_to_line(k.attention_memory(1, a.head_width).cached_bytes);
    std::byte* scratch = context.scratch.get(piece * static_cast<size_t>(context.team.threads()));
    context.team.for_each(a.queries * a.heads, [&](int64_t i, int member) {
      k.attention_cached(a, i / a.heads, i % a.heads,
                         scratch + piece * static_cast<size_t>(member));
    });
  });
}

void host_ops::attention_backward(stream& s, const attention_backward_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    const size_t piece = round_to_line(k.attention_memory(a.seq, a.head_width).backward_bytes);
    std::byte* scratch = context.scratch.get(piece * static_cast<size_t>(context.team.threads()));
    context.team.for_each(a.batch * a.kv_heads, [&](int64_t i, int member) {
      k.attention_backward(a, i / a.kv_heads, i % a.kv_heads,
                           scratch + piece * static_cast<size_t>(member));
    });
  });
}

void host_ops::round_by_chance(stream& s, const round_by_chance_args& a) {
  on_host(s).enqueue([a](compute_context& context) {
    const rounding_key key = make_rounding_key(a.seed, a.step);
    auto* to = static_cast<bf16_bits*>(a.destination);
    in_shares(context.team, a, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const uint32_t random = random_bits(key, static_cast<uint32_t>(a.first + i));
        to[i] = static_cast<bf16_bits>(
            gpu::round_by_chance(std::bit_cast<uint32_t>(a.source[i]), random) >> 16);
      }
    });
  });
}

}  // namespace troupe::gpu::host
