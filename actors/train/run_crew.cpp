// What others name to the run: its crew, against what the plan has; copies; a checkpoint. And what
// it tells the committer of that crew.
#include <algorithm>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/train/run.hpp"
#include "messages/text.hpp"

namespace troupe::train {

result<run_crew> crew_of(const job_plan& plan, const msg<fbs::ClusterReady>& m,
                         const std::vector<caf::strong_actor_ptr>& handles) {
  const auto ready = m.unpack();
  const auto ranks = plan.ranks.size();
  run_crew crew;
  size_t loaders = 0;
  for (const auto& n : ready.nodes) loaders += n->loader_ranks.empty() ? 0 : 1;
  if (ready.devices.size() != ranks || handles.size() != ranks + loaders)
    return error{errc::bug, fmt::format("a crew of {} stages and loaders for {} ranks",
                                        handles.size(), ranks)};
  crew.devices = {ready.devices, ready.shared_devices};
  for (const auto& n : ready.nodes) crew.nodes.push_back(n->node);
  for (size_t r = 0; r < ranks; ++r) {
    const auto node = static_cast<size_t>(plan.ranks[r].node);
    if (node >= ready.nodes.size())
      return error{errc::bug, fmt::format("rank {} is on a node that is not there", r)};
    crew.stages.push_back(caf::actor_cast<stage_actor>(handles[r]));
    crew.hosts.push_back(ready.nodes[node]->host);
    crew.threads.push_back(static_cast<int>(ready.nodes[node]->threads));
  }
  for (size_t next = ranks; const auto& n : ready.nodes) {
    if (n->loader_ranks.empty()) continue;
    if (std::any_of(n->loader_ranks.begin(), n->loader_ranks.end(),
                    [&](uint32_t rank) { return rank >= ranks; }))
      return error{errc::bug, "a loader of a rank that is not there"};
    crew.loaders.push_back({caf::actor_cast<loader_actor>(handles[next++]), n->loader_ranks});
  }
  return crew;
}

msg<fbs::OpenFolder> folder_order(run_pointer self) {
  const auto& st = self->state;
  return make_msg<fbs::OpenFolder>(context_of(*self, st.record.epoch), [&](auto& o) {
    o.replicas = st.job.replicas();
    o.layers = st.job.plan().job.parallel.layers;
  });
}

std::vector<held_copy> copies_in(const msg<fbs::CopiesFound>& m) {
  std::vector<held_copy> out;
  if (m->copies() == nullptr) return out;
  for (const auto* c : *m->copies())
    out.push_back({static_cast<int>(c->rank()),
                   {c->epoch(), c->step()},
                   c->bytes(),
                   {c->tokens(), c->loss()}});
  return out;
}

result<checkpoint::resume_point> choice_in(const msg<fbs::CheckpointChosen>& m) {
  checkpoint::resume_point out{text_of(m->directory()), m->step()};
  const auto text = text_of(m->state());
  if (text.empty()) return out;
  TROUPE_TRY(state, checkpoint::parse_state(text));
  out.state = std::move(state);
  return out;
}

}  // namespace troupe::train
