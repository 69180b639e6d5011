// What a resumed run takes over, says and refuses.
#include "actors/train/resume_policy.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "actors/checkpoint/owner.hpp"
#include "io/config/load.hpp"
#include "tests/io/job_text.hpp"

using namespace troupe;
using namespace troupe::train;
using strings = std::vector<std::string>;

namespace {

config::job job_with(const strings& sets) {
  return job_of_text(
      "[job]\nname = \"x\"\n[model]\nlayers = 2\nheads = 4\nhidden = 64\nvocab = 256\n"
      "max_seq_len = 512\n[data]\npath = \"text\"\n"
      "[train]\nsteps = 200\nbatch = 8\nseq_len = 32\nlr = 0.003\n",
      sets);
}

checkpoint::train_state state_of(const config::job& job,
                                 std::vector<checkpoint::setting_change> set = {}) {
  return {90, 90 * 8 * 32, 2.5, config::to_toml(job), std::move(set)};
}

bool says(const strings& all, const std::string& text) {
  return std::any_of(all.begin(), all.end(), [&](const auto& s) { return s.find(text) != s.npos; });
}

}  // namespace

TEST_CASE("resume policy: the same configuration says nothing") {
  const auto r = resume_policy(job_with({}), state_of(job_with({})));
  CHECK(r.found.remarks.empty());
  CHECK(r.found.problems.empty());
  CHECK(r.job == job_with({}));
}

TEST_CASE("RSM-5: a checkpoint of fewer replicas is said to be one, and no key to have changed") {
  const strings all{"cluster.nodes=4", "parallel.data=4", "train.micro_batch=2"};
  const strings fewer{"cluster.nodes=2", "parallel.data=2", "train.micro_batch=2"};
  auto saved = state_of(job_with(fewer));
  saved.replicas_configured = 4;
  CHECK(resume_policy(job_with(all), saved).found.remarks ==
        strings{"step 90 was made with 2 of 4 replicas"});
  const auto less = resume_policy(job_with(fewer), saved);
  CHECK(less.found.remarks == strings{"step 90 was made with 2 of 4 replicas",
                                      "since step 90: parallel.data 4 -> 2"});
}

TEST_CASE("RSM-6: stages keep the layers that they had, unless the configuration says others") {
  const auto with = [](strings more) {
    strings sets{"model.layers=4", "cluster.nodes=2", "parallel.pipeline=2"};
    sets.insert(sets.end(), more.begin(), more.end());
    return job_with(sets);
  };
  const auto saved = state_of(with({"parallel.layers=3,1"}));
  const auto kept = resume_policy(with({}), saved);
  CHECK(kept.job.parallel.layers == "3,1");
  CHECK(kept.found.remarks.empty());
  const auto same = resume_policy(with({"parallel.layers=3, 1"}), saved);
  CHECK(same.found.remarks.empty());
  const auto others = resume_policy(with({"parallel.layers=1,3"}), saved);
  CHECK(others.job.parallel.layers == "1,3");
  CHECK(others.found.remarks == strings{"since step 90: parallel.layers \"3,1\" -> \"1,3\""});
  CHECK(others.found.problems.empty());
  const auto more_stages =
      resume_policy(job_with({"model.layers=4", "cluster.nodes=4", "parallel.pipeline=4"}), saved);
  CHECK(more_stages.job.parallel.layers.empty());
  CHECK(more_stages.found.remarks == strings{"since step 90: parallel.pipeline 2 -> 4"});
  CHECK(resume_policy(with({}), state_of(with({}))).job.parallel.layers.empty());
  // What is recorded is not measured anew.
  const auto measured = resume_policy(with({"parallel.placement=measured"}), saved);
  CHECK(measured.job.parallel.layers == "3,1");
  CHECK(measured.job.parallel.placement == config::stage_placement::even);
  CHECK(measured.found.remarks.empty());
  const auto others_measured =
      resume_policy(job_with({"model.layers=4", "cluster.nodes=4", "parallel.pipeline=4",
                              "parallel.placement=measured"}),
                    saved);
  CHECK(others_measured.job.parallel.placement == config::stage_placement::measured);
}

TEST_CASE("RSM-6: nodes keep the order that they had with the layers that are kept") {
  const auto with = [](strings more) {
    strings sets{"model.layers=4", "cluster.nodes=2", "parallel.pipeline=2"};
    sets.insert(sets.end(), more.begin(), more.end());
    return job_with(sets);
  };
  const auto saved = state_of(with({"parallel.layers=3,1", "parallel.nodes=node1,node0"}));
  const auto first_of = [](const resumption& r) { return r.job.cluster.node.at(0).name; };
  for (const strings& as :
       {strings{}, strings{"parallel.placement=measured"}, strings{"parallel.layers=3,1"}}) {
    const auto kept = resume_policy(with(as), saved);
    CHECK(first_of(kept) == "node1");
    CHECK(kept.job.parallel.nodes == "node1,node0");
    CHECK(kept.found.remarks.empty());
  }
  const auto others = resume_policy(with({"parallel.layers=1,3"}), saved);
  CHECK(first_of(others) == "node0");
  CHECK(others.found.remarks == strings{"since step 90: parallel.layers \"3,1\" -> \"1,3\"",
                                        "since step 90: parallel.nodes \"node1,node0\" -> \"\""});
  const auto told = resume_policy(with({"parallel.nodes=node0,node1"}), saved);
  CHECK(first_of(told) == "node0");
  CHECK(told.job.parallel.layers == "3,1");
  CHECK(told.found.remarks ==
        strings{"since step 90: parallel.nodes \"node1,node0\" -> \"node0,node1\""});
  auto renamed = with({});
  renamed.cluster.node[1].name = "another";
  const auto elsewhere = resume_policy(renamed, saved);
  CHECK(first_of(elsewhere) == "node0");
  CHECK(elsewhere.job.parallel.layers == "3,1");
  CHECK(elsewhere.found.problems.empty());
}

TEST_CASE("resume policy: a start comes by itself to what lies in a tier by its name (RSM-4)") {
  config::checkpoint_section c;
  c.dir = "runs/x/checkpoints/";
  c.second.dir = "/shared/x";
  for (const char* there : {"runs/x/checkpoints/step-00000020", "/shared/x/step-00000020"})
    CHECK(lies_in_place(there, c));
  for (const char* not_there :
       {"runs/x/checkpoints/step-00000020.aside-1", "/shared/x/step-00000020.aside-1",
        "runs/y/checkpoints/step-00000020", "step-00000020", "runs/x/checkpoints/mine"})
    CHECK_FALSE(lies_in_place(not_there, c));
  c.second.dir.clear();
  CHECK_FALSE(lies_in_place("/shared/x/step-00000020", c));
  CHECK_FALSE(lies_in_place("step-00000020", c));
}

TEST_CASE("resume policy: each difference is said with the step, places and printing are not") {
  struct {
    strings sets;
    const char* words;
  } const cases[] = {
      {{"train.batch=16"}, "since step 90: train.batch 8 -> 16"},
      {{"train.seq_len=64"}, "since step 90: train.seq_len 32 -> 64"},
      {{"train.lr=0.001"}, "since step 90: train.lr 0.003 -> 0.001"},
      {{"data.path=other"}, "since step 90: data.path"},
      {{"data.source=[{path=\"a\", weight=3}, {path=[\"b\", \"c\"], text_field=\"body\"}]"},
       "since step 90: data.source none -> [a] x 3, [b, c] x 1 of body; each source goes on"},
      {{"data.shuffle=false"}, "since step 90: data.shuffle true -> false"},
      {{"job.seed=7"}, "since step 90: job.seed 1234 -> 7"},
      {{"model.dtype=bf16"}, "since step 90: model.dtype \"f32\" -> \"bf16\""},
      {{"cluster.nodes=2", "parallel.data=2"}, "since step 90: parallel.data 1 -> 2"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.words);
    const auto r = resume_policy(job_with(c.sets), state_of(job_with({})));
    CHECK(r.found.problems.empty());
    CHECK(says(r.found.remarks, c.words));
  }
  const strings silent{"job.output=elsewhere", "cluster.threads=1", "log.every=9",
                       "checkpoint.every=3",   "data.cache=c",      "train.sample_tokens=9"};
  CHECK(resume_policy(job_with(silent), state_of(job_with({}))).found.remarks.empty());
}

TEST_CASE("resume policy: a mix that has changed is said, and is the same job on the same files") {
  const auto mixed = [](const std::string& a, const std::string& b) {
    return job_with({"data.source=[{path=\"a\"" + a + "}, {path=\"b\"" + b + "}]"});
  };
  const auto before = mixed(", weight=2", "");
  CHECK(resume_policy(mixed(", weight=2", ", name=\"code\""), state_of(before))
            .found.remarks.empty());
  const auto heavier = mixed(", weight=2.5", "");
  CHECK(says(resume_policy(heavier, state_of(before)).found.remarks,
             "since step 90: data.source [a] x 2, [b] x 1 -> [a] x 2.5, [b] x 1;"));
  CHECK_FALSE(checkpoint::other_job(before, heavier));
  CHECK(checkpoint::other_job(before, job_with({"data.path=[\"a\", \"b\"]"})) == std::nullopt);
  CHECK(checkpoint::other_job(before, job_with({"data.path=a"})) == "its data.path is a, b, not a");
  CHECK(says(resume_policy(job_with({}), state_of(before)).found.remarks,
             "data.source [a] x 2, [b] x 1 -> none"));
  const auto tokens = resume_policy(job_with({"data.source=[{path=\"a.bin\"}]"}), state_of(before));
  CHECK(tokens.found.problems.size() == 1);
}

TEST_CASE("resume policy: what cannot mean anything is refused, with a way out") {
  struct {
    strings sets;
    const char *key, *words;
  } const cases[] = {
      {{"train.optimizer=lamb"}, "train.optimizer", "the other optimizer's"},
      {{"model.heads=8"}, "model.heads", "another model"},
      {{"model.layers=4"}, "model.layers", "another model"},
      {{"model.vocab=300"}, "model.vocab", "another model"},
      {{"model.max_seq_len=1024"}, "model.max_seq_len", "each position"},
      {{"data.tokenizer=gpt2.json"}, "data.tokenizer", "mean something else"},
      {{"data.path=tokens.bin"}, "data.path", "text until here and token files now"},
      {{"data.format=nanogpt"}, "data.path", "text until here and token files now"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.sets.front());
    const auto r = resume_policy(job_with(c.sets), state_of(job_with({})));
    const auto& all = r.found.problems;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const finding& f) { return f.key == c.key; });
    REQUIRE(found != all.end());
    CHECK(found->why.code == errc::bad_config);
    CHECK(found->why.message.find(c.words) != std::string::npos);
    CHECK_FALSE(found->why.hint.empty());
  }
}

TEST_CASE("resume policy: another model is one mistake, told by its first key and how many") {
  const auto r = resume_policy(job_with({"model.layers=4", "model.heads=8", "model.hidden=128"}),
                               state_of(job_with({})));
  REQUIRE(r.found.problems.size() == 1);
  CHECK(r.found.problems[0].key == "model.layers");
  const auto& said = r.found.problems[0].why.message;
  CHECK_MESSAGE(said.find("more of its keys are others: model.heads") != std::string::npos, said);
  CHECK(said.find("model.hidden") != std::string::npos);
}

TEST_CASE("resume policy: what was set stays until the file changes that key (RSM-1)") {
  const auto ran_with = job_with({"train.lr=0.001"});  // set from step 50 on
  const auto saved = state_of(ran_with, {{"train.lr", "0.001", "0.003", 50}});
  const auto kept = resume_policy(job_with({}), saved);
  CHECK(kept.job.train.lr == 0.001);
  CHECK(kept.set == saved.set);
  CHECK(kept.found.remarks ==
        strings{"train.lr stays 0.001, set from step 50 on; the file says 0.003"});
  const auto changed = resume_policy(job_with({"train.lr=0.002"}), saved);
  CHECK(changed.job.train.lr == 0.002);
  CHECK(changed.set.empty());
  CHECK(changed.found.remarks == strings{"since step 90: train.lr 0.001 -> 0.002"});
}

TEST_CASE("resume policy: what was set for the step after the checkpoint is kept, too") {
  const auto saved = state_of(job_with({}), {{"train.lr", "0.001", "0.003", 91}});
  const auto r = resume_policy(job_with({}), saved);
  CHECK(r.job.train.lr == 0.001);
  CHECK(r.found.remarks.size() == 1);
}

TEST_CASE("resume policy: a state that cannot be read any more is said") {
  auto saved = state_of(job_with({}));
  saved.config_toml = "[train]\nno_such_key = 1\n";
  const auto r = resume_policy(job_with({}), saved);
  CHECK(r.found.problems.empty());
  CHECK(says(r.found.remarks, "is not known"));
}

TEST_CASE("resume policy: the position in the data is that of the tokens seen (RSM-3)") {
  CHECK(first_row_after(90 * 8 * 32, 32) == 90 * 8);
  CHECK(first_row_after(90 * 8 * 32, 64) == 90 * 4);
  CHECK(first_row_after(100, 64) == 1);
}
