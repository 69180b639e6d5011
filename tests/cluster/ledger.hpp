// What a job acknowledged over all its launches, and what descends from what: for runs that return
// to older checkpoints, begin anew, and keep a second tier, where "the newest step" says nothing.
//
//   LED-1  What was acknowledged, and what a launch left whole, is there and whole, under its name
//          or set aside: unless the test damaged it or took it away, or as many newer ones of its
//          own line as the rule wants are there, in the same tier. What is set aside stays.
//   LED-2  The line in a manifest is the one that led there: the launches, each with its last step.
//   LED-3  Once a launch has saved, all that lies under its own name leads to what it saved; and no
//          launch sets aside what leads to it.
//   LED-4  The link `latest`, a hint, points to nothing only where what it named was set aside.
//
// Beside the manifests this keeps an account of its own: what they say is compared with it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/checkpoint/line.hpp"
#include "tests/cluster/survivors.hpp"

namespace troupe::cluster_test {

/// A folder of checkpoints, and how many of the newest its rule keeps; 0: all.
struct kept_folder {
  fs::path dir;
  int keep = 0;
};

class ledger {
 public:
  /// A whole checkpoint in one of the folders.
  struct copy {
    int id = -1;
    size_t tier = 0;
    fs::path path;
    bool aside = false;
  };

  /// The first tier, and the second if there is one. `eyes` look at each checkpoint.
  ledger(judge& eyes, std::vector<kept_folder> tiers) : eyes_(eyes), tiers_(std::move(tiers)) {}

  /// What a start by itself goes on with: what the last launch left, or the newest whole one on the
  /// way back from there; -1: nothing. `without` is a tier that is not looked into.
  int expected(std::optional<size_t> without = {}) const;
  int step_of(int id) const { return id < 0 ? 0 : all_[static_cast<size_t>(id)].step; }
  std::vector<copy> whole() const;

  /// The test damages one, in a way that its manifest is still read.
  void spoiled(const copy& what) { at(what.id, what.tier).spoiled = true; }
  /// The test takes away all that a folder holds.
  void emptied(size_t tier);

  /// A launch begins from a checkpoint, or from nothing.
  void begin(int from);
  /// It is over, and these steps were acknowledged in it: judges what is left. What lay aside
  /// before is read again only after the job's last launch.
  void end(const std::set<int>& acknowledged, bool last);

  int asides() const { return asides_; }  ///< that were seen, each once

 private:
  struct place {
    bool there = false, aside = false, spoiled = false;
    fs::path path;
  };
  struct saved {
    int step = 0;
    int parent = -1;  ///< what was trained on to it
    uint64_t launch = 0;
    std::array<place, 2> in;
  };
  struct sight_of_one {
    size_t tier = 0;
    fs::path path;
    bool aside = false;
    int step = 0;
    io::checkpoint::lineage line;
  };

  place& at(int id, size_t tier) { return all_[static_cast<size_t>(id)].in[tier]; }
  const place& at(int id, size_t tier) const { return all_[static_cast<size_t>(id)].in[tier]; }
  bool is_whole(int id, size_t tier) const { return at(id, tier).there && !at(id, tier).spoiled; }
  bool is_takeable(int id, std::optional<size_t> without) const;
  bool descends(int id, int from) const;
  io::checkpoint::lineage line_of(int id) const;
  std::vector<sight_of_one> look() const;
  void enter(const std::vector<sight_of_one>& found, bool read_all);
  void note_launch(const sight_of_one& one);
  int newest_of_launch() const;
  int newer_of_its_line(int id, size_t tier) const;
  void judge_acknowledged(int step) const;
  void judge_lines(int head) const;
  void judge_latest() const;

  judge& eyes_;
  std::vector<kept_folder> tiers_;
  std::vector<saved> all_;
  std::map<std::pair<uint64_t, uint64_t>, int> ids_;  ///< by launch and step
  int head_ = -1;                                     ///< what the last launch left
  int origin_ = -1;                                   ///< what the launch at hand began from
  std::optional<uint64_t> launch_;            ///< of the launch at hand, once a manifest says it
  std::vector<std::array<place, 2>> before_;  ///< the launch at hand, by id
  int asides_ = 0;
};

}  // namespace troupe::cluster_test
