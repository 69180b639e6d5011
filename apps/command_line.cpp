// The command line by CLI11.
#include "apps/command_line.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "apps/control/commands.hpp"
#include "io/base/text.hpp"
#include "io/config/properties.hpp"

namespace troupe::apps {

namespace {

/// The command line as far as it made sense, the program first.
std::vector<const CLI::App*> understood(const CLI::App& app) {
  std::vector<const CLI::App*> verbs{&app};
  for (auto chosen = app.get_subcommands(); !chosen.empty();
       chosen = verbs.back()->get_subcommands())
    verbs.push_back(chosen.front());
  return verbs;
}

/// What to tell about a wrong command line: the unknown word and the nearest that would do.
error usage_error(const CLI::App& app, const CLI::ParseError& wrong) {
  auto verbs = understood(app);
  std::string path;
  for (const auto* verb : verbs) path += (path.empty() ? "" : " ") + verb->get_name();
  error e{errc::usage, wrong.what(), fmt::format("see `{} --help`", path)};
  auto extra = app.remaining(true);
  auto unknown = std::find_if(extra.begin(), extra.end(),
                              [](const std::string& word) { return word.starts_with('-'); });
  if (unknown == extra.end()) unknown = extra.begin();
  if (unknown == extra.end()) return e;
  e.message = fmt::format("`{}` does not know {}", path, *unknown);
  std::vector<std::string> names;
  for (const auto* sub : verbs.back()->get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  for (const auto* option : verbs.back()->get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  std::vector<std::string_view> views(names.begin(), names.end());
  auto near = nearest(*unknown, views);
  if (!near.empty()) e.hint = fmt::format("did you mean {}?", near);
  if (verbs.size() == 1)
    for (const auto& word : words())
      if (word.name == *unknown)
        e.hint =
            fmt::format("say it in the console: troupe console -c '{}'", fmt::join(extra, " "));
  return e;
}

/// CLI11's own say a range by its last digit, which for a double are 309.
CLI::Validator number_that(bool (*holds)(double), const std::string& wanted) {
  const auto judge = [holds, wanted](const std::string& text) {
    double number = 0;
    const bool good = CLI::detail::lexical_cast(text, number) && holds(number);
    return good ? std::string() : fmt::format("invalid value {}, expected {}", text, wanted);
  };
  return {judge, ""};
}

/// A number of bytes, of 0 or more, with or without a unit, as digits. Unlike CLI11's own, "1.5GiB"
/// is one, and "-3" is none: there it would be what is left of 2^64.
CLI::Validator size_in_bytes() {
  const auto as_digits = [](std::string& text) -> std::string {
    static constexpr std::string_view units = "kmgtpe";
    double number = -1;
    const auto* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    std::string unit(read.ptr, static_cast<size_t>(end - read.ptr));
    std::erase(unit, ' ');
    std::transform(unit.begin(), unit.end(), unit.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto power = unit.empty() || unit == "b" ? -1 : static_cast<int>(units.find(unit[0]));
    const auto rest = power < 0 ? "" : unit.substr(1);
    const bool known = (unit.empty() || unit == "b" || units.find(unit[0]) != units.npos) &&
                       (rest.empty() || rest == "b" || rest == "i" || rest == "ib");
    const double bytes = std::floor(std::ldexp(number, 10 * (power + 1)));
    if (read.ec != std::errc() || !known || !(bytes >= 0) || bytes >= 0x1p64)
      return fmt::format("invalid value {}, expected a number of bytes from 0 to less than 16EiB",
                         text);
    text = fmt::format("{}", static_cast<uint64_t>(bytes));
    return {};
  };
  return {as_digits, "SIZE [b, kb(=1024b), ...]"};
}

/// The words with "help VERB..." as "VERB... --help".
std::vector<const char*> with_help_as_option(int argc, const char* const* argv) {
  std::vector<const char*> words(argv, argv + argc);
  if (argc < 2 || std::string_view(argv[1]) != "help") return words;
  words.erase(words.begin() + 1);
  words.push_back("--help");
  return words;
}

}  // namespace

argument* argument::required() {
  it_->required()->default_str("");
  return this;
}

template <class T>
argument* argument::within(T least, T most) {
  if constexpr (std::is_floating_point_v<T>)  // a range lets NaN pass
    it_->check(number_that([](double n) { return !std::isnan(n); }, "a number"));
  it_->check(CLI::Range(least, most));
  return this;
}

template argument* argument::within(int, int);
template argument* argument::within(int64_t, int64_t);
template argument* argument::within(uint32_t, uint32_t);
template argument* argument::within(uint64_t, uint64_t);
template argument* argument::within(double, double);

argument* argument::positive() {
  it_->check(number_that([](double n) { return n > 0; }, "more than 0"));
  return this;
}

argument* argument::not_negative() {
  it_->check(number_that([](double n) { return n >= 0; }, "0 or more"));
  return this;
}

argument* argument::one_of(const std::vector<std::string>& words) {
  it_->check(CLI::IsMember(words));
  return suggests(words);
}

argument* argument::number_type() {
  one_of({"f32", "bf16"});
  const std::map<std::string, std::string> spellings{{"float32", "f32"}, {"bfloat16", "bf16"}};
  it_->transform(CLI::Transformer(spellings));  // before the check
  return this;
}

argument* argument::suggests(const std::vector<std::string>& words) {
  words_ = words;
  return this;
}

argument* argument::takes(offered what) {
  what_ = what;
  return this;
}

argument* argument::as_size() {
  it_->transform(size_in_bytes());
  return this;
}

argument* argument::delimiter(char between) {
  it_->delimiter(between);
  return this;
}

argument* argument::take_all() {
  it_->take_all();
  return this;
}

argument* argument::expected(int values) {
  it_->expected(values);
  return this;
}

argument* argument::type_name(const std::string& name) {
  it_->type_name(name);
  return this;
}

argument* argument::capture_default_str() {
  it_->capture_default_str();
  return this;
}

argument* argument::hidden() {
  it_->group("");
  return this;
}

size_t argument::count() const {
  return it_->count();
}

struct command::parts {
  std::unique_ptr<CLI::App> program;  ///< of the program alone, which owns its verbs'
  CLI::App* app = nullptr;
  std::string name;
  std::string about;
  std::vector<std::unique_ptr<command>> verbs;
  std::deque<argument> arguments;  // they stay where they are

  argument* add(CLI::Option* made) {
    if (made->get_default_str() == "[]") made->default_str("");  // of a list, nothing
    return &arguments.emplace_back(made);
  }
};

command::command(const std::string& name) : parts_(std::make_unique<parts>()) {
  parts_->program = std::make_unique<CLI::App>("", name);
  parts_->app = parts_->program.get();
  parts_->app->option_defaults()->always_capture_default();
  parts_->name = name;
}

command::command(std::unique_ptr<parts> made) : parts_(std::move(made)) {}

command::~command() = default;

command* command::add_subcommand(const std::string& name, const std::string& about) {
  auto made = std::make_unique<parts>();
  made->app = parts_->app->add_subcommand(name, about);
  made->app->footer("");  // examples are of one verb, not of those below it
  made->name = name;
  made->about = about;
  return parts_->verbs.emplace_back(new command(std::move(made))).get();
}

template <class T>
argument* command::add_option(const std::string& names, T& into, const std::string& about) {
  return parts_->add(parts_->app->add_option(names, into, about));
}

template argument* command::add_option(const std::string&, int&, const std::string&);
template argument* command::add_option(const std::string&, int64_t&, const std::string&);
template argument* command::add_option(const std::string&, uint32_t&, const std::string&);
template argument* command::add_option(const std::string&, uint64_t&, const std::string&);
template argument* command::add_option(const std::string&, double&, const std::string&);
template argument* command::add_option(const std::string&, std::string&, const std::string&);
template argument* command::add_option(const std::string&, std::vector<int>&, const std::string&);
template argument* command::add_option(const std::string&, std::vector<size_t>&,
                                       const std::string&);
template argument* command::add_option(const std::string&, std::vector<double>&,
                                       const std::string&);
template argument* command::add_option(const std::string&, std::vector<std::string>&,
                                       const std::string&);

argument* command::add_flag(const std::string& names, bool& into, const std::string& about) {
  return parts_->add(parts_->app->add_flag(names, into, about));
}

void command::version(std::function<std::string()> text) {
  parts_->app->set_version_flag("--version", std::move(text), "Print the version");
}

void command::description(const std::string& about) {
  parts_->app->description(about);
  parts_->about = about;
}

void command::footer(const std::string& text) {
  parts_->app->footer(text);
}

void command::require_subcommand(int least) {
  parts_->app->require_subcommand(least);
}

void command::callback(std::function<void()> chosen) {
  parts_->app->callback([app = parts_->app, chosen = std::move(chosen)] {
    if (app->get_subcommands().empty()) chosen();  // of a verb of a verb, the inner one is meant
  });
}

const std::string& command::name() const {
  return parts_->name;
}

const std::string& command::about() const {
  return parts_->about;
}

std::string command::notes() const {
  return parts_->app->get_footer();
}

std::vector<command::described> command::arguments() const {
  std::vector<described> all;
  for (const auto* option : std::as_const(*parts_->app).get_options()) {
    auto& it = all.emplace_back();
    it.about = option->get_description();
    for (const auto& name : option->get_lnames()) it.flags.push_back("--" + name);
    for (const auto& name : option->get_snames()) it.flags.push_back("-" + name);
    if (it.flags.empty()) it.place = option->get_name(true, false);
    it.required = option->get_required();
    it.hidden = option->get_group().empty();
    it.many = option->get_items_expected_max() > 1;
    it.between = option->get_delimiter();
    if (option->get_items_expected_max() > 0) {
      it.value = option->get_type_name();
      it.unless_given = option->get_default_str();
    }
    const auto own = std::find_if(parts_->arguments.begin(), parts_->arguments.end(),
                                  [&](const argument& a) { return a.it_ == option; });
    if (own == parts_->arguments.end()) continue;
    it.words = own->words_;
    it.what = own->what_;
  }
  return all;
}

std::vector<const command*> command::subcommands() const {
  std::vector<const command*> all;
  for (const auto& verb : parts_->verbs) all.push_back(verb.get());
  return all;
}

result<std::optional<int>> command::parse(int argc, const char* const* argv) {
  auto& app = *parts_->app;
  const auto given = with_help_as_option(argc, argv);
  try {
    app.parse(static_cast<int>(given.size()), given.data());
  } catch (const CLI::Success& asked) {  // --help and the like: data, so stdout
    if (!app.remaining(true).empty())
      return usage_error(app, CLI::ParseError("", CLI::ExitCodes::BaseClass));
    return std::optional(app.exit(asked));
  } catch (const CLI::ParseError& wrong) {
    return usage_error(app, wrong);
  }
  return std::optional<int>();
}

}  // namespace troupe::apps
