// Completion and man pages, which come of the table of verbs: what is offered, that shells take the
// scripts, that roff takes the pages, and that both are installed.
#include "apps/completion.hpp"

#include <algorithm>
#include <fstream>
#include <functional>

#include <doctest/doctest.h>

#include "apps/commands.hpp"
#include "apps/man_page.hpp"
#include "tests/apps/ended.hpp"
#include "tests/apps/runtime_folder.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps;
namespace fs = std::filesystem;

namespace {

using strings = std::vector<std::string>;

struct program_table {
  apps::shell sh;
  program_table() { add_all(sh); }
};

/// A cluster that answers by the name of what is asked.
strings some_names(offered what, const typed_options& typed) {
  strings out{what == offered::actor ? "worker/0" : what == offered::node ? "node0" : "quickstart"};
  for (const auto& [flag, value] : typed) out.push_back(out[0] + "-of-" + value);
  return out;
}

offer at_end(const strings& line) {
  const program_table table;
  return offer_at_end(table.sh.app, line, some_names);
}

strings words_at(const strings& line) {
  strings out;
  for (const auto& w : at_end(line).words) out.push_back(w.text);
  return out;
}

bool installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

/// A line of bash; "troupe" in it is the built program.
ended in_bash(const fs::path& in, const std::string& line) {
  std::ofstream(in / "line.sh") << "troupe() { '" TROUPE_PROGRAM "' \"$@\"; }\n" << line << "\n";
  return run_in(in, "bash line.sh");
}

}  // namespace

TEST_CASE("completion: verbs, flags and the values of options come of the table") {
  CHECK(words_at({"conf"}) == strings{"config"});
  CHECK(words_at({"hel"}) == strings{"help"});
  CHECK(words_at({"help", "ckpt", "ex"}) == strings{"export"});
  CHECK(words_at({"ckpt", "export", "x", "--dt"}) == strings{"--dtype"});
  CHECK(words_at({"ckpt", "export", "x", "--dtype", "b"}) == strings{"bfloat16", "bf16"});
  CHECK(words_at({"ckpt", "export", "x", "--dtype=bf"}) ==
        strings{"--dtype=bfloat16", "--dtype=bf16"});
  CHECK(words_at({"completion", ""}) == strings{"bash", "zsh", "fish"});
  CHECK(words_at({"up", "x", "--set", "train.warm"}) == strings{"train.warmup_steps="});
  CHECK(at_end({"up", "x", "--set", "train.warm"}).goes_on);
  CHECK(words_at({"up", "x", "--set", "model.dtype="}) ==
        strings{"model.dtype=f32", "model.dtype=bf16"});
  CHECK(words_at({"config", "explain", "train.warm"}) == strings{"train.warmup_steps"});
  CHECK(words_at({"sim", "--faults", "crash_n"}) == strings{"crash_node"});
  CHECK(words_at({"nonsense", "x"}).empty());
  CHECK(words_at({"up", "--no-such", ""}).empty());
  CHECK(words_at({"up", "x", "--launch"}).empty());  // hidden
}

TEST_CASE("completion: files and folders where a verb takes them, nothing for a number") {
  using also = offer::also;
  CHECK(at_end({"up", ""}).paths == also::files);
  CHECK(at_end({"sim", ""}).paths == also::files);
  CHECK(at_end({"ckpt", "ls", ""}).paths == also::folders);
  CHECK(at_end({"ckpt", "export", "x", "--safetensors", ""}).paths == also::folders);
  CHECK(at_end({"ps", "--ca", ""}).paths == also::files);
  CHECK(at_end({"up", "x", "--set", "data.path="}).paths == also::files);
  CHECK(at_end({"ckpt", "export", "x", "--threads", ""}).paths == also::nothing);
  CHECK(at_end({"ckpt", "ls", "a", ""}).paths == also::nothing);  // one folder is all it takes
  CHECK(at_end({"config", ""}).paths == also::nothing);
}

TEST_CASE("completion: live actors, nodes and jobs, of the cluster that the line names") {
  CHECK(words_at({"ps", "work"}) == strings{"worker/0"});
  CHECK(words_at({"ps", "--job", "a", "work"}) == strings{"worker/0", "worker/0-of-a"});
  CHECK(words_at({"status", "--job=a", "work"}) == strings{"worker/0", "worker/0-of-a"});
  CHECK(words_at({"ps", "--node", ""}) == strings{"node0"});
  CHECK(words_at({"ps", "--job", ""}) == strings{"quickstart"});
  CHECK(words_at({"send", "work"}) == strings{"worker/0"});
  const auto messages = live_words(offered::message, {});
  CHECK(std::count(messages.begin(), messages.end(), "Pause") == 1);
  const scratch empty;
  const runtime_folder nobody_runs(empty.path);
  CHECK(live_words(offered::job, {}).empty());
  CHECK(live_words(offered::actor, {}).empty());  // CPT-1: and nothing is said
}

TEST_CASE("completion: bash asks the program and shows what it offers") {
  scratch dir;
  fs::create_directories(dir / "some folder");
  std::ofstream(dir / "some-file") << "x";
  const auto complete = [&](const std::string& words, int at) {
    return in_bash(dir.path, "source <(troupe completion bash); compopt() { :; }; COMP_WORDS=(" +
                                 words + "); COMP_CWORD=" + std::to_string(at) +
                                 "; _troupe; printf \"%s\\n\" \"${COMPREPLY[@]}\"")
        .out;
  };
  CHECK(complete("troupe conf", 1) == "config\n");
  CHECK(complete("troupe ckpt export x --dtype bf", 5) == "bfloat16\nbf16\n");
  // Bash parts a line at = and hands it over so.
  CHECK(complete("troupe up x --set model.dtype = b", 6) == "bf16\n");
  CHECK(complete("troupe up x --set model.dtype =", 5) == "f32\nbf16\n");
  CHECK(complete("troupe up x --log-format = pl", 5) == "plain\n");
  CHECK(complete("troupe ckpt ls some", 3) == "some folder\n");
}

TEST_CASE("completion: fish offers the words of a verb and of a value, with what they are") {
  if (!installed("fish")) {
    MESSAGE("SKIPPED: fish is not installed");
    return;
  }
  scratch dir;
  fs::create_symlink(TROUPE_PROGRAM, dir / "troupe");
  const auto offered_for = [&](const std::string& line) {
    std::ofstream(dir / "ask.fish")
        << "troupe completion fish | source\ncomplete -C '" << line << "'\n";
    return run_in(dir.path, "env HOME=\"$PWD\" PATH=\"$PWD:$PATH\" fish ask.fish").out;
  };
  CHECK(offered_for("troupe conf").starts_with("config\t"));
  CHECK(offered_for("troupe ckpt export x --dtype bf") == "bf16\nbfloat16\n");
  CHECK(offered_for("troupe up x --set model.dtype=bf") == "model.dtype=bf16\n");
}

/// A zsh at a terminal of its own is asked: what stands on its line after a tab. It answers between
/// characters that no echo of what it is told has, which may come at any moment.
constexpr auto asking_zsh = R"(zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'autoload -U compinit; compinit -D -u; source ./_troupe'
zpty -w z 'show() { print -r -- $'\''\x02'\''"$BUFFER"$'\''\x03'\''; BUFFER=; zle reset-prompt }'
zpty -w z 'zle -N show; bindkey "^X" show; print rea''dy'
zpty -r z said '*ready*'
for line in "$@"; do
  zpty -w -n z "$line"$'\t\C-x'
  zpty -r z said $'*\x02*\x03*'
  print -r -- "${${said##*$'\x02'}%%$'\x03'*}"
done
zpty -d z
)";

TEST_CASE("completion: zsh completes a verb and a value") {
  if (!installed("zsh")) {
    MESSAGE("SKIPPED: zsh is not installed");
    return;
  }
  scratch dir;
  fs::create_symlink(TROUPE_PROGRAM, dir / "troupe");
  std::ofstream(dir / "_troupe") << completion_script("zsh");
  std::ofstream(dir / "ask.zsh") << asking_zsh;
  CHECK(run_in(dir.path, "zsh -n _troupe").code == 0);
  const auto asked =
      run_in(dir.path,
             "env TERM=dumb PATH=\"$PWD:$PATH\" timeout 500 zsh -f ask.zsh 'troupe conf' "
             "'troupe ckpt export x --dtype float3' 'troupe ckpt ver' "
             "'troupe up x --set model.dtype=b'");
  CHECK(asked.code == 0);
  CHECK(asked.out ==
        "troupe config \ntroupe ckpt export x --dtype float32 \ntroupe ckpt verify \n"
        "troupe up x --set model.dtype=bf16 \n");
}

TEST_CASE("man pages: every verb, every verb below it and every flag is in a page") {
  const program_table table;
  const auto& app = table.sh.app;
  const auto roff_of = [](std::string text) {
    for (size_t at = 0; (at = text.find('-', at)) != text.npos; at += 2) text.insert(at, "\\");
    return text;
  };
  const auto main_page = man_page(app, nullptr, "1");
  const std::function<void(const command&, const std::string&, const std::string&)> visit =
      [&](const command& verb, const std::string& path, const std::string& page) {
        CAPTURE(path);
        CHECK(page.find("\\fB" + roff_of(path) + "\\fR") != page.npos);
        for (const auto& a : verb.arguments())
          for (const auto& flag : a.flags) {
            CAPTURE(flag);
            const auto there = page.find("\\fB" + roff_of(flag) + "\\fR") != page.npos;
            CHECK((there || a.hidden));
          }
        for (const auto* sub : verb.subcommands()) visit(*sub, path + " " + sub->name(), page);
      };
  for (const auto* verb : app.subcommands()) {
    visit(*verb, "troupe " + verb->name(), man_page(app, verb, "1"));
    CHECK(main_page.find("\\fB" + roff_of(verb->name()) + "\\fR\n") != main_page.npos);
  }
}

TEST_CASE("man pages: a folder that cannot be made is an error of its cause") {
  const program_table table;
  scratch dir;
  std::ofstream(dir / "file") << "x";
  const auto made = write_man_pages(table.sh.app, "1", dir / "file/man");
  REQUIRE_FALSE(made);
  CHECK(made.error().kind == "ENOTDIR");  // as EACCES, which ends with 77, is of its own
}

TEST_CASE("man pages: roff has nothing to say against them") {
  scratch dir;
  REQUIRE(run_in(dir.path, "'" TROUPE_PROGRAM "' man --out pages").code == 0);
  CHECK(fs::exists(dir / "pages/troupe.1"));
  CHECK(fs::exists(dir / "pages/troupe-ckpt.1"));
  const auto page = run_in(dir.path, "'" TROUPE_PROGRAM "' man ckpt");
  CHECK(page.out == content(dir / "pages/troupe-ckpt.1"));
  CHECK(run_in(dir.path, "'" TROUPE_PROGRAM "' man ckptt").code == 64);
  CHECK(run_in(dir.path, "'" TROUPE_PROGRAM "' man ckpt --out pages").code == 64);
  if (!installed("groff")) {
    MESSAGE("SKIPPED: groff is not installed");
    return;
  }
  for (const auto& file : fs::directory_iterator(dir / "pages")) {
    CAPTURE(file.path().string());
    const auto shown = run_in(dir.path, "groff -man -ww -Tutf8 '" + file.path().string() + "'");
    CHECK(shown.code == 0);
    CHECK(shown.talk.empty());
  }
}

TEST_CASE("man pages and completion are installed where shells and man look") {
  scratch dir;
  const auto done =
      run_in(dir.path, "cmake --install '" TROUPE_BINARY_DIR "' --component help --prefix '" +
                           dir.path.string() + "/usr'");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  CHECK(content(dir / "usr/share/bash-completion/completions/troupe") == completion_script("bash"));
  CHECK(content(dir / "usr/share/zsh/site-functions/_troupe") == completion_script("zsh"));
  CHECK(content(dir / "usr/share/fish/vendor_completions.d/troupe.fish") ==
        completion_script("fish"));
  const program_table table;
  for (const auto* verb : table.sh.app.subcommands())
    CHECK(fs::exists(dir / "usr/share/man/man1" / (page_name(table.sh.app, verb) + ".1")));
}
