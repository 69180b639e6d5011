// The operations of a rank: one table of what schedule, stage, worker, engine, probe and traces
// need to know of each. Knows no CAF.
//
// Adding one touches three files: messages/schemas/train.fbs (OpKind, where a stage tells its
// worker to do it), this table, and the code of the engine that does it (rank_engine.cpp). When a
// stage does it is the schedule's affair (schedule_policy.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace troupe::train {

/// What a rank does. The first are fbs::OpKind's, of the same value and name; the others the engine
/// does by itself.
enum class pipeline_op : uint8_t {
  forward,
  backward,
  evaluate,
  receive_activation,
  receive_gradient,
  begin,
  recheck,
  send_activation,
  send_gradient,
  reduce_scatter,
  norm,
  all_reduce,
  measure,
  all_gather_norms,
  update,
  all_gather,
  capture,
  load,
  await_copies,
  digest,
  read_weights,
  read_state,
  update_chunk,
  write_chunk,
  await_weights,
  write_activation,
  read_activation,
  await_activations,
  await_replicas,
  all_reduce_tied,
  all_reduce_stages,
  all_reduce_moves,
  count,  ///< none
};

/// A queue of a rank's device.
enum class op_stream : uint8_t {
  compute,
  data_parallel,
  files,
  snapshot,
  weights_in,  ///< from a swap folder
  state_in,    ///< the same
  update,      ///< of what is in a swap folder
  state_out,   ///< to it
  spill_out,   ///< the same, of activations
  spill_in,    ///< from it
  forward_in,  ///< from here on: one for each kind of transfer with a neighbour
  forward_out,
  backward_in,
  backward_out,
  count,
};

/// The first of a rank's streams for transfers with its neighbours, and how many there are.
inline constexpr auto first_transfer_stream = op_stream::forward_in;
inline constexpr size_t transfer_streams =
    static_cast<size_t>(op_stream::count) - static_cast<size_t>(first_transfer_stream);

/// What an operation keeps busy.
enum class op_resource : uint8_t { device, transfer, file };

/// What an operation's work is counted in.
enum class op_unit : uint8_t { none, bytes, tokens, parameters };

/// Other ranks, as a rank sees them.
enum class op_partner : uint8_t {
  none,
  previous,  ///< the stage before
  next,      ///< the stage behind
  replicas,  ///< all of its stage
  stages,    ///< all of its replica
  ends,      ///< of its replica, the first and the last stage, which hold a tied table
};

/// Whether all of them do the same thing at once.
constexpr bool is_group(op_partner with) noexcept {
  return with >= op_partner::replicas;
}

/// An operation of the same rank that another one needs.
struct op_need {
  pipeline_op what = pipeline_op::count;
  bool same_number = true;  ///< of the same micro-batch; else any of it
  bool in_parts = false;    ///< what it makes is used in parts while it still goes on
};

struct op_facts {
  pipeline_op kind;
  std::string_view name;  ///< in traces and in stats; ends with a zero
  op_stream stream;
  op_unit unit = op_unit::none;
  op_resource resource = op_resource::device;
  std::array<op_need, 4> needs = {};
  op_partner with = op_partner::none;          ///< whom it moves bytes with
  pipeline_op other_end = pipeline_op::count;  ///< what `with` does for that, where it is another
  op_partner releases = op_partner::none;      ///< who can go on; none: nobody waits for its end
  bool reads_batch = false;
  bool frees_slot = false;  ///< its micro-batch needs its activation slot no more
};

// clang-format off
inline constexpr std::array<op_facts, static_cast<size_t>(pipeline_op::count)> operations = [] {
  using k = pipeline_op; using s = op_stream; using u = op_unit; using r = op_resource;
  using p = op_partner;
  return std::array<op_facts, static_cast<size_t>(k::count)>{{
    {k::forward, "forward", s::compute, u::tokens, r::device,
     {{{k::receive_activation}, {k::all_gather, false}}}, p::none, k::count, p::next, true},
    {k::backward, "backward", s::compute, u::tokens, r::device,
     {{{k::receive_gradient}, {k::all_gather, false}}},  // replicas' weights that lie on drives
     p::none, k::count, p::previous, false, true},
    {k::evaluate, "evaluate", s::compute, u::tokens, r::device,
     {{{k::receive_activation}, {k::all_gather, false}}}, p::none, k::count, p::next, true, true},
    {k::receive_activation, "receive_activation", s::forward_in, u::bytes, r::transfer,
     {}, p::previous, k::send_activation},
    {k::receive_gradient, "receive_gradient", s::backward_in, u::bytes, r::transfer,
     {}, p::next, k::send_gradient},
    {k::begin, "begin", s::compute},
    {k::recheck, "recheck", s::compute, u::tokens, r::device, {{{k::all_gather, false}}}},
    {k::send_activation, "send_activation", s::forward_out, u::bytes, r::transfer,
     {{{k::forward}, {k::evaluate}}}, p::next},
    {k::send_gradient, "send_gradient", s::backward_out, u::bytes, r::transfer,
     {{{k::backward}}}, p::previous},
    {k::reduce_scatter, "reduce_scatter", s::data_parallel, u::bytes, r::transfer,
     {{{k::backward, false, true}}}, p::replicas},
    {k::norm, "norm", s::compute, u::parameters, r::device,
     {{{k::reduce_scatter, false}, {k::all_reduce_tied, false}}}},
    {k::all_reduce, "all_reduce", s::data_parallel, u::bytes, r::transfer,
     {{{k::norm, false}, {k::reduce_scatter, false}}}, p::replicas},  // norms are noted behind sums
    {k::measure, "measure", s::compute, u::parameters, r::device,
     {{{k::update_chunk, false}}}},  // groups on a drive are measured where they are updated
    {k::all_gather_norms, "all_gather_norms", s::data_parallel, u::bytes, r::transfer,
     {{{k::measure, false}, {k::update_chunk}}}, p::replicas},  // of all chunks, or of one
    {k::update, "update", s::compute, u::parameters, r::device,
     {{{k::all_reduce, false}, {k::all_reduce_stages, false}, {k::all_gather_norms, false}}}},
    {k::all_gather, "all_gather", s::data_parallel, u::bytes, r::transfer,
     {{{k::update, false, true}, {k::read_weights}}}, p::replicas},  // the own slice, by chunk
    {k::capture, "capture", s::snapshot, u::bytes, r::file},
    {k::load, "load", s::files, u::bytes, r::file},
    {k::await_copies, "await_copies", s::compute},
    {k::digest, "digest", s::compute, u::bytes},
    {k::read_weights, "read_weights", s::weights_in, u::bytes, r::file},
    {k::read_state, "read_state", s::state_in, u::bytes, r::file},
    {k::update_chunk, "update_chunk", s::update, u::none, r::device,
     {{{k::read_state}, {k::backward, false, true}, {k::reduce_scatter}, {k::all_gather_norms}}}},
    {k::write_chunk, "write_chunk", s::state_out, u::bytes, r::file, {{{k::update_chunk}}}},
    {k::await_weights, "await_weights", s::compute},
    {k::write_activation, "write_activation", s::spill_out, u::bytes, r::file,
     {{{k::forward, false, true}}}},
    {k::read_activation, "read_activation", s::spill_in, u::bytes, r::file,
     {{{k::write_activation}}}},
    {k::await_activations, "await_activations", s::compute},
    {k::await_replicas, "await_replicas", s::compute},
    {k::all_reduce_tied, "all_reduce_tied", s::data_parallel, u::bytes, r::transfer,
     {{{k::backward, false}}}, p::ends},
    {k::all_reduce_stages, "all_reduce_stages", s::data_parallel, u::bytes, r::transfer,
     {{{k::norm, false}, {k::all_reduce, false}}}, p::stages},
    {k::all_reduce_moves, "all_reduce_moves", s::data_parallel, u::bytes, r::transfer,
     {{{k::update, false}}}, p::replicas},
  }};
}();
// clang-format on

static_assert(std::all_of(operations.begin(), operations.end(),
                          [](const op_facts& op) {
                            const bool with_neighbour =
                                op.with == op_partner::previous || op.with == op_partner::next;
                            return with_neighbour == (op.stream >= first_transfer_stream);
                          }),
              "what is moved with a neighbour, and nothing else, is on a stream for that");

constexpr const op_facts& facts_of(pipeline_op kind) noexcept {
  return operations[static_cast<size_t>(kind)];
}

static_assert(std::all_of(operations.begin(), operations.end(), [](const op_facts& f) {
  return !f.name.empty() && &facts_of(f.kind) == &f;  // a row at each kind's place
}));

/// Null where no operation has that name.
constexpr const op_facts* operation_named(std::string_view name) noexcept {
  for (const auto& f : operations)
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace troupe::train
