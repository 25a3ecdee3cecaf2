# header_self_containment compiles every header of the five folders alone, included twice. It is not
# part of `all`; the gate of that name under CTest builds it.
function(cgconform_header_self_containment)
  set(sources "")
  foreach(folder IN ITEMS matrix workloads suites reports harness)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
         ${PROJECT_SOURCE_DIR}/${folder}/*.hpp)
    if(NOT CGCONFORM_CUDA_ENABLED)
      list(FILTER headers EXCLUDE REGEX "/cuda/")
    endif()
    foreach(header IN LISTS headers)
      string(REPLACE "/" "_" name ${header})
      set(source ${PROJECT_BINARY_DIR}/generated/headers/${name}.cpp)
      file(CONFIGURE OUTPUT ${source} CONTENT "#include \"@header@\"\n#include \"@header@\"\n" @ONLY)
      list(APPEND sources ${source})
    endforeach()
  endforeach()
  add_library(header_self_containment OBJECT EXCLUDE_FROM_ALL ${sources})
  # Headers only have to compile: no optimisation.
  target_compile_options(header_self_containment PRIVATE -O0)
  target_link_libraries(header_self_containment PRIVATE cgconform_harness cgconform_cuda)
endfunction()
