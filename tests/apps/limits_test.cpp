// The bounds of the program: each reached, where no other test does, and the page that lists them.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <caf/all.hpp>
#include <nlohmann/json.hpp>

#include "actors/base/actor_registry.hpp"
#include "actors/capture/flight_memory.hpp"
#include "actors/capture/recorder.hpp"
#include "actors/capture/tap.hpp"
#include "actors/control/audit.hpp"
#include "actors/control/observer.hpp"
#include "actors/train/stage.hpp"
#include "apps/ckpt/verbs.hpp"
#include "apps/control/meeting_point.hpp"
#include "apps/limits_table.hpp"
#include "apps/messages_page.hpp"
#include "io/base/model_config.hpp"
#include "io/base/model_errors.hpp"
#include "io/checkpoint/format.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/data/token_file.hpp"
#include "io/disk/disk.hpp"
#include "io/disk/slots.hpp"
#include "io/formats/hf_config.hpp"
#include "io/formats/safetensors.hpp"
#include "io/tls/certs.hpp"
#include "io/tokenizer/hf_tokenizer.hpp"
#include "io/tokenizer/tokenizer.hpp"
#include "messages/registry.hpp"
#include "messages/rejection.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::apps {

namespace {

namespace fs = std::filesystem;
namespace cp = io::checkpoint;

/// A file of that length which takes no room; it begins with `text`.
std::string sparse(const fs::path& path, uint64_t bytes, const std::string& text = "") {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
  fs::resize_file(path, bytes);
  return path.string();
}

/// The value of the row of a constant.
uint64_t limit_of(std::string_view file, std::string_view name) {
  for (const auto& row : limit_rows())
    if (row.file == file && row.name == name) return row.value;
  FAIL("no such row: " << file << " " << name);
  return 0;
}

/// In a process of its own: what is filled there is filled for good.
bool holds_in_a_child(const std::function<bool()>& there) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(there() ? 0 : 1);
  int how = 0;
  REQUIRE(waitpid(child, &how, 0) == child);
  return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

/// Pages of zeros that take no room as long as nobody looks at them.
struct untouched {
  explicit untouched(size_t wanted) : bytes(wanted) {
    at = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(at != MAP_FAILED);
  }
  ~untouched() { ::munmap(at, bytes); }
  untouched(const untouched&) = delete;
  void* at = nullptr;
  size_t bytes;
};

std::string tokenizer_fault(const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json file = {
      {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}}},
      {"added_tokens", nlohmann::json::array()}};
  change(file);
  scratch dir;
  std::ofstream(dir / "tokenizer.json") << file.dump();
  auto made = io::make_tokenizer((dir / "tokenizer.json").string());
  return made ? "" : made.error().message;
}

}  // namespace

TEST_CASE("LIM-3 docs/limits.md is what the table of limits says") {
  std::ifstream in(fs::path(TROUPE_SOURCE_DIR) / "docs" / "limits.md");
  REQUIRE_MESSAGE(in, "docs/limits.md is missing");
  std::stringstream text;
  text << in.rdbuf();
  CHECK_MESSAGE(text.str() == limits_markdown(), "run: troupe limits --markdown > docs/limits.md");
  const auto all = nlohmann::json::parse(limits_json())["limits"];
  CHECK(all.size() > limit_rows().size());
  for (const auto& row : all) CHECK(row["value"].get<double>() > 0);
}

TEST_CASE("MSP-2 docs/messages.md is what the schemas say") {
  std::ifstream in(fs::path(TROUPE_SOURCE_DIR) / "docs" / "messages.md");
  REQUIRE_MESSAGE(in, "docs/messages.md is missing");
  std::stringstream text;
  text << in.rdbuf();
  CHECK_MESSAGE(text.str() == messages_markdown(),
                "run: troupe limits --messages > docs/messages.md");
  for (const auto& m : all_messages())  // none is left out
    CHECK_MESSAGE(text.str().find(fmt::format("\n### {}\n", m.name)) != std::string::npos, m.name);
}

TEST_CASE("limits: a file beyond its length is refused, and none of it is read") {
  scratch dir;
  const auto refused = [](const auto& answer) {
    return !answer &&
           (answer.error().code == errc::bad_data || answer.error().code == errc::usage ||
            answer.error().code == errc::permission || answer.error().code == errc::bad_config);
  };
  const auto beyond = [&](const char* path, const char* file, const char* name, uint64_t more = 1) {
    return sparse(dir / path, limit_of(file, name) + more, "{}");
  };
  CHECK(refused(io::make_tokenizer(
      beyond("tokenizer.json", "io/tokenizer/make_tokenizer.cpp", "max_tokenizer_bytes"))));
  CHECK(refused(
      io::read_hf_config(beyond("config.json", "io/formats/hf_config.cpp", "max_config_bytes"))));
  beyond("model/model.safetensors.index.json", "io/formats/safetensors.cpp", "max_index_bytes");
  CHECK(refused(io::tensor_store::open(dir / "model")));
  const auto pem = beyond("ca.pem", "io/tls/certs.cpp", "max_pem_bytes");
  CHECK(refused(tls::verify(pem, pem, "")));
  beyond("step-00000001/MANIFEST", "io/checkpoint/manifest.hpp", "max_manifest_bytes",
         uint64_t{8} << 20);
  CHECK(refused(cp::reader::open(dir / "step-00000001")));
}

TEST_CASE("limits: the file of a meeting point beyond its length is skipped") {
  scratch dir;
  const char* before = std::getenv("XDG_RUNTIME_DIR");
  const std::string saved = before != nullptr ? before : "";
  ::setenv("XDG_RUNTIME_DIR", dir.path.c_str(), 1);
  const auto limit = limit_of("apps/control/sign_folder.cpp", "largest_sign_bytes");
  const auto sign = fmt::format(R"({{"job": "j", "pid": {}, "address": "127.0.0.1:1"}})", getpid());
  fs::create_directories(dir / "troupe");
  fs::permissions(dir / "troupe", fs::perms::owner_all);
  const auto padded = [&](uint64_t bytes) {
    std::ofstream(dir / "troupe" / "1.json") << sign << std::string(bytes - sign.size(), ' ');
    return meeting_points().size();
  };
  const auto at = padded(limit), beyond = padded(limit + 1);
  if (before != nullptr)
    ::setenv("XDG_RUNTIME_DIR", saved.c_str(), 1);
  else
    ::unsetenv("XDG_RUNTIME_DIR");
  CHECK(at == 1);
  CHECK(beyond == 0);
}

TEST_CASE("limits: an import refuses a small file beyond its length, and makes nothing") {
  scratch dir;
  const auto model = dir / "model";
  fs::create_directories(model);
  std::ofstream(model / "config.json")
      << R"({"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8,)"
         R"( "vocab_size": 8, "n_positions": 8})";
  auto weights = io::safetensors_writer::create(model / "model.safetensors",
                                                {{"a", io::tensor_dtype::f32, {1}}});
  REQUIRE(weights);
  REQUIRE(weights->write(std::vector<std::byte>(4)));
  REQUIRE(weights->finish());
  const auto merges =
      sparse(model / "merges.txt", limit_of("apps/ckpt/convert.cpp", "max_small_bytes") + 1);
  ckpt::arguments a;
  a.path = model.string();
  a.out = (dir / "all").string();
  const auto refused = ckpt::import_model(a);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bad_data);
  CHECK(mentions(refused.error(), merges));
  CHECK_FALSE(fs::exists(a.out));
}

TEST_CASE("limits: a tokenizer that a job may read is one that its checkpoints take along") {
  CHECK(limit_of("actors/checkpoint/model_files.cpp", "max_tokenizer_bytes") >=
        limit_of("io/tokenizer/make_tokenizer.cpp", "max_tokenizer_bytes"));
}

TEST_CASE("limits: JSON beyond its length becomes no message") {
  const auto limit = limit_of("messages/json.cpp", "max_json_bytes");
  CHECK(from_json("Ack", "{}" + std::string(limit - 2, ' ')));
  CHECK_FALSE(from_json("Ack", "{}" + std::string(limit - 1, ' ')));
}

TEST_CASE("limits: a shard beyond what a checkpoint can say is refused") {
  cp::footer sound;
  sound.job = "j";
  sound.layout = {1, 1, 1};
  sound.slot_bytes = 4096;
  sound.pieces = {{"a", cp::part::master, io::tensor_dtype::f32, {1}, false, 0, 1, 0, 4}};
  sound.stream_bytes = 4;
  sound.crc32c = {1};
  REQUIRE(cp::encode_tail(sound));
  auto f = sound;
  f.slot_bytes = cp::max_slot_bytes + 4096;
  CHECK_FALSE(cp::encode_tail(f));
  f = sound;
  f.stream_bytes = cp::max_stream_bytes + 1;
  CHECK_FALSE(cp::encode_tail(f));
  f = sound;
  f.pieces[0].shape.assign(cp::max_dimensions, 1);
  CHECK(cp::encode_tail(f));
  f.pieces[0].shape.assign(cp::max_dimensions + 1, 1);
  CHECK_FALSE(cp::encode_tail(f));
}

TEST_CASE("limits: a ring of too many slots is refused") {
  io::slots_options options;
  options.slot_bytes = io::disk_block;
  options.count = static_cast<int>(limit_of("io/disk/slots.cpp", "most_slots")) + 1;
  CHECK(io::slots::make(options).error().code == errc::bad_config);
}

TEST_CASE("limits: a tokenizer beyond its bounds is refused") {
  CHECK(tokenizer_fault([](auto&) {}) == "");
  const auto lower = [](size_t count) {
    return [count](nlohmann::json& file) {
      auto all = nlohmann::json::array();
      for (size_t i = 0; i < count; ++i) all.push_back({{"type", "NFC"}});
      file["normalizer"] = {{"type", "Sequence"}, {"normalizers", all}};
    };
  };
  const auto steps = limit_of("io/tokenizer/hf_json.cpp", "max_steps");
  CHECK(tokenizer_fault(lower(steps)) == "");
  CHECK(tokenizer_fault(lower(steps + 1)) != "");
  const auto pattern = [](const char* kind, size_t bytes) {
    return [kind, bytes](nlohmann::json& file) {
      file["pre_tokenizer"] = {{"type", "Split"},
                               {"behavior", "Isolated"},
                               {"pattern", {{kind, std::string(bytes, 'a')}}}};
    };
  };
  const auto text = limit_of("io/tokenizer/hf_json.cpp", "max_short_text");
  CHECK(tokenizer_fault(pattern("String", text)) == "");
  CHECK(tokenizer_fault(pattern("String", text + 1)) != "");
  CHECK(tokenizer_fault(pattern(
            "Regex", limit_of("io/tokenizer/splitter.cpp", "max_pattern_bytes") + 1)) != "");
  const auto added = [](size_t count) {
    return [count](nlohmann::json& file) {
      for (size_t i = 0; i < count; ++i)
        file["added_tokens"].push_back({{"id", 3 + i}, {"content", fmt::format("<{}>", i)}});
    };
  };
  CHECK(tokenizer_fault(added(3)) == "");
  CHECK(tokenizer_fault(added(limit_of("io/tokenizer/hf_json.cpp", "max_added") + 1)) != "");
}

TEST_CASE("limits: a file of llm.c with more tokens than its header can say is refused") {
  scratch dir;
  auto writer = io::token_file_writer::create(dir / "tokens.bin", 2);
  REQUIRE(writer);
  const auto count = limit_of("io/data/token_file.hpp", "max_llmc_tokens") + 1;
  const untouched zeros(4 * count);
  const auto refused = writer->append({static_cast<const int32_t*>(zeros.at), count});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bad_data);
}

TEST_CASE("limits: a text beyond what a tokenizer takes is refused") {
  scratch dir;
  std::ofstream(dir / "tokenizer.json")
      << R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"added_tokens":[]})";
  auto made = io::make_tokenizer((dir / "tokenizer.json").string());
  REQUIRE(made);
  CHECK((*made)->encode("a"));
  const untouched text(limit_of("io/tokenizer/hf_tokenizer.cpp", "max_text_bytes"));
  CHECK_FALSE((*made)->encode({static_cast<const char*>(text.at), text.bytes}));
}

TEST_CASE("limits: a model of too many layers or parameters is refused") {
  model_config m;
  m.layers = static_cast<int64_t>(limit_of("io/base/model_config.cpp", "layer_limit"));
  m.hidden = m.ffn = 8;
  m.heads = m.kv_heads = 1;
  m.head_width = 8;
  m.vocab = m.max_positions = 8;
  CHECK(m.check());
  ++m.layers;
  CHECK(is_error(m.check(), model_size_wrong, "layers", m.layers, m.layers - 1));
  m.layers = 1 << 12;
  m.hidden = m.head_width = m.ffn = 1 << 20;
  CHECK(is_error(m.check(), model_too_large));
}

TEST_CASE("limits: a reason to hold a checkpoint beyond its length is refused") {
  scratch dir;
  const auto step = dir / "step-00000001";
  fs::create_directories(step);
  std::ofstream(step / "MANIFEST") << "one";
  const auto held = [&](size_t bytes) {
    return cp::add_hold(step, {"me", std::string(bytes, 'x')});
  };
  const auto at = held(cp::max_reason_bytes), beyond = held(cp::max_reason_bytes + 1);
  CHECK_MESSAGE(at, (at ? std::string() : render(at.error())));
  REQUIRE_FALSE(beyond);
  CHECK(beyond.error().code == errc::usage);
}

TEST_CASE("limits: a tensor of too many dimensions is refused") {
  const auto fault = [](size_t dimensions) {
    std::string shape = "1";
    for (size_t i = 1; i < dimensions; ++i) shape += ",1";
    const auto header =
        fmt::format(R"({{"a":{{"dtype":"F32","shape":[{}],"data_offsets":[0,4]}}}})", shape);
    uint64_t n = header.size();
    std::string file(reinterpret_cast<const char*>(&n), sizeof n);
    file += header + std::string(4, '\0');
    return !io::parse_safetensors(io::as_bytes(file));
  };
  const auto limit = limit_of("io/formats/safetensors.cpp", "max_dimensions");
  CHECK_FALSE(fault(limit));
  CHECK(fault(limit + 1));
}

TEST_CASE("limits: a disk takes no more operations than it can hold") {
  scratch dir;
  auto d = io::open_disk({io::disk_backend::threads, 1, 1, {}});
  REQUIRE(d);
  io::open_options how;
  how.mode = io::open_mode::create;
  auto file = (*d)->open(dir / "a", how);
  REQUIRE(file);
  size_t taken = 0;
  status last;
  while (last && taken <= io::disk::most_operations) {
    last = (*d)->write(*file, 64 * taken, io::io_buffer::allocate(64), taken);
    taken += last ? 1 : 0;
  }
  CHECK(taken == io::disk::most_operations);
  CHECK(last.error().code == errc::no_memory);
  while ((*d)->under_way() > 0) REQUIRE_FALSE((*d)->wait(1, std::chrono::minutes(5)).empty());
  (*d)->close(*file);
}

TEST_CASE("BRD-2: of the dead the last are kept") {
  CHECK(holds_in_a_child([] {
    actor_registry b;
    for (size_t i = 0; i < actor_registry::dead_limit + 10; ++i) b.remove(b.add(0));
    return b.view(true).size() - b.view().size() == actor_registry::dead_limit;
  }));
}

TEST_CASE("limits: names of work end, and what has none is recorded") {
  CHECK(holds_in_a_child([] {
    const auto most = limit_of("actors/capture/recorder.cpp", "most_names");
    for (uint64_t i = 0; i < 2 * most; ++i) work_name(fmt::format("work {}", i));
    return work_names().size() == most && work_name("one more") == 0 && work_name("work 0") != 0;
  }));
}

TEST_CASE("TAP-2: a tap keeps no more bytes than its limit") {
  tap t;
  const auto m = make_msg<fbs::Ack>({}, [](auto& a) { a.text.assign(1 << 16, 'x'); });
  const auto before = t.dropped();
  t.open([](uint32_t, uint16_t) { return true; });
  const size_t fit = tap::byte_limit / m.header().length;
  for (size_t i = 0; i < fit + 7; ++i) t.offer(1, 0, 0, m);
  CHECK(t.drain().size() == fit);
  CHECK(t.dropped() - before == 7);
  t.open({});
}

TEST_CASE("limits: a process shows only so many views of its trace") {
  runtime_config config;
  caf::actor_system system(config);
  const auto target = system.spawn(trace::observer, trace::observer_options{});
  {
    caf::scoped_actor self(system);
    size_t begun = 0, refused = 0;
    for (uint64_t i = 1; i <= trace::observer_state::subscription_limit + 2; ++i)
      self->request(target, std::chrono::minutes(5),
                    make_msg<fbs::TraceStart>({},
                                              [&](auto& m) {
                                                m.subscription = i;
                                                m.max_records = 1'000'000;
                                                m.rate_per_s = 1;
                                              }),
                    caf::actor_cast<caf::strong_actor_ptr>(self))
          .receive([&](const msg<fbs::TraceStarted>&) { ++begun; },
                   [&](const caf::error&) { ++refused; });
    CHECK(begun == trace::observer_state::subscription_limit);
    CHECK(refused == 2);
  }
  caf::anon_send_exit(target, caf::exit_reason::kill);
}

TEST_CASE("limits: deaths leave only so many black boxes of a process") {
  constexpr uint64_t most = trace::observer_state::box_limit;
  runtime_config config;
  caf::actor_system system(config);
  for (const uint64_t asked : {most - 1, most}) {
    CAPTURE(asked);
    scratch dir;
    const auto target =
        system.spawn(trace::observer, trace::observer_options{"n", "h", dir.path.string()});
    caf::scoped_actor self(system);
    const auto dump = [](const char* why) {
      return make_msg<fbs::DumpBlackBox>({}, [&](auto& m) { m.reason = why; });
    };
    for (uint64_t i = 0; i < asked; ++i)
      self->request(target, std::chrono::minutes(5), dump("asked"))
          .receive([](const msg<fbs::Ack>&) {},
                   [](const caf::error& e) { FAIL(caf::to_string(e)); });
    caf::anon_send(target, dump("died"));  // as the registry tells of a death
    self->request(target, std::chrono::minutes(5), make_msg<fbs::StatusRequest>())
        .receive([](const msg<fbs::Status>&) {},
                 [](const caf::error& e) { FAIL(caf::to_string(e)); });
    size_t boxes = 0, of_deaths = 0;
    for (const auto& file : fs::directory_iterator(dir.path)) {
      ++boxes;
      of_deaths += file.path().string().find("died") != std::string::npos ? 1 : 0;
    }
    CHECK(boxes == most);
    CHECK(of_deaths == most - asked);
    self->send_exit(target, caf::exit_reason::kill);
    self->wait_for(target);
  }
}

TEST_CASE("limits: a black box remembers only so many threads") {
  CHECK(holds_in_a_child([] {
    if (!reserve_flight_memory()) return false;
    const auto most = limit_of("actors/capture/flight_memory.cpp", "most_rings");
    uint64_t given = 0;
    for (uint64_t i = 0; i < 2 * most; ++i) given += detail::take_flight_ring() != nullptr ? 1 : 0;
    return given == most && read_flight_memory().records.empty();
  }));
}

TEST_CASE("limits: a stage keeps only so many activations ahead of its pass") {
  runtime_config config;
  caf::actor_system system(config);
  const auto idle = system.spawn([](caf::event_based_actor* self) -> caf::behavior {
    self->set_default_handler(caf::drop);
    return {[](caf::unit_t) {}};
  });
  const auto target = system.spawn(
      train::stage, train::spawn_record{.worker = caf::actor_cast<worker_actor>(idle)});
  {
    caf::scoped_actor self(system);
    message_context cause;
    cause.epoch = 1;
    const auto before = counts().of(reject::unexpected);
    for (size_t i = 0; i < train::stage_state::early_limit + 5; ++i)
      self->send(target, make_msg<fbs::ActivationReady>(cause, [&](auto& a) { a.step = 1; }));
    bool answered = false;
    self->request(target, std::chrono::minutes(5), make_msg<fbs::StatusRequest>(cause))
        .receive([&](const msg<fbs::Status>&) { answered = true; }, [](const caf::error&) {});
    CHECK(answered);
    CHECK(counts().of(reject::unexpected) - before == 5);
  }
  caf::anon_send_exit(target, caf::exit_reason::kill);
  caf::anon_send_exit(idle, caf::exit_reason::kill);
}

TEST_CASE("ADT-3: a flood of refusals is counted, not written") {
  scratch dir;
  const auto path = dir / "audit.jsonl";
  const auto lines = [&] {
    std::ifstream in(path);
    std::vector<std::string> out;
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
  };
  trace::audit_log log(path.string(), [] { return std::string("now"); });
  const refusal r{{"eve", tls::role::reader}, "run", make_msg<fbs::Pause>()};
  constexpr uint64_t most = trace::audit_log::refusals_per_minute;
  for (uint64_t i = 0; i < most + 40; ++i) log.note_refusal(r, 1);
  CHECK(lines().size() == most);
  log.note_refusal(r, 61'000'000'000);
  REQUIRE(lines().size() == most + 1);
  CHECK(lines().back().find("40") != std::string::npos);
}

}  // namespace troupe::apps
