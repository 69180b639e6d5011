// Rows of the property table: what a run keeps on disks.
#include "io/config/job_table.hpp"

namespace troupe::config::detail {

namespace {

using second_s = second_tier_section;
using memory_s = memory_section;

constexpr double million = 1e6;

constinit const property state_rows[] = {
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
};

}  // namespace

std::span<const property> state_table() {
  return state_rows;
}

}  // namespace troupe::config::detail
