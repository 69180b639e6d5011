// `troupe bench gpu` and `bench ops` through the built program, tiny, on the host: every part runs,
// numbers are finite, deadlines end what hangs. Timing decides nothing here.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "apps/bench/gpu_tests.hpp"
#include "apps/bench/ops_cases.hpp"
#include "gpu/cuda.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

namespace fs = std::filesystem;
using namespace troupe;
using apps::gpu_test_run;

namespace {

ended bench(const fs::path& in, const std::string& words) {
  return run_in(in, TROUPE_PROGRAM " bench " + words);
}

/// A program that stands for a test executable.
void put_program(const fs::path& path, const std::string& script) {
  std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
  fs::permissions(path, fs::perms::owner_all);
}

const std::string ruler(79, '=');

/// What doctest 2.4.9 prints.
std::string report_of_doctest() {
  return "[doctest] doctest version is \"2.4.9\"\n" + ruler +
         "\na.cpp:4:\nTEST CASE:  one that skips\n\na.cpp:4: MESSAGE: SKIPPED: no GPU\n\n" + ruler +
         "\na.cpp:5:\nTEST CASE:  one that fails: twice, odd\n\n"
         "a.cpp:5: ERROR: CHECK( 1==2 ) is NOT correct!\n  values: CHECK( 1 == 2 )\n\n" +
         ruler +
         "\na.cpp:5:\nTEST CASE:  one that fails: twice, odd\n  x\n\n"
         "a.cpp:5: ERROR: CHECK( 3==4 ) is NOT correct!\n\n" +
         ruler +
         "\na.cpp:7:\nTEST CASE:  one that crashes\n\n"
         "a.cpp:7: FATAL ERROR: test case CRASHED: SIGSEGV - Segmentation violation signal\n\n" +
         ruler +
         "\n[doctest] test cases: 15 | 13 passed | 2 failed | 0 skipped\n"
         "[doctest] assertions: 33 | 31 passed | 2 failed |\n[doctest] Status: FAILURE!\n";
}

}  // namespace

TEST_CASE("bench gpu: doctest's report is read: counts, skips, names of failures once") {
  gpu_test_run run;
  apps::read_test_output(report_of_doctest(), run);
  CHECK(run.how == gpu_test_run::ending::ended);
  CHECK(run.passed == 12);
  CHECK(run.failed == 2);
  CHECK(run.skipped == 1);
  CHECK(run.failures == std::vector<std::string>{"one that fails: twice, odd", "one that crashes"});
}

TEST_CASE("bench gpu: a report without an end is no pass, and names the last test case") {
  gpu_test_run run;
  apps::read_test_output("TEST CASE:  the last\n\nb.cpp:1: MESSAGE: hm\n", run);
  CHECK(run.how == gpu_test_run::ending::unreadable);
  CHECK_FALSE(run.good());
  CHECK(run.failures == std::vector<std::string>{"the last"});
  gpu_test_run nothing;
  apps::read_test_output("", nothing);
  CHECK_FALSE(nothing.good());
  gpu_test_run cut;
  apps::read_test_output("[doctest] test cases: 5 | 2 pas", cut);
  CHECK_FALSE(cut.good());
}

TEST_CASE("bench ops: a call's floor is the slower of its products and its bytes") {
  const apps::ceilings most = {100, 10};
  CHECK(most.floor_s({"", 200, 10, 1, {}}) == doctest::Approx(2));
  CHECK(most.floor_s({"", 200, 50, 1, {}}) == doctest::Approx(5));
  CHECK(apps::ceilings{}.floor_s({"", 200, 50, 1, {}}) == 0);
}

TEST_CASE("bench gpu: every operation of a model on the host, with times and floors") {
  scratch dir;
  const auto done = bench(dir.path,
                          "gpu --device host --models tiny --dtype f32 --threads 1 --side 64 "
                          "--copy-mib 4 --seconds 0.001 --no-tests --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  CHECK(j["device"]["name"].get<std::string>().starts_with("host"));
  CHECK(j["ceilings"]["flops"] > 0);
  CHECK(j["ceilings"]["copy_bytes_per_second"] > 0);
  REQUIRE(j["models"].size() == 1);
  std::set<std::string> names;
  for (const auto& op : j["models"][0]["ops"]) {
    CAPTURE(op.dump());
    names.insert(op["op"]);
    CHECK(op["least"] > 0);
    CHECK(op["least"] <= op["seconds"]);
    CHECK(op["seconds"] <= op["most"]);
    CHECK(op["floor_seconds"] > 0);
  }
  for (const char* op :
       {"qkv forward", "feed in forward + GELU", "feed out backward input + GELU",
        "qkv backward weight + bias", "attention backward", "head + loss, both ways", "clip scale",
        "AdamW of a layer", "norm of gradients, a layer", "cast to float32"}) {
    CHECK_MESSAGE(names.contains(op), op);
  }
}

TEST_CASE("bench gpu: tests that pass, fail and hang are told apart, and nothing outlives it") {
  scratch dir;
  const fs::path tests = dir.path / "tests";
  fs::create_directory(tests);
  put_program(tests / "test_a_good_device",
              "echo '[doctest] test cases:  3 |  3 passed | 0 failed | 0 skipped'");
  std::ofstream(tests / "report") << report_of_doctest();
  put_program(tests / "test_b_bad_device", "cat \"$(dirname \"$0\")\"/report; exit 1");
  put_program(tests / "test_c_hangs_device",
              "exec 9>\"$(dirname \"$0\")\"/lock; flock 9; echo 'TEST CASE:  waits for ever'; "
              "sleep 1000");
  put_program(tests / "test_cuda", "exit 7");                      // not of a GPU
  std::ofstream(tests / "test_text_device") << "not a program\n";  // not executable
  const auto done = bench(dir.path,
                          "gpu --device host --no-ops --side 64 --copy-mib 4 --minutes 0.06 "
                          "--tests tests --logs logs --json");
  REQUIRE_MESSAGE(done.code == 1, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  REQUIRE(j["tests"].size() == 3);
  CHECK(j["tests"][0]["outcome"] == "passed");
  CHECK(j["tests"][1]["outcome"] == "FAILED");
  CHECK(j["tests"][1]["failures"].size() == 2);
  CHECK(j["tests"][2]["outcome"] == "out of time");
  CHECK(j["tests"][2]["failures"][0] == "waits for ever");
  CHECK(content(dir.path / "logs" / "test_b_bad_device.log") == report_of_doctest());
  CHECK(j["left_out"].dump().find("test_c_hangs_device") != std::string::npos);
  const int lock = ::open((tests / "lock").c_str(), O_RDONLY);
  CHECK(::flock(lock, LOCK_EX) == 0);  // free once it and its children are dead
  ::close(lock);
}

TEST_CASE("bench gpu: the table says what there was no time for, and good tests end in 0") {
  scratch dir;
  put_program(dir.path / "test_a_device",
              "echo '[doctest] test cases:  3 |  3 passed | 0 failed | 0 skipped'");
  auto done = bench(dir.path,
                    "gpu --device host --models tiny,llama-tiny --threads 1 --side 64 --copy-mib 4 "
                    "--minutes 0.0001 --tests .");
  CHECK(done.code == 0);
  CHECK(done.out.find("left out: operations of llama-tiny") != std::string::npos);
  CHECK(done.out.find("left out: test_a_device") != std::string::npos);
  done = bench(dir.path, "gpu --device host --no-ops --side 64 --copy-mib 4 --tests .");
  CHECK_MESSAGE(done.code == 0, done.talk);
  CHECK(done.out.find("test_a_device") != std::string::npos);
  CHECK(done.out.find("3 passed") != std::string::npos);
  CHECK(done.out.find("left out") == std::string::npos);
}

TEST_CASE("bench gpu: what is trained is told with speed, share of the peak and of operations") {
  scratch dir;
  const auto words = "gpu --device host --no-ops --no-tests --side 64 --copy-mib 4 --train micro ";
  auto done = bench(dir.path, std::string(words) + "--dtype f32 --threads 1 --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  REQUIRE(j["training"].size() == 1);
  const auto& t = j["training"][0];
  CHECK(t["model"] == "micro");
  CHECK(t["median"]["tokens_per_s"] > 0);
  CHECK(t["median"]["of_peak"] > 0);
  CHECK(t["peak_gflops"] > 0);
  CHECK(t["ops"]["linear_forward"]["share"] > 0);
  CHECK(t["loss"].get<double>() == doctest::Approx(std::log(128)).epsilon(0.1));
  done = bench(dir.path, std::string(words) + "--minutes 0.00001");
  CHECK(done.code == 0);
  CHECK(done.out.find("left out: training of micro") != std::string::npos);
}

TEST_CASE("bench ops: a Llama's operations, rope among them, in JSON") {
  scratch dir;
  const auto done = bench(dir.path,
                          "ops --model llama-tiny --batch 1 --dtype bf16 --threads 1 --seconds "
                          "0.001 --json --only o");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  CHECK(j["batch"] == 1);
  CHECK(j["model"] == "llama-tiny");
  CHECK(j["peak_flops"] > 0);
  double share = 0;
  bool rope = false;
  for (const auto& op : j["ops"]) {
    share += op["share"].get<double>();
    rope = rope || op["op"] == "rope";
  }
  CHECK(share == doctest::Approx(1));
  CHECK(rope);
  CHECK(bench(dir.path, "ops --only no-such-operation").code == 64);
}

TEST_CASE("bench gpu: a device that is not there is an error with a hint, not a table") {
  scratch dir;
  CHECK(bench(dir.path, "gpu --device abacus").code == 64);
  CHECK(bench(dir.path, "gpu --device cuda:x").code == 64);
  if (gpu::cuda_device_count()) {
    MESSAGE("SKIPPED: there is a GPU here");
    return;
  }
  const auto done = bench(dir.path, "gpu");
  CHECK(done.code == 69);
  CHECK(done.talk.find("hint: ") != std::string::npos);
  CHECK(done.out == "");
}

TEST_CASE("bench gpu: the PyTorch twins have the shapes that are timed here") {
  scratch dir;
  for (const char* model : {"gpt2-124m", "gpt2-1.5b", "llama-1b", "llama-8b"}) {
    CAPTURE(model);
    const auto line = "python3 " TROUPE_SOURCE_DIR "/tests/gpu/twins/train.py --describe --model " +
                      std::string(model) + " >'" + (dir.path / "out").string() + "'";
    const int status = std::system(line.c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
      MESSAGE("SKIPPED: no python3");
      return;
    }
    const auto j = nlohmann::json::parse(content(dir.path / "out"));
    const auto& shape = apps::bench_shapes().at(model);
    CHECK(j["seq"] == shape.seq);
    CHECK(j["layers_of_whole"] == shape.layers);
    CHECK(j["heads"] == shape.heads);
    CHECK(j["kv_heads"] == shape.kv_heads);
    CHECK(j["hidden"] == shape.width);
    CHECK(j["ffn"] == shape.feed);
    CHECK(j["vocab"] == shape.vocab);
    CHECK((j["family"] == "llama") == shape.llama);
  }
}
