// Field by field, by the list of fields.
#include "actors/base/hw_message.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "messages/text.hpp"

namespace troupe {

namespace {

using io::perf::hw_field;
using io::perf::hw_profile;

const hw_field* hw_field_named(std::string_view name) {
  const auto all = io::perf::hw_fields();
  const auto it = std::ranges::find(all, name, &hw_field::name);
  return it == all.end() ? nullptr : &*it;
}

/// HWF-1.
void take_field(hw_profile& into, const hw_field& field, const fbs::HwField& m) {
  if (field.number != nullptr) {
    auto& number = into.*field.number;
    if (!number && io::perf::is_hw_number(field, m.number())) number = m.number();
    return;
  }
  auto& word = into.*field.text;
  if (!word && m.word() != nullptr && m.word()->size() <= hw_word_bytes) word = m.word()->str();
}

}  // namespace

std::vector<std::unique_ptr<fbs::HwFieldT>> to_message(const hw_profile& profile) {
  std::vector<std::unique_ptr<fbs::HwFieldT>> out;
  for (const auto& field : io::perf::hw_fields()) {
    const bool is_there =
        field.number != nullptr ? bool(profile.*field.number) : bool(profile.*field.text);
    if (!is_there) continue;
    auto& m = *out.emplace_back(std::make_unique<fbs::HwFieldT>());
    m.name = field.name;
    if (field.number != nullptr)
      m.number = *(profile.*field.number);
    else
      m.word = *(profile.*field.text);
  }
  return out;
}

hw_profile profile_in(const fbs::HwProfile& m) {
  hw_profile out;
  if (m.fields() == nullptr) return out;
  for (const auto* f : *m.fields())
    if (f->name() != nullptr)
      if (const auto* field = hw_field_named(f->name()->string_view())) take_field(out, *field, *f);
  io::perf::drop_impossible(out);
  return out;
}

io::perf::machine_print print_of(const fbs::HardwareFactsT& facts) {
  return io::perf::print_of(
      {facts.cpu_model, facts.cores, facts.memory_bytes, facts.gpus, facts.gpu_uuids});
}

io::perf::machine_print print_in(const fbs::HwProfile& m) {
  const io::perf::machine_print out{text_of(m.kind()), text_of(m.gpu_ids())};
  const bool is_one = io::perf::is_print_text(out.kind) && io::perf::is_print_text(out.gpu_ids);
  return is_one && out.is_known() ? out : io::perf::machine_print{};
}

}  // namespace troupe
