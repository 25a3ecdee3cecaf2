#include <fstream>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/attempts.hpp"
#include "harness/journal.hpp"
#include "harness/journal_line.hpp"
#include "matrix/error.hpp"
#include "suites/result_json.hpp"

namespace cgconform::harness {
namespace {

using nlohmann::json;

JournalHeader header_from_json(const json& object) {
  JournalHeader header;
  header.version = object.at("journal_version").get<int>();
  header.matrix = object.at("matrix").get<std::string>();
  header.matrix_hash = object.at("matrix_hash").get<std::string>();
  header.binary_hash = object.at("binary_hash").get<std::string>();
  header.worker_hash = object.at("worker_hash").get<std::string>();
  header.seed = object.at("seed").get<std::uint64_t>();
  header.device = object.at("device").get<std::string>();
  header.ranks = object.at("ranks").get<int>();
  header.options = object.at("options").get<std::vector<std::string>>();
  header.variables = object.at("variables").get<std::map<std::string, std::string>>();
  header.arguments = object.at("arguments").get<std::vector<std::string>>();
  header.directory = object.at("directory").get<std::string>();
  return header;
}

/// The version that a first line names, whatever else stands in it; 0 for none.
int version_in(const std::string& line) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return 0;
  const auto version = object.find("journal_version");
  return version != object.end() && version->is_number_integer() ? version->get<int>() : 0;
}

void take_line(const json& object, bool first, JournalContents& contents) {
  if (first) {
    contents.header = header_from_json(object);
  } else if (object.contains("finished")) {
    contents.finished = object.at("finished").get<int>();
  } else if (object.contains("resumed")) {
    contents.resumptions = object.at("resumed").get<int>();
    contents.finished.reset();
  } else {
    contents.results.push_back(suites::cell_result_from_json(object));
  }
}

}  // namespace

JournalContents read_journal(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("{}: cannot be read", path.string()));
  JournalContents contents;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (file.eof()) {
      contents.torn = true;
      break;
    }
    const auto refuse = [&](std::string_view reason) {
      throw InputError(
          fmt::format("{}:{}: {}; a journal that was changed cannot be trusted: run "
                      "again with another --report folder",
                      path.string(), number, reason));
    };
    if (number == 1) {
      const int version = version_in(line);
      if (version != 0 && version != journal_version) {
        refuse(fmt::format("a journal of version {}, while this program writes version {}", version,
                           journal_version));
      }
    }
    const auto object = unchained(line, contents.chain);
    if (!object) refuse("the line, or one before it, is not as it was written");
    try {
      take_line(json::parse(*object), number == 1, contents);
    } catch (const std::exception& error) {
      refuse(fmt::format("no line of a journal: {}", error.what()));
    }
    contents.end += line.size() + 1;
  }
  if (contents.end == 0) {
    throw InputError(fmt::format("{}: holds no journal; its first line is missing", path.string()));
  }
  return contents;
}

bool holds_journal(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  return file && std::getline(file, line) && !file.eof();
}

std::map<AttemptKey, CellHistory> cell_histories(const JournalContents& contents) {
  std::map<AttemptKey, CellHistory> histories;
  for (const suites::CellResult& result : contents.results) {
    CellHistory& history = histories[{result.hash, result.round}];
    if (result.provisional) {
      history.first_attempt = result;
    } else {
      history.final = result;
    }
  }
  return histories;
}

bool is_settled(const CellHistory& history) {
  return history.final && !was_killed(*history.final);
}

}  // namespace cgconform::harness
