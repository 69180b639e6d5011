// What the next head must know of the cluster: places and evictions, by way of the journal.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"
#include "actors/cluster/coordinating.hpp"
#include "messages/errors.hpp"

namespace troupe::cluster::coordinating {

namespace {

fbs::ClusterMemoryT memory_of(const coordinator_state& st) {
  fbs::ClusterMemoryT out;
  out.nodes = st.membership->names();
  for (uint32_t place = 0; st.places.is_fixed() && place < st.places.all(); ++place) {
    const auto& needs = st.places.needs_of(place);
    auto& p = *out.places.emplace_back(std::make_unique<fbs::PlaceMemoryT>());
    p.node = st.places.node_of(place);
    p.workers = needs.workers;
    p.threads = needs.threads;
    p.cores = needs.cores;
    p.gpus = needs.gpus;
    p.cpu_model = needs.cpu_model;
    p.memory_bytes = needs.memory_bytes;
  }
  out.replicas = static_cast<uint32_t>(st.replicas);
  out.layers = st.layers;
  if (!st.layers.empty()) out.order = st.whole.job.parallel.nodes;
  out.launch = st.record.whole_launch();
  for (const auto& name : st.evictions.all()) {
    auto& e = *out.evicted.emplace_back(std::make_unique<fbs::EvictedNodeT>());
    e.node = name;
    e.why = st.evictions.why(name);
  }
  return out;
}

}  // namespace

void remember(coordinator_pointer self) {
  auto& st = self->state;
  if (!st.record.journal || st.ended) return;
  const auto now = memory_of(st);
  auto bytes = encode(make_msg<fbs::ClusterMemory>({}, now));
  if (bytes == st.remembered) return;
  st.remembered = std::move(bytes);
  ask_for<fbs::Ack>(
      self, st.record.journal, make_msg<fbs::ClusterMemory>(context(self), now),
      {"journal", "places and evictions, on the disk"}, [](const msg<fbs::Ack>&) {},
      [self](const error& e) {
        say(self,
            "a head that is started again will not know who is in which place: " + e.message,
            fbs::NoticeLevel::warning);
      });
}

std::vector<std::string> names_by_index(const coordinator_state& st) {
  std::vector<std::string> names;
  for (const auto& n : st.record.plan.job.cluster.node) names.push_back(n.name);
  const auto& before = st.record.cluster;
  if (!before || before->nodes.size() != names.size()) return names;
  const bool same = std::is_permutation(names.begin(), names.end(), before->nodes.begin());
  return same ? names : before->nodes;
}

void recall(coordinator_pointer self, const fbs::ClusterMemoryT& memory) {
  auto& st = self->state;
  const auto nodes = st.record.plan.job.cluster.node.size();
  for (const auto& e : memory.evicted) st.evictions.evict(e->node, e->why);
  std::vector<uint32_t> at;
  std::vector<place_needs> needs;
  for (const auto& p : memory.places) {
    if (p->node >= nodes) return;  // of another configuration
    const auto named = p->node < memory.nodes.size()
                           ? st.membership->index_of(memory.nodes[p->node])
                           : std::nullopt;
    at.push_back(named.value_or(p->node));  // listed in another order now (RSM-6)
    needs.push_back({p->workers, p->threads, p->cores, p->gpus, p->cpu_model, p->memory_bytes});
  }
  if (at.size() != st.places.size()) return;
  st.places = places_policy(std::move(at), std::move(needs));
  recall_replicas(self, memory.replicas);
  if (!memory.layers.empty() && train::is_split_open(st.whole.job))
    use_layers(self, memory.layers, memory.order);
}

}  // namespace troupe::cluster::coordinating
