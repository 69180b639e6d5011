// Grouping, percentiles, tables.
#include "trace/stats.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/base/text.hpp"
#include "trace/text.hpp"

namespace troupe::trace {

times times_of(std::vector<int64_t>& ns) {
  times out;
  if (ns.empty()) return out;
  std::sort(ns.begin(), ns.end());
  const auto rank = [&](size_t percent) {
    return ns[(ns.size() * percent + 99) / 100 - 1];  // at least 1, as size and percent are
  };
  out.p50_ns = rank(50);
  out.p90_ns = rank(90);
  out.p99_ns = rank(99);
  out.max_ns = ns.back();
  for (const auto x : ns) out.sum_ns += x;
  return out;
}

namespace {

struct group {
  stats_row row;
  std::vector<int64_t> waiting, way, mailbox, handling;

  void add(const timeline_event& e) {
    ++row.count;
    row.bytes += e.record.bytes;
    row.failed += e.has(record_flag::failed);
    row.deepest = std::max<uint32_t>(row.deepest, e.record.depth);
    if (!e.is_work() && !e.has(record_flag::system)) {
      waiting.push_back(e.waited_ns());
      way.push_back(e.on_the_way_ns());
      mailbox.push_back(e.in_mailbox_ns());
    }
    handling.push_back(e.took_ns());
  }
};

std::vector<stats_row> rows_of(std::unordered_map<std::string, group> groups) {
  std::vector<stats_row> out;
  for (auto& [name, g] : groups) {
    g.row.name = name;
    g.row.waiting = times_of(g.waiting);
    g.row.way = times_of(g.way);
    g.row.mailbox = times_of(g.mailbox);
    g.row.handling = times_of(g.handling);
    out.push_back(std::move(g.row));
  }
  std::sort(out.begin(), out.end(), [](const stats_row& a, const stats_row& b) {
    return a.handling.sum_ns != b.handling.sum_ns ? a.handling.sum_ns > b.handling.sum_ns
                                                  : a.name < b.name;
  });
  return out;
}

std::string table_of(std::string heading, const std::vector<stats_row>& rows, bool messages,
                     int columns, size_t most) {
  if (rows.empty()) return {};
  std::vector<std::vector<std::string>> cells;
  auto& head = cells.emplace_back();
  head = {std::move(heading), "count", "bytes"};
  if (messages) head.insert(head.end(), {"wait p50", "p90", "p99"});
  head.insert(head.end(), {messages ? "handle p50" : "took p50", "p90", "p99", "sum"});
  if (messages) head.emplace_back("mailbox");
  head.emplace_back("failed");
  for (const auto& r : rows) {
    if (most > 0 && cells.size() > most) break;
    auto& line = cells.emplace_back();
    line = {r.name, fmt::format("{}", r.count), bytes_text(r.bytes)};
    if (messages)
      line.insert(line.end(), {duration_text(r.waiting.p50_ns), duration_text(r.waiting.p90_ns),
                               duration_text(r.waiting.p99_ns)});
    line.insert(line.end(), {duration_text(r.handling.p50_ns), duration_text(r.handling.p90_ns),
                             duration_text(r.handling.p99_ns), duration_text(r.handling.sum_ns)});
    if (messages) line.push_back(fmt::format("{}", r.deepest));
    line.push_back(fmt::format("{}", r.failed));
  }
  auto out = table_text(cells, columns);
  if (cells.size() <= rows.size())
    out += fmt::format("... and {} more\n", rows.size() + 1 - cells.size());
  return out;
}

/// Where what came from other processes waited: on the way, then in the mailbox.
std::string split_table(std::string heading, const std::vector<stats_row>& rows, int columns,
                        size_t most) {
  std::vector<std::vector<std::string>> cells{
      {std::move(heading), "way p50", "p90", "p99", "in mailbox p50", "p90", "p99"}};
  for (const auto& r : rows)
    if (r.way.sum_ns > 0 && (most == 0 || cells.size() <= most))
      cells.push_back({r.name, duration_text(r.way.p50_ns), duration_text(r.way.p90_ns),
                       duration_text(r.way.p99_ns), duration_text(r.mailbox.p50_ns),
                       duration_text(r.mailbox.p90_ns), duration_text(r.mailbox.p99_ns)});
  return cells.size() > 1 ? table_text(cells, columns) : std::string();
}

nlohmann::ordered_json json_of(const times& t) {
  nlohmann::ordered_json out;
  out["p50_ns"] = t.p50_ns;
  out["p90_ns"] = t.p90_ns;
  out["p99_ns"] = t.p99_ns;
  out["max_ns"] = t.max_ns;
  out["sum_ns"] = t.sum_ns;
  return out;
}

nlohmann::ordered_json json_of(const std::vector<stats_row>& rows, bool messages) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& r : rows) {
    nlohmann::ordered_json line;
    line["name"] = r.name;
    line["count"] = r.count;
    line["bytes"] = r.bytes;
    line["failed"] = r.failed;
    if (messages) line["mailbox_high_water"] = r.deepest;
    if (messages) {
      line["waiting"] = json_of(r.waiting);
      line["on_the_way"] = json_of(r.way);
      line["in_mailbox"] = json_of(r.mailbox);
    }
    line["handling"] = json_of(r.handling);
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace

trace_stats stats_of(const timeline& t) {
  trace_stats out;
  std::unordered_map<std::string, group> messages, actors, works;
  for (const auto& e : t.events()) {
    if (e.is_work()) {
      works[t.name(e)].add(e);
    } else {
      messages[t.name(e)].add(e);
      actors[t.path(e.actor)].add(e);
    }
  }
  out.took_ns = t.end_ns() - t.begin_ns();
  out.records = t.events().size();
  out.messages = rows_of(std::move(messages));
  out.actors = rows_of(std::move(actors));
  out.works = rows_of(std::move(works));
  out.remarks = remarks(t);
  return out;
}

std::string stats_text(const trace_stats& s, int columns, size_t most) {
  auto out = fmt::format("{} records over {}\n", s.records, duration_text(s.took_ns));
  for (const auto& table : {table_of("message", s.messages, true, columns, most),
                            table_of("actor", s.actors, true, columns, most),
                            split_table("waiting, by message", s.messages, columns, most),
                            split_table("waiting, by actor", s.actors, columns, most),
                            table_of("work", s.works, false, columns, most)})
    if (!table.empty()) out += '\n' + table;
  if (!s.remarks.empty()) out += '\n';
  for (const auto& r : s.remarks) out += fmt::format("note: {}\n", r);
  return out;
}

std::string stats_json(const trace_stats& s) {
  nlohmann::ordered_json out;
  out["type"] = "trace_stats";
  out["version"] = 1;
  out["records"] = s.records;
  out["took_ns"] = s.took_ns;
  out["messages"] = json_of(s.messages, true);
  out["actors"] = json_of(s.actors, true);
  out["works"] = json_of(s.works, false);
  out["remarks"] = s.remarks;
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace troupe::trace
