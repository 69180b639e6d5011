// The engines of a worker under test: each call is noted, and what completes later does so when the
// test says, well or with an error.
//
//   auto script = std::make_shared<engine_script>();
//   ... worker(epoch, rank, std::make_shared<scripted_engines>(script)) ...
//   CHECK(script->said() == std::vector<std::string>{"build"});
//   script->complete("build");
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/train/engine.hpp"

namespace troupe::train::test {

/// What a test sees and says of the engines of one worker. It outlives them; the newest engine is
/// meant where one is.
struct engine_script {
  /// A call that has not completed.
  struct pending {
    std::string call;
    engine::completion done;
  };
  std::vector<std::string> calls;  ///< since said(): "forward 0 in 1 of batch 2"
  std::vector<pending> under_way;
  std::vector<engine_options> made;  ///< what each engine was made from
  std::optional<error> refusal;      ///< of the next call that can be refused at once
  engine_probe* probe = nullptr;
  uint64_t span = 0, trace = 0;  ///< the cause of what is called now
  work_pace pace;                ///< of the pass that was begun last
  gpu::controls::clock_table_ptr clocks;  ///< the same

  // What the next calls answer.
  engine_facts facts;
  uint64_t computed_us = 0;
  bool takes_files = false;
  std::vector<group_offer> offers;
  step_outcome outcome;
  io::checkpoint::shard_facts vote;
  std::optional<gpu::saver_facts> saver;
  std::shared_ptr<io::checkpoint::memory_copies> copies;

  std::vector<std::string> said() { return std::exchange(calls, {}); }
  /// The oldest call of these words completes, on the thread that says so.
  void complete(const std::string& call, const status& how = {}) {
    const auto it = std::find_if(under_way.begin(), under_way.end(),
                                 [&](const auto& p) { return p.call == call; });
    REQUIRE_MESSAGE(it != under_way.end(), (call + " is not under way"));
    const auto done = std::move(it->done);
    under_way.erase(it);
    done(how);
  }
  status refuse() {
    if (auto why = std::exchange(refusal, {})) return *why;
    return {};
  }
};

class scripted_engine : public engine {
 public:
  explicit scripted_engine(std::shared_ptr<engine_script> script) : script_(std::move(script)) {}
  /// Its last operation ends with it, as those of real streams do.
  ~scripted_engine() override {
    if (probe_ != nullptr) probe_->end({pipeline_op::load, 0}, 0, 0, 1);
    note("gone");
  }

  void set_probe(engine_probe* probe) noexcept override { script_->probe = probe_ = probe; }
  void set_cause(uint64_t span, uint64_t trace) noexcept override {
    script_->span = span;
    script_->trace = trace;
  }
  void build(completion done) override { begin("build", std::move(done)); }
  engine_facts facts() const override { return script_->facts; }
  uint64_t computed_us() const override { return script_->computed_us; }
  status attach(const batch_source& b) override {
    note(fmt::format("attach {}: {} of {} bytes, from row {}", b.path, b.slots, b.slot_bytes,
                     b.first_row));
    return script_->refuse();
  }
  result<std::vector<group_offer>> open_groups(const std::string& host) override {
    note("open groups on " + host);
    TROUPE_CHECK(script_->refuse());
    return script_->offers;
  }
  void connect_groups(group_tables tables, completion done) override {
    std::string all;
    for (const auto& [group, addresses] : tables)
      all += fmt::format(" {}={}", group, fmt::join(addresses, ","));
    begin("connect" + all, std::move(done));
  }

  void run(const op_order& o, completion done) override {
    const auto& facts = facts_of(o.kind);
    if (o.kind == pipeline_op::begin) {
      script_->pace = o.pace;
      script_->clocks = o.clocks;
      return note("begin");
    }
    auto call =
        fmt::format("{}{} {} in {}", o.last ? "last " : "", facts.name, o.micro_batch, o.slot);
    if (facts.reads_batch) call += fmt::format(" of batch {}", o.batch_slot);
    if (o.digest) call += " with digests";
    if (facts.releases == op_partner::none) return note(call);
    begin(call, std::move(done));
  }
  void were_held() override { note("were held"); }
  void update(int64_t step, double lr, outcome_completion done) override {
    begin(fmt::format("update {} by {}", step, lr), with_outcome(std::move(done)));
  }
  void finish_evaluation(outcome_completion done) override {
    begin("finish evaluation", with_outcome(std::move(done)));
  }

  void load(std::string folder, bool optimizer, completion done) override {
    begin(fmt::format("load {}{}", folder, optimizer ? " with moments" : ""), std::move(done));
  }
  bool takes_files() const override { return script_->takes_files; }
  void save(uint64_t step, const std::filesystem::path& partial, bool last,
            gpu::state_saver::completion done) override {
    begin(fmt::format("save {} in {}{}", step, partial.string(), last ? ", the last" : ""),
          [script = script_.get(), done = std::move(done)](const status& s) {
            if (s) return done(script->vote);
            done(s.error());
          });
  }
  void copy(uint64_t step, const std::filesystem::path& partial,
            gpu::state_saver::completion done) override {
    if (partial.empty()) return note(fmt::format("copy {}", step));
    note(fmt::format("copy {} and", step));
    save(step, partial, false, std::move(done));
  }
  void take_back(io::checkpoint::copy_tag tag, bool from_keeper, completion done) override {
    begin(fmt::format("take back {} of epoch {}{}", tag.step, tag.epoch,
                      from_keeper ? " from the keeper" : ""),
          std::move(done));
  }
  std::optional<gpu::saver_facts> saver_facts() const override { return script_->saver; }
  void abort() noexcept override { note("abort"); }

 private:
  void note(std::string call) { script_->calls.push_back(std::move(call)); }
  void begin(const std::string& call, completion done) {
    note(call);
    script_->under_way.push_back({call, std::move(done)});
  }
  completion with_outcome(outcome_completion done) {
    return [script = script_.get(), done = std::move(done)](const status& s) {
      done(s, s ? script->outcome : step_outcome{});
    };
  }

  std::shared_ptr<engine_script> script_;
  engine_probe* probe_ = nullptr;
};

class scripted_engines : public engine_maker {
 public:
  explicit scripted_engines(std::shared_ptr<engine_script> script) : script_(std::move(script)) {}

  result<std::unique_ptr<engine>> make_engine(const engine_options& options) override {
    TROUPE_CHECK(script_->refuse());
    script_->made.push_back(options);
    return std::unique_ptr<engine>(std::make_unique<scripted_engine>(script_));
  }
  std::shared_ptr<io::checkpoint::memory_copies> copies() override { return script_->copies; }

 private:
  std::shared_ptr<engine_script> script_;
};

}  // namespace troupe::train::test
