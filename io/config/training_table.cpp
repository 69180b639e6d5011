// Rows of the property table: the model, its data, and how it is trained.
#include "io/config/job_table.hpp"

namespace troupe::config::detail {

namespace {

using model_s = model_section;
using data_s = data_section;
using train_s = train_section;

constexpr double million = 1e6;

constinit const property training_rows[] = {
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
        "as if all nodes were alike; measured = by what steps of earlier runs took each node or, "
        "where these do not say it, a layer that each measures, and a slow one gets fewer"),
    key<&job::parallel, &parallel_section::nodes>(
        "parallel.nodes",
        "Nodes in the order of their ranks, e.g. \"b,a\", others behind them as listed; empty = as "
        "the checkpoint has them whose layers are kept, or all as listed"),
};

}  // namespace

std::span<const property> training_table() {
  return training_rows;
}

}  // namespace troupe::config::detail
