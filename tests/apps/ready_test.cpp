// The one list of checks against a start, by drawn configurations: what it passes does not fail
// when data is opened, memory laid out and stages shaped; and checking leaves nothing behind.
#include "apps/ready.hpp"

#include <unistd.h>

#include <cstdlib>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/train/batch_memory.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/inputs.hpp"
#include "actors/train/memory_estimate.hpp"
#include "actors/train/swap_folder.hpp"
#include "actors/train/swap_forecast.hpp"
#include "actors/train/swap_ranks.hpp"
#include "apps/data_mark.hpp"
#include "gpu/swap/residency_plan.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/write_checkpoint.hpp"
#include "io/file.hpp"
#include "io/folder/owned.hpp"
#include "tests/errors.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/config_mutations.hpp"
#include "tests/io/scratch.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// Relative names are of this folder as long as it lives.
class working_folder {
 public:
  explicit working_folder(const fs::path& to) : before_(fs::current_path()) {
    fs::current_path(to);
  }
  ~working_folder() { fs::current_path(before_); }
  working_folder(const working_folder&) = delete;

 private:
  fs::path before_;
};

std::vector<std::string> names_below(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

train::machine a_machine() {
  train::machine m;
  m.memory_bytes = uint64_t{4} << 30;
  m.memory_whose = "this machine";
  m.cores = 2;
  m.no_gpus = {errc::unavailable, "there is no GPU", ""};
  return m;
}

/// What loader and stages do first, in this process, with what they are sent.
status begin_to_start(const train::job_plan& plan) {
  TROUPE_TRY(job, config::parse(config::to_toml(plan.job), "the coordinator's configuration"));
  TROUPE_TRY(model, train::model_of(job));
  for (const auto& r : plan.ranks)
    TROUPE_CHECK(gpu::check(model, train::options_of(job, model, r.at, r.layers, 1).shape));
  const auto vocab = static_cast<uint32_t>(model.vocab);
  TROUPE_TRY(data, train::open_tokens(job, job.data.sources().front(), {}));
  TROUPE_CHECK(data.tokens.check_vocabulary(vocab));
  TROUPE_CHECK(train::order_of(job, data.tokens.size(), false));
  if (!job.data.validation_path.empty()) {
    TROUPE_TRY(held_out, train::open_tokens(job, job.data.validation(), {}));
    TROUPE_CHECK(held_out.tokens.check_vocabulary(vocab));
    TROUPE_CHECK(train::order_of(job, held_out.tokens.size(), true));
  }
  TROUPE_CHECK(train::batch_memory::check(train::batch_of(job), 6));
  fs::create_directories(job.job.output);
  fs::create_directories(job.checkpoint.dir);
  return {};
}

/// A checkpoint where the job looks for one.
void save_step(const config::job& job, uint64_t step, const std::string& state) {
  io::checkpoint::write_options o;
  o.dir = job.checkpoint.dir;
  o.head.job = job.job.name;
  o.head.step = step;
  o.head.slot_bytes = io::checkpoint::sample::slot_bytes;
  const io::checkpoint::small_file saved{std::string(checkpoint::state_file), state};
  REQUIRE(io::checkpoint::write_checkpoint(o, io::checkpoint::sample::stages(1),
                                           io::checkpoint::sample::source(), std::span(&saved, 1)));
}

}  // namespace

TEST_CASE(
    "ready: the epoch is later than what a launcher left that came during the checks (FLD-2)") {
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  std::ofstream("job.toml") << config_mutations::base();
  const auto read = config::read({"job.toml", {}, {}});
  REQUIRE(read.problems.empty());
  auto ready = apps::readiness_of(read.config.value, a_machine());
  REQUIRE(ready.problems.empty());
  const auto& c = ready.plan->job.checkpoint;
  CHECK(ready.epoch == 1);
  REQUIRE(apps::look_again(ready, c));
  CHECK(ready.epoch == 1);
  fs::create_directories(fs::path(c.dir) / io::checkpoint::partial_name(5, 3));
  REQUIRE(apps::look_again(ready, c));
  CHECK(ready.epoch == 4);
  fs::create_directories(fs::path(c.dir) / io::checkpoint::complete_name(5));
  CHECK(apps::look_again(ready, c).error().code == errc::timeout);
}

TEST_CASE("ready: a tokenizer that checkpoints copy must be there, though the data is tokens") {
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  std::ofstream("job.toml") << config_mutations::base();
  const auto problems_with = [](const std::string& tokenizer) {
    const auto read = config::read({"job.toml",
                                    {},
                                    {"data.path=tokens.bin", "model.vocab=256",
                                     "data.tokenizer=" + tokenizer}});
    REQUIRE(read.problems.empty());
    return apps::readiness_of(read.config.value, a_machine()).problems;
  };
  CHECK(problems_with("bytes").empty());
  std::ofstream("there.json") << "{}";
  CHECK(problems_with("there.json").empty());
  const auto missing = problems_with("run/checkpoints/inside");
  REQUIRE(missing.size() == 1);
  CHECK(missing.front().key == "data.tokenizer");
  CHECK(missing.front().why.code == errc::not_found);
}

TEST_CASE("ready: of a model's folder its tokenizer is refused, not a vocab that nobody set") {
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  fs::create_directory("hf");
  std::ofstream("hf/config.json")
      << R"({"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8,)"
      << R"( "vocab_size": 251, "n_positions": 64})";
  std::ofstream("job.toml") << "[model]\npath = \"hf\"\ninit = \"random\"\n"
                               "[data]\npath = \"text.txt\"\ntokenizer = \"bytes\"\n"
                               "[train]\nseq_len = 16\n";
  const auto read = config::read({"job.toml", {}, {}});
  REQUIRE(read.problems.empty());
  const auto problems = apps::readiness_of(read.config.value, a_machine()).problems;
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().key == "data.tokenizer");
  CHECK(problems.front().why.hint.find("model.vocab") == std::string::npos);
}

TEST_CASE("ready: a model and a tokenizer that are not read are told by their keys") {
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  fs::create_directory("hf");
  std::ofstream("hf/config.json") << R"({"model_type": "llama4"})";
  std::ofstream("job.toml") << config_mutations::base();
  const std::pair<const char*, const char*> rows[] = {{"model.path", "hf"},
                                                      {"data.tokenizer", "text.txt"}};
  for (const auto& [key, name] : rows) {
    CAPTURE(key);
    const auto read = config::read({"job.toml", {}, {fmt::format("{}={}", key, name)}});
    REQUIRE(read.problems.empty());
    const auto problems = apps::readiness_of(read.config.value, a_machine()).problems;
    REQUIRE_FALSE(problems.empty());
    CHECK(problems.front().key == key);
  }
}

TEST_CASE("ready: data that is too little is named") {
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  std::ofstream("job.toml") << config_mutations::base();
  const auto read = config::read({"job.toml", {}, {"data.path=empty.txt"}});
  REQUIRE(read.problems.empty());
  const auto problems = apps::readiness_of(read.config.value, a_machine()).problems;
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().key == "data.path");
  CHECK(is_error(problems.front().why, io::too_few_tokens, "empty.txt"));
}

TEST_CASE("limits: a checkpoint whose train_state.json is beyond its length is not resumed from") {
  constexpr size_t most = size_t{16} << 20;
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  std::ofstream("job.toml") << config_mutations::base();
  const auto read = config::read({"job.toml", {}, {}});
  REQUIRE(read.problems.empty());
  const auto& job = read.config.value;
  const auto fresh = apps::readiness_of(job, a_machine());
  REQUIRE(fresh.plan);
  const auto ready_after = [&](uint64_t step, size_t bytes) {
    auto state = checkpoint::format_state({step, 64, 2.5, config::to_toml(fresh.plan->job)});
    state.resize(bytes, ' ');
    save_step(job, step, state);
    return apps::readiness_of(job, a_machine());
  };
  const auto at = ready_after(1, most);
  CHECK_MESSAGE(at.problems.empty(), (at.problems.empty() ? "" : render(at.problems.front().why)));
  REQUIRE(at.resume);
  CHECK(at.resume->state.step == 1);
  const auto beyond = ready_after(2, most + 1);
  REQUIRE(beyond.problems.size() == 1);
  CHECK(beyond.problems.front().key == "checkpoint.resume");
  const auto& why = beyond.problems.front().why;
  CHECK(why.code == errc::bad_data);
  CHECK(mentions(why, "step-00000002/train_state.json"));
}

TEST_CASE("ready: a resumed run is cut as its checkpoint was, and what is saved says how (RSM-6)") {
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  std::ofstream("job.toml") << config_mutations::base();
  const auto ready_with = [](std::vector<std::string> sets) {
    sets.insert(sets.end(), {"model.layers=4", "cluster.nodes=2", "parallel.pipeline=2"});
    const auto read = config::read({"job.toml", {}, sets});
    REQUIRE(read.problems.empty());
    auto ready = apps::readiness_of(read.config.value, a_machine());
    REQUIRE_MESSAGE(ready.problems.empty(),
                    (ready.problems.empty() ? "" : render(ready.problems.front().why)));
    return ready;
  };
  const auto by_hand = ready_with({"parallel.layers=3,1"});
  const auto by_itself = ready_with({});
  CHECK(by_itself.plan->job.parallel.layers == train::stage_layers_text(*by_itself.plan));
  REQUIRE(by_itself.plan->job.parallel.layers != "3,1");
  save_step(by_hand.plan->job, 1,
            checkpoint::format_state({1, 64, 2.5, config::to_toml(by_hand.plan->job)}));
  const auto resumed = ready_with({});
  REQUIRE(resumed.resume);
  CHECK(resumed.plan->job.parallel.layers == "3,1");
  CHECK(resumed.plan->ranks[1].layers == train::layer_range{3, 4});
  const auto tells = [](const apps::readiness& r, const char* text) {
    return std::any_of(r.remarks.begin(), r.remarks.end(),
                       [&](const auto& s) { return s.find(text) != s.npos; });
  };
  CHECK(tells(resumed, "stages keep the layers that they had in step 1"));
  const auto changed = ready_with({"parallel.layers=1,3"});
  CHECK(changed.plan->ranks[1].layers == train::layer_range{1, 4});
  CHECK_FALSE(tells(changed, "stages keep the layers"));
  CHECK_FALSE(tells(resumed, "nodes keep the order"));
  const auto ordered = ready_with({"parallel.layers=3,1", "parallel.nodes=node1,node0"});
  save_step(ordered.plan->job, 2,
            checkpoint::format_state({2, 128, 2.5, config::to_toml(ordered.plan->job)}));
  const auto in_order = ready_with({});
  CHECK(tells(in_order, "nodes keep the order that they had in step 2"));
  CHECK(in_order.plan->job.cluster.node.at(0).name == "node1");
  CHECK(tells(changed, "since step 1: parallel.layers"));
}

TEST_CASE("ready: a resumed run is told of other text under the same name") {
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  std::ofstream("job.toml") << config_mutations::base();
  const auto ready_with = [](const std::string& setting) {
    const auto read = config::read({"job.toml", {}, {setting}});
    REQUIRE(read.problems.empty());
    return apps::readiness_of(read.config.value, a_machine());
  };
  const auto is_told = [&](const std::string& setting) {
    const auto ready = ready_with(setting);
    return std::any_of(ready.remarks.begin(), ready.remarks.end(), [](const std::string& remark) {
      return remark.starts_with("warning: the files of data.path do not hold what they held");
    });
  };
  const std::string as_it_is = "train.steps=1";
  const auto fresh = ready_with(as_it_is);
  REQUIRE(fresh.plan);
  REQUIRE_FALSE(fresh.data_mark.empty());
  const auto& job = fresh.plan->job;
  save_step(job, 1, checkpoint::format_state({1, 64, 2.5, config::to_toml(job)}));
  REQUIRE(io::mark_output(job.job.output, job.job.name));
  const auto resumed = ready_with(as_it_is);
  CHECK(resumed.problems.empty());
  REQUIRE(resumed.resume);
  CHECK_FALSE(is_told(as_it_is));  // of a start before there were marks
  REQUIRE(io::write_atomic(fs::path(job.job.output) / apps::data_mark_file, fresh.data_mark));
  CHECK_FALSE(is_told(as_it_is));
  std::ofstream("text.txt", std::ios::app) << "more";
  CHECK(is_told(as_it_is));
  CHECK_FALSE(is_told("checkpoint.resume=never"));
}

TEST_CASE("ready: a person's data.json is refused in an output of earlier runs, too (FLD-1)") {
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  std::ofstream("job.toml") << config_mutations::base();
  const auto read = config::read({"job.toml", {}, {"train.steps=1"}});
  REQUIRE(read.problems.empty());
  const auto& job = read.config.value;
  const fs::path output = job.job.output;
  fs::create_directories(output);
  REQUIRE(io::mark_output(output, job.job.name));
  const auto problems = [&] { return apps::readiness_of(job, a_machine()).problems; };
  CHECK(problems().empty());
  const auto file = output / apps::data_mark_file;
  for (const auto* own : {"a book\n", "[\"named\", \"content\"]\n", "{\"text\": \"a book\"}\n",
                          "{\"named\": \"a\", \"content\": \"b\"}\n"}) {
    CAPTURE(own);
    std::ofstream(file) << own;
    const auto found = problems();
    REQUIRE(found.size() == 1);
    CHECK(found.front().key == "job.output");
    CHECK(found.front().why.code == errc::bad_config);
    CHECK(mentions(found.front().why, file.string()));
  }
  const auto mark = apps::readiness_of(job, a_machine()).data_mark;
  REQUIRE(io::write_atomic(file, mark));
  CHECK(problems().empty());
}

namespace {

/// Of which not all is in memory, at its floor, on a_machine().
std::vector<std::string> swapping_sets() {
  std::vector<std::string> out{"model.layers=12",  "model.hidden=256", "train.batch=4",
                               "swap.dir=swap",    "swap.clip=twice",  "train.micro_batch=2",
                               "train.seq_len=128"};
  const auto read = config::read({"job.toml", {}, out});
  REQUIRE(read.problems.empty());
  auto plan = train::make_plan(read.config.value);
  REQUIRE(plan);
  plan->job.swap.host_bytes = 1;
  out.push_back(fmt::format("swap.host_bytes={}", train::swap_floor_bytes(*plan, 1)));
  return out;
}

apps::readiness ready_with(std::vector<std::string> sets, const std::string& setting,
                           apps::swap_held held = apps::swap_held::refuses) {
  if (!setting.empty()) sets.push_back(setting);
  const auto read = config::read({"job.toml", {}, sets});
  REQUIRE(read.problems.empty());
  return apps::readiness_of(read.config.value, a_machine(), checkpoint::look::whole, held);
}

}  // namespace

TEST_CASE("ready: a swap folder is refused before anything is written, with 78") {
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  std::ofstream("job.toml") << config_mutations::base();
  const auto sets = swapping_sets();
  const auto before = names_below(here.path);
  const auto good = ready_with(sets, "");
  CHECK_MESSAGE(good.problems.empty(),
                (good.problems.empty() ? "" : render(good.problems.front().why)));
  REQUIRE(good.plan);
  CHECK(train::forecast_swap(*good.plan));
  const auto refused = [&](const std::string& setting) {
    CAPTURE(setting);
    const auto ready = ready_with(sets, setting);
    REQUIRE(ready.problems.size() == 1);
    CHECK(exit_code(ready.problems[0].why.code) == 78);
    CHECK(names_below(here.path) == before);  // ONE-2
    return ready.problems[0];
  };
  const auto small = refused("swap.host_bytes=200000000");
  CHECK(small.key == "swap.host_bytes");
  CHECK(small.why.is(gpu::budget_too_small));
  if (fs::exists("/dev/shm")) {
    const auto memory = refused("swap.dir=/dev/shm/swap");
    CHECK(memory.key == "swap.dir");
    CHECK(memory.why.is(train::swap_is_memory));
  }
  auto endless = sets;  // a checkpoint a step, and all of them are kept
  endless.push_back("checkpoint.every=1");
  const auto ready = ready_with(endless, "train.steps=1000000000");
  REQUIRE(ready.problems.size() == 1);
  CHECK(ready.problems[0].key == "swap.dir");
  CHECK(ready.problems[0].why.is(train::swap_lacks_room));
  CHECK(exit_code(ready.problems[0].why.code) == 78);
  CHECK(names_below(here.path) == before);
}

TEST_CASE("ready: a swap folder that another run's process has is refused with 78") {
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  std::ofstream("job.toml") << config_mutations::base();
  const auto sets = swapping_sets();
  {
    train::swap_request other{.dirs = {"swap"}, .job = "t", .rank = 0};
    const auto held = train::swap_folders::make(other);
    REQUIRE(held);
    const auto found = ready_with(sets, "").problems;
    REQUIRE(found.size() == 1);
    CHECK(found[0].key == "swap.dir");
    CHECK(found[0].why.is(io::folder_in_use));
    CHECK(exit_code(found[0].why.code) == 78);
    CHECK(ready_with(sets, "job.name=u").problems.empty());  // whose folders bear its name
  }
  CHECK(ready_with(sets, "").problems.empty());
}

TEST_CASE(
    "ready: a head that goes on for a lost one passes swap folders that its ranks still have") {
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  std::ofstream("job.toml") << config_mutations::base();
  const auto sets = swapping_sets();
  auto endless = sets;  // a checkpoint a step, and all of them are kept
  endless.insert(endless.end(), {"checkpoint.every=1", "train.steps=1000000000"});
  const auto problems = [](const std::vector<std::string>& of) {
    return ready_with(of, "", apps::swap_held::passes).problems;
  };
  {
    const auto held = train::swap_folders::make({.dirs = {"swap"}, .job = "t", .rank = 0});
    REQUIRE(held);
    CHECK(problems(sets).empty());
    CHECK(problems(endless).empty());  // what they give back may be enough
  }
  const auto lacking = problems(endless);
  REQUIRE(lacking.size() == 1);
  CHECK(lacking[0].why.is(train::swap_lacks_room));
}

TEST_CASE("ready: drawn configurations that pass the checks begin to start, others leave nothing") {
  const char* wanted = std::getenv("TROUPE_CONFIGS");
  const uint64_t count = wanted ? std::strtoull(wanted, nullptr, 10) : 1000;
  const scratch here;
  const working_folder inside(here.path);
  make_mutation_files(here.path);
  const auto before = names_below(here.path);
  std::ofstream("job.toml") << config_mutations::base();
  std::map<std::string, int> outcomes;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const auto sets = config_mutations(seed).draw();
    CAPTURE(seed);
    CAPTURE(fmt::format("--set {}", fmt::join(sets, " --set ")));
    const auto read = config::read({"job.toml", {}, sets});
    if (!read.problems.empty()) {
      ++outcomes["impossible"];
      continue;
    }
    const auto& job = read.config.value;
    const auto ready = apps::readiness_of(job, a_machine());
    fs::remove("job.toml");
    CHECK(names_below(here.path) == before);  // ONE-2
    std::ofstream("job.toml") << config_mutations::base();
    if (!ready.problems.empty()) {
      const auto e = apps::refusal_of(ready.problems, read.config);
      CHECK_FALSE(e.message.empty());
      CHECK_MESSAGE(exit_code(e.code) != 70, e.message);
      for (const auto& p : ready.problems) ++outcomes[p.key.empty() ? "the whole" : p.key];
      continue;
    }
    ++outcomes["ready"];
    if (job.cluster.launch != config::launch_mode::local) continue;
    const auto started = begin_to_start(*ready.plan);
    CHECK_MESSAGE(started, (started ? "" : render(started.error())));
    for (const auto& name : names_below(here.path))
      if (!std::binary_search(before.begin(), before.end(), name) && !name.ends_with("job.toml")) {
        std::error_code ignored;
        fs::remove_all(name, ignored);
      }
  }
  std::string text;
  for (const auto& [what, times] : outcomes) text += fmt::format(" {} {},", what, times);
  MESSAGE(fmt::format("{} configurations:{}", count, text));
  CHECK(outcomes["ready"] > static_cast<int>(count / 20));
}

}  // namespace troupe
