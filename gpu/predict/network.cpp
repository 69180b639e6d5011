// The residual network's training and its answers.
#include "gpu/predict/network.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <string>

#include "gpu/predict/network_block.hpp"
#include "gpu/predict/random.hpp"

namespace troupe::gpu::predict {

namespace {

/// Where the parameters of a shape stand.
struct parameter_places {
  std::vector<size_t> numbers;      ///< w, b, mask: [d] each
  std::vector<size_t> categories;   ///< [levels + 1, d]
  std::vector<block_place> blocks;  ///< by group, then the one between groups
  size_t head = 0, head_bias = 0;   ///< [d, outputs], [outputs]
  size_t all = 0;
};

parameter_places places_of(const network_shape& s) {
  parameter_places p;
  const auto d = static_cast<size_t>(s.width);
  for (size_t i = 0; i < s.group_of_number.size(); ++i) {
    p.numbers.push_back(p.all);
    p.all += 3 * d;
  }
  for (const int levels : s.levels) {
    p.categories.push_back(p.all);
    p.all += (static_cast<size_t>(levels) + 1) * d;
  }
  const int blocks = s.groups + (s.levels.empty() ? 0 : 1) + 1;
  for (int i = 0; i < blocks; ++i) p.blocks.push_back(place_block(p.all, s));
  p.head = p.all;
  p.head_bias = p.head + d * static_cast<size_t>(s.outputs);
  p.all = p.head_bias + static_cast<size_t>(s.outputs);
  return p;
}

/// Rows as they might have been told: now and then without a number, or with a level that is new.
/// So masks and unseen levels are learned, and no single feature is relied on.
network_rows forgetful(const network_rows& rows, random_numbers& draw, const training_options& o) {
  auto out = rows;
  for (auto& m : out.masked)
    if (draw.unit() < static_cast<double>(o.forget_number)) m = 1;
  for (auto& c : out.codes)
    if (draw.unit() < static_cast<double>(o.forget_level)) c = 0;
  return out;
}

/// Rows that pass through the network at once.
constexpr int rows_at_once = 64;

/// By the error of an output.
double huber_loss(float e) {
  return std::abs(e) <= 1 ? 0.5 * e * e : std::abs(e) - 0.5;
}

float weight_of(const network_rows& rows, int row) {
  return rows.weights.empty() ? 1.0f : rows.weights[static_cast<size_t>(row)];
}

/// Probabilities [asking, tokens] of a block, added up over those that ask.
void add_attention(const rows_matrix& probabilities, std::vector<double>& sums) {
  sums.resize(static_cast<size_t>(probabilities.cols()));
  for (int t = 0; t < probabilities.cols(); ++t)
    sums[static_cast<size_t>(t)] += probabilities.col(t).cast<double>().sum();
}

void share_out(std::vector<double>& sums) {
  const double all = std::accumulate(sums.begin(), sums.end(), 0.0);
  for (auto& s : sums) s /= all;
}

}  // namespace

network_shape shape_of(const ModelT& m, const io::perf::saved::NetworkT& sizes) {
  network_shape s;
  std::map<std::string, int> groups;
  for (const auto& f : m.features) {
    if (f->kind == static_cast<uint8_t>(io::perf::feature_kind::category)) {
      s.levels.push_back(static_cast<int>(f->levels.size()));
      continue;
    }
    const auto it = groups.emplace(f->group, static_cast<int>(groups.size())).first;
    s.group_of_number.push_back(it->second);
  }
  s.groups = static_cast<int>(groups.size());
  s.outputs = static_cast<int>(m.outputs.size());
  s.width = static_cast<int>(sizes.width);
  s.hidden = static_cast<int>(sizes.hidden);
  s.heads = static_cast<int>(sizes.heads);
  s.published = sizes.published;
  s.intra = !sizes.no_intra;
  s.inter = !sizes.no_inter;
  return s;
}

struct network::parts {
  network_shape shape;
  parameter_places at;
  std::vector<float> parameters, gradient;
  std::vector<std::vector<int>> numbers_of;  ///< by group
  std::vector<block_cache> caches;           ///< by block
  std::vector<rows_matrix> tokens;           ///< by group: what its block works in
  rows_matrix pooled, embedding, out;        ///< [rows * groups, d], [rows, d], [rows, outputs]
  rows_matrix of_group;                      ///< [rows, d]: what came out of a block, or goes back
  rows_matrix d_embedding, d_groups, d_tokens;
  std::vector<int> picked;

  explicit parts(network_shape s) : shape(std::move(s)), at(places_of(shape)) {
    numbers_of.resize(static_cast<size_t>(shape.groups));
    for (size_t i = 0; i < shape.group_of_number.size(); ++i)
      numbers_of[static_cast<size_t>(shape.group_of_number[i])].push_back(static_cast<int>(i));
    caches.resize(at.blocks.size());
    tokens.resize(at.blocks.size() - 1);
  }

  int group_count() const { return static_cast<int>(at.blocks.size()) - 1; }
  bool of_categories(int g) const { return g == shape.groups; }
  int tokens_of(int g) const {
    return static_cast<int>(of_categories(g) ? shape.levels.size()
                                             : numbers_of[static_cast<size_t>(g)].size());
  }

  void make_tokens(int g, const network_rows& rows);
  void pass_tokens_back(int g, const network_rows& rows, const rows_matrix& back);
  void forward(const network_rows& rows, std::span<const int> which);
  /// forward() of all rows, some at once; `each` is called after each time.
  template <class F>
  void forward_all(const network_rows& rows, F each) {
    std::vector<int> which;
    for (int first = 0; first < rows.rows; first += rows_at_once) {
      which.resize(static_cast<size_t>(std::min(rows_at_once, rows.rows - first)));
      std::iota(which.begin(), which.end(), first);
      forward(rows, which);
      each();
    }
  }
  void backward(const network_rows& rows, const rows_matrix& d_out);
};

void network::parts::make_tokens(int g, const network_rows& rows) {
  const int d = shape.width, t = tokens_of(g);
  auto& x = tokens[static_cast<size_t>(g)];
  x.resize(static_cast<int>(picked.size()) * t, d);
  for (size_t s = 0; s < picked.size(); ++s) {
    for (int j = 0; j < t; ++j) {
      float* to = x.row(static_cast<int>(s) * t + j).data();
      if (of_categories(g)) {
        const int code = rows.codes[static_cast<size_t>(picked[s] * rows.categories + j)];
        const float* table = parameters.data() + at.categories[static_cast<size_t>(j)];
        std::copy_n(table + code * d, d, to);
        continue;
      }
      const int f = numbers_of[static_cast<size_t>(g)][static_cast<size_t>(j)];
      const auto place = static_cast<size_t>(picked[s] * rows.numbers + f);
      const float* w = parameters.data() + at.numbers[static_cast<size_t>(f)];
      if (rows.masked[place] != 0) {
        std::copy_n(w + 2 * d, d, to);
        continue;
      }
      for (int c = 0; c < d; ++c) to[c] = rows.z[place] * w[c] + w[d + c];
    }
  }
}

void network::parts::pass_tokens_back(int g, const network_rows& rows, const rows_matrix& back) {
  const int d = shape.width, t = tokens_of(g);
  for (size_t s = 0; s < picked.size(); ++s) {
    for (int j = 0; j < t; ++j) {
      const float* from = back.row(static_cast<int>(s) * t + j).data();
      if (of_categories(g)) {
        const int code = rows.codes[static_cast<size_t>(picked[s] * rows.categories + j)];
        float* table = gradient.data() + at.categories[static_cast<size_t>(j)] + code * d;
        for (int c = 0; c < d; ++c) table[c] += from[c];
        continue;
      }
      const int f = numbers_of[static_cast<size_t>(g)][static_cast<size_t>(j)];
      const auto place = static_cast<size_t>(picked[s] * rows.numbers + f);
      float* w = gradient.data() + at.numbers[static_cast<size_t>(f)];
      if (rows.masked[place] != 0) {
        for (int c = 0; c < d; ++c) w[2 * d + c] += from[c];
        continue;
      }
      for (int c = 0; c < d; ++c) {
        w[c] += rows.z[place] * from[c];
        w[d + c] += from[c];
      }
    }
  }
}

void network::parts::forward(const network_rows& rows, std::span<const int> which) {
  picked.assign(which.begin(), which.end());
  const int n = static_cast<int>(picked.size()), groups = group_count(), d = shape.width;
  pooled.resize(n * groups, d);
  for (int g = 0; g < groups; ++g) {
    const auto u = static_cast<size_t>(g);
    const int t = tokens_of(g);
    make_tokens(g, rows);
    if (shape.intra)
      block_forward(shape, parameters.data(), at.blocks[u], tokens[u], t, caches[u], of_group);
    else
      pool_tokens(tokens[u], t, of_group);
    for (int r = 0; r < n; ++r) pooled.row(r * groups + g) = of_group.row(r);
  }
  if (shape.between_groups())
    block_forward(shape, parameters.data(), at.blocks.back(), pooled, groups, caches.back(),
                  embedding);
  else
    pool_tokens(pooled, groups, embedding);
  out.resize(n, shape.outputs);
  product(embedding, false, view_of(parameters.data() + at.head, d, shape.outputs), false, out,
          false);
  out.rowwise() += view_of(parameters.data() + at.head_bias, 1, shape.outputs).row(0);
}

void network::parts::backward(const network_rows& rows, const rows_matrix& d_out) {
  const int n = static_cast<int>(picked.size()), groups = group_count(), d = shape.width;
  auto d_head = view_of(gradient.data() + at.head, d, shape.outputs);
  product(embedding, true, d_out, false, d_head, true);
  view_of(gradient.data() + at.head_bias, 1, shape.outputs).row(0) += d_out.colwise().sum();
  d_embedding.resize(n, d);
  product(d_out, false, view_of(parameters.data() + at.head, d, shape.outputs), true, d_embedding,
          false);
  if (shape.between_groups())
    block_backward(shape, parameters.data(), gradient.data(), at.blocks.back(), d_embedding, groups,
                   caches.back(), d_groups);
  else
    share_among_tokens(d_embedding, groups, d_groups);
  of_group.resize(n, d);
  for (int g = 0; g < groups; ++g) {
    for (int r = 0; r < n; ++r) of_group.row(r) = d_groups.row(r * groups + g);
    const auto u = static_cast<size_t>(g);
    if (shape.intra)
      block_backward(shape, parameters.data(), gradient.data(), at.blocks[u], of_group,
                     tokens_of(g), caches[u], d_tokens);
    else
      share_among_tokens(of_group, tokens_of(g), d_tokens);
    pass_tokens_back(g, rows, d_tokens);
  }
}

network::network(network_shape shape, uint64_t seed)
    : parts_(std::make_unique<parts>(std::move(shape))) {
  auto& p = *parts_;
  const auto& s = p.shape;
  p.parameters.assign(p.at.all, 0.0f);
  p.gradient.assign(p.at.all, 0.0f);
  random_numbers draw(seed);
  const auto d = static_cast<size_t>(s.width);
  const auto spread = 1 / std::sqrt(static_cast<float>(s.width));
  for (const auto at : p.at.numbers)
    for (size_t i = 0; i < 3 * d; ++i) p.parameters[at + i] = spread * draw.uniform();
  for (size_t c = 0; c < s.levels.size(); ++c)
    for (size_t i = 0; i < (static_cast<size_t>(s.levels[c]) + 1) * d; ++i)
      p.parameters[p.at.categories[c] + i] = spread * draw.uniform();
  for (const auto& b : p.at.blocks) init_block(s, p.parameters.data(), b, draw);
}

network::network(network_shape shape, std::vector<float> parameters)
    : parts_(std::make_unique<parts>(std::move(shape))) {
  parts_->parameters = std::move(parameters);
  parts_->gradient.assign(parts_->at.all, 0.0f);
}

network::~network() = default;
network::network(network&&) noexcept = default;
network& network::operator=(network&&) noexcept = default;

const std::vector<float>& network::parameters() const noexcept {
  return parts_->parameters;
}
std::vector<float>& network::parameters() noexcept {
  return parts_->parameters;
}
const std::vector<float>& network::gradient() const noexcept {
  return parts_->gradient;
}

network::answers network::ask(const network_rows& rows) {
  answers a;
  auto& p = *parts_;
  p.forward_all(rows, [&] {
    a.outputs.insert(a.outputs.end(), p.out.data(), p.out.data() + p.out.size());
    a.embeddings.insert(a.embeddings.end(), p.embedding.data(),
                        p.embedding.data() + p.embedding.size());
  });
  return a;
}

network::attention network::attended(const network_rows& rows) {
  auto& p = *parts_;
  const auto groups = static_cast<size_t>(p.group_count());
  std::vector<std::vector<double>> sums(groups + 1);
  p.forward_all(rows, [&] {
    for (size_t b = 0; b <= groups; ++b)
      if (b < groups ? p.shape.intra : p.shape.between_groups())
        add_attention(p.caches[b].probabilities, sums[b]);
  });
  for (auto& s : sums) share_out(s);
  attention out;
  out.groups = sums.back();
  if (!p.shape.intra) return out;
  out.numbers.resize(p.shape.group_of_number.size());
  for (size_t g = 0; g < p.numbers_of.size(); ++g)
    for (size_t j = 0; j < p.numbers_of[g].size(); ++j)
      out.numbers[static_cast<size_t>(p.numbers_of[g][j])] = sums[g][j];
  if (!p.shape.levels.empty()) out.categories = sums[groups - 1];
  return out;
}

double network::loss_over(const network_rows& rows, std::span<const float> targets) {
  auto& p = *parts_;
  const int outputs = p.shape.outputs;
  double sum = 0, weights = 0;
  p.forward_all(rows, [&] {
    for (int s = 0; s < p.out.rows(); ++s) {
      const int row = p.picked[static_cast<size_t>(s)];
      const double weight = static_cast<double>(weight_of(rows, row));
      weights += weight;
      for (int o = 0; o < outputs; ++o)
        sum += weight * huber_loss(p.out(s, o) - targets[static_cast<size_t>(row * outputs + o)]);
    }
  });
  return sum / (weights * outputs);
}

double network::loss(const network_rows& rows, std::span<const float> targets,
                     std::span<const int> picked) {
  auto& p = *parts_;
  p.forward(rows, picked);
  std::fill(p.gradient.begin(), p.gradient.end(), 0.0f);
  const int outputs = p.shape.outputs;
  float weights = 0;
  for (const int row : picked) weights += weight_of(rows, row);
  const auto share = 1.0f / (weights * static_cast<float>(outputs));
  rows_matrix d_out(p.out.rows(), outputs);
  double sum = 0;
  for (int s = 0; s < p.out.rows(); ++s) {
    const int row = picked[static_cast<size_t>(s)];
    const float weight = weight_of(rows, row);
    for (int o = 0; o < outputs; ++o) {
      const float e = p.out(s, o) - targets[static_cast<size_t>(row * outputs + o)];
      sum += weight * huber_loss(e);
      d_out(s, o) = share * weight * std::clamp(e, -1.0f, 1.0f);
    }
  }
  p.backward(rows, d_out);
  return sum * share;
}

void network::train(const network_rows& rows, std::span<const float> targets,
                    const training_options& o, const std::function<void(int, double)>& tell) {
  auto& p = *parts_;
  std::vector<float> m(p.at.all, 0.0f), v(p.at.all, 0.0f);
  random_numbers draw(o.seed ^ 0x5bf03635);
  std::vector<int> order(static_cast<size_t>(rows.rows));
  std::iota(order.begin(), order.end(), 0);
  const int batches = std::max(1, rows.rows / o.batch + (rows.rows % o.batch > 1 ? 1 : 0));
  const int steps = batches * o.passes;
  int step = 0;
  for (int pass = 0; pass < o.passes; ++pass) {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw.below(i)]);
    const auto told = forgetful(rows, draw, o);
    double sum = 0;
    for (int b = 0; b < batches; ++b, ++step) {
      const auto first = static_cast<size_t>(b * o.batch);
      const auto count = std::min(static_cast<size_t>(o.batch), order.size() - first);
      sum += loss(told, targets, std::span<const int>(order).subspan(first, count));
      const float cosine =
          0.5f * (1 + std::cos(3.14159265f * static_cast<float>(step) / static_cast<float>(steps)));
      const float warm =
          std::min(1.0f, static_cast<float>(step + 1) / static_cast<float>(o.warmup));
      adamw_step(p.parameters, p.gradient, m, v, step + 1, o.lr * cosine * warm, o);
    }
    if (tell) tell(pass + 1, sum / batches);
  }
}

}  // namespace troupe::gpu::predict
