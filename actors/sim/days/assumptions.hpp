// Every number that a simulation of days takes from elsewhere, in one table: name, value, unit and
// whose it is. What our own actors need is measured (protocol_times.hpp); none of these comes from
// a loopback. "ours" marks what nobody has published: a choice, told with each result.
#pragma once

#include <array>
#include <string_view>

namespace troupe::sim {

struct assumption {
  std::string_view name;
  double value;
  std::string_view unit, source;
};

namespace assumed {

inline constexpr assumption step_s{"step_s", 6.34, "s", "MegaScale table 2: 12,288 GPUs"};
inline constexpr assumption parameters{"parameters", 175e9, "count", "MegaScale table 2: 175B"};
inline constexpr assumption weight_bytes{"weight_bytes", 2, "bytes a parameter", "bfloat16"};
inline constexpr assumption optimizer_bytes{"optimizer_bytes", 12, "bytes a parameter",
                                            "float32 master, m and v"};
inline constexpr assumption rows_a_replica{
    "rows_a_replica", 32, "rows a step",
    "MegaScale table 2: a batch of 6,144 rows, one a micro-batch, on 192 replicas"};
inline constexpr assumption heads{"heads", 3, "count",
                                  "ours: cluster.heads; its nodes are voters, too"};
inline constexpr assumption copies_every{"copies_every", 1, "steps",
                                         "ours: checkpoint.memory.every, where --copies says no "
                                         "other"};
inline constexpr assumption ranks_a_replica{"ranks_a_replica", 64, "GPUs",
                                            "MegaScale table 2: tensor 8 x pipeline 8"};
inline constexpr assumption checkpoint_every{"checkpoint_every", 50, "steps",
                                             "ours, where --checkpoint-every says no other"};
inline constexpr assumption blocking_s{"blocking_s", 0.02, "s a save or copy",
                                       "ByteRobust table 8: 16,384 GPUs; 0.01 to 0.04 in all"};
inline constexpr assumption storage_rate{"storage_rate", 2e12, "bytes/s",
                                         "Llama 3 section 3.3.1: Tectonic, 2 TB/s sustained"};
inline constexpr assumption nic_rate{"nic_rate", 8 * 25e9 * 0.9, "bytes/s a node",
                                     "MegaScale section 3.6: 8 x 200 Gb/s; 90 %: Calculon"};

inline constexpr assumption hot_update_2048_s{"hot_update_2048_s", 46, "s", "ByteRobust table 7"};
inline constexpr assumption hot_update_4096_s{"hot_update_4096_s", 51, "s", "ByteRobust table 7"};
inline constexpr assumption hot_update_8192_s{"hot_update_8192_s", 54, "s", "ByteRobust table 7"};
inline constexpr assumption hot_update_16384_s{"hot_update_16384_s", 65, "s",
                                               "ByteRobust table 7; a process's start"};
inline constexpr assumption requeue_2048_s{"requeue_2048_s", 454, "s", "ByteRobust table 7"};
inline constexpr assumption requeue_4096_s{"requeue_4096_s", 545, "s", "ByteRobust table 7"};
inline constexpr assumption requeue_8192_s{"requeue_8192_s", 635, "s", "ByteRobust table 7"};
inline constexpr assumption requeue_16384_s{"requeue_16384_s", 768, "s",
                                            "ByteRobust table 7; of a job that has ended"};
inline constexpr assumption reschedule_share{
    "reschedule_share", 5.36 / 10.87, "of a requeue",
    "ByteRobust: standby against rescheduling (5.36 x) and against requeue (10.87 x)"};
inline constexpr assumption groups_2048_s{"groups_2048_s", 5, "s", "MegaScale section 3.5: under"};
inline constexpr assumption groups_10000_s{"groups_10000_s", 30, "s",
                                           "MegaScale section 3.5: under"};

inline constexpr assumption wrong_bits_person_s{
    "wrong_bits_person_s", 4289, "s", "ByteRobust table 6: NaN value, mean; seen by a person"};
inline constexpr assumption held_bits_share{
    "held_bits_share", 0.5, "of wrong bits",
    "ours: those that are held or sent, which digests of weights show; the others are computed so"};
inline constexpr assumption rechecks_to_wrong{
    "rechecks_to_wrong", 10, "rechecks",
    "ours: of so many layers that a sick device computes one is wrong"};
inline constexpr assumption right_end_share{
    "right_end_share", 0.5, "of links that stand still once",
    "ours: tests of pairs see a fault that stays; of one that passes, as a connection that stands "
    "and is dead, they see nothing, and the wait graph names either"};
inline constexpr assumption bad_verdict_share{
    "bad_verdict_share", 1e-3, "of examinations at join",
    "ours: a healthy host is called sick, and takes no ranks"};
inline constexpr assumption slow_share{"slow_share", 0.1, "of a step",
                                       "MegaScale section 6.3: slow hosts need 10 % longer"};
inline constexpr assumption warned_person_s{
    "warned_person_s", 14'400, "s",
    "ours: a person who is warned, while the job goes on, comes within four hours"};
inline constexpr assumption person_s{
    "person_s", 3000, "s", "ByteRobust section 8: unproductive for at most 50 min an incident"};
inline constexpr assumption stays_share{
    "stays_share", 32.52 / (32.52 + 22.7), "of device and link faults",
    "ByteRobust: resolved by eviction 32.52 %, by reattempt 22.7 %"};
inline constexpr assumption rollback_share{
    "rollback_share", 9.2 / (9.2 + 22.7), "of job faults",
    "ByteRobust: by rollback 9.2 %, by reattempt 22.7 %; a person rolls back"};
inline constexpr assumption llama3_person_share{
    "llama3_person_share", 3.0 / 56, "of job faults",
    "Llama 3 section 3.3.4 (from memory): a person was needed three times"};
inline constexpr assumption switch_nodes{"switch_nodes", 32, "nodes",
                                         "ours: a switch takes 32 machines along"};
inline constexpr assumption spare_returns_s{
    "spare_returns_s", 86'400, "s", "ours: ByteRobust sizes standbys by the failures of a day"};

inline constexpr std::array all = {step_s,
                                   parameters,
                                   weight_bytes,
                                   optimizer_bytes,
                                   rows_a_replica,
                                   heads,
                                   copies_every,
                                   ranks_a_replica,
                                   checkpoint_every,
                                   blocking_s,
                                   storage_rate,
                                   nic_rate,
                                   hot_update_2048_s,
                                   hot_update_4096_s,
                                   hot_update_8192_s,
                                   hot_update_16384_s,
                                   requeue_2048_s,
                                   requeue_4096_s,
                                   requeue_8192_s,
                                   requeue_16384_s,
                                   reschedule_share,
                                   groups_2048_s,
                                   groups_10000_s,
                                   wrong_bits_person_s,
                                   held_bits_share,
                                   rechecks_to_wrong,
                                   right_end_share,
                                   bad_verdict_share,
                                   slow_share,
                                   warned_person_s,
                                   person_s,
                                   stays_share,
                                   rollback_share,
                                   llama3_person_share,
                                   switch_nodes,
                                   spare_returns_s};

}  // namespace assumed

/// What others were published to need for each fault, whatever it was.
struct published_times {
  std::string_view name;
  double detect_s, restart_s;
  std::string_view source;
};
inline constexpr std::array published = {
    published_times{"megascale", 600, 900,
                    "MegaScale section 6.3: detected and diagnosed within 10 min on average, "
                    "caught up within 15"},
    published_times{"ft-hsdp", 0, 180, "FT-HSDP, abstract: 3 min a failure; 10 min without it"}};

}  // namespace troupe::sim
