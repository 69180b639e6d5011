// The configuration of one training job, as plain structs: what a TOML file, the environment and
// --set say once they are merged, checked and settled (load.hpp does that).
//
// Why plain structs: the coordinator, the nodes, the benchmarks and the tests all take a job by
// value and none of them should know where a value came from. properties.hpp describes every member
// with its key, bounds and sentence; a member without a property does not exist for users, and a
// test holds the two together.
//
// Invariants of a job that load() or parse() returned:
// J-1 cluster.node names every node (name, host, workers filled), the spares last, and
//     cluster.nodes and cluster.spares count them; those that are no spares begin with those
//     of parallel.nodes, in its order. With launch "external" and mere numbers these are slots for
//     whoever joins.
// J-2 parallel.data * parallel.pipeline is the number of workers; train.micro_batch divides
//     train.batch / parallel.data.
// J-3 job.output, checkpoint.dir, checkpoint.second.dir and data.cache hold no "{...}" placeholders
//     any more.
// J-4 parse(to_toml(job)) is the same job.
// J-5 Without model.path, no "auto", 0 or -1 is left in model, but vocab (the tokenizer's size).
// J-6 Each finding that a job acts on (acted_on) has a rule in recovery.rule; no other has one.
// J-7 health.log_rule has the configuration's own rules first, then default ones whose names none
//     of them has; all of them can be used: names are unique, and each match is RE2's or empty.
// J-8 Each drill of inject names a rank or a node that the job has, and a wrong bit can be found.
// J-9 data.path or data.source says what is trained on, never both.
// J-10 Where nodes hang on several power budgets power.racks has each of them, with its nodes, and
//     each node is in one; else it is empty.
// Paths are as written: relative ones are relative to the working directory of the process that
// reads them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/base/findings.hpp"
#include "io/base/model_config.hpp"
#include "io/base/rank_grid.hpp"

namespace troupe::config {

/// Who starts the node processes: this machine, ssh, or a scheduler (Slurm, Kubernetes).
enum class launch_mode : uint8_t { local, ssh, external };
/// What the workers compute on. `automatic` = GPUs when every node has one for each of its workers.
enum class device_kind : uint8_t { automatic, host, cuda };
/// Where the first weights come from. `automatic` = pretrained when model.path is set, else random.
enum class weight_init : uint8_t { automatic, random, pretrained };
/// Number format of the computation; master weights and optimizer state are float32 in both.
enum class compute_dtype : uint8_t { f32, bf16 };
/// What data.path holds. `automatic` = by magic number and file name.
enum class data_format : uint8_t { automatic, text, json, llmc, nanogpt };
/// The update rule.
enum class optimizer_kind : uint8_t { adamw, lamb };
/// The shape of the learning rate over steps, after the linear warmup.
enum class lr_schedule : uint8_t { constant, linear, cosine, wsd };
/// Which parameters weight decay touches: tensors of two or more dimensions, or every tensor.
enum class decay_scope : uint8_t { matrices, all };
/// The order of forward and backward of micro-batches on pipeline stages.
enum class pipeline_schedule : uint8_t { one_f_one_b, by_layer };

/// How layers are shared out among the stages where nobody says how many each has.
enum class stage_placement : uint8_t { even, measured };
/// What becomes of a checkpoint that is due while older ones are still being written.
enum class when_busy : uint8_t {
  block,    ///< training waits
  skip,     ///< it is left out
  stretch,  ///< it is taken after the first step at whose end there is room
};
/// By what a silent node is judged: cluster.suspect_after_ms and dead_after_ms, or how long its
/// heartbeats usually take, too (phi accrual).
/// How a step that swaps learns the norm of all gradients before its updates count.
enum class clip_way : uint8_t { automatic, speculate, hold, twice };
enum class weights_choice : uint8_t { automatic, stored, derived };

enum class liveness_detector : uint8_t { fixed, phi };
/// How nodes' machines are probed before their first steps.
enum class probe_depth : uint8_t { off, quick, full };
/// By what a job takes the slack of its stages: nothing, or power.profile.
enum class slack_source : uint8_t { off, plan };
/// How steps are printed. `automatic` = a rewriting line on a terminal, plain lines otherwise.
enum class log_format : uint8_t { automatic, plain, json };

/// [job]
struct job_section {
  std::string name = "troupe";         ///< names the run and its folder
  int64_t seed = 1234;                 ///< seeds weights, shuffling and sampling
  std::string output = "runs/{name}";  ///< folder of log.jsonl and the summary
  bool operator==(const job_section&) const = default;
};

/// One [[cluster.node]].
struct node_spec {
  std::string name;     ///< unique in the cluster, e.g. "node0"
  std::string host;     ///< where it runs: an address or name; "localhost" for local ones
  int64_t workers = 0;  ///< workers (devices) on it; at least 1 once settled
  bool spare = false;   ///< it stands in for a node that is lost; until then it runs no ranks
  std::string power_parent = {};  ///< that feeds its machine (power_rack); empty: power.parent
  bool operator==(const node_spec&) const = default;
};

/// [cluster.tls], and [tls] of a power budget: PEM files; all three or none.
struct tls_section {
  std::string ca;           ///< authority that every peer's certificate must descend from
  std::string certificate;  ///< this process's certificate; "{node}" stands for the node's name
  std::string key;          ///< its private key; "{node}" stands for the node's name
  bool enabled() const { return !certificate.empty(); }
  /// All three are named, or none is.
  bool is_whole() const {
    return ca.empty() == certificate.empty() && certificate.empty() == key.empty();
  }
  bool operator==(const tls_section&) const = default;
};

/// Heads of a job at most.
inline constexpr size_t most_heads = 9;

/// [cluster]
struct cluster_section {
  int64_t nodes = 1;            ///< number of nodes without spares
  int64_t spares = 0;           ///< number of spares
  std::vector<node_spec> node;  ///< every node, in rank order; then the spares
  launch_mode launch = launch_mode::local;
  std::string listen = "127.0.0.1";  ///< address the coordinator listens on
  int64_t port = 0;                  ///< port of it; 0 = the system picks a free one
  std::string advertise;             ///< address nodes are told to join; empty = listen
  /// Addresses ("HOST:PORT") of the heads, each of which may act; empty = one, as above says.
  std::vector<std::string> heads;
  int64_t workers_per_node = 1;
  device_kind device = device_kind::automatic;
  int64_t threads = 0;  ///< compute threads of one worker; 0 = cores of the node / its workers
  int64_t heartbeat_interval_ms = 1000;
  int64_t suspect_after_ms = 3000;
  int64_t dead_after_ms = 10000;
  int64_t join_timeout_ms = 60000;
  bool insecure = false;                 ///< listen beyond loopback without certificates
  bool clear_text_tensors = false;       ///< allow tensors between hosts in the clear, despite TLS
  std::string ssh_command = "ssh";       ///< program and options that run a command on a host
  std::string remote_binary = "troupe";  ///< the program's path on the other hosts
  tls_section tls;
  bool operator==(const cluster_section&) const = default;
  /// Nodes that have ranks from the start: so many, the first of `node`.
  int64_t places() const {
    return std::count_if(node.begin(), node.end(), [](const auto& n) { return !n.spare; });
  }
};

/// A choice that may be left open: "auto".
template <class T>
class or_auto {
 public:
  constexpr or_auto() = default;
  constexpr or_auto(T value) : word_(static_cast<uint8_t>(1 + static_cast<uint8_t>(value))) {}
  /// What was chosen, or else `standard`.
  constexpr T value_or(T standard) const {
    return word_ == 0 ? standard : static_cast<T>(word_ - 1);
  }
  bool operator==(const or_auto&) const = default;

 private:
  uint8_t word_ = 0;  // of the words of the property table, which writes it: "auto" is the first
};

/// [model]: what is said of a model, over what model.path's config.json says, or over the family's
/// defaults when there is no path. Not a model_config itself: zero and "auto" leave a number to
/// those, and a job says so for as long as it lives.
struct model_section {
  or_auto<model_family> family;
  std::string path;  ///< Hugging Face folder; empty = the keys below give the shape
  weight_init init = weight_init::automatic;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  ///< 0 = heads
  int64_t hidden = 0;
  int64_t ffn = 0;          ///< 0 = 4C for gpt2; 8/3 C rounded up to a multiple of 64 for llama
  int64_t vocab = 0;        ///< 0 = the tokenizer's size
  int64_t max_seq_len = 0;  ///< 0 = train.seq_len
  double norm_eps = 0;      ///< 0 = 1e-5
  double rope_theta = 0;    ///< 0 = 10000
  or_auto<bool> tied;       ///< head shares the embedding; gpt2 yes, llama no
  or_auto<block_form> parallel_block;
  /// Keys a query sees, itself included; 0 = all before it; -1 = as path says, else 0.
  int64_t sliding_window = -1;
  double dropout = -1;  ///< -1 = path's folder must not ask for any; 0 = none whatever it asks for
  double init_std = 0.02;
  compute_dtype dtype = compute_dtype::f32;
  bool recompute = false;  ///< recompute activations in backward rather than keep them
  bool operator==(const model_section&) const = default;

  /// The model that these keys make of `base`, for sequences of `seq_len` tokens. Not checked.
  model_config over(model_config base, int64_t seq_len) const;
};

/// Sources of one job.
inline constexpr size_t most_sources = 64;

/// One [[data.source]]: data of its own, of which a share of all windows is.
struct source_spec {
  std::vector<std::string> path;  ///< as data.path
  double weight = 1.0;            ///< its share of the windows, relative to the others'
  std::string name;               ///< in what is printed; empty = its paths
  std::string text_field;         ///< as data.text_field; empty = that
  bool operator==(const source_spec&) const = default;
};

/// [data]
struct data_section {
  std::vector<std::string> path;  ///< files and folders, in order
  data_format format = data_format::automatic;
  std::string tokenizer = "bytes";  ///< "bytes", or a tokenizer.json, merges or SentencePiece file
  or_auto<bool> add_bos;            ///< before each document; auto: where the tokenizer's files say
  bool reset_attention = false;  ///< attend within documents only, positions from their first token
  int64_t document_end = -1;     ///< token that ends one, for that; -1 = the tokenizer's
  bool shuffle = true;
  std::vector<std::string> validation_path;
  /// Share of the training data held out when validation_path is empty, in [0, 0.5].
  double validation_fraction = 0.0;
  std::string cache = "{output}/cache";  ///< folder of tokenised text
  bool strip_gutenberg = false;  ///< leave out what Project Gutenberg wraps around its books
  std::string text_field = "text";  ///< of a JSON record, what holds its text
  std::vector<source_spec> source;  ///< instead of path: what is mixed, by weight
  bool operator==(const data_section&) const = default;

  /// What is trained on, names and fields filled in; data.path is one source, without a name.
  std::vector<source_spec> sources() const;
  /// What is validated on, where that is apart.
  source_spec validation() const { return {validation_path, 1.0, "", text_field}; }
};

/// [train]
struct train_section {
  int64_t steps = 1000;
  int64_t batch = 8;        ///< sequences per optimizer step, over all ranks
  int64_t micro_batch = 0;  ///< sequences per forward on one data rank; 0 = batch / parallel.data
  int64_t seq_len = 256;    ///< tokens per sequence
  optimizer_kind optimizer = optimizer_kind::adamw;
  double lr = 3e-4;
  double min_lr_ratio = 0.1;  ///< the schedule ends at lr * this (linear, cosine, wsd)
  int64_t warmup_steps = 0;
  lr_schedule schedule = lr_schedule::cosine;
  int64_t decay_steps = 0;  ///< wsd: length of the last, falling part; 0 = a tenth of steps
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  decay_scope decay = decay_scope::matrices;
  bool lamb_trust_always = true;     ///< false: ratio 1 on tensors without decay, as apex FusedLAMB
  double clip_norm = 1.0;            ///< global gradient norm; 0 = off
  bool stochastic_rounding = false;  ///< bf16: weights are rounded up or down by chance
  int64_t validate_every = 0;        ///< steps between validations; 0 = never
  int64_t validate_batches = 8;      ///< global batches per validation
  std::string sample_prompt;         ///< prompt of the sample in the summary
  int64_t sample_tokens = 0;         ///< tokens of that sample; 0 = no sample
  bool operator==(const train_section&) const = default;
};

/// [parallel]
struct parallel_section {
  int64_t data = 0;      ///< replicas; 0 = workers / pipeline; at least 1 once settled
  int64_t pipeline = 1;  ///< stages
  pipeline_schedule schedule = pipeline_schedule::one_f_one_b;
  std::string layers;  ///< of each stage, "8,4"; empty = a checkpoint's, or a split of its own
  stage_placement placement = stage_placement::even;  ///< of a split of its own
  std::string nodes = {};  ///< by their ranks, "b,a"; empty = a checkpoint's, or as listed

  /// Nothing unless `layers` are numbers of at least 1, with commas between them.
  std::optional<std::vector<int64_t>> stage_layers() const;
  bool operator==(const parallel_section&) const = default;
};

/// [checkpoint.second]: where committed checkpoints are copied to in the background.
struct second_tier_section {
  std::string dir;               ///< empty = there is no second tier
  int64_t every = 0;             ///< only steps that are multiples, and the last; 0 = each
  int64_t bytes_per_second = 0;  ///< of the copying, at most; 0 = no limit
  int64_t wait_s = 600;          ///< the end of a run waits for the last copy, at most
  int64_t keep = 0;              ///< the three rules of retention, as of checkpoint_section
  int64_t keep_every = 0;
  int64_t keep_best = 0;
  bool operator==(const second_tier_section&) const = default;
};

/// [checkpoint.memory]: copies of the state in the memory of the nodes.
struct memory_section {
  int64_t every = 0;                 ///< steps between two copies; 0 = none are taken
  int64_t bytes = int64_t{4} << 30;  ///< of one node's process, for all its copies, at most
  bool operator==(const memory_section&) const = default;
};

/// [swap.rates]: of the machine, by which it was chosen what layers keep; all 0: it was not chosen
/// so.
struct swap_rates_section {
  int64_t read_bytes_s = 0;   ///< of the drives
  int64_t write_bytes_s = 0;  ///< the same
  double duplex = 0;          ///< share of the shorter that reads and writes at once save
  int64_t flops_s = 0;        ///< of a layer's products
  int64_t updates_s = 0;      ///< parameters of the optimizer's rule
  /// Of all processors of the hosts, where they make all three; 0: others do, or it is not known.
  int64_t processor_flops_s = 0, processor_updates_s = 0, processor_sum_bytes_s = 0;
  bool operator==(const swap_rates_section&) const = default;
};

/// [swap]: what does not fit into memory lives on a drive.
struct swap_section {
  std::vector<std::string> dir;  ///< folders on local drives; empty = off
  int64_t host_bytes = 0;  ///< memory of a node's process for its ranks; 0 = 80 % of what there is
  int64_t device_bytes = 0;  ///< memory of a GPU for its ranks; 0 = what it has less a reserve
  bool verify = true;      ///< what is read is summed
  bool consume = false;    ///< a resume without room for two copies gives its checkpoint up
  clip_way clip = clip_way::automatic;
  weights_choice weights = weights_choice::automatic;  ///< of bfloat16
  /// Layers of each stage, the last ones, that keep their activations; of those before them such
  /// as have them on the drive; and before them such as keep their input and x + attention. All
  /// -1: what makes a step shortest here.
  int64_t keep_layers = -1, spill_layers = -1, half_layers = -1;
  int64_t patience_s = 600;  ///< that a step waits for room, where a write has failed
  int64_t rated_tbw = 0;     ///< terabytes that the drive is rated to be written; 0 = not known
  swap_rates_section rates;
  bool operator==(const swap_section&) const = default;
};

/// [checkpoint]
struct checkpoint_section {
  std::string dir = "{output}/checkpoints";
  int64_t every = 0;  ///< steps between checkpoints; 0 = only at the end
  /// Retention; a checkpoint that any rule keeps is kept. All 0 = every checkpoint.
  int64_t keep = 0;        ///< so many of the newest
  int64_t keep_every = 0;  ///< steps that are multiples
  int64_t keep_best = 0;   ///< so many of the smallest validation losses
  /// "auto" = the newest whole one of both tiers if any, "never", or a checkpoint's path.
  std::string resume = "auto";
  /// The last save of a run that fails is tried again so long, and in the second tier.
  int64_t room_wait_s = 600;
  bool adopt = false;  ///< folders that hold another job's checkpoints are taken over
  /// Memory of each rank through which its share of the state goes to the disk, at most; less where
  /// the share is smaller.
  int64_t ring_bytes = int64_t{256} << 20;
  int64_t slot_bytes = 0;  ///< of one slot of it; 0 = as the disk likes it, else 4 MiB
  config::when_busy when_busy = config::when_busy::block;
  bool export_model = true;  ///< at the end: {output}/model, a Hugging Face folder
  memory_section memory;
  second_tier_section second;
  bool operator==(const checkpoint_section&) const = default;
};

/// [timeouts]: how long an answer may take before who asked gives up. Calls whose contract names
/// one of these keys (messages/schemas) take it from here.
struct timeouts_section {
  int64_t start_s = 1800;     ///< of a phase of the start: open the data, build, load (RUN-7)
  int64_t step_s = 600;       ///< of a step, and of a validation, on one rank
  int64_t operation_s = 600;  ///< of one operation of a worker
  int64_t save_s = 600;       ///< of a rank's share of a checkpoint, and of the commit
  bool operator==(const timeouts_section&) const = default;
};

/// What a job does about a finding.
enum class recovery_action : uint8_t {
  restart,  ///< a new epoch from the newest checkpoint; a lost node's process is started again
  hold,     ///< the same; then it pauses until a person resumes it
  end,      ///< it ends
};

inline constexpr std::array<std::string_view, 3> recovery_action_words{"restart", "hold", "end"};

/// One [[recovery.rule]].
struct recovery_rule {
  health::finding_name finding = health::finding_name::dead_process;
  recovery_action action = recovery_action::restart;
  int64_t within_s = 3600;
  int64_t times = 0;  ///< that it is applied within within_s, before the next of the finding; 0:
                      ///< any number
  bool operator==(const recovery_rule&) const = default;
};

/// What a job that has begun is told of nodes, and acts on. Other findings are told to persons.
inline constexpr std::array acted_on{
    health::finding_name::dead_process,   health::finding_name::lost_host,
    health::finding_name::frozen_process, health::finding_name::half_open_link,
    health::finding_name::cut_pair,       health::finding_name::stuck_collective,
    health::finding_name::stuck_device,   health::finding_name::lost_device,
    health::finding_name::wrong_bits,     health::finding_name::straggler,
    health::finding_name::disk_failing};  // of a rank that swaps; what a log says of a disk is told

/// A rule for each of them.
inline std::vector<recovery_rule> default_rules() {
  std::vector<recovery_rule> out;
  for (const auto finding : acted_on) out.push_back({.finding = finding});
  return out;
}

/// What is done where the loss rises far beyond what it varied, or is no number.
enum class spike_action : uint8_t {
  tell,         ///< a finding; a loss that is no number ends the job
  rewind,       ///< back to an earlier state
  rewind_skip,  ///< back, and past the data of the steps since
};
inline constexpr std::array<std::string_view, 3> spike_action_words{"tell", "rewind",
                                                                    "rewind_skip"};

/// [recovery]: what a job that has begun does when a node of it is lost.
struct recovery_section {
  bool enabled = true;        ///< go on from the last checkpoint in the same processes
  int64_t quiet_ms = 10'000;  ///< for the ranks of a node that lives to end; else it is lost, too
  int64_t wait_s = 600;       ///< for nodes that are missing, before the job ends
  bool fewer_replicas = true;  ///< go on with fewer where a node stays away and no spare is there
  int64_t return_s = 60;       ///< for a node to come back, before that
  int64_t most_per_hour = 10;
  int64_t stuck_after_s = 30;  ///< that a rank holds up all others; 0: it may for ever
  bool evict_slow = false;     ///< a spare takes the place of a node that is slow for long
  int64_t head_grace_s = 60;  ///< that nodes wait for another head; 0: they end with theirs
  int64_t head_takeover_s = 10;  ///< that a standby waits for the head that acts
  spike_action on_spike = spike_action::tell;
  int64_t spike_steps_back = 100;  ///< from the first step of a spike, before on_spike's state
  std::vector<recovery_rule> rule = default_rules();  ///< the first with budget left is applied
  bool operator==(const recovery_section&) const = default;
};

/// Rules for lines of logs, the default ones among them.
inline constexpr size_t most_log_rules = 64;

/// One [[health.log_rule]].
struct log_rule_spec {
  std::string name;   ///< unique; a default rule's takes that one's place
  std::string match;  ///< a regular expression of RE2; empty = no line fits: the rule is off
  health::finding_name finding = health::finding_name::log_rule;
  bool operator==(const log_rule_spec&) const = default;
};

/// What is looked for in every log, as log_rules.cpp has it.
const std::vector<log_rule_spec>& default_log_rules();

/// What goes wrong in a drill.
enum class drill_kind : uint8_t {
  slow,       ///< computations take longer
  hang,       ///< the device does not end an operation
  wrong_bit,  ///< a bit of the weights turns
  wrong_product,  ///< a bit of what is computed to be compared turns
  fail,       ///< the process is killed
  disk_slow,  ///< writes of a checkpoint take longer
  drop,       ///< nothing that the process says to others arrives
};

/// Drills of a job.
inline constexpr size_t most_drills = 64;

/// One [[inject]]: a fault that is made on purpose.
struct drill_spec {
  std::string who;  ///< "rank 2", or a node's name: all ranks that its process has then
  drill_kind what = drill_kind::fail;
  int64_t from_step = 1;  ///< the first step that it acts in
  int64_t every = 0;      ///< steps from one that it acts in to the next; 0: there is no next
  double factor = 0;      ///< how many times as long; 0 where nothing takes longer
  bool operator==(const drill_spec&) const = default;
};

/// [health]: what is noticed of nodes and ranks.
struct health_section {
  int64_t stuck_after_s = 3;  ///< no rank's operation ends for so long; at least 5 x its median
  liveness_detector detector = liveness_detector::fixed;
  int64_t digest_every = 10;  ///< steps; then replicas compare their weights; 0: never
  int64_t recheck_every = 100;  ///< steps; then ranks compute a layer to be compared; 0: never
  double spike_deviations = 8;  ///< above the last losses' median; then it is a spike; 0: never
  int64_t window_s = 10;  ///< that steps are gathered over, at least, before they are judged
  int64_t straggler_percent = 10;   ///< of a step that goes to a slow rank; 0: none is named
  int64_t regression_percent = 20;  ///< that steps take longer than they did; 0: nobody cares
  bool checkup_at_join = true;  ///< a node whose processors or memory err takes no ranks
  bool checkup_on_suspicion = true;  ///< the machine of a node that a finding names is examined
  std::vector<log_rule_spec> log_rule = default_log_rules();  ///< a line counts for the first
  bool operator==(const health_section&) const = default;
};

/// [predict]
struct predict_section {
  bool enabled = true;           ///< what steps take is learned while they are made
  std::string store = {};  ///< file in which that is kept; empty: part-times.jsonl in job.output
  std::string prior = {};  ///< a model file: how quick machines are; empty: probes alone say it
  int64_t suspect_percent = 10;  ///< that a part of a rank's step takes longer; 0: none is named
  int64_t quiet_steps = 32;      ///< of an epoch, that make what is normal
  probe_depth probe = probe_depth::quick;  ///< of each machine, before the first steps on it
  int64_t memory = 512;  ///< configurations of each part that are learned from, the newest
  bool operator==(const predict_section&) const = default;
};

/// What one power budget feeds of a job whose machines hang on several.
struct power_rack {
  std::string parent;              ///< as power.parent
  std::vector<std::string> nodes;  ///< their names, spares among them
  bool operator==(const power_rack&) const = default;
};
/// Power budgets above a job at most.
inline constexpr size_t most_power_racks = 256;

/// [power]
struct power_section {
  int64_t meter_interval_ms = 1000;  ///< between two readings of a node's meters; 0 = none are read
  double model_idle_w = 0;  ///< of a machine whose processors nobody measures; without its GPUs
  double model_core_w = 0;  ///< more for each of its processors that works all the time
  double budget_w = 0;      ///< what the job's machines may draw together; 0: nobody keeps count
  std::string parent;       ///< the power budget above the job (budget_place.hpp); empty: none
  std::string parent_key;   ///< a file: proves the job to that one, where it is given by HOST:PORT
  /// What may make steps slower, by preference (power_control.hpp): "cgroup" bounds the processor
  /// time of threads that compute, "cpufreq" the clock of processors, "rapl" the watts of their
  /// packages, "nvml_clocks" and "nvml_limit" those of GPUs, "pace" holds operations back; empty:
  /// pace.
  std::vector<std::string> control = {};
  std::string agent_socket;  ///< where the machine's agent is asked for what nobody here may set
  double ramp_w_s = 0;   ///< by how much what they draw may rise a second; 0: at once
  bool dry_run = false;  ///< what the budget would have done is written, and nothing is held back
  std::string textfile;     ///< a file that says what it draws, for Prometheus; empty: none
  slack_source slack = slack_source::off;  ///< lower clocks where no step becomes longer by them
  std::string profile;    ///< a file (clock_profile.hpp): what operations take and draw, by clock
  double blocking_w = 0;  ///< of a device that waits for another stage
  /// No key: what nodes name as theirs (cluster.node.power_parent), of several; empty: all hang on
  /// `parent`.
  std::vector<power_rack> racks = {};
  bool operator==(const power_section&) const = default;

  /// Whether something bounds what the job's machines draw, or how fast that rises.
  bool is_budgeted() const { return budget_w > 0 || has_parent() || ramp_w_s > 0; }
  /// Whether a power budget above the job grants it watts, or several do.
  bool has_parent() const { return !parent.empty() || !racks.empty(); }
  bool takes_slack() const { return slack != slack_source::off; }
  /// Whether something is to make the job's devices slower for its pace, instead of pauses, or for
  /// slack.
  bool is_by_actuator() const {
    return (is_budgeted() || takes_slack()) && !dry_run && !control.empty() &&
           control.front() != "pace";
  }
  /// What may; empty: pauses alone.
  std::vector<std::string> actuators() const {
    return is_by_actuator() ? control : std::vector<std::string>();
  }
};

/// [log]
struct log_section {
  log_format format = log_format::automatic;
  int64_t every = 1;  ///< steps between step lines on the terminal; log.jsonl has every step
  bool operator==(const log_section&) const = default;
};

/// Everything one training job is made from.
struct job {
  job_section job;
  cluster_section cluster;
  model_section model;
  data_section data;
  train_section train;
  parallel_section parallel;
  checkpoint_section checkpoint;
  swap_section swap;
  timeouts_section timeouts;
  recovery_section recovery;
  health_section health;
  predict_section predict;
  power_section power;
  log_section log;
  std::vector<drill_spec> inject;
  bool operator==(const config::job&) const = default;

  /// Workers over all nodes that are no spares.
  int64_t workers() const {
    int64_t sum = 0;
    for (const auto& n : cluster.node) sum += n.spare ? 0 : n.workers;
    return sum;
  }
  /// Puts the nodes that are no spares in the order of parallel.nodes; those that it does not name
  /// follow as they are (J-1). False, and nothing done: it names others, or one twice.
  bool order_nodes();
  /// The ranks, one for each worker.
  rank_grid grid() const {
    return {static_cast<int>(parallel.data), 1, static_cast<int>(parallel.pipeline)};
  }
  /// Micro-batches of one data rank per step (gradient accumulation).
  int64_t micro_batches() const { return grid().rows_each(train.batch) / train.micro_batch; }
  /// Tokens per optimizer step.
  int64_t tokens_per_step() const { return train.batch * train.seq_len; }
};

}  // namespace troupe::config
