# Compile options shared by every target: warnings, and sanitizers when asked for.
add_library(cgconform_options INTERFACE)

# Warnings are errors with the compilers the project is tested with; a newer one may warn of more.
set(warnings_as_errors OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  set(warnings_as_errors ON)
endif()
option(CGCONFORM_WARNINGS_AS_ERRORS "Stop at the first warning" ${warnings_as_errors})
target_compile_options(cgconform_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
  -Woverloaded-virtual $<$<BOOL:${CGCONFORM_WARNINGS_AS_ERRORS}>:-Werror>>)
# Designated initialisers leave the members they do not name to their defaults.
target_compile_options(cgconform_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
# Floating point must not depend on contraction: the reference device is the numerical oracle.
target_compile_options(cgconform_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# GCC 12 sees overlapping copies in std::string's own operators (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(cgconform_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
target_include_directories(cgconform_options INTERFACE ${PROJECT_SOURCE_DIR})

if(CGCONFORM_SANITIZE)
  set(sanitize_flags -fsanitize=${CGCONFORM_SANITIZE} -fno-omit-frame-pointer)
  if(CGCONFORM_SANITIZE MATCHES "undefined")
    list(APPEND sanitize_flags -fno-sanitize-recover=undefined)
  endif()
  target_compile_options(cgconform_options INTERFACE ${sanitize_flags} -g)
  target_link_options(cgconform_options INTERFACE ${sanitize_flags})
endif()

find_program(CGCONFORM_CCACHE ccache)
if(CGCONFORM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CGCONFORM_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CGCONFORM_CCACHE})
endif()
find_program(CGCONFORM_MOLD mold)
if(CGCONFORM_MOLD)
  target_link_options(cgconform_options INTERFACE -fuse-ld=mold)
endif()
