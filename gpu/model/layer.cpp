// The order of a layer's operations. In backward each product is followed by its weight gradient
// while its operands are still in the caches.
#include "gpu/model/layer.hpp"

namespace troupe::gpu {

namespace {

/// The sizes of one product y = x w^T.
struct product {
  int64_t in, out;
};

/// A layer's operations over one pass.
class runner {
 public:
  explicit runner(const layer_pass& pass) : pass_(pass), model_(*pass.model), ops_(*pass.ops) {}

  product qkv() const { return {model_.hidden, model_.qkv_width()}; }
  product o() const { return {model_.attention_width(), model_.hidden}; }
  product up() const { return {model_.hidden, model_.ffn_in_width()}; }
  product down() const { return {model_.ffn, model_.hidden}; }

  void norm(const void* x, const void* weight, const void* bias, void* y, float* mean,
            float* rstd) const {
    norm_forward_args a{};
    a.kind = model_.norm();
    a.tokens = pass_.tokens();
    a.width = model_.hidden;
    a.type = pass_.type;
    a.eps = static_cast<float>(model_.norm_eps);
    a.x = x;
    a.weight = weight;
    a.bias = bias;
    a.y = y;
    a.mean = mean;
    a.rstd = rstd;
    ops_.norm_forward(*pass_.s, a);
  }

  void linear(product p, const void* x, const void* w, const void* bias, const void* residual,
              void* y, void* pre_gelu = nullptr) const {
    ops_.linear_forward(*pass_.s, {pass_.tokens(), p.in, p.out, pass_.type, x, w, bias, residual, y,
                                   pass_.weight_version, pre_gelu});
  }

  void norm_heads(const layer_tensors<const void>& w, const layer_activations& acts) const {
    if (!model_.qk_norm) return;
    ops_.head_norm_forward(
        *pass_.s, {pass_.batch, pass_.seq, model_.heads, model_.kv_heads, model_.head_width,
                   pass_.type, static_cast<float>(model_.norm_eps), acts.qkv, acts.heads, w.q_norm,
                   w.k_norm, acts.head_rstd});
  }

  void norm_heads_backward(const layer_tensors<const void>& w, const layer_tensors<float>& g,
                           const layer_activations& acts, void* dqkv) const {
    if (!model_.qk_norm) return;
    ops_.head_norm_backward(*pass_.s, {pass_.batch, pass_.seq, model_.heads, model_.kv_heads,
                                       model_.head_width, pass_.type, dqkv, acts.heads, w.q_norm,
                                       w.k_norm, acts.head_rstd, g.q_norm, g.k_norm});
  }

  void rotate(void* qkv, bool inverse) const {
    if (model_.family != model_family::llama) return;
    ops_.rope(*pass_.s,
              {pass_.batch, pass_.seq, model_.heads, model_.kv_heads, model_.head_width, pass_.type,
               qkv, pass_.cosine, pass_.sine, inverse, pass_.first_position, pass_.documents});
  }

  void attend(const layer_activations& acts) const {
    ops_.attention_forward(*pass_.s, {pass_.batch, pass_.seq, model_.heads, model_.kv_heads,
                                      model_.head_width, model_.sliding_window, pass_.type,
                                      acts.qkv, acts.attended, acts.lse, pass_.documents});
  }

  void attend_backward(const layer_activations& acts, const void* dout, void* dqkv) const {
    ops_.attention_backward(
        *pass_.s, {pass_.batch, pass_.seq, model_.heads, model_.kv_heads, model_.head_width,
                   model_.sliding_window, pass_.type, acts.qkv, acts.attended, acts.lse, dout, dqkv,
                   pass_.documents});
  }

  /// acts.norm1 and acts.qkv.
  void queries(const layer_tensors<const void>& w, const void* x,
               const layer_activations& acts) const {
    norm(x, w.norm1, w.norm1_bias, acts.norm1, acts.mean1, acts.rstd1);
    linear(qkv(), acts.norm1, w.qkv, w.qkv_bias, nullptr, acts.qkv);
    norm_heads(w, acts);
    rotate(acts.qkv, false);
  }

  /// From acts.middle, or x where the block is parallel, to acts.active.
  void second_half(const layer_tensors<const void>& w, const void* x,
                   const layer_activations& acts) const {
    if (model_.block == block_form::shared_norm)
      return up_and_activate(acts, acts.norm1, w.up, w.up_bias);
    norm(sequential() ? acts.middle : x, w.norm2, w.norm2_bias, acts.norm2, acts.mean2, acts.rstd2);
    up_and_activate(acts, acts.norm2, w.up, w.up_bias);
  }

  /// Whether the MLP reads x + attention.
  bool sequential() const { return model_.block == block_form::sequential; }

  /// acts.hidden and acts.active.
  void up_and_activate(const layer_activations& acts, const void* x, const void* w,
                       const void* bias) const {
    if (gelu()) return linear(up(), x, w, bias, nullptr, acts.active, acts.hidden);
    linear(up(), x, w, bias, nullptr, acts.hidden);
    ops_.activation_forward(*pass_.s, {model_.activation, pass_.tokens(), model_.ffn, pass_.type,
                                       acts.hidden, acts.active});
  }

  /// Back through the last product and the activation: the gradient of acts.hidden, which takes the
  /// place of acts.hidden or of `d_active`.
  const void* down_and_activation_backward(const layer_activations& acts, const void* dy,
                                           const void* w, void* d_active, float* dw,
                                           float* dbias) const {
    linear_backward(down(), dy, acts.active, w, d_active, dw, dbias, false,
                    gelu() ? acts.hidden : nullptr);
    if (gelu()) return d_active;
    ops_.activation_backward(*pass_.s, {model_.activation, pass_.tokens(), model_.ffn, pass_.type,
                                        acts.hidden, d_active, acts.hidden});
    return acts.hidden;
  }

  void linear_backward(product p, const void* dy, const void* x, const void* w, void* dx, float* dw,
                       float* dbias, bool accumulate = false,
                       const void* pre_gelu = nullptr) const {
    ops_.linear_backward_weight(*pass_.s,
                                {pass_.tokens(), p.in, p.out, pass_.type, dy, x, dw, dbias});
    ops_.linear_backward_input(*pass_.s, {pass_.tokens(), p.in, p.out, pass_.type, dy, w, dx,
                                          accumulate, pass_.weight_version, pre_gelu});
  }

  void norm_backward(const void* dy, const void* x, const void* weight, const float* mean,
                     const float* rstd, const void* dresidual, void* dx, float* dweight,
                     float* dbias) const {
    ops_.norm_backward(*pass_.s, {model_.norm(), pass_.tokens(), model_.hidden, pass_.type, dy, x,
                                  weight, mean, rstd, dresidual, dx, dweight, dbias});
  }

 private:
  /// The activation that products have in them.
  bool gelu() const { return model_.activation == activation_kind::gelu_tanh; }

  const layer_pass& pass_;
  const model_config& model_;
  gpu::ops& ops_;
};

}  // namespace

void forward_layer(const layer_pass& pass, const layer_tensors<const void>& w, const void* x,
                   const layer_activations& acts, void* y, const attention_override& attention) {
  const runner run(pass);
  run.queries(w, x, acts);
  if (attention)
    attention(acts);
  else
    run.attend(acts);
  // Parallel forms need x + attention only as an addend of y: it is made in y.
  void* middle = run.sequential() ? acts.middle : y;
  run.linear(run.o(), acts.attended, w.o, w.o_bias, x, middle);
  run.second_half(w, x, acts);
  run.linear(run.down(), acts.active, w.down, w.down_bias, middle, y);
}

void recompute_layer(const layer_pass& pass, const layer_tensors<const void>& w, const void* x,
                     const layer_activations& acts, bool middle_kept) {
  const runner run(pass);
  run.queries(w, x, acts);
  run.attend(acts);
  if (run.sequential() && !middle_kept)
    run.linear(run.o(), acts.attended, w.o, w.o_bias, x, acts.middle);
  run.second_half(w, x, acts);
}

void backward_layer(const layer_pass& pass, const layer_tensors<const void>& w,
                    const layer_tensors<float>& g, const void* x, const layer_activations& acts,
                    const layer_scratch& scratch, const void* dy, void* dx) {
  const runner run(pass);
  const block_form block = pass.model->block;
  const bool shared = block == block_form::shared_norm;
  const void* residual = dy;
  auto second_norm = [&](const void* normed) {
    run.norm_backward(scratch.d_normed, normed, w.norm2, acts.mean2, acts.rstd2, dy,
                      scratch.gradient, g.norm2, g.norm2_bias);
    residual = scratch.gradient;
  };
  const void* d_hidden =
      run.down_and_activation_backward(acts, dy, w.down, scratch.d_active, g.down, g.down_bias);
  run.linear_backward(run.up(), d_hidden, shared ? acts.norm1 : acts.norm2, w.up, scratch.d_normed,
                      g.up, g.up_bias);
  if (block == block_form::sequential) second_norm(acts.middle);
  run.linear_backward(run.o(), residual, acts.attended, w.o, scratch.d_attended, g.o, g.o_bias);
  if (block == block_form::two_norms) second_norm(x);  // after the last use of dy, which it may eat
  run.attend_backward(acts, scratch.d_attended, scratch.d_qkv);
  run.rotate(scratch.d_qkv, true);
  run.norm_heads_backward(w, g, acts, scratch.d_qkv);
  run.linear_backward(run.qkv(), scratch.d_qkv, acts.norm1, w.qkv, scratch.d_normed, g.qkv,
                      g.qkv_bias, shared);
  run.norm_backward(scratch.d_normed, x, w.norm1, acts.mean1, acts.rstd1, residual, dx, g.norm1,
                    g.norm1_bias);
}

}  // namespace troupe::gpu
