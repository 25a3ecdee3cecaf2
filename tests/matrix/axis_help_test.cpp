#include "matrix/axis_help.hpp"

#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/axis.hpp"
#include "matrix/matrix.hpp"
#include "tests/build_paths.hpp"

namespace cgconform::matrix {
namespace {

std::string matrix_document() {
  std::ifstream file(std::string(CGCONFORM_SOURCE_DIR) + "/docs/matrix.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(AxisDocument, HoldsTheAxisTable) {
  EXPECT_THAT(matrix_document(), testing::HasSubstr("<!-- axes: begin -->\n" +
                                                    axis_table_markdown() + "<!-- axes: end -->"));
}

TEST(AxisDocument, OpensWithAMatrixThatIsAccepted) {
  const std::string document = matrix_document();
  const std::size_t begin = document.find("```json\n") + 8;
  const std::string example = document.substr(begin, document.find("```", begin) - begin);
  EXPECT_EQ(read_matrix(example, "docs/matrix.md").name, "mine");
}

TEST(AxisDocument, NamesEveryBuiltinMatrix) {
  for (const BuiltinMatrix& builtin : builtin_matrices()) {
    EXPECT_THAT(matrix_document(), testing::HasSubstr("`" + std::string(builtin.name) + "`"));
  }
}

TEST(AxisHelp, HasALineForEachAxis) {
  for (const AxisDefinition& row : axis_table()) {
    EXPECT_THAT("\n" + axis_table_text(), testing::HasSubstr("\n  " + std::string(row.name) + " "));
  }
}

}  // namespace
}  // namespace cgconform::matrix
