#include "harness/journal.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::harness {
namespace {

using ::testing::HasSubstr;
using testing::read_file;
using testing::TemporaryDirectory;

JournalHeader header() {
  JournalHeader header;
  header.matrix = "smoke";
  header.matrix_hash = "0011";
  header.binary_hash = "2233";
  header.seed = 7;
  header.device = "reference";
  header.options = {"matrix=smoke", "seed=7"};
  return header;
}

suites::CellResult result(const std::string& hash, suites::Verdict verdict) {
  suites::CellResult result;
  result.id = "impl=local/" + hash;
  result.hash = hash;
  result.verdict = verdict;
  return result;
}

TEST(Journal, GivesBackHeaderAndVerdictsInOrder) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  {
    Journal journal(path, header());
    journal.append(result("aa", suites::Verdict::pass));
    journal.append(result("bb", suites::Verdict::crash));
  }
  const JournalContents contents = read_journal(path);
  EXPECT_EQ(contents.header, header());
  ASSERT_EQ(contents.results.size(), 2U);
  EXPECT_EQ(contents.results[0], result("aa", suites::Verdict::pass));
  EXPECT_EQ(contents.results[1], result("bb", suites::Verdict::crash));
  EXPECT_FALSE(contents.torn);
}

TEST(Journal, HoldsEachVerdictAsSoonAsItIsAppended) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  Journal journal(path, header());
  journal.append(result("aa", suites::Verdict::pass));
  EXPECT_EQ(read_journal(path).results.size(), 1U);
}

TEST(Journal, IsReadAtEveryLengthAKillCanLeave) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  {
    Journal journal(path, header());
    journal.append(result("aa", suites::Verdict::pass));
    journal.append(result("bb", suites::Verdict::hang));
  }
  const std::string text = read_file(path);
  const std::size_t header_end = text.find('\n') + 1;
  const auto cut = directory.path() / "cut.jsonl";
  for (std::size_t length = header_end; length <= text.size(); ++length) {
    std::ofstream(cut, std::ios::binary) << text.substr(0, length);
    const JournalContents contents = read_journal(cut);
    const bool whole_line = text[length - 1] == '\n';
    EXPECT_EQ(contents.torn, !whole_line) << length;
    EXPECT_EQ(contents.results.size(),
              static_cast<std::size_t>(std::count(
                  text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length), '\n')) -
                  1);
  }
}

TEST(Journal, NamesTheLineThatIsNoVerdict) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  { const Journal journal(path, header()); }
  std::ofstream(path, std::ios::app) << "{\"id\": 1}\n";
  try {
    read_journal(path);
    FAIL() << "a line without a verdict was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("journal.jsonl:2"));
  }
}

TEST(Journal, KeepsBytesThatAreNoUtf8FromLosingAVerdict) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  suites::CellResult broken = result("aa", suites::Verdict::crash);
  broken.reason = "label \xff\xfe";
  Journal journal(path, header());
  journal.append(broken);
  EXPECT_EQ(read_journal(path).results.at(0).verdict, suites::Verdict::crash);
}

TEST(Journal, RefusesToReplaceAnother) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  const Journal first(path, header());
  EXPECT_THROW(Journal(path, header()), InputError);
}

}  // namespace
}  // namespace cgconform::harness
