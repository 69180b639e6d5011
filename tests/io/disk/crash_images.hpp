// What a power cut at a point of a crash_store's log could leave: the images of the file system
// with every subset of what no sync had covered, or samples of them.
#pragma once

#include <cassert>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "io/disk/crash_store.hpp"

namespace troupe::io {

struct image_limits {
  size_t enumerate = 8;  ///< all subsets of up to so many unsynced pieces, else
  size_t samples = 128;  ///< so many: all, none, each alone, all but each, and by random
  uint64_t seed = 1;
};

/// The images of one crash, one after the other.
class crash_images {
 public:
  /// The file systems a crash at `point` could leave (first_point() <= point <= points()).
  crash_images(std::shared_ptr<const crash_store> of, size_t point,
               const image_limits& limits = {});
  /// A new store that has one of the images, all of it durable; null at the end.
  std::shared_ptr<crash_store> next();
  /// What was not durable and is kept in the image that next() gave last.
  const std::string& kept() const noexcept { return kept_; }
  bool exhaustive() const noexcept { return exhaustive_; }
  size_t pieces() const noexcept { return pieces_.size(); }

 private:
  std::vector<bool> choice();

  std::shared_ptr<const crash_store> of_;
  size_t point_;
  image_limits limits_;
  std::vector<crash_store::piece> pieces_;
  crash_store::tree start_;  ///< what all images have: the changes before the first piece
  size_t from_ = 0;          ///< the first change that is not in it
  bool exhaustive_ = false;
  uint64_t given_ = 0;
  std::mt19937_64 lot_;
  std::string kept_;
};

inline crash_images::crash_images(std::shared_ptr<const crash_store> of, size_t point,
                                  const image_limits& limits)
    : of_(std::move(of)), point_(point), limits_(limits), lot_(limits.seed * 1000003 + point) {
  std::lock_guard lock(of_->mutex_);
  assert(point >= of_->first_point_ && point <= of_->points_);
  const auto& ledger = of_->ledger_;
  for (const auto& [at, c] : of_->log_) {
    if (at >= point) break;
    if (!c.lasting() || ledger.durable(at, point)) continue;
    const auto its = crash_store::pieces_of(at, c);
    pieces_.insert(pieces_.end(), its.begin(), its.end());
  }
  exhaustive_ = pieces_.size() <= limits.enumerate;
  start_ = of_->base_;
  from_ = pieces_.empty() ? point : pieces_[0].at;
  for (const auto& [at, c] : of_->log_)
    if (at < from_ && ledger.durable(at, point)) crash_store::apply(start_, c, 0, c.bytes.size());
}

/// Which pieces the next image keeps; empty flags after the last.
inline std::vector<bool> crash_images::choice() {
  const size_t n = pieces_.size();
  std::vector<bool> keep(n + 1);  // one more, so that it is never empty
  auto turn = given_++;
  if (exhaustive_) {
    if (turn >= uint64_t{1} << n) return {};
    for (size_t i = 0; i < n; ++i) keep[i] = (turn >> i & 1) != 0;
    return keep;
  }
  if (turn >= limits_.samples) return {};
  if (turn < 2) return std::vector<bool>(n + 1, turn == 1);
  if (turn < 2 + 2 * n && turn < limits_.samples / 2) {
    auto i = static_cast<size_t>(turn - 2) / 2;
    bool alone = turn % 2 == 0;
    std::vector<bool> one(n + 1, !alone);
    one[i] = alone;
    return one;
  }
  for (size_t i = 0; i < n; ++i) keep[i] = (lot_() >> 32 & 1) != 0;
  return keep;
}

inline std::shared_ptr<crash_store> crash_images::next() {
  auto keep = choice();
  if (keep.empty()) return nullptr;
  std::lock_guard lock(of_->mutex_);
  auto image = crash_store::make(of_->capacity_);
  auto& tree = image->live_;
  tree = start_;
  kept_.clear();
  size_t at = 0;
  const auto end = of_->log_.lower_bound(point_);
  for (auto entry = of_->log_.lower_bound(from_); entry != end; ++entry) {
    const auto& [place, c] = *entry;
    if (of_->ledger_.durable(place, point_))
      crash_store::apply(tree, c, 0, c.bytes.size());  // CS-1
    for (; at < pieces_.size() && pieces_[at].at == place; ++at) {
      if (!keep[at]) continue;
      crash_store::apply(tree, c, pieces_[at].begin, pieces_[at].end);
      kept_ += (kept_.empty() ? "" : "; ") + c.text;
    }
  }
  image->base_ = tree;
  image->last_node_ = of_->last_node_;
  return image;
}

}  // namespace troupe::io
