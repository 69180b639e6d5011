// What other trainers call our keys.
#include <algorithm>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "io/config/properties.hpp"

using namespace troupe::config;

TEST_CASE("config: names of other trainers lead to ours") {
  const std::pair<const char*, const char*> rows[] = {
      {"learning_rate", "train.lr"},
      {"train.learning_rate", "train.lr"},
      {"block_size", "train.seq_len"},
      {"gradient_accumulation_steps", "train.micro_batch"},
      {"max_iters", "train.steps"},
      {"model.num_hidden_layers", "model.layers"},
      {"train.max_grad_norm", "train.clip_norm"},
      {"output_dir", "job.output"}};
  for (const auto& [theirs, ours] : rows) {
    CAPTURE(theirs);
    CHECK(nearest_key(theirs) == ours);
  }
}

TEST_CASE("config: a name elsewhere leads to a key that there is") {
  std::istringstream names(
      "learning_rate max_lr min_lr max_iters max_steps train_iters num_train_epochs "
      "warmup_iters lr_warmup_iters lr_decay_style lr_scheduler_type block_size seq_length "
      "max_seq_length batch_size global_batch_size micro_batch_size "
      "per_device_train_batch_size gradient_accumulation_steps grad_clip clip_grad "
      "max_grad_norm max_norm adam_beta1 adam_beta2 adam_eps adam_epsilon optim eval_interval "
      "eval_steps eval_iters n_layer n_layers num_layers num_hidden_layers n_head n_heads "
      "num_heads num_attention_heads n_kv_heads num_key_value_heads num_query_groups n_embd "
      "dim hidden_size intermediate_size ffn_hidden_size vocab_size n_positions "
      "max_position_embeddings torch_dtype gradient_checkpointing activation_checkpointing "
      "out_dir output_dir save_steps save_interval save_total_limit dataset data_path "
      "train_file validation_file pipeline_model_parallel_size pipeline_parallel_degree "
      "data_parallel_replicate_degree");
  for (std::string name; names >> name;) {
    CAPTURE(name);
    const auto ours = nearest_key(name);
    const auto& all = properties();
    CHECK(std::any_of(all.begin(), all.end(), [&](const auto& p) { return p.key == ours; }));
  }
}
