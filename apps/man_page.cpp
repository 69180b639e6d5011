// Man pages in roff, and the verb that prints them.
#include "apps/man_page.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/base/hardware.hpp"
#include "apps/commands.hpp"
#include "apps/exit_codes.hpp"
#include "io/file.hpp"

namespace troupe::apps {

namespace fs = std::filesystem;

namespace {

using described = command::described;

/// Text that roff shows as it is.
std::string plain(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else {
      out += c == '\n' ? ' ' : c;
    }
  }
  return out;
}

/// A line of it: a control character at its beginning would be a request.
std::string line(std::string_view text) {
  const auto out = plain(text);
  return (out.starts_with('.') ? "\\&" : "") + out + "\n";
}

/// Lines as they stand, the last blanks left out.
std::string as_typed(std::string_view text) {
  std::string out = ".PP\n.nf\n.RS 2\n";
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  for (size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    out += end == at ? std::string("\\&\n") : line(text.substr(at, end - at));
    at = end + 1;
  }
  return out + ".RE\n.fi\n";
}

/// What Markdown marks as code, without the marks.
std::string without_marks(std::string_view text) {
  std::string out(text);
  std::erase(out, '`');
  return out;
}

/// "-o, --out TEXT" in bold and slanted.
std::string heading_of(const described& a) {
  std::string out;
  for (const auto& flag : a.flags)
    out += fmt::format("{}\\fB{}\\fR", out.empty() ? "" : ", ", plain(flag));
  if (a.flags.empty()) out = fmt::format("\\fI{}\\fR", plain(a.place));
  if (!a.flags.empty() && !a.value.empty()) {
    const auto kind = a.words.empty() ? a.value : a.value.substr(0, a.value.find(':'));
    out += fmt::format(" \\fI{}\\fR", plain(kind));
  }
  return out + "\n";
}

std::string arguments_text(const command& verb, bool places) {
  std::string out;
  for (const auto& a : verb.arguments()) {
    if (a.hidden || a.flags.empty() != places) continue;
    out += ".TP\n" + heading_of(a) + line(a.about + ".");
    if (!a.words.empty()) out += line(fmt::format("One of: {}.", fmt::join(a.words, ", ")));
    if (!a.unless_given.empty()) out += line(fmt::format("Default: {}.", a.unless_given));
    if (a.required && !places) out += line("It has to be given.");
  }
  return out;
}

/// "troupe ckpt ls [OPTIONS] DIR".
std::string usage_of(const std::string& path, const command& verb) {
  auto out = fmt::format("\\fB{}\\fR", plain(path));
  if (!verb.subcommands().empty()) return out + " \\fICOMMAND\\fR ...\n";
  const auto all = verb.arguments();
  for (const auto& a : all)
    if (a.required && !a.hidden && !a.flags.empty())
      out += fmt::format(" \\fB{}\\fR \\fI{}\\fR", plain(a.flags.front()),
                         plain(a.value.substr(0, a.value.find(':'))));
  out += " [\\fIOPTIONS\\fR]";
  for (const auto& a : all)
    if (a.flags.empty() && !a.hidden) {
      const auto word = fmt::format("\\fI{}\\fR{}", plain(a.place), a.many ? " ..." : "");
      out += a.required ? " " + word : fmt::format(" [{}]", word);
    }
  return out + "\n";
}

std::string notes_text(const command& verb) {
  return verb.notes().empty() ? std::string() : as_typed(verb.notes());
}

/// The verbs below one, with all that they take.
std::string commands_text(const std::string& path, const command& verb) {
  std::string out;
  for (const auto* sub : verb.subcommands()) {
    const auto whole = path + " " + sub->name();
    out += ".SS " + line(whole) + usage_of(whole, *sub) + ".PP\n" + line(sub->about() + ".");
    out += arguments_text(*sub, true) + arguments_text(*sub, false) + notes_text(*sub);
    out += commands_text(whole, *sub);
  }
  return out;
}

std::string exit_text() {
  std::string out = ".SH EXIT STATUS\n";
  for (const auto& e : exit_meanings)
    out += fmt::format(".TP\n\\fB{}\\fR{}{}\n", e.code, e.name.empty() ? "" : " ", e.name) +
           line(without_marks(e.meaning) + ".");
  return out;
}

std::string verbs_text(const command& app) {
  std::string out = ".SH COMMANDS\nEach has a page of its own, as \\fBtroupe\\-up\\fR(1).\n";
  for (const auto* verb : app.subcommands())
    out += fmt::format(".TP\n\\fB{}\\fR\n", plain(verb->name())) + line(verb->about() + ".");
  return out;
}

std::string environment_text() {
  return ".SH ENVIRONMENT\n"
         ".TP\n\\fBTROUPE_SECTION__KEY\\fR\n"
         "A setting of the job, e.g. TROUPE_TRAIN__LR=1e\\-4; \\-\\-set rules over it, and it over "
         "the file.\n"
         ".TP\n\\fBNO_COLOR\\fR\nWhere it is set nothing is coloured.\n"
         ".TP\n\\fBXDG_RUNTIME_DIR\\fR\n"
         "Where running clusters of this user are found; else a folder in /tmp.\n"
         ".TP\n\\fBXDG_STATE_HOME\\fR\nWhere the console keeps its history.\n";
}

std::string see_also(const command& app, const command* verb) {
  if (verb != nullptr) return ".SH SEE ALSO\n\\fBtroupe\\fR(1)\n";
  std::string out = ".SH SEE ALSO\n";
  const auto verbs = app.subcommands();
  for (const auto* each : verbs)
    out += fmt::format("\\fB{}\\fR(1){}\n", plain(page_name(app, each)),
                       each == verbs.back() ? "" : ",");
  return out;
}

}  // namespace

std::string page_name(const command& app, const command* verb) {
  return verb == nullptr ? app.name() : app.name() + "-" + verb->name();
}

std::string man_page(const command& app, const command* verb, const std::string& version) {
  const auto& what = verb == nullptr ? app : *verb;
  auto title = page_name(app, verb);
  auto out = fmt::format(".\\\" Made by `troupe man`.\n.TH {} 1 \"\" \"troupe {}\" \"Troupe\"\n",
                         plain(title), plain(version));
  const auto path = verb == nullptr ? app.name() : app.name() + " " + verb->name();
  out += ".SH NAME\n" + plain(title) + " \\- " + line(what.about());
  out += ".SH SYNOPSIS\n" + usage_of(path, what);
  if (const auto places = arguments_text(what, true); !places.empty())
    out += ".SH ARGUMENTS\n" + places;
  out += ".SH OPTIONS\n" + arguments_text(what, false);
  if (verb == nullptr) {
    out += verbs_text(app);
  } else if (const auto below = commands_text(path, *verb); !below.empty()) {
    out += ".SH COMMANDS\n" + below;
  }
  if (!what.notes().empty()) out += ".SH NOTES\n" + notes_text(what);
  if (verb == nullptr) out += exit_text() + environment_text();
  return out + see_also(app, verb);
}

status write_man_pages(const command& app, const std::string& version, const fs::path& dir) {
  std::error_code code;
  fs::create_directories(dir, code);
  if (code) return error::system(fmt::format("cannot make {}", dir.string()), code.value());
  std::vector<const command*> pages{nullptr};
  for (const auto* verb : app.subcommands()) pages.push_back(verb);
  for (const auto* verb : pages)
    TROUPE_CHECK(io::write_atomic(dir / (page_name(app, verb) + ".1"),
                                  man_page(app, verb, version)));
  return {};
}

namespace {

/// What is asked for as man(1) names it ("predict-export") is in the page of its verb.
error no_page_of(const command& app, const std::string& asked) {
  const auto verb = asked.substr(0, asked.find_first_of("- "));
  std::string hint = "`troupe --help` lists the verbs";
  for (const auto* each : app.subcommands())
    if (each->name() == verb && verb != asked)
      hint = fmt::format("a verb's page has its subcommands, too: `troupe man {}`", verb);
  return {errc::usage, fmt::format("no page of {}: verb not found", asked), hint};
}

}  // namespace

void add_man(shell& sh) {
  struct typed {
    std::string verb, dir;
  };
  auto a = std::make_shared<typed>();
  auto* verb = sh.app.add_subcommand("man", "Print a man page, or write all of them");
  std::vector<std::string> verbs;
  for (const auto* each : sh.app.subcommands()) verbs.push_back(each->name());
  verb->add_option("VERB", a->verb, "Which page; without it the one of the program")
      ->suggests(verbs);
  verb->add_option("--out", a->dir, "Write all pages into this folder, a file NAME.1 each")
      ->takes(offered::folder);
  verb->footer(
      "Examples:\n"
      "  troupe man up | man -l -\n"
      "  troupe man --out ~/.local/share/man/man1");
  on_run(sh, verb, [&sh, a]() -> result<int> {
    const auto version = cluster::own_version();
    if (!a->dir.empty()) {
      if (!a->verb.empty())
        return error{errc::usage, "--out writes all pages: no VERB is named with it"};
      TROUPE_CHECK(write_man_pages(sh.app, version, a->dir));
      say(fmt::format("{}: {} pages", a->dir, sh.app.subcommands().size() + 1));
      return 0;
    }
    const auto all = sh.app.subcommands();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const auto* each) { return each->name() == a->verb; });
    if (!a->verb.empty() && found == all.end()) return no_page_of(sh.app, a->verb);
    TROUPE_CHECK(print(man_page(sh.app, a->verb.empty() ? nullptr : *found, version)));
    return 0;
  });
}

}  // namespace troupe::apps
