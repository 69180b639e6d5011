// The property table: every key with its sentence and bounds. Add a key by adding its member to
// job.hpp and a row here; nothing else needs to know (docs/configuration.md is made again from
// this). Upper bounds are there so that no product of two keys can overflow 64 bits.
#include "io/config/table.hpp"

namespace troupe::config::detail {

namespace {

/// The row of a key: the members that lead to it from the job's own on.
template <auto... Members>
constexpr property key(std::string_view name, std::string_view about, bounds limits = {}) {
  return row<job, Members...>(name, about, limits);
}

using job_s = job_section;
using cluster_s = cluster_section;
using model_s = model_section;
using data_s = data_section;
using train_s = train_section;
using second_s = second_tier_section;
using memory_s = memory_section;
using timeouts_s = timeouts_section;

constexpr double million = 1e6;
constexpr double week_s = 7 * 24 * 3600;

constinit const property rows[] = {
    key<&job::job, &job_s::name>("job.name",
                                 "Names the run and its folder: letters, digits, '.', '_', '-'"),
    key<&job::job, &job_s::seed>("job.seed",
                                 "Seeds weights, shuffling and sampling; same seed, same losses",
                                 within(0, 9e15)),
    key<&job::job, &job_s::output>(
        "job.output", "Folder of log.jsonl and the summary; {name} is replaced by job.name"),

    key<&job::cluster, &cluster_s::nodes>(
        "cluster.nodes",
        "Number of nodes, called node0, node1 ...; [[cluster.node]] lists them instead",
        within(1, 16384)),
    key<&job::cluster, &cluster_s::spares>(
        "cluster.spares",
        "Number of further nodes, called after the others, that stand in for lost ones; in a list "
        "of [[cluster.node]] those with spare = true",
        within(0, 16384)),
    key<&job::cluster, &cluster_s::launch>(
        "cluster.launch",
        "Who starts the node processes: this machine (local), ssh, or a scheduler (external)"),
    key<&job::cluster, &cluster_s::listen>(
        "cluster.listen",
        "Address the coordinator listens on; beyond loopback it needs cluster.tls or insecure"),
    key<&job::cluster, &cluster_s::port>(
        "cluster.port", "TCP port of the coordinator; 0 = a free one that the system picks",
        within(0, 65535)),
    key<&job::cluster, &cluster_s::advertise>(
        "cluster.advertise",
        "Address the nodes are told to join; empty = cluster.listen, or this "
        "machine's name when that is a wildcard"),
    key<&job::cluster, &cluster_s::heads>(
        "cluster.heads",
        "Addresses (HOST:PORT) of heads, one of which acts while the others stand by; empty = one "
        "head, as cluster.listen and cluster.port say"),
    key<&job::cluster, &cluster_s::workers_per_node>(
        "cluster.workers_per_node", "Workers (one device each) on a node that does not say itself",
        within(1, 64)),
    key<&job::cluster, &cluster_s::device>(
        "cluster.device",
        "What workers compute on; auto = GPUs when every node has one for each of its workers, "
        "else the host; with cuda more workers than GPUs share them"),
    key<&job::cluster, &cluster_s::threads>(
        "cluster.threads",
        "Compute threads of one worker; 0 = the node's cores divided by its workers",
        within(0, 4096)),
    key<&job::cluster, &cluster_s::heartbeat_interval_ms>(
        "cluster.heartbeat_interval_ms", "Milliseconds between two heartbeats of a node",
        within(10, 3600e3)),
    key<&job::cluster, &cluster_s::suspect_after_ms>(
        "cluster.suspect_after_ms",
        "Milliseconds without a heartbeat after which a node is suspect", within(10, 3600e3)),
    key<&job::cluster, &cluster_s::dead_after_ms>(
        "cluster.dead_after_ms", "Milliseconds without a heartbeat after which a node is given up",
        within(10, 3600e3)),
    key<&job::cluster, &cluster_s::join_timeout_ms>(
        "cluster.join_timeout_ms", "Milliseconds within which every node must have joined",
        within(100, 24 * 3600e3)),
    key<&job::cluster, &cluster_s::insecure>(
        "cluster.insecure",
        "Allow to listen beyond loopback without certificates: keys of the job's secret are then "
        "the only proof; includes clear_text_tensors"),
    key<&job::cluster, &cluster_s::clear_text_tensors>(
        "cluster.clear_text_tensors",
        "Allow tensors to travel between hosts in the clear while messages use TLS: the data plane "
        "(Gloo) has none, so the network between the hosts must be trusted"),
    key<&job::cluster, &cluster_s::ssh_command>(
        "cluster.ssh_command",
        "Program and options that run a command on another host, for launch "
        "\"ssh\""),
    key<&job::cluster, &cluster_s::remote_binary>("cluster.remote_binary",
                                                  "Path of the troupe program on the other hosts"),
    key<&job::cluster, &cluster_s::tls, &tls_section::ca>(
        "cluster.tls.ca", "PEM file of the authority that every peer's certificate must come from"),
    key<&job::cluster, &cluster_s::tls, &tls_section::certificate>(
        "cluster.tls.certificate",
        "PEM file of this process's certificate; {node} is replaced by the "
        "node's name (\"coordinator\" for the coordinator)"),
    key<&job::cluster, &cluster_s::tls, &tls_section::key>(
        "cluster.tls.key", "PEM file of its private key; {node} is replaced by the node's name"),

    key<&job::model, &model_s::family>(
        "model.family", "Architecture; auto = what model.path says, gpt2 without a path"),
    key<&job::model, &model_s::path>("model.path",
                                     "Hugging Face folder whose config.json gives the shape and "
                                     "whose weights are the start; empty = the keys below"),
    key<&job::model, &model_s::init>(
        "model.init", "First weights; auto = pretrained with model.path, random without"),
    key<&job::model, &model_s::layers>("model.layers", "Transformer blocks; 0 = as model.path says",
                                       within(0, 4096)),
    key<&job::model, &model_s::heads>("model.heads", "Query heads; 0 = as model.path says",
                                      within(0, 4096)),
    key<&job::model, &model_s::kv_heads>(
        "model.kv_heads", "Key and value heads; 0 = as model.path says, or model.heads",
        within(0, 4096)),
    key<&job::model, &model_s::hidden>(
        "model.hidden", "Width of the residual stream; 0 = as model.path says", within(0, million)),
    key<&job::model, &model_s::ffn>(
        "model.ffn",
        "Width inside the MLP; 0 = as model.path says, or 4 hidden (gpt2), or 8/3 "
        "hidden rounded up to a multiple of 64 (llama)",
        within(0, 4 * million)),
    key<&job::model, &model_s::vocab>(
        "model.vocab", "Size of the vocabulary; 0 = as model.path says, or the tokenizer's",
        within(0, 16 * million)),
    key<&job::model, &model_s::max_seq_len>(
        "model.max_seq_len", "Longest sequence in tokens; 0 = as model.path says, or train.seq_len",
        within(0, 16 * million)),
    key<&job::model, &model_s::norm_eps>(
        "model.norm_eps", "Epsilon of LayerNorm or RMSNorm; 0 = as model.path says, or 1e-5",
        within(0, 1)),
    key<&job::model, &model_s::rope_theta>(
        "model.rope_theta",
        "Base of the rotary positions (llama); 0 = as model.path says, or 10000", within(0, 1e12)),
    key<&job::model, &model_s::tied>("model.tied",
                                     "The output head shares the token embedding; auto = as "
                                     "model.path says, or yes for gpt2 and no for llama"),
    key<&job::model, &model_s::parallel_block>(
        "model.parallel_block",
        "MLP and attention side by side instead of in turn, with one norm or two; auto = as "
        "model.path says, or none"),
    key<&job::model, &model_s::sliding_window>(
        "model.sliding_window",
        "Keys a query sees, itself included; 0 = all before it; -1 = as "
        "model.path says, or 0",
        within(-1, 16 * million)),
    key<&job::model, &model_s::dropout>(
        "model.dropout",
        "0 = train without dropout also where model.path asks for one; -1 = refuse such a folder; "
        "there is no dropout yet",
        within(-1, 1)),
    key<&job::model, &model_s::init_std>("model.init_std", "Standard deviation of random weights",
                                         within(0, 10)),
    key<&job::model, &model_s::dtype>("model.dtype",
                                      "Number format of the computation; master weights and "
                                      "optimizer state are f32 in both"),
    key<&job::model, &model_s::recompute>(
        "model.recompute", "Recompute activations in backward rather than keep them (less memory)"),

    key<&job::data, &data_s::path>(
        "data.path",
        "Files, patterns (shards/*.jsonl.gz) or folders to train on, in this order: text, JSON "
        "records, or tokens of llm.c, nanoGPT or Megatron (by the path without .bin and .idx)"),
    key<&job::data, &data_s::format>(
        "data.format",
        "text (JSON too, unparsed), json (records), or token files of llm.c or nanoGPT; auto = by "
        "what the files hold and their names"),
    key<&job::data, &data_s::tokenizer>("data.tokenizer",
                                        "For text: \"bytes\", or a tokenizer.json, merges or "
                                        "SentencePiece file, or the folder with it"),
    key<&job::data, &data_s::add_bos>(
        "data.add_bos",
        "Begin each document of text with the tokenizer's first token (BOS); auto = where its "
        "files say so, as transformers does"),
    key<&job::data, &data_s::reset_attention>(
        "data.reset_attention",
        "Attend within documents only: where a sequence holds several, attention and positions "
        "begin anew with each"),
    key<&job::data, &data_s::document_end>(
        "data.document_end",
        "For reset_attention, the id of the token that ends a document; -1 = the tokenizer's "
        "end-of-text token",
        within(-1, 16 * million)),
    key<&job::data, &data_s::shuffle>(
        "data.shuffle", "Visit the sequences in an order drawn from job.seed; false = as stored"),
    key<&job::data, &data_s::validation_path>("data.validation_path",
                                              "Files or folders for validation, never trained on"),
    key<&job::data, &data_s::validation_fraction>(
        "data.validation_fraction",
        "Share of the data held out for validation without "
        "data.validation_path",
        within(0, 0.5)),
    key<&job::data, &data_s::cache>(
        "data.cache", "Folder for tokenised text; {output} is replaced by job.output"),
    key<&job::data, &data_s::strip_gutenberg>(
        "data.strip_gutenberg",
        "Of text files that hold Project Gutenberg books, leave out what is before their START "
        "and after their END lines"),
    key<&job::data, &data_s::text_field>("data.text_field",
                                         "Of JSON records, the field that holds the text"),

    key<&job::train, &train_s::steps>("train.steps", "Optimizer steps to train", within(1, 1e9)),
    key<&job::train, &train_s::batch>("train.batch", "Sequences per step, over all data ranks",
                                      within(1, million)),
    key<&job::train, &train_s::micro_batch>(
        "train.micro_batch",
        "Sequences per forward pass of one data rank; 0 = batch / parallel.data",
        within(0, million)),
    key<&job::train, &train_s::seq_len>("train.seq_len", "Tokens per sequence",
                                        within(1, 16 * million)),
    key<&job::train, &train_s::optimizer>("train.optimizer", "The update rule"),
    key<&job::train, &train_s::lr>("train.lr", "Learning rate after the warmup", within(0, 100)),
    key<&job::train, &train_s::min_lr_ratio>(
        "train.min_lr_ratio", "The linear, cosine and wsd schedules end at lr times this",
        within(0, 1)),
    key<&job::train, &train_s::warmup_steps>(
        "train.warmup_steps",
        "Steps over which the learning rate rises from 0 to lr; one of a file is shortened to fit "
        "where --set train.steps leaves less",
        within(0, 1e9)),
    key<&job::train, &train_s::schedule>("train.schedule",
                                         "Learning rate after the warmup; wsd = constant, "
                                         "then a linear fall over the last decay_steps"),
    key<&job::train, &train_s::decay_steps>(
        "train.decay_steps", "Falling steps at the end of wsd; 0 = a tenth of train.steps",
        within(0, 1e9)),
    key<&job::train, &train_s::beta1>("train.beta1", "Decay of the first moment", below(0, 1)),
    key<&job::train, &train_s::beta2>("train.beta2", "Decay of the second moment", below(0, 1)),
    key<&job::train, &train_s::eps>("train.eps", "Added to the root of the second moment",
                                    above(0)),
    key<&job::train, &train_s::weight_decay>(
        "train.weight_decay", "Decoupled weight decay, times lr a step", within(0, 100)),
    key<&job::train, &train_s::decay>(
        "train.decay",
        "What decays: tensors of two or more dimensions (matrices) or every one (all)"),
    key<&job::train, &train_s::lamb_trust_always>(
        "train.lamb_trust_always",
        "LAMB: trust ratio on every tensor; false = only where weight decay applies"),
    key<&job::train, &train_s::clip_norm>(
        "train.clip_norm", "Largest global gradient norm; 0 = no clipping", at_least(0)),
    key<&job::train, &train_s::stochastic_rounding>(
        "train.stochastic_rounding",
        "bf16: round weights up or down by chance, so that small updates show on average"),
    key<&job::train, &train_s::validate_every>(
        "train.validate_every", "Steps between two validations; 0 = never", within(0, 1e9)),
    key<&job::train, &train_s::validate_batches>(
        "train.validate_batches", "Batches (of train.batch) in one validation", within(1, million)),
    key<&job::train, &train_s::sample_prompt>(
        "train.sample_prompt", "Prompt of the sample written at the end of training"),
    key<&job::train, &train_s::sample_tokens>(
        "train.sample_tokens", "Tokens of that sample; 0 = no sample", within(0, million)),

    key<&job::parallel, &parallel_section::data>(
        "parallel.data", "Replicas that share each batch; 0 = workers / pipeline",
        within(0, million)),
    key<&job::parallel, &parallel_section::pipeline>(
        "parallel.pipeline", "Stages the layers are split into; data times pipeline = workers",
        within(1, 4096)),
    key<&job::parallel, &parallel_section::schedule>(
        "parallel.schedule",
        "Order of forward and backward: 1f1b, or by_layer (one stage: a layer is done for all "
        "micro-batches before the next)"),
    key<&job::parallel, &parallel_section::layers>(
        "parallel.layers",
        "Layers of each stage in order, e.g. \"8,4\"; empty = as the checkpoint that is resumed "
        "from has it, or so that by their products the slowest stage is as quick as can be"),
    key<&job::parallel, &parallel_section::placement>(
        "parallel.placement",
        "How layers are shared out where neither parallel.layers nor a checkpoint says it: even = "
        "as if all nodes were alike; measured = each node measures a layer once all have joined, "
        "and a slow one gets fewer"),
    key<&job::parallel, &parallel_section::nodes>(
        "parallel.nodes",
        "Nodes in the order of their ranks, e.g. \"b,a\", others behind them as listed; empty = as "
        "the checkpoint has them whose layers are kept, or all as listed"),

    key<&job::checkpoint, &checkpoint_section::dir>(
        "checkpoint.dir", "Folder of the checkpoints; {output} is replaced by job.output"),
    key<&job::checkpoint, &checkpoint_section::every>(
        "checkpoint.every", "Steps between two checkpoints; 0 = only at the end", within(0, 1e9)),
    key<&job::checkpoint, &checkpoint_section::keep>(
        "checkpoint.keep",
        "Newest checkpoints that are kept; where this and the next two are 0, all are",
        within(0, million)),
    key<&job::checkpoint, &checkpoint_section::keep_every>(
        "checkpoint.keep_every", "Checkpoints of steps that are multiples of this are kept, too",
        within(0, 1e9)),
    key<&job::checkpoint, &checkpoint_section::keep_best>(
        "checkpoint.keep_best",
        "So many checkpoints with the smallest validation losses are kept, too",
        within(0, million)),
    key<&job::checkpoint, &checkpoint_section::resume>(
        "checkpoint.resume",
        "\"auto\" = from the newest whole checkpoint in checkpoint.dir or checkpoint.second.dir if "
        "there is one, \"never\", or the path of a checkpoint"),
    key<&job::checkpoint, &checkpoint_section::slot_bytes>(
        "checkpoint.slot_bytes",
        "Bytes of a write, a multiple of 4096; 0 = what the disk likes best where much is saved, "
        "else 4 MiB",
        within(0, 64 << 20)),
    key<&job::checkpoint, &checkpoint_section::room_wait_s>(
        "checkpoint.room_wait_s",
        "Seconds for which the last save of a run is tried again where it fails (a full disk, a "
        "folder that has disappeared), in checkpoint.second.dir as well",
        within(0, 30 * 24 * 3600.0)),
    key<&job::checkpoint, &checkpoint_section::adopt>(
        "checkpoint.adopt",
        "Start in a folder that holds another job's checkpoints: of another name, model or data"),
    key<&job::checkpoint, &checkpoint_section::ring_bytes>(
        "checkpoint.ring_bytes",
        "Memory of a rank through which its state is written to the disk, at most",
        within(16 << 20, 1e12)),
    key<&job::checkpoint, &checkpoint_section::when_busy>(
        "checkpoint.when_busy",
        "A checkpoint is due while two older ones are being written: \"block\" = training waits, "
        "\"skip\" = it is left out, \"stretch\" = it is taken at the next step that finds room"),
    key<&job::checkpoint, &checkpoint_section::export_model>(
        "checkpoint.export_model",
        "At the end write the model to {output}/model, a Hugging Face folder"),
    key<&job::checkpoint, &checkpoint_section::memory, &memory_s::every>(
        "checkpoint.memory.every",
        "Steps between two copies of the state in memory, each rank's share in its own process and "
        "in one of another node; 0 = none",
        within(0, 1e9)),
    key<&job::checkpoint, &checkpoint_section::memory, &memory_s::bytes>(
        "checkpoint.memory.bytes", "Memory of a node's process for all its copies, at most",
        within(4096, 1e15)),
    key<&job::checkpoint, &checkpoint_section::second, &second_s::dir>(
        "checkpoint.second.dir",
        "Folder that committed checkpoints are copied into in the "
        "background; empty = none; {output} is replaced by job.output"),
    key<&job::checkpoint, &checkpoint_section::second, &second_s::every>(
        "checkpoint.second.every",
        "Only checkpoints of steps that are multiples of this are copied, and the run's last; 0 = "
        "each that there is time for",
        within(0, 1e9)),
    key<&job::checkpoint, &checkpoint_section::second, &second_s::bytes_per_second>(
        "checkpoint.second.bytes_per_second", "Bandwidth of the copying, at most; 0 = no limit",
        within(0, 1e15)),
    key<&job::checkpoint, &checkpoint_section::second, &second_s::wait_s>(
        "checkpoint.second.wait_s",
        "Seconds that the end of a run waits for the copy of its last checkpoint, at most",
        within(0, 30 * 24 * 3600.0)),
    key<&job::checkpoint, &checkpoint_section::second, &second_s::keep>(
        "checkpoint.second.keep",
        "Newest checkpoints that are kept there; where this and the next "
        "two are 0, all are",
        within(0, million)),
    key<&job::checkpoint, &checkpoint_section::second, &second_s::keep_every>(
        "checkpoint.second.keep_every", "Those of steps that are multiples of this are kept, too",
        within(0, 1e9)),
    key<&job::checkpoint, &checkpoint_section::second, &second_s::keep_best>(
        "checkpoint.second.keep_best", "So many with the smallest validation losses are kept, too",
        within(0, million)),

    key<&job::swap, &swap_section::dir>(
        "swap.dir",
        "Folder on a local drive, or an array of folders on several drives, for weights and "
        "optimizer state that do not fit into memory; empty = off; {output} is replaced by "
        "job.output, {rank} by the number of a rank"),
    key<&job::swap, &swap_section::host_bytes>(
        "swap.host_bytes",
        "Memory of a node's process for what its ranks hold; 0 = 80 % of what the machine or its "
        "control group has, in equal shares where all nodes are on one",
        within(0, 1e15)),
    key<&job::swap, &swap_section::device_bytes>(
        "swap.device_bytes",
        "Memory of a GPU for what its ranks hold, in equal shares; then swap.host_bytes is for "
        "what goes between it and a drive, and the rest of the process; 0 = what the GPU has, less "
        "1 GiB or an eighth for its driver and libraries. No matter where the host computes",
        within(0, 1e15)),
    key<&job::swap, &swap_section::verify>("swap.verify",
                                           "Sum what is read from the drive, and compare"),
    key<&job::swap, &swap_section::consume>(
        "swap.consume",
        "Where the drive has no room for the state beside the checkpoint that the job goes on "
        "from, "
        "take that checkpoint's files for the state and give the checkpoint up: a kill then costs "
        "the run until there is another one. Else such a start is refused"),
    key<&job::swap, &swap_section::clip>(
        "swap.clip",
        "How a step learns the norm of all gradients before its updates count: speculate = it "
        "updates into a second copy on the drive, which is dropped and made again where the norm "
        "is above train.clip_norm; hold = it keeps all gradients, on the drive where memory has no "
        "room for them; twice = it makes its passes twice; auto = what the memory, the drive and "
        "the clipped steps so far allow. Stages have one norm, and hold"),
    key<&job::swap, &swap_section::weights>(
        "swap.weights",
        "Where bfloat16 weights of what lives on a drive are: stored = in files, 14 bytes a "
        "parameter with its master and moments; derived = nowhere, 12 bytes: masters are read and "
        "rounded; auto = stored, unless the drive has no room for them and has it for the rest. "
        "Losses and checkpoints are the same to the bit. No matter in float32"),
    key<&job::swap, &swap_section::keep_layers>(
        "swap.keep_layers",
        "The last layers of each stage, so many, keep what backward needs of them in memory, all "
        "others compute it again, and so do all where there is no room; -1, as swap.half_layers: "
        "`troupe up` chooses what makes a step shortest by the rates of this machine, or, where "
        "they are not known, model.recompute does. Losses are the same to the bit",
        within(-1, million)),
    key<&job::swap, &swap_section::spill_layers>(
        "swap.spill_layers",
        "So many layers before those of swap.keep_layers have what backward needs of them on the "
        "drive meanwhile, and nothing is computed again; -1: none where swap.keep_layers is given, "
        "else as that",
        within(-1, million)),
    key<&job::swap, &swap_section::half_layers>(
        "swap.half_layers",
        "So many layers before those keep their input and x + attention, so that one product less "
        "is computed again",
        within(-1, million)),
    key<&job::swap, &swap_section::patience_s>(
        "swap.patience_s",
        "Seconds that a step waits for room on the drive, where a write has failed and the file "
        "cannot be written anew; timeouts.step_s, operation_s and save_s are longer by that",
        within(0, week_s)),
    key<&job::swap, &swap_section::rated_tbw>(
        "swap.rated_tbw",
        "Terabytes that the drive is rated to be written (TBW), for `troupe plan` to say how many "
        "steps that is; 0 = not known",
        within(0, million)),
    key<&job::swap, &swap_section::rates, &swap_rates_section::read_bytes_s>(
        "swap.rates.read_bytes_s",
        "Bytes that the drives read in a second; 0 = not known: what layers keep stays as it is",
        within(0, 1e15)),
    key<&job::swap, &swap_section::rates, &swap_rates_section::write_bytes_s>(
        "swap.rates.write_bytes_s", "Bytes that they write in a second; 0 = not known",
        within(0, 1e15)),
    key<&job::swap, &swap_section::rates, &swap_rates_section::duplex>(
        "swap.rates.duplex",
        "Of the time of reads and that of writes, the share of the shorter that both at once save",
        within(0, 1)),
    key<&job::swap, &swap_section::rates, &swap_rates_section::flops_s>(
        "swap.rates.flops_s", "FLOP of a layer's products in a second; 0 = not known",
        within(0, 9e15)),
    key<&job::swap, &swap_section::rates, &swap_rates_section::updates_s>(
        "swap.rates.updates_s", "Parameters that are updated in a second; 0 = not known",
        within(0, 1e15)),
    key<&job::swap, &swap_section::rates, &swap_rates_section::processor_flops_s>(
        "swap.rates.processor_flops_s",
        "FLOP of products that all processors make in a second if they do nothing else; 0 = "
        "another device makes them, or not known",
        within(0, 9e15)),
    key<&job::swap, &swap_section::rates, &swap_rates_section::processor_updates_s>(
        "swap.rates.processor_updates_s",
        "Parameters that all processors update in a second if they do nothing else; 0 = another "
        "device does, or not known",
        within(0, 1e15)),
    key<&job::swap, &swap_section::rates, &swap_rates_section::processor_sum_bytes_s>(
        "swap.rates.processor_sum_bytes_s",
        "Bytes that all processors sum in a second if they do nothing else; 0 = not known",
        within(0, 1e15)),

    key<&job::timeouts, &timeouts_s::start_s>(
        "timeouts.start_s",
        "Seconds for a phase of the start on one node: open the data, build, load; of tokenising, "
        "without a word of how far it has come",
        within(1, week_s)),
    key<&job::timeouts, &timeouts_s::step_s>(
        "timeouts.step_s", "Seconds for a step, or a validation, on one rank", within(1, week_s)),
    key<&job::timeouts, &timeouts_s::operation_s>(
        "timeouts.operation_s",
        "Seconds for one operation of a worker: forward, backward, update of a micro-batch",
        within(1, week_s)),
    key<&job::timeouts, &timeouts_s::save_s>(
        "timeouts.save_s",
        "Seconds for a rank's share of a checkpoint, and for its commit, before it is given up",
        within(1, week_s)),

    key<&job::recovery, &recovery_section::enabled>(
        "recovery.enabled",
        "Go on from the last checkpoint when a node is lost: its process is started again, the "
        "others stay; false = the run ends"),
    key<&job::recovery, &recovery_section::quiet_ms>(
        "recovery.quiet_ms",
        "Milliseconds for the ranks of a node that lives to end in a recovery, before the node "
        "counts as lost, too",
        within(10, 3'600'000)),
    key<&job::recovery, &recovery_section::wait_s>(
        "recovery.wait_s", "Seconds for missing nodes to join in a recovery, before the run ends",
        within(1, week_s)),
    key<&job::recovery, &recovery_section::fewer_replicas>(
        "recovery.fewer_replicas",
        "Go on with fewer replicas where a node stays away and no spare can have its place, and "
        "with more once there are nodes again; false = the run waits for the node"),
    key<&job::recovery, &recovery_section::return_s>(
        "recovery.return_s",
        "Seconds for a lost node to come back, before the run goes on with fewer replicas",
        within(1, week_s)),
    key<&job::recovery, &recovery_section::most_per_hour>(
        "recovery.most_per_hour", "Recoveries within an hour; the run ends instead of one more",
        within(1, 1'000)),
    key<&job::recovery, &recovery_section::stuck_after_s>(
        "recovery.stuck_after_s",
        "Seconds that a rank may hold up all others, once it is found to, before its node is taken "
        "for lost; 0 = for ever",
        within(0, week_s)),
    key<&job::recovery, &recovery_section::evict_slow>(
        "recovery.evict_slow",
        "Take a node whose rank is a straggler in 5 windows one after the other for lost, where a "
        "spare can have its place; false = it is only told"),
    key<&job::recovery, &recovery_section::head_grace_s>(
        "recovery.head_grace_s",
        "Seconds that nodes whose head is lost keep what they hold and look for the one that is "
        "started in its place; 0 = they end with it",
        within(0, week_s)),
    key<&job::recovery, &recovery_section::head_takeover_s>(
        "recovery.head_takeover_s",
        "Seconds without a word of the head that acts after which one that stands by "
        "(cluster.heads) wants to act in its place",
        within(1, 3600)),
    key<&job::recovery, &recovery_section::on_spike>(
        "recovery.on_spike",
        "What is done where the loss rises far beyond what it varied (health.spike_deviations) or "
        "is no number: tell = that is said, and a loss that is no number ends the run; rewind = it "
        "goes back to an earlier state; rewind_skip = and passes over the data of the steps "
        "since"),
    key<&job::recovery, &recovery_section::spike_steps_back>(
        "recovery.spike_steps_back",
        "Steps before the first one of a spike to which recovery.on_spike goes back, at least; "
        "where no checkpoint is so old, to the newest one before the spike",
        within(0, 1'000'000'000)),

    key<&job::health, &health_section::stuck_after_s>(
        "health.stuck_after_s",
        "Seconds without an operation that ends on any rank after which the training counts as "
        "stuck, and who holds it up is looked for; at least 5 times what the operation took "
        "before, up to the greater of 10 minutes and timeouts.operation_s",
        within(1, week_s)),
    key<&job::health, &health_section::detector>(
        "health.detector",
        "By what a silent node is judged: fixed = cluster.suspect_after_ms and dead_after_ms, phi "
        "= "
        "how its heartbeats came so far, too: given up after dead_after_ms at the earliest, after "
        "three times that at the latest"),
    key<&job::health, &health_section::digest_every>(
        "health.digest_every",
        "Steps from one comparison of the replicas' weights, bit by bit, to the next; those after "
        "a checkpoint's step are compared, too; 0 = never",
        within(0, 1'000'000'000)),
    key<&job::health, &health_section::recheck_every>(
        "health.recheck_every",
        "Steps from one comparison of what ranks compute (one layer, forward and backward, on "
        "made-up numbers) to the next; 0 = never",
        within(0, 1'000'000'000)),
    key<&job::health, &health_section::spike_deviations>(
        "health.spike_deviations",
        "Three losses in a row above the median of the last 100 steps by so many times what those "
        "scattered are a spike; 0 = none is",
        within(0.0, 1e6)),
    key<&job::health, &health_section::window_s>(
        "health.window_s",
        "Seconds of training, and 3 steps, that stragglers and steps that take longer are judged "
        "by at a time",
        within(1, 3'600)),
    key<&job::health, &health_section::straggler_percent>(
        "health.straggler_percent",
        "Percent of a step that a rank must cost all others, by computing longer than its peers, "
        "to be a straggler; 0 = none is named",
        within(0, 100)),
    key<&job::health, &health_section::regression_percent>(
        "health.regression_percent",
        "Percent that steps must take longer, in 5 windows one after the other, than in the best "
        "5 of their epoch to be a step_regression; 0 = it is never told",
        within(0, 1'000)),
    key<&job::health, &health_section::checkup_at_join>(
        "health.checkup_at_join",
        "Before a node takes ranks it multiplies known matrices on each processor and tests some "
        "memory; one that errs is not taken"),
    key<&job::health, &health_section::checkup_on_suspicion>(
        "health.checkup_on_suspicion",
        "While the job trains, the machine of a node that a finding makes a suspect (straggler, "
        "wrong_bits, disk_slow, disk_failing, frozen_process) is examined as by `troupe doctor`, "
        "at most once in 10 minutes"),

    key<&job::predict, &predict_section::enabled>(
        "predict.enabled",
        "What each part of a step takes is learned while the job trains, for whoever asks what to "
        "expect; without it the job trains as with it"),
    key<&job::predict, &predict_section::store>(
        "predict.store",
        "File in which what parts of steps took is kept for later starts, and for jobs that name "
        "the same one; empty = part-times.jsonl in job.output"),
    key<&job::predict, &predict_section::prior>(
        "predict.prior",
        "Model file (.tpm) that `troupe predict train` made of machines: by it machines that were "
        "not probed are expected to be as quick beside others; empty = probes alone say that"),
    key<&job::predict, &predict_section::suspect_percent>(
        "predict.suspect_percent",
        "Percent that a part of a rank's step (forward, update, ...) must take longer than it did "
        "in the epoch's first steps, less what all ranks do, to be a slow_part; 0 = none is named",
        within(0, 1'000)),
    key<&job::predict, &predict_section::quiet_steps>(
        "predict.quiet_steps", "Steps of an epoch that make what is normal of each part of a rank",
        within(8, 1'000)),
    key<&job::predict, &predict_section::probe>(
        "predict.probe",
        "Before its first steps each machine that computes on its processors is probed, once in a "
        "start of the machine, by which steps are expected until some are measured: quick = for 2 "
        "seconds at most, full = for 9; off = none is"),
    key<&job::predict, &predict_section::memory>(
        "predict.memory",
        "Configurations of the work of each part that are learned from, the newest: a fit of fewer "
        "takes less time and memory of the head",
        within(16, 512)),

    key<&job::power, &power_section::meter_interval_ms>(
        "power.meter_interval_ms",
        "Milliseconds between two readings of a node's meters (GPUs, processor packages, sensors); "
        "0 = none are read",
        within(0, 3'600'000)),
    key<&job::power, &power_section::model_idle_w>(
        "power.model_idle_w",
        "Watts that a machine, without its GPUs, draws while it does nothing, where neither a "
        "processor package nor another chip says a power (most virtual machines); watts so "
        "calculated are marked (~61 W). 0, and model_core_w 0 = they are unknown there",
        within(0.0, 100'000.0)),
    key<&job::power, &power_section::model_core_w>(
        "power.model_core_w",
        "Watts more for each processor (hardware thread) that works all the time, where "
        "model_idle_w counts",
        within(0.0, 10'000.0)),
    key<&job::power, &power_section::budget_w>(
        "power.budget_w",
        "Watts that the machines of the job may draw together: steps are made slower, at one pace "
        "for all ranks, so that what meters say stays within; `troupe console` sets another. "
        "0 = no budget",
        within(0.0, 1e9)),
    key<&job::power, &power_section::parent>(
        "power.parent",
        "The power budget (`troupe power serve`) that grants the job its watts: auto = the one of "
        "this user on this machine that has the job, auto:NAME = the one of that name, else "
        "HOST:PORT; no step begins before it has granted some. "
        "Of it and budget_w the less holds. Empty = none"),
    key<&job::power, &power_section::parent_key>(
        "power.parent_key",
        "File with the key (`troupe key --role power`) that proves the job to a power.parent given "
        "as HOST:PORT; without it the certificates of cluster.tls do, beyond loopback they alone"),
    key<&job::power, &power_section::control>(
        "power.control",
        "What makes steps slower where there is a budget; of several each rank takes the first "
        "that its device and machine offer. pace = operations are held back, on any device and "
        "without rights; cgroup = the threads that compute are in a control group with a quota, "
        "which needs a cpu controller that this user may write; cpufreq = the highest clock of the "
        "processors, and rapl = the power limit of their packages, which need root; nvml_clocks = "
        "the highest clock of each rank's GPU, and nvml_limit = its power limit, which need root. "
        "Empty = pace"),
    key<&job::power, &power_section::agent_socket>(
        "power.agent_socket",
        "The socket of each machine's agent (`troupe power agent --socket`), a whole path: what a "
        "process of the job may not set itself that one is asked for, by the words of control. "
        "Empty = nobody is asked"),
    key<&job::power, &power_section::ramp_w_s>(
        "power.ramp_w_s",
        "By how many watts a second what the machines of the job draw together may rise, at a "
        "start, a resume and a greater cap: paces of steps rise as slowly. 0 = at once",
        within(0.0, 1e9)),
    key<&job::power, &power_section::dry_run>(
        "power.dry_run",
        "What budget_w, parent and ramp_w_s come to is decided and written into power.jsonl, and "
        "nothing is held back; to a power budget above it the job can draw all that it may"),
    key<&job::power, &power_section::textfile>(
        "power.textfile",
        "A file that the head replaces each 5 s by what `troupe power status --prometheus` prints, "
        "for node_exporter; empty = none"),
    key<&job::power, &power_section::slack>(
        "power.slack",
        "Whether operations that delay nobody run at lower clocks, while no budget paces the job: "
        "plan = by clocks that are planned from power.profile (docs/power-frontier.md), which "
        "power.control = nvml_clocks or cpufreq sets; off = all run at the highest"),
    key<&job::power, &power_section::profile>(
        "power.profile",
        "File that says what each stage's forward and backward takes and draws at each clock: "
        "stage,instruction,frequency,time,energy (MHz, s, J). One that does not exist is measured "
        "in the job's first steps, with power.slack; empty = clocks.csv in job.output"),
    key<&job::power, &power_section::blocking_w>(
        "power.blocking_w", "Watts of a device that waits for another stage, beside power.profile",
        within(0.0, 20'000.0)),

    key<&job::log, &log_section::format>("log.format",
                                         "How steps are printed; auto = one line that rewrites "
                                         "itself on a terminal, plain lines otherwise"),
    key<&job::log, &log_section::every>(
        "log.every", "Steps between two printed lines (log.jsonl always has every step)",
        within(1, 1e9)),
};

}  // namespace

std::span<const property> job_table() {
  return rows;
}

}  // namespace troupe::config::detail
