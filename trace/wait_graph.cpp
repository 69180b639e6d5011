// Edges from what actors say, ends of the graph, cycles.
#include "trace/wait_graph.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "io/base/text.hpp"

namespace troupe::trace {

namespace {

/// What a stage says while its worker ends a step: sums over replicas and over the pipeline, which
/// end for nobody before all have come (actors/train/stage.cpp).
constexpr std::string_view sum_words = "the update";

/// The number behind a stem: 3 of "stage/3"; none where the path is another.
std::optional<int> rank_of(std::string_view path, std::string_view stem) {
  if (!path.starts_with(stem)) return std::nullopt;
  path.remove_prefix(stem.size());
  int rank = 0;
  const auto [end, fault] = std::from_chars(path.data(), path.data() + path.size(), rank);
  if (fault != std::errc() || end != path.data() + path.size()) return std::nullopt;
  return rank;
}

class graph {
 public:
  graph(const std::vector<waiting_process>& cluster, const wait_options& options)
      : cluster_(cluster), options_(options) {
    for (size_t p = 0; p < cluster.size(); ++p)
      for (size_t a = 0; a < cluster[p].actors.size(); ++a) add_actor({p, a});
    out_edges_.resize(actors_.size());
    in_edges_.resize(actors_.size());
    misses_.resize(actors_.size());
    for (size_t i = 0; i < actors_.size(); ++i) add_waits(i);
    add_sums();
  }

  wait_report report() {
    wait_report out;
    collect(out);
    find_cycles(out);
    out.edges = edges_;
    const auto longer = [](const auto& a, const auto& b) { return a.for_ns > b.for_ns; };
    std::stable_sort(out.edges.begin(), out.edges.end(), longer);
    return out;
  }

 private:
  const waiting_actor& actor(size_t i) const {
    return cluster_[actors_[i].process].actors[actors_[i].actor];
  }
  const waiting_process& process(size_t i) const { return cluster_[actors_[i].process]; }
  bool silent(size_t i) const { return process(i).silent_ns > 0; }
  bool busy(size_t i) const {
    return !actor(i).handling.empty() && actor(i).handling_for_ns >= options_.busy_ns;
  }

  void add_actor(actor_place at) {
    const auto i = actors_.size();
    actors_.push_back(at);
    const auto& a = actor(i);
    by_path_[a.path].push_back(i);
    if (const auto rank = rank_of(a.path, "stage/")) {
      stages_[*rank] = i;
      if (a.place) places_[*rank] = *a.place;
    }
  }

  /// The actors of a pattern; where one of them is in the asker's own process, only that: each host
  /// has its own loader.
  std::vector<size_t> matching(const std::string& pattern, size_t asker) const {
    std::vector<size_t> all, own;
    const bool plain = pattern.find_first_of("*?") == pattern.npos;
    const auto add = [&](size_t i) {
      if (i == asker) return;
      all.push_back(i);
      if (actors_[i].process == actors_[asker].process) own.push_back(i);
    };
    if (plain) {
      const auto it = by_path_.find(pattern);
      if (it != by_path_.end())
        for (const auto i : it->second) add(i);
    } else if (!pattern.empty()) {
      for (size_t i = 0; i < actors_.size(); ++i)
        if (glob_match(pattern, actor(i).path)) add(i);
    }
    return own.empty() ? all : own;
  }

  void add_edge(size_t from, size_t to, std::string what, int64_t for_ns, bool implied = false) {
    out_edges_[from].push_back(edges_.size());
    in_edges_[to].push_back(edges_.size());
    ends_.emplace_back(from, to);
    edges_.push_back({actors_[from], actors_[to], std::move(what), for_ns, implied});
  }

  /// WG-4.
  bool of_the_question(const waiting_for& w) const {
    return (w.whom.starts_with("observer/") || w.whom == "gateway") && w.for_ns < options_.busy_ns;
  }

  void add_waits(size_t i) {
    if (silent(i)) return;  // WG-1
    for (const auto& w : actor(i).waits) {
      if (w.for_ns < options_.least_ns || of_the_question(w)) continue;
      const auto targets = matching(w.whom, i);
      for (const auto to : targets) add_edge(i, to, w.what, w.for_ns);
      if (!targets.empty()) continue;
      missing_.push_back({i, &w});
      misses_[i] = true;
    }
  }

  /// A worker in a sum over replicas waits for the stages of its data group and of its pipeline
  /// that have something else to do first.
  void add_sums() {
    std::map<int, int64_t> in_sum;  // ranks, and for how long
    for (size_t e = 0; e < edges_.size(); ++e) {
      const auto rank = rank_of(actor(ends_[e].second).path, "worker/");
      if (rank && edges_[e].what.starts_with(sum_words)) in_sum[*rank] = edges_[e].for_ns;
    }
    for (const auto& [rank, for_ns] : in_sum) {
      const auto it = by_path_.find(fmt::format("worker/{}", rank));
      const auto here = places_.find(rank);
      if (it == by_path_.end() || here == places_.end() || silent(it->second.front())) continue;
      for (const auto& [other, there] : places_) {
        const bool together =
            there.data == here->second.data || there.pipeline == here->second.pipeline;
        const auto stage = stages_.at(other);
        const bool elsewhere = silent(stage) || !actor(stage).waits.empty() || busy(stage);
        if (other != rank && together && elsewhere && !in_sum.contains(other))
          add_edge(it->second.front(), stage, "its part of the sum", for_ns, true);
      }
    }
  }

  // -- ends ---------------------------------------------------------------------------------------

  /// Nobody is waited for by this one (WG-1, WG-2).
  bool is_end(size_t i) const {
    return silent(i) || busy(i) || (out_edges_[i].empty() && !misses_[i]);
  }

  /// All who wait for any of these, directly or through others; `longest`: for one of them
  /// directly.
  std::vector<size_t> waiters_of(const std::vector<size_t>& these, int64_t* longest) const {
    std::vector<bool> seen(actors_.size());
    std::vector<size_t> open = these, out;
    for (const auto i : these) seen[i] = true;
    for (size_t at = 0; at < open.size(); ++at) {
      for (const auto e : in_edges_[open[at]]) {
        const auto from = ends_[e].first;
        if (at < these.size()) *longest = std::max(*longest, edges_[e].for_ns);
        if (seen[from]) continue;
        seen[from] = true;
        open.push_back(from);
        out.push_back(from);
      }
    }
    return out;
  }

  /// The shortest way from somebody nobody waits for (else from anybody furthest) to one of these.
  std::vector<wait_edge> chain_to(const std::vector<size_t>& these) const {
    std::map<size_t, size_t> edge_of;  // actor -> its edge on the way
    std::vector<bool> seen(actors_.size());
    std::vector<size_t> open = these;
    for (const auto i : these) seen[i] = true;
    size_t start = actors_.size();
    for (size_t at = 0; at < open.size(); ++at) {
      const auto i = open[at];
      if (at >= these.size() && (start == actors_.size() || in_edges_[i].empty())) {
        start = i;
        if (in_edges_[i].empty()) break;
      }
      for (const auto e : in_edges_[i]) {
        const auto from = ends_[e].first;
        if (seen[from]) continue;
        seen[from] = true;
        edge_of[from] = e;
        open.push_back(from);
      }
    }
    std::vector<wait_edge> out;
    for (auto it = edge_of.find(start); it != edge_of.end();
         it = edge_of.find(ends_[it->second].second))
      out.push_back(edges_[it->second]);
    return out;
  }

  std::string place_of(const std::string& path) const {
    auto rank = rank_of(path, "stage/");
    if (!rank) rank = rank_of(path, "worker/");
    if (!rank) return {};
    const auto it = places_.find(*rank);
    if (it == places_.end()) return fmt::format("rank {}", *rank);
    return fmt::format("data {}, pipeline {}", it->second.data, it->second.pipeline);
  }

  void finish(culprit& c, const std::vector<size_t>& these) const {
    int64_t longest = 0;
    c.waiters = waiters_of(these, &longest).size();
    if (c.for_ns == 0) c.for_ns = longest;
    c.chain = chain_to(these);
    for (const auto& path : c.actors) {
      const auto place = place_of(path);
      if (place.empty() || c.place.find(place) != c.place.npos) continue;
      c.place += (c.place.empty() ? "" : "; ") + place;
    }
  }

  std::vector<culprit> silent_ones() const {
    std::vector<culprit> out;
    for (size_t p = 0; p < cluster_.size(); ++p) {
      if (cluster_[p].silent_ns <= 0) continue;
      culprit c;
      c.kind = culprit_kind::silent;
      c.process = p;
      c.for_ns = cluster_[p].silent_ns;
      std::vector<size_t> these;
      for (size_t i = 0; i < actors_.size(); ++i) {
        if (actors_[i].process != p) continue;
        these.push_back(i);
        c.actors.push_back(actor(i).path);
      }
      finish(c, these);
      if (c.place.empty() && !cluster_[p].ranks.empty()) c.place = "ranks " + cluster_[p].ranks;
      out.push_back(std::move(c));
    }
    return out;
  }

  std::vector<culprit> missing_ones() const {
    std::vector<culprit> out;
    for (const auto& [who, wait] : missing_) {
      culprit c;
      c.kind = culprit_kind::missing;
      c.process = actors_[who].process;
      c.actors = {wait->whom};
      c.for_ns = wait->for_ns;
      int64_t longest = 0;
      c.waiters = 1 + waiters_of({who}, &longest).size();
      c.chain = chain_to({who});
      c.place = place_of(wait->whom);
      out.push_back(std::move(c));
    }
    return out;
  }

  /// Those that are waited for; a busy one also where nobody waits for anybody.
  std::vector<culprit> others(bool busy_ones) const {
    std::vector<culprit> out;
    const bool somebody_waits = !edges_.empty() || !missing_.empty();
    for (size_t i = 0; i < actors_.size(); ++i) {
      if (silent(i) || !is_end(i) || busy(i) != busy_ones) continue;
      if (in_edges_[i].empty() && (!busy_ones || somebody_waits)) continue;
      culprit c;
      c.kind = busy_ones ? culprit_kind::busy : culprit_kind::idle;
      c.process = actors_[i].process;
      c.actors = {actor(i).path};
      if (busy_ones) c.for_ns = actor(i).handling_for_ns;
      finish(c, {i});
      out.push_back(std::move(c));
    }
    return out;
  }

  void collect(wait_report& out) {
    std::vector<std::vector<culprit>> ranks{silent_ones(), others(true), missing_ones(),
                                            others(false)};  // WG-2
    for (auto& r : ranks) {
      std::stable_sort(r.begin(), r.end(), [](const culprit& a, const culprit& b) {
        return a.waiters != b.waiters ? a.waiters > b.waiters : a.for_ns > b.for_ns;
      });
      auto& into = out.culprits.empty() ? out.culprits : out.suspects;
      into.insert(into.end(), std::make_move_iterator(r.begin()), std::make_move_iterator(r.end()));
    }
  }

  // -- cycles -------------------------------------------------------------------------------------

  /// Actors from which no end can be reached go round in circles: in each closed set one cycle.
  void find_cycles(wait_report& out) const {
    std::vector<bool> free(actors_.size());  // somebody it waits for, through others, is an end
    std::vector<size_t> open;
    const auto release = [&](size_t i) {
      if (free[i]) return;
      free[i] = true;
      open.push_back(i);
    };
    for (size_t i = 0; i < actors_.size(); ++i)
      if (is_end(i)) release(i);
    for (const auto& m : missing_) release(m.first);
    for (size_t at = 0; at < open.size(); ++at)
      for (const auto e : in_edges_[open[at]]) release(ends_[e].first);
    std::vector<int> seen(actors_.size());  // the walk that came by
    for (size_t i = 0; i < actors_.size(); ++i) {
      if (free[i] || seen[i] != 0) continue;
      // Every one of these waits for another of them: the first way on ends in a cycle.
      auto now = i;
      const auto walk = static_cast<int>(i) + 1;
      for (; seen[now] == 0; now = ends_[out_edges_[now].front()].second) seen[now] = walk;
      if (seen[now] != walk) continue;  // a cycle that is reported already
      std::vector<wait_edge> cycle;
      auto next = now;
      do {
        const auto e = out_edges_[next].front();
        cycle.push_back(edges_[e]);
        next = ends_[e].second;
      } while (next != now);
      const bool old = std::all_of(cycle.begin(), cycle.end(), [&](const wait_edge& e) {
        return e.for_ns >= options_.deadlock_ns;
      });
      if (old) out.cycles.push_back(std::move(cycle));
    }
  }

  const std::vector<waiting_process>& cluster_;
  const wait_options options_;
  std::vector<actor_place> actors_;
  std::map<std::string, std::vector<size_t>> by_path_;
  std::map<int, size_t> stages_;  // by rank
  std::map<int, grid_place> places_;
  std::vector<wait_edge> edges_;
  std::vector<std::pair<size_t, size_t>> ends_;  // of each edge
  std::vector<std::vector<size_t>> out_edges_, in_edges_;
  std::vector<std::pair<size_t, const waiting_for*>> missing_;
  std::vector<bool> misses_;  // it is in missing_
};

}  // namespace

wait_report find_culprits(const std::vector<waiting_process>& cluster,
                          const wait_options& options) {
  return graph(cluster, options).report();
}

}  // namespace troupe::trace
