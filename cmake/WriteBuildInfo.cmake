# Script (cmake -P): writes OUTPUT, the definition of cgconform::harness::build_info().
find_program(GIT git)
set(commit "unknown")
if(GIT)
  execute_process(
    COMMAND ${GIT} -c safe.directory=* -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result ERROR_QUIET)
  if(result EQUAL 0)
    set(commit "${described}")
  endif()
endif()

file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "harness/build_info.hpp"

namespace cgconform::harness {

BuildInfo build_info() {
  return {.version = "@VERSION@",
          .git_commit = "@commit@",
          .compiler = "@COMPILER@",
          .build_type = "@BUILD_TYPE@",
          .sanitizers = "@SANITIZERS@",
          .cuda = "@CUDA@"};
}

}  // namespace cgconform::harness
]])
