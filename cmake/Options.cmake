# Compile options shared by every target: warnings are errors, and sanitizers when asked for.
add_library(cgconform_options INTERFACE)
target_compile_options(cgconform_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
  -Woverloaded-virtual -Werror>)
# Designated initialisers leave the members they do not name to their defaults.
target_compile_options(cgconform_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
# Floating point must not depend on contraction: the reference device is the numerical oracle.
target_compile_options(cgconform_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
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
endif()
find_program(CGCONFORM_MOLD mold)
if(CGCONFORM_MOLD)
  target_link_options(cgconform_options INTERFACE -fuse-ld=mold)
endif()
