// Where a stage's activations and workspaces lie in one arena.
//
// Why: laid out twice by the same function, first over nothing to learn the size (the plan), then
// over the allocation; so the plan cannot differ from what is used, and training allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/model/layer.hpp"
#include "gpu/model/stage_shape.hpp"

namespace troupe::gpu {

/// What one micro-batch in flight keeps.
struct slot_memory {
  int32_t* tokens = nullptr;   ///< [B,T]; stages with the embedding
  int32_t* targets = nullptr;  ///< [B,T]; stages with the head
  int32_t* document_first = nullptr;  ///< [B,T]; as of row_documents, where the shape has them
  int32_t* document_end = nullptr;    ///< [B,T]
  std::vector<void*> x;  ///< [layers + 1] inputs of the layers, then the stage's output; [N,C]
  std::vector<layer_activations> layers;
  float* final_mean = nullptr;  ///< [N]; stages with the head
  float* final_rstd = nullptr;
  void* output_grad = nullptr;  ///< [N,C]; of the stage's output, or of the final norm's output
  void* gradient = nullptr;     ///< [N,C]; what a layer's backward hands to the one before it
  void* input_grad = nullptr;   ///< [N,C]; stages without the embedding
};

/// The whole arena.
struct stage_memory {
  std::vector<slot_memory> slots;
  layer_scratch scratch;
  void* final_normed = nullptr;  ///< [N,C]; stages with the head
  float* cosine = nullptr;       ///< [T, D/2]; llama
  float* sine = nullptr;
  double* loss_sum = nullptr;
  /// Whole blocks of a disk, by frame (spill_layout.hpp): activations of layers that spill.
  std::vector<std::span<std::byte>> spill_frames;
  size_t slot_bytes = 0;
  size_t total_bytes = 0;

  /// Lays everything out from `base`; with null only the byte counts mean anything.
  static stage_memory lay_out(const model_config& model, const stage_shape& shape, void* base);
};

/// Lays out one layer's activations for `tokens` rows in `batch` sequences from `base` on; returns
/// the bytes taken.
size_t lay_out_layer(const model_config& model, int64_t batch, int64_t seq, dtype type, void* base,
                     layer_activations& out);

}  // namespace troupe::gpu
